"""How a distribution travels with a layer's output, as a mask travels with a Keras tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from keras_crf.distribution import LinearChainCRF

ATTRIBUTE = "_keras_crf"
DECODED = "_keras_crf_decoded"
UNDER_RULES = "_keras_crf_under_rules"
MASK = "_keras_mask"  # Keras' own, which no public function of Keras 3 reads or sets


def carry(outputs, distribution, decoded=False, under_rules=None):
    """`outputs`, carrying from now on `distribution`, and how the rules of a scheme, if it has one,
    are applied to true tags: `Rules.applied`.

    `decoded` says that they are its best path.
    """
    setattr(outputs, ATTRIBUTE, distribution)
    setattr(outputs, DECODED, decoded)
    setattr(outputs, UNDER_RULES, under_rules)
    return outputs


def carried(outputs):
    """The distribution that a tensor carries, or None."""
    return getattr(outputs, ATTRIBUTE, None)


def is_decoded(outputs):
    """Whether a tensor is itself the best path of the distribution that it carries."""
    return getattr(outputs, DECODED, False)


def under_rules_of(outputs):
    """`Rules.applied` of the scheme that the distribution of a tensor keeps, or None."""
    return getattr(outputs, UNDER_RULES, None)


def riding_mask(tensor):
    """The mask that Keras lets ride on a tensor, or None."""
    return getattr(tensor, MASK, None)


def let_ride(mask, tensor):
    """Lets a mask ride on a tensor, for the metrics and layers behind it."""
    setattr(tensor, MASK, mask)


def distribution_of(outputs: tf.Tensor) -> LinearChainCRF:
    """The `LinearChainCRF` that the output of a `CRFLayer` carries.

    Args:
        outputs: what a `CRFLayer`, or a model that ends in one, returned; in every output mode.

    Raises:
        ValueError: the tensor carries none, since something stands between it and the layer.

    >>> layer = CRFLayer(3)
    >>> distribution_of(layer(tf.zeros([2, 4, 8]))).log_partition().shape
    TensorShape([2])
    """
    distribution = carried(outputs)
    if distribution is None:
        raise ValueError(
            f"This {type(outputs).__name__} of shape {getattr(outputs, 'shape', None)} carries no "
            "LinearChainCRF. Only the very tensor that a CRFLayer returned carries one, within the "
            "tf.function that made it: let the CRFLayer be the last layer of this output, compute "
            "the loss where the model is called, not on what model.predict gives, or ask "
            "layer.distribution(features)."
        )
    return distribution


def is_stand_in(outputs):
    """Whether Keras only tries out losses and metrics, on a placeholder in the output's place.

    Under a distribution strategy Keras builds its losses and metrics once on tensors that no model
    made: placeholders, in a graph of its own with this name.
    """
    return (
        tf.is_symbolic_tensor(outputs)
        and outputs.op.type == "Placeholder"
        and outputs.graph.name.startswith("scratch_graph")
    )
