"""What a path scores, how probable it is, and the closed form of the gradient.

    d log_partition / d potentials  = the marginals
    d log_partition / d transitions = the expected transition counts
    d score / d potentials, d score / d transitions = the counts of the path itself

so the gradient of log p(y) = score(y) - log_partition is what was observed less what was expected,
and nothing larger than [B, T, K] is kept for it (Lafferty, McCallum and Pereira, 2001, section 4;
Sutton and McCallum, "An Introduction to Conditional Random Fields", 2012, equation 5.8).
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import forward_backward, messages
from keras_crf.chain import Chain, a_step_later
from keras_crf.graphs import custom_gradient
from keras_crf.packing import only
from keras_crf.scores import logsumexp, relative


class Counts(NamedTuple):
    """How often (observed) or how probably (expected) each score of a batch of chains is used."""

    potentials: tf.Tensor  # [B, T, K]
    transitions: tf.Tensor  # [K, K]
    start: tf.Tensor  # [K]
    end: tf.Tensor  # [K]

    def plus(self, other):
        """These counts and others."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def less(self, other):
        """These counts less others."""
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


def total(terms, dtype=None):
    """The sum over time, [B, T] -> [B], exact enough for rows of any length."""
    return tf.cast(tf.reduce_sum(tf.cast(terms, tf.float64), axis=1), dtype or terms.dtype)


def within_only(chain, values):
    """Values [B, T, ...] with zeros behind each row's length."""
    return only(values, chain.within())


def at_last(chain, values):
    """Values [B, T, ...] with zeros at all steps but the last within each row's length."""
    return only(values, chain.at_last())


def picked(scores, tags):
    """scores[b, t, tags[b, t]], gathered from the flattened scores: [B, T]."""
    shape = tf.shape(scores)
    places = tf.reshape(tf.range(shape[0] * shape[1]), shape[:2]) * shape[2] + tags
    return tf.gather(tf.reshape(scores, [-1]), places)


def arriving_scores(chain, tags):
    """What it costs to arrive at each tag, given the tag before: [B, T, K].

    A row of `transitions`, or `start` where nothing stands before.
    """
    if chain.varies:
        arriving = tf.gather(chain.transitions, a_step_later(tags), batch_dims=2)
        return tf.where(chain.at_first()[..., tf.newaxis], chain.start, arriving)
    rows = tf.concat([chain.transitions, chain.start[tf.newaxis]], axis=0)
    return tf.gather(rows, a_step_later(tags, first=tf.shape(chain.start)[0]))


def contributions(chain, tags):
    """What each step's potential and its arrival (at the last step also `end`) give: two [B, T]."""
    potentials = picked(chain.potentials, tags)
    arrival = picked(arriving_scores(chain, tags), tags)
    leaving = at_last(chain, tf.gather(chain.end, tags))
    return within_only(chain, potentials), within_only(chain, arrival + leaving)


def score(chain, tags):
    """The unnormalised score of the path, [B]."""
    potentials, arrival = contributions(chain, tags)
    terms = tf.cast(potentials, tf.float64) + tf.cast(arrival, tf.float64)
    return total(terms, chain.potentials.dtype)


def _partition(chain, shifts, from_right):
    """log_partition of a centered chain and its shifts, [B]: all that was taken off.

    That is by centering, by scaling, and what is left at the first step.
    """
    first = chain.start + chain.potentials[:, :1] + from_right.messages[:, :1]
    ends = tf.cast(logsumexp(first, axis=-1), tf.float64)
    ends += tf.cast(shifts.start, tf.float64) + tf.cast(shifts.end, tf.float64)
    moves = tf.cast(from_right.scales, tf.float64) + tf.cast(shifts.transitions, tf.float64)
    terms = tf.concat([ends, moves[:, 1:]], axis=1) + tf.cast(shifts.potentials, tf.float64)
    return total(within_only(chain, terms), chain.potentials.dtype)


def log_partition(chain):
    """log of the sum of exp(score) over all paths, [B], with the closed-form gradient."""

    @custom_gradient
    def value(*scores_and_lengths):
        centered, shifts = Chain(*map(tf.identity, scores_and_lengths)).centered()
        from_right = messages.from_right(centered)

        def gradient(upstream):
            both = messages.Messages(messages.from_left(centered), from_right)
            return *expected_counts(centered, both, upstream), None

        return tf.stop_gradient(_partition(centered, shifts, from_right)), gradient

    return value(*chain)


def nan_unless(right, dtype):
    """0 where `right`, else NaN: to be added to results."""
    return tf.math.log(tf.where(right, tf.ones([], dtype), -tf.ones([], dtype)))


def not_a_number(chain):
    """[B]: NaN for the rows with NaN or +inf among their scores, else 0."""
    largest = chain.potentials.dtype.max
    shared = [tf.reduce_all(scores <= largest) for scores in chain[1:4]]
    right = tf.reduce_all(chain.potentials <= largest, axis=[1, 2]) & tf.reduce_all(shared)
    return nan_unless(right, chain.potentials.dtype)


def log_alpha(chain):
    """log alpha, [B, T, K]: the scores of all that may stand up to each step."""
    return within_only(chain, chain.potentials + _log_incoming(chain))


def log_beta(chain):
    """log beta, [B, T, K]: the scores of all that may stand behind each step."""
    return within_only(chain, chain.reverse_time(_log_incoming(chain.reverse())))


def _log_incoming(chain):
    """What comes in at each step, [B, T, K], with all that was taken off before it added again."""
    centered, shifts = chain.centered()
    incoming = messages.from_left(centered)
    taken_off = tf.cast(incoming.scales, tf.float64) + tf.cast(shifts.potentials, tf.float64)
    moves = tf.cast(shifts.transitions, tf.float64)
    taken_off += tf.roll(moves, -1, axis=1) if chain.varies else moves
    taken_off = tf.cumsum(taken_off, axis=1, exclusive=True) + tf.cast(shifts.start, tf.float64)
    return incoming.messages + tf.cast(taken_off, chain.potentials.dtype)[..., tf.newaxis]


def marginals(chain, both):
    """p(y_t = k given x), [B, T, K]; 0 behind a row's length, and where no path is legal."""
    scores = chain.potentials + both.from_left.messages + both.from_right.messages
    weights = tf.exp(relative(scores))
    probabilities = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=-1, keepdims=True))
    return within_only(chain, probabilities)


def edge_marginals(chain, both):
    """p(y_{t-1} = i, y_t = j given x) at [b, t, i, j], [B, T, K, K]; 0 at first steps."""
    return messages.each_edge(chain, both.from_left, marginals(chain, both))


def expected_counts(chain, both, weights):
    """The expected use of each score, rows weighted by `weights` [B]."""
    uses = marginals(chain, both) * weights[:, tf.newaxis, tf.newaxis]
    transitions = messages.summed_edges(chain, both.from_left, uses)
    return Counts(uses, transitions, *_ends(chain, uses))


def scaled_counts(chain, exponentials, left, right, weights):
    """`expected_counts` by forward-backward on exponentials, where it can be trusted."""
    uses, share, trusted = forward_backward.marginals(exponentials, left, right, weights)

    def by_exponentials():
        transitions = forward_backward.summed_edges(exponentials, left, share)
        return Counts(uses, transitions, *_ends(chain, uses))

    def by_logarithms():
        return expected_counts(*messages.both_ways(chain), weights)

    return tf.cond(trusted, by_exponentials, by_logarithms)


def observed_counts(chain, tags, weights):
    """The use of each score by the path `tags`, rows weighted by `weights` [B]."""
    number_of_tags = tf.shape(chain.start)[0]
    step_weights = tf.zeros_like(chain.potentials[..., 0]) + weights[:, tf.newaxis]
    step_weights = within_only(chain, step_weights)
    uses = tf.one_hot(tags, number_of_tags, dtype=weights.dtype) * step_weights[..., tf.newaxis]
    if chain.varies:
        before = tf.one_hot(a_step_later(tags, -1), number_of_tags, dtype=weights.dtype)
        transitions = before[..., tf.newaxis] * uses[:, :, tf.newaxis]
    else:
        pairs = tf.stack([tags[:, :-1], tags[:, 1:]], axis=-1)
        transitions = tf.scatter_nd(pairs, step_weights[:, 1:], [number_of_tags, number_of_tags])
    return Counts(uses, transitions, *_ends(chain, uses))


def _ends(chain, uses):
    """The uses [B, T, K] at first and at last steps, summed: [K] and [K]."""
    return tf.reduce_sum(uses[:, :1], [0, 1]), tf.reduce_sum(at_last(chain, uses), [0, 1])
