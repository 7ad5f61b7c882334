"""Weights: what a `CRFLayer` learns, as arrays that came from elsewhere. NumPy only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from keras_crf.layer import CRFLayer


class Weights(NamedTuple):
    """What a `CRFLayer` learns, in float64. `_replace` gives a copy with other parts.

    D is the width of the features, K the number of tags.

    >>> weights = Weights(None, None, np.eye(2), start=np.zeros(2), end=np.zeros(2))
    >>> weights = weights._replace(kernel=np.ones([5, 2]), bias=np.zeros(2))
    """

    kernel: np.ndarray | None  # [D, K], potentials = features @ kernel + bias; None: has none
    bias: np.ndarray | None  # [K]
    transitions: np.ndarray  # [K, K], [i, j] is from tag i to tag j
    start: np.ndarray  # [K], of the first tag
    end: np.ndarray  # [K], of the last tag

    def assign_to(self, layer: CRFLayer) -> None:
        """Loads a built `CRFLayer`, so that it scores with these numbers.

        With an `lr_multiplier` the layer stores scores divided by it: that is seen to.

        Args:
            layer: a `CRFLayer` that has been called or built. `use_kernel` must be what the
                weights have; `use_boundary=False` will do where start and end are zeros.

        Raises:
            TypeError: not a `CRFLayer`.
            ValueError: one that is not built, or lacks what the weights hold, or has a kernel of
                its own that they do not hold, or is of another size; scores that are not finite,
                which a layer cannot train. Nothing is then assigned.

        >>> layer = CRFLayer(2, use_kernel=False, lr_multiplier=10.0)
        >>> layer.build((None, None, 2))
        >>> Weights(None, None, np.eye(2), np.zeros(2), np.array([0, 3.0])).assign_to(layer)
        >>> layer.distribution(np.zeros([1, 2, 2])).score([[1, 1]]).numpy()
        array([4.])
        """
        _check_layer(layer)
        _check_parts(layer, self)
        stored = _as_stored(layer, self)
        for name, array in stored.items():
            _check_array(array, name, getattr(layer, name).shape)
        for name, array in stored.items():
            getattr(layer, name).assign(array)


def _check_layer(layer):
    # By what it has, since importing CRFLayer would import TensorFlow.
    if not all(hasattr(layer, part) for part in ("num_tags", "use_boundary", "lr_multiplier")):
        raise TypeError(f"weights are assigned to a CRFLayer, got a {type(layer).__name__}.")
    if not layer.built:
        raise ValueError(
            "the layer has no weights yet: call it on features first, or "
            "layer.build([None, None, D]) for features of the width D."
        )


def _check_parts(layer, weights):
    """Refuses a layer that lacks what the weights hold, or has a kernel that they do not."""
    given = weights.kernel is not None and weights.bias is not None
    if layer.use_kernel and not given:
        raise ValueError(
            "the layer projects its features, and there is no kernel or no bias to do so with. Use "
            f"CRFLayer({layer.num_tags}, use_kernel=False) behind the layer that makes the "
            "potentials, or add weights._replace(kernel=[D, K], bias=[K])."
        )
    if not layer.use_kernel and (weights.kernel is not None or weights.bias is not None):
        raise ValueError(
            "the weights hold a kernel and a bias, and the layer has use_kernel=False: use "
            f"CRFLayer({layer.num_tags}), or give them to the layer that makes the potentials and "
            "take weights._replace(kernel=None, bias=None)."
        )
    if not layer.use_boundary and (np.any(weights.start) or np.any(weights.end)):
        raise ValueError(
            "the weights hold start and end scores other than 0, and the layer has "
            f"use_boundary=False: use CRFLayer({layer.num_tags}, use_boundary=True)."
        )


def _as_stored(layer, weights):
    """{name: array} as the layer keeps them, which multiplies by lr_multiplier what it scores."""
    names = ["transitions", *(["start", "end"] if layer.use_boundary else [])]
    stored = {name: np.asarray(getattr(weights, name)) / layer.lr_multiplier for name in names}
    if layer.use_kernel:
        stored |= {"kernel": np.asarray(weights.kernel), "bias": np.asarray(weights.bias)}
    return stored


def _check_array(array, name, shape):
    if array.shape != tuple(shape):
        raise ValueError(
            f"{name} of the layer has the shape {tuple(shape)}; got weights of the shape "
            f"{array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} holds scores that are not finite, which a layer cannot train. Put a low score "
            f"in their place, np.maximum({name}, -1e4), or use LinearChainCRF, where -inf forbids."
        )
