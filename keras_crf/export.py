"""export_tagger: a SavedModel that needs neither Python nor this library to tag."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping

import keras
import tensorflow as tf

from keras_crf import checks
from keras_crf.carrying import distribution_of
from keras_crf.graphs import without_gradients
from keras_crf.layer import CRFLayer
from keras_crf.tensor_like import TensorLike
from keras_crf.warm_up import write_warm_up


def export_tagger(
    model: keras.Model,
    directory: str | os.PathLike,
    tag_names: Iterable[str] | None = None,
    *,
    top_k: int | None = None,
    input_signature: dict[str, tf.TensorSpec] | None = None,
    warm_up: Iterable[Mapping[str, TensorLike]] | None = None,
    overwrite: bool = False,
) -> None:
    """Writes the model as a SavedModel whose signatures tag, with Viterbi inside.

    Signatures, all with named inputs and outputs:
        `serving_default`: the model's inputs under their own names, and `lengths` int32 [B]. Out
            come `tag_ids` int32 [B, T] (0 on padding), `confidence` [B, T], the marginal of each
            decoded tag (0 on padding), `log_prob` [B] of the decoded path in nats, and, where names
            are known, `tags` string [B, T] ("" on padding).
        `unpadded`: the same without `lengths`, for batches in which every row is full.
        `marginals`: `serving_default`, and `marginals` [B, T, K].
        `top_k`, if asked for: the inputs of `serving_default`; the k best paths, best first, as
            `tag_ids` int32 [B, k, T], `score` [B, k], `log_prob` [B, k] in nats and `tags` string
            [B, k, T]. Where a row has fewer paths, score and log_prob are -inf, tags 0 and "".

    What stands behind a row's length does not matter: it is replaced by 0 (or "") in every input
    that has a time axis (a second one that is free, or of the size that T is fixed to), and the CRF
    is narrowed to the length. So a server may pad as it likes.

    The directory appears at once, when all of it is written: until then its name begins with a
    dot, which is no version to a server that polls.

    Args:
        model: a Keras model with one output, that of its `CRFLayer`, in any output mode.
        directory: where to write; for TensorFlow Serving it ends in a version, "tagger/1".
        tag_names: the K names of the tags; left out, those that the `CRFLayer` was given.
        top_k: how many paths the signature `top_k` gives; left out, there is none.
        input_signature: dict of input name to `tf.TensorSpec`, for a subclassed model of which
            Keras does not know the inputs. It is called with a dict of tensors if it has several
            inputs, else with the one tensor. T is that of the first input with a time axis.
        warm_up: requests, each a dict of input name to array, that TensorFlow Serving runs before
            it serves the version. Each is written for every signature that takes its inputs: with
            `lengths` for all but `unpadded`, without for `unpadded`. At most 1000 in all.
        overwrite: whether to replace a directory that is there already.

    Raises:
        FileExistsError: the directory is there already, or is a symbolic link.
        ValueError: names that are not K different ones; inputs whose names no signature can have,
            or "lengths" that are none; a model whose inputs are not known, or
            whose output carries no distribution; a `top_k` below 1; warm-up requests that fail.

    >>> inputs = keras.Input((None,), dtype="int32", name="words")
    >>> features = keras.layers.Embedding(50, 8, mask_zero=True)(inputs)
    >>> model = keras.Model(inputs, CRFLayer(2, tag_names=["O", "NAME"])(features))
    >>> export_tagger(model, directory + "/1")
    >>> tagger = tf.saved_model.load(directory + "/1").signatures["serving_default"]
    >>> tagger(words=tf.constant([[7, 2, 0]]), lengths=tf.constant([2]))["tag_ids"].shape
    TensorShape([1, 3])
    """
    if top_k is not None:
        top_k = checks.how_many(top_k, "top_k")
    specs = _input_specs(model, input_signature)
    _warn_of_free_axes(specs)
    steps = _fixed_steps(model, specs)
    tagger = _Tagger(model, list(specs), steps, _names_for(model, tag_names), top_k)
    with _appearing_at_once(os.fspath(directory), overwrite) as unfinished, without_gradients():
        archive = keras.export.ExportArchive()
        archive.track(model)
        endpoints = {
            name: archive.add_endpoint(name, function, input_signature=[inputs])
            for name, (function, inputs) in tagger.signatures(specs).items()
        }
        # Nothing in it is trained, and gradients would take longer to write than all else.
        options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
        archive.write_out(unfinished, options=options, verbose=False)
        if warm_up is not None:
            write_warm_up(unfinished, warm_up, endpoints)


@contextlib.contextmanager
def _appearing_at_once(directory: str, overwrite: bool) -> Iterator[str]:
    """A directory to write into, which becomes `directory` in the end, by being renamed.

    Its name begins with a dot, as no version number does, should a killed process leave it behind.
    """
    files = tf.io.gfile
    if os.path.islink(directory.rstrip("/")):
        raise FileExistsError(f"{directory} is a symbolic link: name the directory itself.")
    if files.exists(directory) and not overwrite:
        raise FileExistsError(
            f"{directory} is there already. Export the next version beside it, as a server loads "
            "it; or pass overwrite=True."
        )
    parent, name = os.path.split(directory.rstrip("/"))
    number = uuid.uuid4().hex
    unfinished, replaced = (
        os.path.join(parent, f".{name}.{word}-{number}") for word in ("unfinished", "replaced")
    )
    try:
        yield unfinished
        if overwrite and files.exists(directory):
            files.rename(directory, replaced)
        files.rename(unfinished, directory)
    finally:
        if files.exists(unfinished):
            files.rmtree(unfinished)
        if files.exists(replaced) and not files.exists(directory):
            files.rename(replaced, directory)
    if files.exists(replaced):
        files.rmtree(replaced)


class _Tagger:
    """The functions behind the signatures, each of a dict of tensors."""

    def __init__(self, model, input_names, steps, tag_names, number_of_paths):
        self.model = model
        self.input_names = input_names
        self.steps = steps
        self.tag_names = None if tag_names is None else list(tag_names)
        self.number_of_paths = number_of_paths

    def signatures(self, specs):
        """Signature name -> (function, its inputs as a dict of name to `tf.TensorSpec`)."""
        padded = {"lengths": tf.TensorSpec([None], tf.int32, name="lengths"), **specs}
        # What the signatures say parts of, traced and written once.
        self.tagging = tf.function(self._tagging, autograph=False).get_concrete_function(padded)
        signatures = {
            "serving_default": (self.tagged, padded),
            "unpadded": (self.tagged, specs),
            "marginals": (self.with_marginals, padded),
        }
        if self.number_of_paths is not None:
            best_paths = tf.function(self._best_paths, autograph=False)
            signatures["top_k"] = (best_paths.get_concrete_function(padded), padded)
        return signatures

    def tagged(self, inputs):
        outputs = self.with_marginals(inputs)
        del outputs["marginals"]
        return outputs

    def with_marginals(self, inputs):
        if "lengths" not in inputs:
            inputs = {**inputs, "lengths": self._full_lengths(inputs)}
        tagging = self._tagging if inputs["lengths"] is None else self.tagging
        return tagging(inputs)

    def _full_lengths(self, inputs):
        """The number of steps, for each row; None where no input has a time axis."""
        for tensor in inputs.values():
            if self._has_steps(tensor):
                return tf.fill(tf.shape(tensor)[:1], tf.shape(tensor)[1])
        return None

    def _tagging(self, inputs):
        distribution = self._distribution(inputs)
        tagging = distribution.tagging()
        return {
            **self._with_names(tagging.tags, distribution, distribution.mask),
            "confidence": tagging.confidence,
            "log_prob": tagging.log_prob,
            "marginals": tagging.marginals,
        }

    def _best_paths(self, inputs):
        distribution = self._distribution(inputs)
        paths = distribution.top_k(self.number_of_paths)
        exists = tf.math.is_finite(paths.score)
        each = distribution.repeated(self.number_of_paths)
        log_prob = each.log_prob(tf.reshape(paths.tags, tf.shape(each.mask)))
        log_prob = tf.reshape(log_prob, tf.shape(exists))
        kept = exists[..., tf.newaxis] & distribution.mask[:, tf.newaxis]
        return {
            **self._with_names(paths.tags, distribution, kept),
            "score": paths.score,
            "log_prob": tf.where(exists, log_prob, paths.score),
        }

    def _with_names(self, tag_ids, distribution, kept):
        names = checks.tag_names(self.tag_names, distribution.potentials.shape[2])
        if names is None:
            return {"tag_ids": tag_ids}
        return {"tag_ids": tag_ids, "tags": tf.where(kept, tf.gather(names, tag_ids), "")}

    def _distribution(self, inputs):
        lengths = inputs["lengths"]
        features = {name: inputs[name] for name in self.input_names}
        if lengths is not None:
            features = {name: self._emptied(tensor, lengths) for name, tensor in features.items()}
        outputs = self.model(self._as_the_model_takes(features), training=False)
        if not tf.is_tensor(outputs):
            raise ValueError(
                "export_tagger takes a model with one output, that of its CRFLayer; got "
                f"{len(outputs)} outputs. Pass keras.Model(model.inputs, one_of_the_outputs)."
            )
        return distribution_of(outputs).narrowed(lengths=lengths)  # and so without jit_compile

    def _as_the_model_takes(self, features):
        """The one tensor; of several a dict, or the structure that a functional model has."""
        tensors = list(features.values())
        if len(tensors) == 1:
            return tensors[0]
        if isinstance(self.model, keras.Model) and getattr(self.model, "inputs", None):
            return keras.tree.pack_sequence_as(self.model.input, tensors)
        return features

    def _has_steps(self, tensor):
        return tensor.shape.rank > 1 and tensor.shape[1] in (None, self.steps)

    def _emptied(self, tensor, lengths):
        """An input [B, T, ...] with 0 or "" behind the lengths; without a time axis as it is."""
        if not self._has_steps(tensor):
            return tensor
        kept = tf.sequence_mask(lengths, tf.shape(tensor)[1])
        kept = kept[(..., *[tf.newaxis] * (tensor.shape.rank - 2))]
        return tf.where(kept, tensor, tf.zeros([], tensor.dtype))


def _input_specs(model, input_signature):
    specs = _specs_of(model, input_signature)
    wrong = [name for name in specs if not re.fullmatch(r"[A-Za-z0-9.][\w.\-]*", name, re.ASCII)]
    if wrong or "self" in specs:
        raise ValueError(
            f"no signature can have an input of the name {(wrong or ['self'])[0]!r}: letters, "
            "digits and _ . - can stand in it. Name it anew, keras.Input(..., name=...)."
        )
    lengths = specs.get("lengths")
    if lengths is not None and not (lengths.dtype.is_integer and lengths.shape.rank == 1):
        raise ValueError(
            "an input of the name 'lengths' must be whole numbers [batch], how long the rows are; "
            f"got {lengths.dtype.name} {lengths.shape}. Give it another name."
        )
    return specs


def _fixed_steps(model, specs):
    """T where it is fixed, by which an input with a time axis is then told, or None."""
    outputs = getattr(model, "outputs", None)
    if outputs:
        return outputs[0].shape[1]
    return next((spec.shape[1] for spec in specs.values() if len(spec.shape) > 1), None)


def _specs_of(model, input_signature):
    if input_signature is not None:
        return {name: _named(spec, name) for name, spec in dict(input_signature).items()}
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"The inputs of {type(model).__name__} {model.name!r} are not known. Pass "
            "input_signature={name: tf.TensorSpec([None, None], dtype), ...}."
        )
    return {
        tensor.name: tf.TensorSpec(tensor.shape, tensor.dtype, name=tensor.name)
        for tensor in model.inputs
    }


def _warn_of_free_axes(specs):
    """Says of which inputs a server that merges requests spoils what lies within the lengths."""
    for name, spec in specs.items():
        free = [axis for axis in range(2, len(spec.shape)) if spec.shape[axis] is None]
        if free:
            warnings.warn(
                f"Axis {free[0]} of the input {name!r} {tuple(spec.shape)} has no fixed size. A "
                "server that merges requests of different sizes fills it up with the tensor's "
                "first element, and the model cannot know what was filled up: fix the size, or "
                "do not let the server merge requests.",
                stacklevel=3,
            )


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
