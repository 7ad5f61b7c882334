"""What metrics compare: labels and outputs of any kind, as two batches of tag ids.

The rules are those of the docstring of `keras_crf.metrics`.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import checks, label_checks, likelihood
from keras_crf.carrying import carried, is_decoded, riding_mask

# Counts are whole numbers; as such they are exact up to 2**53, and can be NaN.
COUNT = "float64"
BEST = "_keras_crf_best"  # the attribute by which outputs keep their best path


class Compared(NamedTuple):
    """What is to be compared, with 0 on dropped steps."""

    gold: tf.Tensor  # [B, T] int32
    predicted: tf.Tensor  # [B, T] int32
    kept: tf.Tensor  # [B, T] bool
    error: tf.Tensor  # [], float64: NaN where a kept label is no tag, else 0


def compare(y_true, y_pred, sample_weight, number_of_tags, ignore_index):
    """Labels and outputs as `Compared`; `number_of_tags` is None where y_pred alone tells it."""
    predicted, mask, number_of_tags = _best_path(y_pred, number_of_tags)
    gold = _ids(y_true, predicted, number_of_tags)
    kept = mask & _weighted(sample_weight, predicted)
    if ignore_index is not None:
        kept &= ~label_checks.equal_to_index(gold, ignore_index)
    gold, right = _tags(gold, "y_true", kept, number_of_tags)
    predicted, right_too = _tags(predicted, "y_pred", kept, number_of_tags)
    right &= right_too
    error = likelihood.nan_unless(tf.reduce_all(right), tf.as_dtype(COUNT))
    return Compared(gold, predicted, kept & right, error)


def _best_path(y_pred, number_of_tags):
    """Tags [B, T], the steps that the model keeps [B, T], and K if it is known."""
    outputs, distribution = checks.tensor(y_pred, "y_pred", checks.PAD), carried(y_pred)
    if outputs.shape.rank not in (2, 3):
        raise ValueError(
            "y_pred must be tag ids, [batch, time], or [batch, time, tags]; got the shape "
            f"{outputs.shape}."
        )
    width = outputs.shape[2] if outputs.shape.rank == 3 else None
    if width is None and distribution is not None:
        width = distribution.transitions.shape[-1]
    if number_of_tags is not None and width not in (None, number_of_tags):
        raise ValueError(
            f"y_pred must have a tag for each of the {number_of_tags} tag_names; got {width} tags, "
            f"the shape {outputs.shape}."
        )
    if distribution is not None and not is_decoded(y_pred):
        tags = _viterbi(y_pred, distribution)
    else:
        tags = _largest(outputs) if outputs.shape.rank == 3 else outputs
    return tags, _mask(y_pred, tags), number_of_tags or width


def _viterbi(y_pred, distribution):
    """The best path, found once however many metrics ask for it in one graph."""
    tags = getattr(y_pred, BEST, None)
    of_this_graph = tags is not None and (
        not tf.is_symbolic_tensor(tags) or tags.graph is tf.compat.v1.get_default_graph()
    )
    if not of_this_graph:
        tags = distribution.argmax().tags
        setattr(y_pred, BEST, tags)
    return tags


def _mask(y_pred, tags):
    distribution, riding = carried(y_pred), riding_mask(y_pred)
    if distribution is not None:
        return distribution.mask
    if riding is None:
        return tf.ones(tf.shape(tags), tf.bool)
    return tf.cast(_same_steps(riding, "the mask on y_pred", tags), tf.bool)


def _ids(y_true, predicted, number_of_tags):
    """y_true as ids [B, T], of whatever dtype."""
    labels = checks.tensor(y_true, "y_true", checks.PAD)
    if labels.shape.rank == 3 and labels.shape[2] == 1:
        labels = tf.squeeze(labels, 2)
    if labels.shape.rank == 3:
        if None not in (number_of_tags, labels.shape[2]) and labels.shape[2] != number_of_tags:
            raise ValueError(
                f"y_true must be ids, [batch, time], or one-hot, [batch, time, {number_of_tags}]; "
                f"got the shape {labels.shape}."
            )
        labels = _largest(labels)
    labels = labels if labels.dtype.is_floating else tf.cast(labels, tf.int64)
    return _same_steps(labels, "y_true", predicted)


def _largest(values):
    return tf.argmax(tf.cast(values, tf.int32) if values.dtype == tf.bool else values, axis=2)


def _same_steps(values, name, predicted):
    """`values` [B, T], refused unless its axes are those of the predicted tags."""
    values = checks.tensor(values, name, checks.PAD)
    if not values.shape.is_compatible_with(predicted.shape):
        raise ValueError(
            f"{name} must have the batch and time axes of y_pred, {predicted.shape}; got the shape "
            f"{values.shape}."
        )
    return checks.same_shape(values, name, tf.shape(predicted), "outputs")


def _weighted(sample_weight, predicted):
    """[B, T]: where the weight is not 0."""
    if sample_weight is None:
        return tf.ones(tf.shape(predicted), tf.bool)
    weights = checks.tensor(sample_weight, "sample_weight", checks.PAD)
    if weights.shape.rank == 1:
        weights = weights[:, tf.newaxis]
    if weights.shape.rank == 2 and weights.shape[1] == 1:
        rows = tf.zeros_like(predicted, weights.dtype)[:, :1]
        weights = _same_steps(weights, "sample_weight", rows)
        weights = tf.repeat(weights, tf.shape(predicted)[1], axis=1)
    return tf.cast(_same_steps(weights, "sample_weight", predicted), tf.bool)


def _tags(values, name, kept, number_of_tags):
    """int32 tags [B, T], 0 where dropped or wrong; and where they are right or dropped."""
    right = tf.ones_like(kept)
    if values.dtype.is_floating:
        values, right = label_checks.whole(values, name, kept)
    last = "" if number_of_tags is None else number_of_tags - 1
    rule = f"{name} must lie in 0..{last} on kept steps"
    rule += ", or be ignore_index" if name == "y_true" else ""
    number_of_ids = tf.int64.max if number_of_tags is None else number_of_tags
    rule += "; got the tag {value}"
    advice = label_checks.OUT_OF_RANGE if name == "y_true" else ""
    tags, fits = label_checks.below(values, number_of_ids, kept, rule, advice)
    return tf.cast(tags, tf.int32), right & fits
