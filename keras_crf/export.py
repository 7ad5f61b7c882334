"""export_tagger: a SavedModel that needs neither Python nor this library to tag."""

from __future__ import annotations

import os
from collections.abc import Iterable

import keras
import tensorflow as tf

from keras_crf import checks
from keras_crf.carrying import distribution_of
from keras_crf.layer import CRFLayer


def export_tagger(
    model: keras.Model,
    directory: str | os.PathLike,
    tag_names: Iterable[str] | None = None,
    *,
    input_signature: dict[str, tf.TensorSpec] | None = None,
) -> None:
    """Writes the model as a SavedModel whose signatures tag, with Viterbi inside.

    Signatures, all with named inputs and outputs:
        `serving_default`: the model's inputs under their own names, and `lengths` int32 [B]. Out
            come `tag_ids` int32 [B, T] (0 on padding), `confidence` [B, T], the marginal of each
            decoded tag (0 on padding), `log_prob` [B] of the decoded path in nats, and, where names
            are known, `tags` string [B, T] ("" on padding).
        `unpadded`: the same without `lengths`, for batches in which every row is full.
        `marginals`: `serving_default`, and `marginals` [B, T, K].

    What stands behind a row's length does not matter: it is replaced by 0 (or "") in every input
    that has a time axis, and the CRF is narrowed to the length. So a server may pad as it likes.

    Args:
        model: a Keras model with one output, that of its `CRFLayer`, in any output mode.
        directory: where to write; for TensorFlow Serving it ends in a version, "tagger/1".
        tag_names: the K names of the tags; left out, those that the `CRFLayer` was given.
        input_signature: dict of input name to `tf.TensorSpec`, for a subclassed model of which
            Keras does not know the inputs. It is called with a dict of tensors if it has several
            inputs, else with the one tensor.

    Raises:
        ValueError: names that are not K different ones; a model whose inputs are not known, or
            whose output carries no distribution.

    >>> inputs = keras.Input((None,), dtype="int32", name="words")
    >>> features = keras.layers.Embedding(50, 8, mask_zero=True)(inputs)
    >>> model = keras.Model(inputs, CRFLayer(2, tag_names=["O", "NAME"])(features))
    >>> export_tagger(model, directory)
    >>> tagger = tf.saved_model.load(directory).signatures["serving_default"]
    >>> tagger(words=tf.constant([[7, 2, 0]]), lengths=tf.constant([2]))["tag_ids"].shape
    TensorShape([1, 3])
    """
    specs = _input_specs(model, input_signature)
    lengths = tf.TensorSpec([None], tf.int32, name="lengths")
    tagger = _Tagger(model, list(specs), _names_for(model, tag_names))
    archive = keras.export.ExportArchive()
    archive.track(model)
    padded_specs = {**specs, "lengths": lengths}
    archive.add_endpoint("serving_default", tagger.padded, input_signature=[padded_specs])
    archive.add_endpoint("unpadded", tagger.unpadded, input_signature=[specs])
    archive.add_endpoint("marginals", tagger.with_marginals, input_signature=[padded_specs])
    archive.write_out(str(directory), verbose=False)


class _Tagger:
    """The functions behind the signatures, each of a dict of tensors."""

    def __init__(self, model, input_names, tag_names):
        self.model = model
        self.input_names = input_names
        # T where it is fixed, by which an input with a time axis is then told.
        outputs = getattr(model, "outputs", None)
        self.steps = outputs[0].shape[1] if outputs else None
        self.tag_names = None if tag_names is None else tf.constant(tag_names)

    def padded(self, inputs):
        return self._outputs(self._distribution(inputs))

    def unpadded(self, inputs):
        return self._outputs(self._distribution(inputs))

    def with_marginals(self, inputs):
        return self._outputs(self._distribution(inputs), marginals=True)

    def _distribution(self, inputs):
        lengths = inputs.get("lengths")
        features = {name: inputs[name] for name in self.input_names}
        if lengths is not None and "lengths" not in features:
            features = {name: self._emptied(tensor, lengths) for name, tensor in features.items()}
        called_with = features if len(features) > 1 else next(iter(features.values()))
        outputs = self.model(called_with, training=False)
        if not tf.is_tensor(outputs):
            raise ValueError(
                "export_tagger takes a model with one output, that of its CRFLayer; got "
                f"{len(outputs)} outputs. Pass keras.Model(model.inputs, one_of_the_outputs)."
            )
        return distribution_of(outputs).narrowed(lengths=lengths)  # and so without jit_compile

    def _emptied(self, tensor, lengths):
        """An input [B, T, ...] with 0 or "" behind the lengths; without a time axis as it is."""
        if tensor.shape.rank < 2 or tensor.shape[1] not in (None, self.steps):
            return tensor
        kept = tf.sequence_mask(lengths, tf.shape(tensor)[1])
        kept = kept[(..., *[tf.newaxis] * (tensor.shape.rank - 2))]
        return tf.where(kept, tensor, tf.zeros([], tensor.dtype))

    def _outputs(self, distribution, marginals=False):
        tagging = distribution.tagging()
        outputs = {
            "tag_ids": tagging.tags,
            "confidence": tagging.confidence,
            "log_prob": tagging.log_prob,
        }
        if self.tag_names is not None:
            names = tf.gather(self.tag_names, tagging.tags)
            outputs["tags"] = tf.where(distribution.mask, names, "")
        if marginals:
            outputs["marginals"] = tagging.marginals
        return outputs


def _input_specs(model, input_signature):
    if input_signature is not None:
        return {name: _named(spec, name) for name, spec in input_signature.items()}
    if not isinstance(model, keras.Sequential) and not getattr(model, "inputs", None):
        raise ValueError(
            f"The inputs of {type(model).__name__} {model.name!r} are not known. Pass "
            "input_signature={name: tf.TensorSpec([None, None], dtype), ...}."
        )
    return {
        tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name)
        for tensor in model.inputs
    }


def _named(spec, name):
    return tf.TensorSpec(spec.shape, spec.dtype, name=name)


def _names_for(model, tag_names):
    """The names given, or those that the CRFLayer was given."""
    layer = _crf_layer(model)
    if layer is None:
        return tag_names
    return checks.tag_names(tag_names, layer.num_tags) or layer.tag_names


def _crf_layer(model):
    """The last CRFLayer of the model, or of a model within it."""
    for layer in reversed(getattr(model, "layers", [])):
        found = layer if isinstance(layer, CRFLayer) else _crf_layer(layer)
        if found is not None:
            return found
    return None
