"""How probable parts of paths are: given tags from a step on, and spans however they are tagged.

With log_next_t[i, j] = log p(y_t = j | y_{t-1} = i), as in information.py, a chain being Markov,

    log p(y_s..y_e = tags) = log p(y_s = tags_s) + sum_{s<t<=e} log_next_t[tags_{t-1}, tags_t]

which is log alpha_s[tags_s] + the scores between + log beta_e[tags_e] - log_partition, written as a
sum of terms none of which is above 0. A span of tags that are not given, only which pairs of
neighbours may stand at its borders and within it, is the same with a sum over the allowed pairs at
each step. Places are those of the kept steps, counted without the dropped ones.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import tensorflow as tf

from keras_crf import checks, likelihood, messages
from keras_crf.asking import Asking
from keras_crf.chain import a_step_later
from keras_crf.graphs import as_graph, as_graph_or_compiled
from keras_crf.raising import refuse_unless
from keras_crf.scan import scan, time_first
from keras_crf.scores import finite, log_softmax, logsumexp, only_where
from keras_crf.tensor_like import TensorLike


class Pieces(NamedTuple):
    """What of a batch of chains each of its parts is made of."""

    log_marginals: tf.Tensor  # [B, T, K], log p(y_t = k)
    ahead: tf.Tensor  # [B, T, K], potentials and what comes in from the right, of a centered chain


class Spans(NamedTuple):
    """Runs of kept steps: of which row, from which place on, and how many."""

    rows: tf.Tensor  # [N] int32
    places: tf.Tensor  # [N] int32
    lengths: tf.Tensor  # [N] int32


@as_graph_or_compiled
def _pieces(chain, steps):
    centered, both = messages.both_ways(chain)
    ahead = centered.potentials + both.from_right.messages
    parts = log_softmax(ahead + both.from_left.messages), ahead
    return Pieces(*(likelihood.within_only(chain, part) for part in parts))


@as_graph
def _subpath_log_prob(chain, pieces, spans, tags):
    chain, _ = chain.centered()
    offsets = tf.range(tf.shape(tags)[1])
    places = spans.places[:, tf.newaxis] + offsets
    asked = offsets < spans.lengths[:, tf.newaxis]
    tags = tf.where(asked, tags, 0)
    moves = _moves_from(chain, a_step_later(tags), spans.rows, places, asked)
    log_next = log_softmax(moves + _at(pieces.ahead, spans.rows, places, asked))
    first = _at(pieces.log_marginals, spans.rows, places, asked)
    terms = likelihood.picked(tf.where(tf.equal(offsets, 0)[:, tf.newaxis], first, log_next), tags)
    return likelihood.total(tf.where(asked, terms, tf.zeros_like(terms)))


@as_graph
def _span_log_prob(chain, pieces, spans, offsets, starts, continues, of_type):
    """log p(spans start, go on and end by the tables, with a first tag of their type), [N].

        state_{s-1}[i] = log p(y_{s-1} = i)
        state_t[j] = logsumexp_i(state_{t-1}[i] + log_next_t[i, j])  over allowed (i, j)

    for t = s..e+1, with the span at s..e; the row may end before e + 1. The largest of each state
    is taken off, and summed in float64. `offsets` are 0, 1, ..., the longest length.
    """
    chain, _ = chain.centered()
    places = spans.places[:, tf.newaxis] + offsets
    within = places < tf.gather(chain.lengths, spans.rows)[:, tf.newaxis]
    asked = within & (offsets <= spans.lengths[:, tf.newaxis])
    allowed = _allowed(spans, offsets, starts, continues, of_type)
    log_next = _log_next(chain, pieces, spans.rows, places, asked)
    log_next = only_where(allowed, log_next)

    def cell(inputs, state, _):
        moves, is_asked = inputs
        moved = logsumexp(state[:, :, tf.newaxis] + moves, axis=1)
        state = tf.where(is_asked[:, tf.newaxis], moved, state)
        largest = finite(tf.reduce_max(state, axis=1))
        return largest, state - largest[:, tf.newaxis]

    inputs = [time_first(log_next), time_first(asked)]
    largest, state = scan(cell, inputs, _before(pieces, spans), log_next.dtype, 1)
    log_prob = likelihood.total(time_first(largest)) + logsumexp(state, axis=1)
    return tf.minimum(log_prob, 0)  # rounding may leave it above 0


def _allowed(spans, offsets, starts, continues, of_type):
    """[N, L, K, K] bool: which tags may follow which at each of the steps from a span's first on.

    The first tag of a row follows id K of the tables, whatever stands for the tag before it.
    """
    is_first = tf.equal(spans.places, 0)[:, tf.newaxis, tf.newaxis]
    entering = tf.where(is_first, starts[-1], starts[:-1]) & of_type[:, tf.newaxis]
    goes_on = (offsets < spans.lengths[:, tf.newaxis])[..., tf.newaxis, tf.newaxis]
    inside = tf.equal(continues, goes_on)  # does go on, or behind the span does not
    is_entry = tf.equal(offsets, 0)[:, tf.newaxis, tf.newaxis]
    return tf.where(is_entry, entering[:, tf.newaxis], inside)


def _before(pieces, spans):
    """log p(y_{s-1} = i) for each span, [N, K]; at the start of a row tag 0 stands for it."""
    is_first = tf.equal(spans.places, 0)[:, tf.newaxis]
    before = _at(pieces.log_marginals, spans.rows, spans.places[:, tf.newaxis] - 1, ~is_first)[:, 0]
    nothing = tf.math.log(tf.one_hot(0, tf.shape(before)[1], dtype=before.dtype))
    return tf.where(is_first, nothing, before)


def _log_next(chain, pieces, rows, places, asked):
    """log p(y_t = j | y_{t-1} = i) at places [N, L] of rows [N], [N, L, K, K]."""
    moves = chain.transitions
    if chain.varies:
        moves = _at(moves, rows, places, asked)
    is_first = tf.equal(places, 0)[..., tf.newaxis, tf.newaxis]
    ahead = _at(pieces.ahead, rows, places, asked)
    return log_softmax(tf.where(is_first, chain.start, moves) + ahead[:, :, tf.newaxis])


def _moves_from(chain, tags, rows, places, asked):
    """The transitions from tags [N, L] into places [N, L] of rows [N], [N, L, K]."""
    if not chain.varies:
        return tf.gather(chain.transitions, tags)
    number_of_tags = tf.shape(chain.start)[0]
    steps = tf.shape(chain.potentials)[1]
    by_tag = tf.reshape(chain.transitions, [-1, steps * number_of_tags, number_of_tags])
    return _at(by_tag, rows, places * number_of_tags + tags, asked)


def _at(values, rows, places, asked):
    """values [B, T, ...] at places [N, L] of rows [N], [N, L, ...]; 0 where not asked for."""
    shape = tf.shape(values)
    flat = tf.reshape(values, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    with_zero = tf.pad(flat, [[0, 1]] + [[0, 0]] * (flat.shape.rank - 1))
    index = rows[:, tf.newaxis] * shape[1] + places
    return tf.gather(with_zero, tf.where(asked, index, shape[0] * shape[1]))


class Subpaths(Asking):
    """The methods of `LinearChainCRF` about parts of paths."""

    def subpath_log_prob(
        self,
        rows: TensorLike,
        starts: TensorLike,
        tags: TensorLike,
        lengths: TensorLike | None = None,
    ) -> tf.Tensor:
        """log p(row `rows[i]` carries `tags[i, :lengths[i]]` from step `starts[i]` on), [N].

            log alpha_s[tags_s] + the scores between + log beta_e[tags_e] - log_partition

        in nats, and computed as a sum of conditional terms none of which is above 0. -inf for what
        is forbidden, 0 for length 0; differentiable. Steps are counted as in the potentials; those
        of a subpath follow each other, and must all be kept.

        Args:
            rows: integer [N], the row of each subpath.
            starts: integer [N], its first step.
            tags: integer [N, L]; what stands behind a subpath's length is not read.
            lengths: integer [N], its number of steps. L if left out.

        Raises:
            TypeError: what is no whole number.
            ValueError: other shapes; rows, tags or lengths that are out of range, subpaths that
                begin or end outside the row, or hold a dropped step: with the subpath that does (in
                a graph InvalidArgumentError; under XLA it gives NaN).

        Source: Rabiner 1989, equation 37, over more steps than two.

        >>> crf = LinearChainCRF([[[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> print(f"{np.exp(crf.subpath_log_prob(rows=[0], starts=[1], tags=[[1, 0]]))[0]:.2f}")
        0.25
        """
        rows, starts, tags, lengths = _asked(rows, starts, tags, lengths)
        spans, right = self._spans(rows, starts, lengths, tf.shape(tags)[1])
        number_of_tags = self._chain.start.shape[0] or tf.shape(self._chain.start)[0]
        asked = tf.sequence_mask(spans.lengths, tf.shape(tags)[1])
        fits = (tags >= 0) & (tags < number_of_tags) | ~asked
        refuse_unless(fits, "tags must lie in 0..K-1; got {value}", tags, ("subpath", "place"))
        result = _subpath_log_prob(self._chain, self._run(_pieces), spans, tf.where(fits, tags, 0))
        right &= tf.reduce_all(fits, axis=1)
        return result + likelihood.nan_unless(right, result.dtype)

    def _span_log_prob(self, rows, starts, lengths, boundaries, of_type, among_kept=False):
        """log p(a span with just these borders is there, its first tag one of `of_type`), [N].

        Args:
            rows, starts, lengths: NumPy integers [N]; lengths are at least 1.
            boundaries: `tags.SpanBoundaries` by which all tags but O are read.
            of_type: bool [N, K].
            among_kept: whether `starts` counts the kept steps only.
        """
        longest = int(max(lengths, default=0))
        spans = Spans(*(_whole_numbers(x, "entities", "[N]") for x in (rows, starts, lengths)))
        right = tf.ones_like(spans.rows, tf.bool)
        if not among_kept:
            spans, right = self._spans(*spans, longest, "entity")
        tables = tf.range(longest + 1), boundaries.starts[:, :-1], boundaries.continues[:-1, :-1]
        tables = map(tf.convert_to_tensor, (*tables, of_type))
        result = _span_log_prob(self._chain, self._run(_pieces), spans, *tables)
        return result + likelihood.nan_unless(right, result.dtype)

    def _spans(self, rows, starts, lengths, longest, name="subpath"):
        """The `Spans`, of length 0 where they break a rule; and [N] bool, which ones do not."""
        batch, steps = tf.unstack(tf.shape(self.mask))
        ends = starts + lengths
        rules = (
            ((rows >= 0) & (rows < batch), "rows must be those of the batch; got {value}", rows),
            (
                (lengths >= 0) & (lengths <= longest),
                "lengths must lie in 0..L; got {value}",
                lengths,
            ),
            (starts >= 0, "starts must be at least 0; got {value}", starts),
            (ends <= steps, f"each {name} must end within its row; got the end {{value}}", ends),
        )
        for right, message, shown in rules:
            refuse_unless(right, message, shown, (name,))
        right = functools.reduce(tf.logical_and, (right for right, *_ in rules))
        rows, starts, lengths = (tf.where(right, x, 0) for x in (rows, starts, lengths))
        kept = self._are_kept(Spans(rows, starts, lengths), longest, name)
        return Spans(rows, self._places(rows, starts, lengths > 0), lengths), right & kept

    def _are_kept(self, spans, longest, name):
        """[N] bool: whether all steps of spans, whose places are steps here, are kept."""
        asked = tf.sequence_mask(spans.lengths, longest)
        steps = spans.places[:, tf.newaxis] + tf.range(longest)
        kept = _at(self.mask, spans.rows, steps, asked) | ~asked
        message = f"each {name} must hold kept steps only; the mask drops step {{value}},"
        refuse_unless(kept, message, steps, (name, "place"))
        return tf.reduce_all(kept, axis=1)

    def _places(self, rows, steps, asked):
        """The places of steps [N] among the kept ones of their rows."""
        if self._steps.places is None:
            return steps
        return _at(self._steps.places, rows, steps[:, tf.newaxis], asked[:, tf.newaxis])[:, 0]


def _asked(rows, starts, tags, lengths):
    """The arguments of `subpath_log_prob` as int32 tensors [N], [N], [N, L] and [N]."""
    tags = _whole_numbers(tags, "tags", "[subpaths, steps]")
    if lengths is None:
        lengths = tf.repeat(tf.shape(tags)[1:], tf.shape(tags)[0])
    named = {"rows": rows, "starts": starts, "lengths": lengths}
    vectors = [_whole_numbers(value, name, "[subpaths]") for name, value in named.items()]
    for name, vector in zip(named, vectors, strict=True):
        if not vector.shape.is_compatible_with(tags.shape[:1]):
            raise ValueError(
                f"{name} must hold one number for each subpath: got {vector.shape} for tags of the "
                f"shape {tags.shape}."
            )
    rows, starts, lengths = vectors
    return rows, starts, tags, lengths


def _whole_numbers(value, name, axes):
    value = checks.tensor(value, name)
    if not value.dtype.is_integer:
        raise TypeError(f"{name} must be whole numbers, got {value.dtype.name}.")
    checks.rank(value, name, axes)
    return tf.cast(tf.clip_by_value(tf.cast(value, tf.int64), -(2**30), 2**30), tf.int32)
