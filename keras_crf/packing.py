"""The mask rule: dropped steps are taken out before anything is computed, and put back after it."""

from typing import NamedTuple

import tensorflow as tf

from keras_crf.graphs import as_graph, custom_gradient, pad, with_axes


class Packing(NamedTuple):
    """Where the kept steps of each row go, when they are moved together to the front."""

    mask: tf.Tensor  # [B, T] bool, True keeps a step
    lengths: tf.Tensor  # [B] int32, the number of kept steps
    # The step that comes to each place, and the place that each step goes to, [B, T] int32 (any
    # number for what is dropped). None where all kept steps stand in front already.
    sources: tf.Tensor | None = None
    places: tf.Tensor | None = None

    def pack(self, values):
        """Values [B, T, ...] with the kept steps of each row in front, and zeros behind them."""
        if self.sources is None:
            return only(values, self.mask)
        return _gathered(values, self.sources, self._in_front(values), self.places, self.mask)

    def unpack(self, values):
        """The reverse of `pack`: values at their steps, and zeros at dropped ones."""
        if self.sources is None:
            return only(values, self.mask)
        return _gathered(values, self.places, self.mask, self.sources, self._in_front(values))

    def _in_front(self, values):
        """[B, T] bool: which places hold a kept step."""
        return tf.sequence_mask(self.lengths, tf.shape(values)[1])

    def padded(self, steps):
        """The same packing of rows with dropped steps added at the end, to `steps` in all."""
        mask, *rest = (
            None if tensor is None else pad(tensor, steps)
            for tensor in (self.mask, self.sources, self.places)
        )
        return Packing(mask, self.lengths, *rest)


def packing(mask, in_front):
    """The `Packing` of a mask [B, T] bool; `in_front` says that it keeps first steps only."""
    lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
    if in_front:
        return Packing(mask, lengths)
    kept_before = tf.cumsum(tf.cast(mask, tf.int32), axis=1, exclusive=True)
    rows, steps = tf.shape(mask)[0], tf.shape(mask)[1]
    # Dropped steps go to one place behind all others, which is cut off.
    place = tf.where(mask, kept_before, steps)
    row = tf.zeros_like(place) + tf.range(rows)[:, tf.newaxis]
    step = tf.zeros_like(place) + tf.range(steps)
    sources = tf.scatter_nd(tf.stack([row, place], axis=-1), step, [rows, steps + 1])[:, :-1]
    return Packing(mask, lengths, sources, tf.where(mask, kept_before, 0))


def only(values, where):
    """Values [B, T, ...] with zeros except `where`, [B, T]."""
    for _ in range(values.shape.rank - 2):
        where = tf.expand_dims(where, -1)
    return tf.where(where, values, tf.zeros_like(values))


def _gathered(values, sources, filled, places, kept):
    """values[b, sources[b, t]] where `filled`, else 0; its gradient goes back by `places`."""
    if not values.dtype.is_floating:  # such as tags, which have no gradient
        return _plainly_gathered(values, sources, filled)
    return with_axes(_gathered_scores(values, sources, filled, places, kept), values.shape[:2])


def _plainly_gathered(values, sources, filled):
    return only(tf.gather(values, sources, batch_dims=1), filled)


@as_graph
@custom_gradient
def _gathered_scores(values, sources, filled, places, kept):
    """`_gathered`, with a gradient that is a gather again.

    The gradient that TensorFlow has for a gather is a slow sum by segments.
    """

    # Of this graph, for the gradient of the gradient to find them.
    places, kept = tf.identity(places), tf.identity(kept)

    def gradient(upstream):
        return _plainly_gathered(upstream, places, kept), None, None, None, None

    return tf.stop_gradient(_plainly_gathered(values, sources, filled)), gradient
