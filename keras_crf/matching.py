"""How many spans two taggings share, in a graph, by the tables of `tags.span_boundaries`.

There is no loop over time. A step that no tag can go on into, by `continues`, is a break; between
two breaks lies one span at most, from the first start there up to the second break.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf.packing import packing


class SpanTables(NamedTuple):
    """The tables over tag ids 0..K-1, and K for what is beyond either end."""

    starts: tf.Tensor  # [K + 1, K + 1] bool
    continues: tf.Tensor  # [K + 1, K + 1] bool
    ends: tf.Tensor  # [K + 1, K + 1] bool
    types: tf.Tensor  # [K + 1] int32, the number of each tag's type


class Spans(NamedTuple):
    """The spans of a batch of rows, each at the step where it begins."""

    begins: tf.Tensor  # [B, T + 1] bool: a span that counts begins here
    ends: tf.Tensor  # [B, T + 1] int32: the step behind it
    types: tf.Tensor  # [B, T + 1] int32: the number of its type


def count_spans(gold, predicted, kept, tables, number_of_types):
    """How many spans of each type are in both, predicted, and gold: int32 [3, number_of_types].

    Args:
        gold, predicted: int32 [B, T] tag ids; what stands on dropped steps is not read.
        kept: bool [B, T]; dropped steps are skipped, as if they were not there.
        tables: `SpanTables`.
    """
    steps = packing(kept, in_front=False)
    gold = spans_of(steps.pack(gold), steps.lengths, tables)
    predicted = spans_of(steps.pack(predicted), steps.lengths, tables)
    both = gold.begins & predicted.begins
    both &= tf.equal(gold.ends, predicted.ends) & tf.equal(gold.types, predicted.types)
    counted = [(both, gold), (predicted.begins, predicted), (gold.begins, gold)]
    return tf.stack([_by_type(where, spans.types, number_of_types) for where, spans in counted])


def spans_of(tags, lengths, tables):
    """The `Spans` of tag ids [B, T] whose first `lengths` steps are kept."""
    beyond = tf.shape(tables.types)[0] - 1
    tags = tf.where(tf.sequence_mask(lengths, tf.shape(tags)[1]), tags, beyond)
    outside = tf.fill([tf.shape(tags)[0], 1], beyond)
    before, after = tf.concat([outside, tags], 1), tf.concat([tags, outside], 1)  # [B, T + 1]
    pairs = before * (beyond + 1) + after
    starts, continues, ends = (tf.gather(tf.reshape(table, [-1]), pairs) for table in tables[:3])
    last_break, next_break = _breaks_around(~continues)
    starts_before = tf.cumsum(tf.cast(starts, tf.int32), axis=1, exclusive=True)
    first_since = tf.equal(starts_before, tf.gather(starts_before, last_break, batch_dims=1))
    whole = tf.gather(ends, next_break, batch_dims=1)
    return Spans(starts & first_since & whole, next_break, tf.gather(tables.types, after))


def _breaks_around(breaks):
    """The last break up to each step, and the first one behind it: two int32 [B, T + 1].

    The first step is a break. Behind the last there is none, and any number stands there.
    """
    positions = packing(breaks, in_front=False).sources  # of the first break, the second, ...
    number = tf.cumsum(tf.cast(breaks, tf.int32), axis=1)
    following = tf.minimum(number, tf.shape(breaks)[1] - 1)
    return tuple(tf.gather(positions, place, batch_dims=1) for place in (number - 1, following))


def _by_type(where, types, number_of_types):
    """How often each type stands `where`, int32 [number_of_types]."""
    ones = tf.cast(tf.reshape(where, [-1]), tf.int32)
    return tf.math.unsorted_segment_sum(ones, tf.reshape(types, [-1]), number_of_types)
