"""What a `CRFLayer` may be made of and called on: arguments, and symbolic tensors."""

import keras

from keras_crf import checks

# The arguments of the CRF layers of tensorflow_addons, keras-contrib, tf2crf and PyTorch libraries
# that `CRFLayer` does not have, and what to do instead. docs/coming-from.md has them too.
ARGUMENTS_ELSEWHERE = {
    "units": "use num_tags",
    "nb_labels": "use num_tags",
    "num_labels": "use num_tags",
    "sparse_target": "leave it out, since CRFLoss takes tag ids and one-hot labels",
    "learn_mode": 'leave "join" out, since CRFLoss is that; there is no "marginal"',
    "test_mode": 'leave "viterbi" out; for "marginal" use output_mode="marginals"',
    "use_bias": "put Dense(num_tags, use_bias=…) before the layer, and use_kernel=False",
    "activation": "put Dense(num_tags, activation=…) before the layer, and use_kernel=False",
    "chain_initializer": "use transitions_initializer",
    "chain_regularizer": "use transitions_regularizer",
    "chain_constraint": "use transitions_constraint",
    "input_dim": "leave it out, or put keras.Input((None, input_dim)) before the layer",
    "unroll": "leave it out",
    "batch_first": "leave it out, since features are always [batch, time, features]",
    "include_start_end_transitions": "use use_boundary",
    "constraints": "use scheme, which takes the name of a tag scheme, or rules of your own",
}


def no_arguments_of_other_libraries(options):
    """Refuses arguments of other libraries by name, and says what to do instead."""
    advice = [
        f"{name}: {ARGUMENTS_ELSEWHERE[name]}" for name in options if name in ARGUMENTS_ELSEWHERE
    ]
    if advice:
        raise ValueError(
            "CRFLayer does not have these arguments of other CRF libraries. "
            f"{'. '.join(advice)}. See docs/coming-from.md."
        )


def number_of_tags(num_tags, tag_names):
    """(K, the names as a list or None), where K is the number of names if it is not given."""
    if isinstance(num_tags, (list, tuple)):
        raise ValueError(
            f"num_tags must be a whole number; got {num_tags!r}. Pass the names as "
            "CRFLayer(tag_names=[…]), and they are counted."
        )
    if num_tags is None and tag_names is None:
        raise ValueError(
            "CRFLayer needs the number of tags, CRFLayer(9), or their names to count, "
            "CRFLayer(tag_names=[…])."
        )
    if tag_names is not None:
        tag_names = [tag_names] if isinstance(tag_names, str) else list(tag_names)
    num_tags = len(tag_names) if num_tags is None else num_tags
    return checks.how_many(num_tags, "num_tags"), tag_names


def one_of(value, choices, name):
    """`value`, refused unless it is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
    return value


def width(input_shape):
    """D of the shape of features, [B, T, D]."""
    if len(input_shape) != 3:
        raise ValueError(
            "features must have rank 3, [batch, time, features]; got rank "
            f"{len(input_shape)}, the shape {tuple(input_shape)}."
        )
    if input_shape[2] is None:
        raise ValueError(
            "the last axis of the features must be known for the kernel to be made; got the "
            f"shape {tuple(input_shape)}."
        )
    return input_shape[2]


def as_dense(value):
    """A symbolic tensor as Keras describes a dense one.

    Keras flags a product with a Python number as sparse, although the real tensor is dense if its
    factor is. A real sparse tensor is refused when the layer is called on it.
    """
    if isinstance(value, keras.KerasTensor) and value.sparse:
        return keras.KerasTensor(value.shape, value.dtype, name=value.name)
    return value
