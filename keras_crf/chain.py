"""The scores of a batch of chains, and what one step of a recurrence takes of them."""

from typing import NamedTuple

import tensorflow as tf

from keras_crf.graphs import pad
from keras_crf.scan import time_first
from keras_crf.scores import finite, forbidden, only_where


class Chain(NamedTuple):
    """The scores of a batch of chains, in one float dtype."""

    potentials: tf.Tensor  # [B, T, K], zeros behind a row's length
    transitions: tf.Tensor  # [K, K], [i, j] from i to j; or [B, T, K, K], [:, t] into step t
    start: tf.Tensor  # [K]
    end: tf.Tensor  # [K]
    lengths: tf.Tensor  # [B] int32

    def centered(self):
        """(the same chains with scores of at most 0, the `Shifts` that this took off).

        Scores far from 0 would cost digits wherever they are added.
        """
        axes = [-1], [-2, -1], [-1], [-1]
        best = [
            finite(tf.reduce_max(scores, axis=axis, keepdims=True))
            for scores, axis in zip(self[:4], axes, strict=True)
        ]
        scores = [mine - shift for mine, shift in zip(self[:4], best, strict=True)]
        shifts = [tf.squeeze(shift, axis) for shift, axis in zip(best, axes, strict=True)]
        return Chain(*scores, self.lengths), Shifts(*shifts)

    def cast(self, dtype):
        """The same chains in another float dtype."""
        return Chain(*(tf.cast(scores, dtype) for scores in self[:4]), self.lengths)

    def exponentials(self):
        """exp of all the scores."""
        return Chain(*map(tf.exp, self[:4]), self.lengths)

    def where_legal(self, potentials):
        """Chains of the same legal paths, with these potentials, where all else scores 0."""
        scores = [only_where(~forbidden(scores), tf.zeros_like(scores)) for scores in self[:4]]
        legal = Chain(*scores, self.lengths)
        return legal._replace(potentials=legal.potentials + potentials)

    def repeated(self, n):
        """The chains of each row n times, one right after the other."""
        transitions = tf.repeat(self.transitions, n, axis=0) if self.varies else self.transitions
        return self._replace(
            potentials=tf.repeat(self.potentials, n, axis=0),
            transitions=transitions,
            lengths=tf.repeat(self.lengths, n, axis=0),
        )

    def padded(self, steps):
        """The same chains with steps added at the end, to `steps` in all."""
        transitions = pad(self.transitions, steps) if self.varies else self.transitions
        return self._replace(potentials=pad(self.potentials, steps), transitions=transitions)

    def reverse(self):
        """The same chains, read from the right."""
        return Chain(
            potentials=self.reverse_time(self.potentials),
            transitions=tf.linalg.matrix_transpose(self._into_the_step_before()),
            start=self.end,
            end=self.start,
            lengths=self.lengths,
        )

    def _into_the_step_before(self):
        return self.reverse_time(self.out_of_steps()) if self.varies else self.transitions

    @property
    def varies(self):
        """Whether the transitions are not the same at each step."""
        return self.transitions.shape.rank == 4

    def out_of_steps(self):
        """The transitions out of each step, [K, K] or [B, T, K, K] (at the last step zeros)."""
        if not self.varies:
            return self.transitions
        return a_step_earlier(self.transitions)

    def by_step(self):
        """What `scan` takes: potentials, and the transitions out of each step if they vary."""
        inputs = [self.potentials, self.out_of_steps()] if self.varies else [self.potentials]
        return [time_first(values) for values in inputs]

    def leaving(self, inputs):
        """The transitions out of a step, [K, K] or [B, K, K], given what `by_step` has for it."""
        return inputs[1] if self.varies else self.transitions

    def reverse_time(self, values):
        """Values [B, T, ...] with the steps of each row, up to its length, in reverse."""
        steps = tf.range(tf.shape(values)[1])
        mirrored = self.lengths[:, tf.newaxis] - 1 - steps
        return tf.gather(values, tf.where(mirrored >= 0, mirrored, steps), batch_dims=1)

    def within(self):
        """[B, T] bool: which steps lie within their row's length."""
        return tf.sequence_mask(self.lengths, tf.shape(self.potentials)[1])

    def at_first(self):
        """[1, T] bool: which step is the first."""
        return tf.equal(tf.range(tf.shape(self.potentials)[1]), 0)[tf.newaxis]

    def at_last(self):
        """[B, T] bool: which step is the last within its row's length."""
        steps = tf.range(tf.shape(self.potentials)[1])
        return tf.equal(steps, self.lengths[:, tf.newaxis] - 1)

    def at_each_row(self, scores):
        """Scores [...], repeated for the rows of the batch: [B, ...]."""
        return tf.repeat(scores[tf.newaxis], tf.shape(self.lengths)[0], axis=0)


class Shifts(NamedTuple):
    """The largest of each of the scores of a batch of chains."""

    potentials: tf.Tensor  # [B, T]
    transitions: tf.Tensor  # [] or [B, T]
    start: tf.Tensor  # []
    end: tf.Tensor  # []


def a_step_later(values, first=0):
    """Values [B, T, ...], each at the step behind its own; `first` at the first step.

    (`tf.vectorized_map` takes the constant of `tf.pad` for 0.)
    """
    before = tf.fill(tf.shape(values[:, :1]), tf.cast(first, values.dtype))
    return tf.concat([before, values[:, :-1]], axis=1)


def a_step_earlier(values):
    """Values [B, T, ...], each at the step before its own; zeros at the last step."""
    return tf.pad(values[:, 1:], [[0, 0], [0, 1]] + [[0, 0]] * (values.shape.rank - 2))


def product(values, matrix):
    """values [..., K] times a matrix [K, K] or [..., K, K]."""
    if matrix.shape.rank == 2:
        return tf.matmul(values, matrix)
    return tf.matmul(values[..., tf.newaxis, :], matrix)[..., 0, :]


def row(matrix, tags):
    """The row of each tag, tags [B, ...], of a matrix [K, K] or [B, K, K]: [B, ..., K]."""
    return tf.gather(matrix, tags, batch_dims=matrix.shape.rank - 2)
