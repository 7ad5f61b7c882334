"""A warning for a model that loses its mask before it reaches the CRF."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras import layers

from keras_crf.carrying import riding_mask
from keras_crf.lost_in_graph import loser_in_graph
from keras_crf.warning import warn_user

MERGING = (layers.Add, layers.Average, layers.Concatenate, layers.Maximum, layers.Multiply)
# Layers of Keras that should hand a mask on whenever their output has steps.
HANDING_ON = (*MERGING, layers.RNN, layers.Bidirectional, layers.TimeDistributed)
# Layers of Keras that make other features than 0 of padding, ...
FILLING = (
    layers.BatchNormalization,
    layers.Bidirectional,
    layers.Conv1D,
    layers.Dense,
    layers.EinsumDense,
    layers.LayerNormalization,
    layers.MultiHeadAttention,
    layers.RNN,
    layers.SeparableConv1D,
    layers.TimeDistributed,
)
# ... and those that do where their inputs have others than 0.
FILLING_IF_FILLED = (
    keras.Model,
    layers.Activation,
    layers.Add,
    layers.Average,
    layers.Concatenate,
    layers.Dropout,
    layers.Identity,
    layers.Maximum,
    layers.SpatialDropout1D,
)

_judged: weakref.WeakSet[layers.Layer] = weakref.WeakSet()  # layers not to be asked about again


def warn_where_lost(features: Any, layer: layers.Layer) -> None:
    """Warns if what made these features, without a mask now, had a mask and lost it on the way.

    Symbolic tensors of Keras have a history, and the warning comes when a functional or Sequential
    model is built, through the models within it. In a subclassed model it comes when `fit`,
    `evaluate`, `predict` or another graph first traces it. Eager tensors have no history.

    Nothing is said of a layer that supports masking and has no mask to hand on, as attention whose
    query has none: what becomes of the mask is said by its `compute_mask`.
    """
    if layer in _judged:
        return
    if isinstance(features, keras.KerasTensor):
        history = _History(features)
        lost = history.loser()
        if history.is_known:
            _judged.add(layer)
    elif riding_mask(features) is None and tf.is_symbolic_tensor(features):
        lost = loser_in_graph(features)
    else:
        return
    if lost is not None:
        _judged.add(layer)
        loser, mask = lost
        warn_user(_message(loser, mask, layer))


def _message(loser, mask, layer):
    what = loser.type if isinstance(loser, tf.Operation) else type(loser).__name__
    of_characters = mask is not None and (tf.TensorShape(mask.shape).rank or 2) > 2
    kept = "keras.ops.any(characters != 0, axis=2)" if of_characters else "words != 0"
    return (
        f"The mask is lost at {what} {loser.name!r}, before it reaches {type(layer).__name__} "
        f"{layer.name!r}, which takes padding for steps like any other. Hand it on: "
        f"CRFLayer(...)(features, mask={kept}), or lengths=[...]; a mask of ones says that there "
        "is no padding."
    )


class _Place(NamedTuple):
    """A symbolic tensor, in the graph of a model that is called within another or in the outer."""

    tensor: Any
    inputs: Any = None  # {id of an input of the inner model: the place of what it is called on}

    def key(self):
        return id(self.tensor), id(self.inputs)


class _History:
    """How symbolic features were made, and which of the tensors on the way have a mask."""

    def __init__(self, features):
        self.features = _Place(features)
        self._is_whole = True  # unless a model is on the way whose graph is not known
        self._calls = {}
        self._masked = {}
        for place in self._sources_first():
            self._masked[place.key()] = self._has_mask(place)

    @property
    def is_known(self):
        """Whether the history says it all: a model without masks may get one from outside."""
        return self._is_whole and any(self._masked.values())

    def loser(self):
        """(the operation by which the features lost the mask of their steps, it), or None."""
        waiting, seen = [self.features], set()
        while waiting:
            place = waiting.pop()
            if place.key() in seen or not _has_steps(place):
                continue
            seen.add(place.key())
            operation, sources = self._made_by(place)
            masked = [source for source in sources if self._is_masked(source)]
            if self._is_lost(place, operation, sources, masked):
                return operation, riding_mask(masked[0].tensor)
            waiting += self._to_follow(place, operation, sources, masked)
        return None

    def _is_lost(self, place, operation, sources, masked):
        if not masked:
            return False
        if isinstance(operation, layers.Masking):
            return self._is_filled(sources[0])
        if self._is_masked(place):
            # Where one input has no mask, the others' padding is kept with the rest.
            along_features = getattr(operation, "axis", None) in (-1, len(place.tensor.shape) - 1)
            merged = isinstance(operation, layers.Concatenate) and along_features
            return merged and len(masked) < len(sources)
        is_layer = isinstance(operation, layers.Layer)
        return not is_layer or not operation.supports_masking or isinstance(operation, HANDING_ON)

    def _to_follow(self, place, operation, sources, masked):
        """The sources whose steps may have lost their mask earlier."""
        if isinstance(operation, layers.Masking) and self._is_filled(sources[0]):
            return sources  # which keeps all steps, as if there were no mask
        if not self._is_masked(place):
            return [] if masked else sources
        mask = riding_mask(place.tensor)  # what is not that of a source was made anew
        return [x for x in masked if mask is None or riding_mask(x.tensor) is mask]

    def _is_filled(self, place):
        """Whether padding has features other than 0, so that `Masking` does not find it."""
        waiting, seen = [place], set()
        while waiting:
            place = waiting.pop()
            operation, sources = self._made_by(place)
            if isinstance(operation, FILLING):
                one = getattr(operation, "forward_layer", operation)
                return not getattr(one, "zero_output_for_mask", False)
            if place.key() not in seen and isinstance(operation, FILLING_IF_FILLED):
                waiting += sources
            seen.add(place.key())
        return False

    def _is_masked(self, place):
        return self._masked.get(place.key(), False)

    def _has_mask(self, place):
        """Whether a tensor has a mask of its steps when the model runs."""
        if not _has_steps(place):
            return False
        if riding_mask(place.tensor) is not None:
            return True
        # Keras gives no masks to the outputs of an inner model until it runs.
        operation, sources = self._made_by(place)
        masked = [source for source in sources if self._is_masked(source)]
        if isinstance(operation, keras.Model):
            return bool(masked)
        is_known = any(
            source.inputs is place.inputs and riding_mask(source.tensor) is not None
            for source in masked
        )
        needs_all = isinstance(operation, MERGING) and not isinstance(operation, layers.Concatenate)
        enough = len(masked) == len(sources) if needs_all else bool(masked)
        hands_on = isinstance(operation, layers.Layer) and operation.supports_masking
        return enough and hands_on and not is_known

    def _sources_first(self):
        """All places that the features were made from, each behind its sources."""
        waiting, seen, ordered = [(self.features, False)], set(), []
        while waiting:
            place, is_expanded = waiting.pop()
            if is_expanded:
                ordered.append(place)
            elif place.key() not in seen:
                seen.add(place.key())
                waiting.append((place, True))
                waiting += [(source, False) for source in self._made_by(place)[1]]
        return ordered

    def _made_by(self, place):
        """(the operation that made a symbolic tensor, the places whose mask is due on it)."""
        history = getattr(place.tensor, "_keras_history", None)
        if history is None:
            return None, []
        operation = history.operation
        sources = operation._inbound_nodes[history.node_index].input_tensors
        sources = [self._place(source, place.inputs) for source in sources]
        if isinstance(operation, keras.Model):
            return operation, self._within(operation, history, sources, place)
        follows_all = not isinstance(operation, layers.Layer) or isinstance(operation, MERGING)
        return operation, sources if follows_all else sources[:1]

    def _within(self, model, history, sources, place):
        """The place in the graph of an inner model that it returned this output from."""
        outputs, inputs = (getattr(model, name, None) or [] for name in ("outputs", "inputs"))
        if history.tensor_index >= len(outputs) or len(inputs) > len(sources):
            self._is_whole = False
            return []
        key = id(model), history.node_index, id(place.inputs)
        call = dict(zip(map(id, inputs), sources, strict=False))  # masks may come behind them
        call = self._calls.setdefault(key, call)
        return [self._place(outputs[history.tensor_index], call)]

    @staticmethod
    def _place(tensor, inputs):
        """Of an input of an inner model, the place of what the model is called on."""
        return (inputs or {}).get(id(tensor)) or _Place(tensor, inputs)


def _has_steps(place):
    """Whether a tensor has steps, [B, T, ...], so that a mask is of use."""
    return len(place.tensor.shape) > 2
