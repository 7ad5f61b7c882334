"""What labels may come in: tags and allowed sets in their standard form, or refused in words."""

import tensorflow as tf

from keras_crf import checks
from keras_crf.raising import refuse_unless

WAYS_OUT = (
    "A step without a tag needs one of two things: a mask that drops it, from "
    "Embedding(mask_zero=True) or by mask=… or lengths=…; or ignore_index=… in the loss, the "
    "metric or log_prob, which keeps the step and lets it have any tag."
)
OUT_OF_RANGE = (
    f"Ids of tags begin at 0, and the number of tags is the largest id plus 1. {WAYS_OUT}"
)


def tags(value, potentials, mask, advice=""):
    """[B, T] int32 tags with 0 on dropped steps, and [B] bool of the rows whose tags are right."""
    tags = _with_steps(value, "tags", mask)
    if not tags.dtype.is_integer:
        raise TypeError(f"tags must be whole numbers, got {tags.dtype.name}.")
    checks.rank(tags, "tags", "[batch, time]")
    tags = checks.same_steps(tags, "tags", potentials)
    last = "K-1" if potentials.shape[2] is None else potentials.shape[2] - 1
    message = f"tags must lie in 0..{last} on kept steps; got the tag {{value}}"
    tags, fits = below(tags, tf.shape(potentials, tf.int64)[2], mask, message, advice)
    return tf.cast(tags, tf.int32), tf.reduce_all(fits, axis=1)


def _with_steps(value, name, mask):
    """`value` as a dense tensor; if it is ragged, with as many steps as the mask.

    A ragged row ends where the row does: behind its last kept step, or at T. (XLA knows no ragged
    tensors, so that this can always raise.)
    """
    value, lengths = checks.padded(value, name)
    if lengths is None:
        return value
    number_of_steps = tf.shape(mask)[1]
    ends = tf.reduce_max(tf.where(mask, tf.range(number_of_steps) + 1, 0), axis=1)
    lengths = tf.cast(lengths, ends.dtype)
    fits = tf.equal(lengths, tf.maximum(ends, 0)) | tf.equal(lengths, number_of_steps)
    message = f"ragged {name} must end with the last kept step of the row; got {{value}} of them"
    refuse_unless(fits, message, lengths)
    missing = tf.maximum(number_of_steps - tf.shape(value)[1], 0)
    value = tf.pad(value, [[0, 0], [0, missing]] + [[0, 0]] * (value.shape.rank - 2))
    return value[:, :number_of_steps]


def below(ids, number_of_ids, kept, message, advice=""):
    """Ids [B, T] int64, 0 where dropped or out of range; and where they are in range or dropped."""
    ids = tf.where(kept, tf.cast(ids, tf.int64), 0)
    fits = (ids >= 0) & (ids < number_of_ids)
    refuse_unless(fits, message, ids, advice=advice)
    return tf.where(fits, ids, 0), fits


def whole(floats, name, kept):
    """Floats [B, T] as int64, 0 where dropped or not whole; and where they are whole or dropped."""
    right = tf.equal(floats, tf.round(floats)) | ~kept
    refuse_unless(right, f"{name} must hold whole numbers; got {{value}}", floats)
    return tf.cast(tf.where(right & kept, floats, 0), tf.int64), right


def labels(value, potentials, mask, ignore_index=None):
    """Tags [B, T] int32 or allowed sets [B, T, K] bool, and [B] bool of the rows that are right."""
    value = _with_steps(value, "tags", mask)
    if value.shape.rank == 3:
        return _allowed_sets(value, potentials, mask)
    if ignore_index is None:
        return tags(value, potentials, mask, OUT_OF_RANGE)
    ignored = equal_to_index(value, checks.whole_number_or_none(ignore_index, "ignore_index"))
    known, right = tags(
        tf.where(ignored, tf.zeros_like(value), value), potentials, mask, OUT_OF_RANGE
    )
    return tf.one_hot(known, tf.shape(potentials)[2], True, False) | ignored[..., tf.newaxis], right


def _allowed_sets(value, potentials, mask):
    value = checks.like_potentials(potentials, value, "tags as allowed sets")
    if value.dtype == tf.bool:
        return value, tf.ones(tf.shape(mask)[:1], tf.bool)
    value = tf.where(mask[..., tf.newaxis], value, tf.zeros_like(value))
    binary = tf.equal(value, 0) | tf.equal(value, 1)
    wrong = tf.reduce_max(
        tf.where(binary, tf.constant(value.dtype.min, value.dtype), value), axis=2
    )
    right = tf.reduce_all(binary, axis=2)
    refuse_unless(
        right, "tags as allowed sets must hold 0 and 1, or False and True; got {value}", wrong
    )
    return tf.equal(value, 1), tf.reduce_all(right, axis=1)


def equal_to_index(labels, index):
    """Where labels, of any dtype, are the whole number `index`; nowhere if their dtype lacks it."""
    if not labels.dtype.min <= index <= labels.dtype.max:
        return tf.zeros_like(labels, tf.bool)
    return tf.equal(labels, tf.constant(index, labels.dtype))
