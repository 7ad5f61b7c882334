"""What may come in: each argument is brought to its standard form, or refused in words.

Shapes and dtypes are checked when the graph is traced. Values are checked where TensorFlow can
raise; where it cannot (XLA), the rows that break a rule are returned, for their results to be NaN.
"""

import numbers

import tensorflow as tf

from keras_crf.raising import refuse_unless

# What to do about a ragged tensor: of what a model takes, and of what a loss or a metric takes.
GIVE_LENGTHS = "Pass {name}.to_tensor(), and {name}.row_lengths() as lengths."
PAD = (
    "Pass {name}.to_tensor(shape=[None, T]) for outputs of T steps. The mask of "
    "the outputs tells padding, as Embedding(mask_zero=True) makes it of the model's inputs."
)


def tensor(value, name, if_ragged=GIVE_LENGTHS):
    """`value` as a dense tensor."""
    if isinstance(value, tf.SparseTensor):
        raise ValueError(
            f"{name} must be a dense tensor, got a SparseTensor. Pass tf.sparse.to_dense({name})."
        )
    if isinstance(value, tf.RaggedTensor):
        raise ValueError(
            f"{name} must be a dense tensor, got a RaggedTensor. {if_ragged.format(name=name)}"
        )
    return tf.convert_to_tensor(value)


def padded(value, name):
    """`value` as a dense tensor, and the lengths of its rows if it is ragged along time alone."""
    if isinstance(value, tf.RaggedTensor) and value.ragged_rank == 1:
        return value.to_tensor(), value.row_lengths()
    return tensor(value, name), None


def potentials(value):
    """[B, T, K] float32 or float64; smaller float types are computed in float32."""
    scores = tensor(value, "potentials")
    if not scores.dtype.is_floating:
        raise TypeError(
            f"potentials must be floating point, got {scores.dtype.name}: whole numbers have no "
            "gradient. Cast them, tf.cast(potentials, tf.float32)."
        )
    rank(scores, "potentials", "[batch, time, tags]")
    if scores.shape[2] == 0:
        raise ValueError(f"potentials must have at least one tag, got the shape {scores.shape}.")
    return tf.cast(scores, tf.float32) if scores.dtype.size < 4 else scores


def scores(value, name, like, axes):
    """A tensor of scores of the dtype and last axis of `like`: transitions, start or end."""
    number_of_tags = like.shape[-1]
    tensor_of_scores = _real(tensor(value, name), name, like.dtype)
    wanted = [number_of_tags] * axes
    if not tensor_of_scores.shape.is_compatible_with(wanted):
        letters = ", ".join("K" * axes)
        raise ValueError(
            f"{name} must have the shape [{letters}] = {wanted}, to go with potentials of the "
            f"shape {like.shape}; got {tensor_of_scores.shape}."
        )
    return tensor_of_scores


def _real(value, name, dtype):
    """`value` in this dtype, refused unless it holds real numbers."""
    if not (value.dtype.is_floating or value.dtype.is_integer):
        raise TypeError(
            f"{name} must be real numbers, scores; got {value.dtype.name}. What is allowed goes "
            "into LinearChainCRF(…).constrained(allowed)."
        )
    return tf.cast(value, dtype)


def transitions(value, potentials):
    """[K, K]; or [B, T, K, K] out of [B, T-1, K, K], with zeros in front: [:, t] leads into t."""
    value = tensor(value, "transitions")
    if value.shape.rank != 4:
        return scores(value, "transitions", potentials, axes=2)
    batch, steps, number_of_tags = potentials.shape
    moves = None if steps is None else max(steps - 1, 0)
    wanted = [batch, moves, number_of_tags, number_of_tags]
    if not value.shape.is_compatible_with(wanted):
        raise ValueError(
            f"transitions must have the shape [K, K] or [B, T-1, K, K] = {wanted}, to go with "
            f"potentials of the shape {potentials.shape}; got {value.shape}."
        )
    batch, steps, number_of_tags = tf.unstack(tf.shape(potentials))
    moves = tf.maximum(steps - 1, 0)
    shape = tf.stack([batch, moves, number_of_tags, number_of_tags])
    value = same_shape(
        _real(value, "transitions", potentials.dtype), "transitions", shape, "potentials"
    )
    return tf.pad(value, [[0, 0], [1, 0], [0, 0], [0, 0]])[:, :steps]


def rank(value, name, axes):
    """Refuses a tensor whose rank is not that of `axes`, such as "[batch, time]"."""
    wanted = axes.count(",") + 1
    if value.shape.rank != wanted:
        raise ValueError(
            f"{name} must have rank {wanted}, {axes}; got rank {value.shape.rank}, "
            f"the shape {value.shape}."
        )


def same_steps(value, name, potentials):
    """`value` [B, T], refused unless its axes are the first two of the potentials.

    The reshape holds where nothing can be raised, so that no axis of 1 is ever spread over others.
    """
    if not value.shape.is_compatible_with(potentials.shape[:2]):
        raise ValueError(
            f"{name} must have the batch and time axes of the potentials: got {name} of the "
            f"shape {value.shape} for potentials of the shape {potentials.shape}."
        )
    return same_shape(value, name, tf.shape(potentials)[:2], "potentials")


def same_shape(value, name, shape, what):
    """`value`, refused when the graph runs unless it has the shape, a vector, of `what`."""
    if value.shape.is_fully_defined() and tf.get_static_value(shape) is not None:
        return value
    if value.shape.rank is None:
        return tf.reshape(value, shape)
    message = f"{name} must have the batch and time axes of the {what}; got and wanted:"
    right = tf.reduce_all(tf.equal(tf.shape(value), shape))
    with tf.control_dependencies([tf.debugging.Assert(right, [message, tf.shape(value), shape])]):
        return tf.reshape(value, shape)


def mask_and_lengths(mask, lengths, potentials):
    """[B, T] bool of the steps that both keep, and [B] bool of the rows whose values are right."""
    shape = tf.shape(potentials)[:2]
    kept, right = tf.ones(shape, tf.bool), tf.ones(shape[:1], tf.bool)
    if mask is not None:
        mask = tensor(mask, "mask")
        if not (mask.dtype.is_bool or mask.dtype.is_integer or mask.dtype.is_floating):
            raise TypeError(f"mask must be bool, or 1 and 0; got {mask.dtype.name}.")
        if mask.shape.rank == 3:
            raise ValueError(
                f"mask must have rank 2, [batch, time]; got rank 3, the shape {mask.shape}. One of "
                "characters says which words there are by tf.reduce_any(mask, axis=2)."
            )
        rank(mask, "mask", "[batch, time]")
        mask = same_steps(mask, "mask", potentials)
        kept &= tf.cast(mask, tf.bool)
        if mask.dtype != tf.bool:
            binary = tf.equal(mask, 0) | tf.equal(mask, 1)
            refuse_unless(binary, "mask must hold True and False, or 1 and 0; got {value}", mask)
            right &= tf.reduce_all(binary, axis=1)
    if lengths is not None:
        lengths = _lengths(lengths, potentials)
        steps = potentials.shape[1]
        kept &= tf.range(shape[1]) < tf.cast(lengths, tf.int32)[:, tf.newaxis]
        fits = (lengths >= 0) & (lengths <= tf.cast(shape[1], lengths.dtype))
        refuse_unless(
            fits,
            f"lengths must lie in 0..{'T' if steps is None else steps}; got {{value}}",
            lengths,
        )
        right &= fits
    kept.set_shape(potentials.shape[:2])
    return kept, right


def _lengths(lengths, potentials):
    lengths = tensor(lengths, "lengths")
    if not lengths.dtype.is_integer:
        raise TypeError(f"lengths must be whole numbers, got {lengths.dtype.name}.")
    if lengths.shape.rank != 1 or not lengths.shape.is_compatible_with(potentials.shape[:1]):
        raise ValueError(
            f"lengths must have the shape [batch], one number a row: got {lengths.shape} for "
            f"potentials of the shape {potentials.shape}."
        )
    lengths = same_shape(lengths, "lengths", tf.shape(potentials)[:1], "potentials")
    return tf.cast(lengths, tf.int64)


def rules(allowed, number_of_tags):
    """Bool tensors of which transitions [K, K], start [K] and end [K] are allowed."""
    if len(allowed) != 3:
        raise ValueError(
            f"allowed must be three arrays, (transitions, start, end); got {len(allowed)}."
        )
    tags = [number_of_tags]
    names, shapes = ("transitions", "start", "end"), (tags * 2, tags, tags)
    parts = [_bool(part, f"allowed {name}") for part, name in zip(allowed, names, strict=True)]
    for part, name, shape in zip(parts, names, shapes, strict=True):
        if not part.shape.is_compatible_with(shape):
            raise ValueError(f"allowed {name} must have the shape {shape}; got {part.shape}.")
    return parts


def allowed_sets(value, potentials):
    """Bool [B, T, K]."""
    try:
        value = tensor(value, "allowed")
    except (TypeError, ValueError) as error:
        raise _not_allowed(type(value).__name__) from error
    if value.dtype == tf.string:
        raise _not_allowed("strings")
    return like_potentials(
        potentials, _bool(value, "allowed"), "allowed", ", or be a tuple of rules"
    )


def _not_allowed(what):
    return TypeError(
        "allowed must be a tuple of rules, (transitions, start, end), such as "
        "keras_crf.tags.allowed_transitions(tag_names, scheme) gives; or sets, bool [batch, time, "
        f"tags]; got {what}."
    )


def like_potentials(potentials, value, name, otherwise=""):
    """`value`, refused unless it has the shape of the potentials."""
    if not value.shape.is_compatible_with(potentials.shape):
        raise ValueError(
            f"{name} must have the shape of the potentials, [batch, time, tags] = "
            f"{potentials.shape}{otherwise}; got {value.shape}."
        )
    return same_shape(value, name, tf.shape(potentials), "potentials")


def _bool(value, name):
    value = tensor(value, name)
    if value.dtype != tf.bool:
        raise TypeError(f"{name} must be bool, got {value.dtype.name}: compare it, {name} != 0.")
    return value


def is_whole(value):
    """Whether `value` is a whole number of Python or NumPy."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def whole_number_or_none(value, name):
    """A Python int, or None."""
    if value is None:
        return None
    if not is_whole(value):
        raise ValueError(f"{name} must be None or a whole number; got {value!r}.")
    return int(value)


def number_of_tag_weights(weights, potentials):
    """Refuses weights that are not one a tag."""
    if not weights.shape.is_compatible_with(potentials.shape[2:]):
        raise ValueError(
            f"tag_weights must be {potentials.shape[2]} numbers, one a tag; got {weights.shape[0]}."
        )


def how_many(value, name):
    """A Python int of at least 1."""
    if not is_whole(value) or value < 1:
        raise ValueError(
            f"{name} must be a whole number of at least 1, known when the graph is traced (a "
            f"Python int): got {value!r}."
        )
    return int(value)


def seed(value):
    """int64 [2], for the stateless random functions; a fresh one where there is none."""
    if value is None:
        return tf.random.uniform([2], *tf.int64.limits, dtype=tf.int64)
    seed = tensor(value, "seed")
    if not seed.dtype.is_integer or seed.shape not in ([], [2]):
        raise ValueError(f"seed must be None, a whole number or two of them: got {value!r}.")
    seed = tf.cast(seed, tf.int64)
    return seed if seed.shape.rank else tf.stack([seed, tf.zeros_like(seed)])


def tag_names(names, number_of_tags):
    """A list of as many different strings as there are tags, or None."""
    if names is None:
        return None
    names = [names] if isinstance(names, str) else list(names)
    others = [name for name in names if not isinstance(name, str)]
    if others:
        raise TypeError(f"tag_names must be strings, got {others[0]!r}.")
    names = [str(name) for name in names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if len(names) != number_of_tags or repeated:
        raise ValueError(
            f"tag_names must be {number_of_tags} different names, one a tag; got {len(names)}"
            + (f", and more than once {repeated}." if repeated else ".")
        )
    return names
