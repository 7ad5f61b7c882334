"""A warning for a functional or Sequential model that loses its mask before it reaches the CRF."""

from __future__ import annotations

import warnings
from typing import Any

import keras
from keras import layers

from keras_crf.carrying import riding_mask

MERGING = (layers.Add, layers.Average, layers.Concatenate, layers.Maximum, layers.Multiply)
# Layers of Keras that should hand a mask on whenever their output has steps.
HANDING_ON = (*MERGING, layers.RNN, layers.Bidirectional, layers.TimeDistributed)


def warn_where_lost(features: Any, layer: layers.Layer) -> None:
    """Warns if what made these symbolic features had a mask [B, T] and lost it on the way.

    Nothing is said of tensors of no model, nor of a model called within another: their history is
    not known. Nor of a layer that supports masking and has no mask to hand on, as attention whose
    query has none: what becomes of the mask is said by its `compute_mask`.
    """
    loser = _loser(features)
    if loser is not None:
        warnings.warn(
            f"The mask is lost at {type(loser).__name__} {loser.name!r}, before it reaches "
            f"{type(layer).__name__} {layer.name!r}, which takes padding for steps like any other. "
            "Hand it on: CRFLayer(...)(features, mask=words != 0), or lengths=[...]; a mask of "
            "ones says that there is no padding.",
            stacklevel=2,
        )


def _loser(features):
    """The operation by which the features lost the mask of their steps, or None."""
    waiting, seen = [features], set()
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen or len(tensor.shape) < 3:  # without steps a mask is of no use
            continue
        seen.add(id(tensor))
        operation, sources = _made_by(tensor)
        masked = [source for source in sources if _of_steps(source) is not None]
        if _is_lost(operation, tensor, masked, sources):
            return operation
        if _of_steps(tensor) is not None:
            # A mask that is not that of a source was made anew.
            waiting += [x for x in masked if riding_mask(x) is riding_mask(tensor)]
        elif not masked:
            waiting += sources
    return None


def _is_lost(operation, tensor, masked, sources):
    if not masked:
        return False
    if _of_steps(tensor) is not None:
        # Where one input has no mask, the others' padding is kept with the rest.
        along_features = getattr(operation, "axis", None) in (-1, len(tensor.shape) - 1)
        merged = isinstance(operation, layers.Concatenate) and along_features
        return merged and len(masked) < len(sources)
    is_layer = isinstance(operation, layers.Layer)
    return not is_layer or not operation.supports_masking or isinstance(operation, HANDING_ON)


def _made_by(tensor):
    """(the operation that made a symbolic tensor, the inputs whose mask is due on it)."""
    history = getattr(tensor, "_keras_history", None)
    if history is None:
        return None, []
    operation = history.operation
    if isinstance(operation, keras.Model):  # it has a graph of its own, with masks of its own
        return operation, (getattr(operation, "outputs", None) or [])[history.tensor_index :][:1]
    sources = operation._inbound_nodes[history.node_index].input_tensors
    follows_all = not isinstance(operation, layers.Layer) or isinstance(operation, MERGING)
    return operation, sources if follows_all else sources[:1]


def _of_steps(tensor):
    """The mask [B, T] that rides on a tensor [B, T, ...], or None."""
    mask = riding_mask(tensor)
    return mask if mask is not None and len(mask.shape) == 2 < len(tensor.shape) else None
