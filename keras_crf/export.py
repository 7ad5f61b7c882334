"""export_tagger: a SavedModel that needs neither Python nor this library to tag."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping

import keras
import tensorflow as tf

from keras_crf import checks, serving_inputs
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
        `serving_default`: takes the model's inputs under their own names, and `lengths` int32 [B].
            Gives `tag_ids` int32 [B, T] (0 on padding), `confidence` [B, T], the marginal of each
            decoded tag (0 on padding), `log_prob` [B] of the decoded path in nats, and, where names
            are known, `tags` string [B, T] ("" on padding).
        `unpadded`: the same without `lengths`. All T steps of every row count. It is for full
            rows, and for servers that do not merge requests. One that does pads shorter requests
            with their first element, and without `lengths` the model reads this padding as words,
            which gives other tags without an error.
        `marginals`: as `serving_default`, and gives `marginals` [B, T, K] as well (0 on padding).
        `top_k`, if asked for: takes what `serving_default` takes. Gives the k best paths, best
            first, as `tag_ids` int32 [B, k, T], `score` [B, k], `log_prob` [B, k] in nats, `tags`
            string [B, k, T], and `valid` bool [B, k], which is False where a row has fewer paths.

    All numbers are finite, as JSON needs them to be. Where there is no path (False in `valid`),
    score and log_prob are the lowest finite number of their dtype (-3.4e38 in float32), tags are 0
    and "". A row of which the model's scores hold NaN or inf, or allow no path, has no answer: its
    log_prob is that number too, its tags are 0 and "", its confidence and marginals 0.

    Steps beyond a row's length have no influence: they are replaced by 0 (or "") in every input
    that has a time axis (axis 1, if it is free or of the size that T is fixed to), and the CRF is
    narrowed to the length. So a server may pad axis 1; `export_tagger` warns of further axes
    without a size, which a server would pad within the lengths.

    The graph refuses, with INVALID_ARGUMENT and the name of the input, an input of another rank or
    fixed size than the model's, inputs of different numbers of rows or steps, and lengths outside
    0..T. Another dtype is refused by the runtime before the graph runs. In a server that merges
    requests, one that is refused fails the others of its batch: validate them in front of it.

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
            or "lengths" that are none; a model whose inputs are not known, or whose output
            carries no distribution; a `top_k` below 1; warm-up requests that fail or are too many.

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
    specs = serving_inputs.specs_of(model, input_signature)
    serving_inputs.warn_of_free_axes(specs)
    steps = _fixed_steps(model, specs)
    tagger = _Tagger(model, specs, steps, _names_for(model, tag_names), top_k)
    with _appearing_at_once(os.fspath(directory), overwrite) as unfinished, without_gradients():
        archive = keras.export.ExportArchive()
        archive.track(model)
        endpoints = {
            name: archive.add_endpoint(name, function, input_signature=[inputs])
            for name, (function, inputs) in tagger.signatures().items()
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

    def __init__(self, model, specs, steps, tag_names, number_of_paths):
        self.model = model
        self.unpadded = specs
        self.padded = {**specs, "lengths": tf.TensorSpec([None], tf.int32, name="lengths"), **specs}
        self.steps = steps
        self.tag_names = None if tag_names is None else list(tag_names)
        self.number_of_paths = number_of_paths

    def signatures(self):
        """Signature name -> (function, its inputs as a dict of name to `tf.TensorSpec`)."""
        # What the signatures say parts of, traced and written once.
        self.tagging = self._traced(self._tagging)
        signatures = {
            "serving_default": (self.tagged, self.padded),
            "unpadded": (self.tagged, self.unpadded),
            "marginals": (self.with_marginals, self.padded),
        }
        if self.number_of_paths is not None:
            self.best_paths = self._traced(self._best_paths)
            signatures["top_k"] = (self.with_best_paths, self.padded)
        return signatures

    def _traced(self, function):
        return tf.function(function, autograph=False).get_concrete_function(self.padded)

    def tagged(self, inputs):
        outputs = self.with_marginals(inputs)
        del outputs["marginals"]
        return outputs

    def with_marginals(self, inputs):
        inputs = serving_inputs.checked(inputs, self.padded)
        if "lengths" not in inputs:
            inputs["lengths"] = self._full_lengths(inputs)
        tagging = self._tagging if inputs["lengths"] is None else self.tagging
        return tagging(inputs)

    def with_best_paths(self, inputs):
        return self.best_paths(serving_inputs.checked(inputs, self.padded))

    def _full_lengths(self, inputs):
        """The number of steps, for each row; None where no input has a time axis."""
        for tensor in inputs.values():
            if self._has_steps(tensor):
                return tf.fill(tf.shape(tensor)[:1], tf.shape(tensor)[1])
        return None

    def _tagging(self, inputs):
        distribution = self._distribution(inputs)
        tagging = distribution.tagging()
        exists = tf.math.is_finite(tagging.log_prob)
        kept = exists[:, tf.newaxis] & distribution.mask
        return {
            **self._with_names(tagging.tags, distribution, kept),
            "confidence": _or_else(0, kept, tagging.confidence),
            "log_prob": _or_lowest(exists, tagging.log_prob),
            "marginals": _or_else(0, kept[..., tf.newaxis], tagging.marginals),
        }

    def _best_paths(self, inputs):
        distribution = self._distribution(inputs)
        paths = distribution.top_k(self.number_of_paths)
        exists = tf.math.is_finite(paths.score) & tf.math.is_finite(paths.log_prob)
        kept = exists[..., tf.newaxis] & distribution.mask[:, tf.newaxis]
        return {
            **self._with_names(paths.tags, distribution, kept),
            "score": _or_lowest(exists, paths.score),
            "log_prob": _or_lowest(exists, paths.log_prob),
            "valid": exists,
        }

    def _with_names(self, tag_ids, distribution, kept):
        tag_ids = _or_else(0, kept, tag_ids)
        names = checks.tag_names(self.tag_names, distribution.potentials.shape[2])
        if names is None:
            return {"tag_ids": tag_ids}
        return {"tag_ids": tag_ids, "tags": _or_else("", kept, tf.gather(names, tag_ids))}

    def _distribution(self, inputs):
        lengths = inputs["lengths"]
        features = {name: inputs[name] for name in self.unpadded}
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


def _or_lowest(exists, value):
    """The value where there is one, else the lowest finite number: JSON has no infinity or NaN."""
    return _or_else(value.dtype.min, exists, value)


def _or_else(otherwise, condition, value):
    return tf.where(condition, value, tf.constant(otherwise, value.dtype))


def _fixed_steps(model, specs):
    """T where it is fixed, by which an input with a time axis is then told, or None."""
    outputs = getattr(model, "outputs", None)
    if outputs:
        return outputs[0].shape[1]
    return next((spec.shape[1] for spec in specs.values() if len(spec.shape) > 1), None)


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
