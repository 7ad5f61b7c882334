"""What a path scores, how probable it is, and the closed form of the gradient.

    d log_partition / d potentials  = the marginals
    d log_partition / d transitions = the expected transition counts
    d score / d potentials, d score / d transitions = the counts of the path itself

so the gradient of log p(y) = score(y) - log_partition is what was observed less what was expected,
and nothing larger than [B, T, K] is kept for it (Lafferty, McCallum and Pereira, 2001, section 4;
Sutton and McCallum, "An Introduction to Conditional Random Fields", 2012, equation 5.8).
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_crf import recursions
from keras_crf.recursions import Chain


class Counts(NamedTuple):
    """How often (observed) or how probably (expected) each score of a batch of chains is used."""

    potentials: tf.Tensor  # [B, T, K]
    transitions: tf.Tensor  # [K, K]
    start: tf.Tensor  # [K]
    end: tf.Tensor  # [K]

    def less(self, other):
        """These counts less others."""
        return Counts(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


class Messages(NamedTuple):
    """What comes in at each step from either side: two `recursions.Incoming`, in step order."""

    from_left: recursions.Incoming
    from_right: recursions.Incoming


def messages(chain):
    """The messages of both directions: the same recurrence, over time and over reversed time."""
    return Messages(recursions.incoming(chain), incoming_from_right(chain))


def incoming_from_right(chain):
    """What comes in at each step from the steps behind it: scaled log beta."""
    incoming = recursions.incoming(chain.reverse())
    return recursions.Incoming(*(chain.reverse_time(values) for values in incoming))


def total(terms):
    """The sum over time, [B, T] -> [B], exact enough for rows of any length."""
    return tf.cast(tf.reduce_sum(tf.cast(terms, tf.float64), axis=1), terms.dtype)


def within_only(chain, values):
    """Values [B, T, ...] with zeros behind each row's length."""
    within = chain.within()[(..., *[tf.newaxis] * (values.shape.rank - 2))]
    return tf.where(within, values, tf.zeros_like(values))


def at_last(chain, values):
    """Values [B, T, ...] with zeros at all steps but the last within each row's length."""
    steps = tf.range(tf.shape(values)[1])
    last = tf.equal(steps, chain.lengths[:, tf.newaxis] - 1)
    last = last[(..., *[tf.newaxis] * (values.shape.rank - 2))]
    return tf.where(last, values, tf.zeros_like(values))


def a_step_later(values, first=0):
    """Values [B, T, ...], each at the step behind its own; `first` at the first step."""
    paddings = [[0, 0], [1, 0]] + [[0, 0]] * (values.shape.rank - 2)
    return tf.pad(values, paddings, constant_values=first)[:, :-1]


def picked(scores, tags):
    """scores[b, t, tags[b, t]], gathered from the flattened scores: [B, T]."""
    shape = tf.shape(scores)
    places = tf.reshape(tf.range(shape[0] * shape[1]), shape[:2]) * shape[2] + tags
    return tf.gather(tf.reshape(scores, [-1]), places)


def arriving_scores(chain, tags):
    """What it costs to arrive at each tag, given the tag before: [B, T, K].

    A row of `transitions`, or `start` where nothing stands before.
    """
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
    return total(potentials + arrival)


def _partition(chain, from_right):
    """log_partition, [B]: what was scaled off, and what is left at the first step, with `start`."""
    first = chain.start + chain.potentials[:, :1] + from_right.messages[:, :1]
    left = recursions.logsumexp(first, axis=-1)
    scales = tf.concat([left, from_right.scales[:, 1:]], axis=1)
    return total(within_only(chain, scales))


def log_partition(chain):
    """log of the sum of exp(score) over all paths, [B], with the closed-form gradient."""

    @tf.custom_gradient
    def value(*scores):
        mine = Chain(*scores, chain.lengths)
        from_right = incoming_from_right(mine)

        def gradient(upstream):
            both = Messages(recursions.incoming(mine), from_right)
            return expected_counts(mine, both, upstream)

        return _partition(mine, from_right), gradient

    return value(*chain[:4])


def log_prob(chain, tags):
    """log p(tags), [B], as the sum of `token_log_prob`, with the closed-form gradient."""

    @tf.custom_gradient
    def value(*scores):
        mine = Chain(*scores, chain.lengths)
        from_right = incoming_from_right(mine)

        def gradient(upstream):
            both = Messages(recursions.incoming(mine), from_right)
            observed = observed_counts(mine, tags, upstream)
            return observed.less(expected_counts(mine, both, upstream))

        return total(token_log_prob(mine, from_right, tags)), gradient

    return value(*chain[:4])


def not_a_number(chain):
    """[B]: NaN for the rows with NaN or +inf among their scores, else 0."""
    shared = [tf.reduce_all(scores < np.inf) for scores in chain[1:4]]
    right = tf.reduce_all(chain.potentials < np.inf, axis=[1, 2]) & tf.reduce_all(shared)
    return tf.where(right, tf.zeros([], chain.potentials.dtype), np.nan)


def token_log_prob(chain, from_right, tags):
    """log p(y_t given the tags before it, and x), [B, T]; 0 behind a row's length.

    Given the tags before it, a step's tag is a softmax: what it costs to arrive at the tag, its
    potential, and what comes in from the right. A sum of such terms, none above 0, keeps the digits
    that score - log_partition, a difference of two large numbers, would lose.
    """
    ahead = chain.potentials + from_right.messages
    scores = recursions.relative(arriving_scores(chain, tags) + ahead)
    chosen = picked(scores, tags)
    is_other = tf.not_equal(tf.range(tf.shape(scores)[2]), tags[..., tf.newaxis])
    others = tf.reduce_sum(tf.where(is_other, tf.exp(scores), tf.zeros_like(scores)), axis=-1)
    # The largest score is 0: with it chosen, this is -log1p(others), right to the last digit.
    log_probs = chosen - tf.math.log1p(others + tf.math.expm1(chosen))
    log_probs = tf.where(tf.equal(chosen, -np.inf), chosen, log_probs)
    return within_only(chain, log_probs)


def log_alpha(chain):
    """log alpha, [B, T, K]: the scores of all that may stand up to each step."""
    return within_only(chain, chain.potentials + _unscaled(recursions.incoming(chain)))


def log_beta(chain):
    """log beta, [B, T, K]: the scores of all that may stand behind each step."""
    beta = chain.reverse_time(_unscaled(recursions.incoming(chain.reverse())))
    return within_only(chain, beta)


def _unscaled(incoming):
    """The messages with what was scaled off before them added again."""
    scales = tf.cumsum(tf.cast(incoming.scales, tf.float64), axis=1, exclusive=True)
    return incoming.messages + tf.cast(scales, incoming.messages.dtype)[..., tf.newaxis]


def marginals(chain, both):
    """p(y_t = k given x), [B, T, K]; 0 behind a row's length, and where no path is legal."""
    scores = chain.potentials + both.from_left.messages + both.from_right.messages
    weights = tf.exp(recursions.relative(scores))
    probabilities = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=-1, keepdims=True))
    return within_only(chain, probabilities)


def edge_marginals(chain, both):
    """p(y_{t-1} = i, y_t = j given x) at [b, t, i, j], [B, T, K, K]; 0 at first steps."""
    alpha = a_step_later(_scaled_alpha(chain, both))[:, :, :, tf.newaxis]
    incoming = both.from_left.messages[:, :, tf.newaxis]
    ahead = marginals(chain, both)[:, :, tf.newaxis]
    edges = _edges(alpha, chain.transitions, incoming, ahead)
    is_first = tf.equal(tf.range(tf.shape(edges)[1]), 0)
    return tf.where(is_first[:, tf.newaxis, tf.newaxis], tf.zeros_like(edges), edges)


def _edges(alpha, transitions, incoming, marginals):
    """exp(alpha_{t-1}[i] + transitions[i, j] - incoming_t[j]) p(y_t = j), over i and j."""
    behind = alpha + transitions - recursions.finite(incoming)
    return tf.exp(behind + recursions.log(marginals))


def _scaled_alpha(chain, both):
    """alpha less its scale, [B, T, K]: what goes into the next step; 0 behind a row's length."""
    alpha = chain.potentials + both.from_left.messages - both.from_left.scales[..., tf.newaxis]
    return within_only(chain, alpha)


def expected_counts(chain, both, weights):
    """The expected use of each score, rows weighted by `weights` [B]."""
    uses = marginals(chain, both)
    weighted = uses * weights[:, tf.newaxis, tf.newaxis]
    transitions = _expected_transitions(chain, both, uses, weights)
    return Counts(weighted, transitions, *_ends(chain, weighted))


def observed_counts(chain, tags, weights):
    """The use of each score by the path `tags`, rows weighted by `weights` [B]."""
    number_of_tags = tf.shape(chain.start)[0]
    step_weights = within_only(
        chain, tf.zeros_like(chain.potentials[..., 0]) + weights[:, tf.newaxis]
    )
    used = tf.one_hot(tags, number_of_tags, dtype=weights.dtype) * step_weights[..., tf.newaxis]
    pairs = tf.stack([tags[:, :-1], tags[:, 1:]], axis=-1)
    transitions = tf.scatter_nd(pairs, step_weights[:, 1:], [number_of_tags, number_of_tags])
    return Counts(used, transitions, *_ends(chain, used))


def _ends(chain, uses):
    """The uses [B, T, K] at first and at last steps, summed: [K] and [K]."""
    return tf.reduce_sum(uses[:, :1], [0, 1]), tf.reduce_sum(at_last(chain, uses), [0, 1])


def _summed_products(left, right):
    """sum over rows and steps of left[b, t, i] right[b, t, j]: [K, K], by one matrix product."""
    tags = tf.shape(left)[2]
    flat_left, flat_right = (tf.reshape(values, [-1, tags]) for values in (left, right))
    return tf.matmul(flat_left, flat_right, transpose_a=True)


def _expected_transitions(chain, both, uses, weights):
    """The weighted sum of the edge marginals, [K, K], without any [B, T, K, K]."""
    alpha = _scaled_alpha(chain, both)[:, :-1]
    incoming = within_only(chain, both.from_left.messages)[:, 1:]
    uses = uses[:, 1:]
    shift = recursions.largest_transition(chain)
    scaled = tf.exp(incoming - shift)
    trusted = scaled >= recursions.smallest_trusted(scaled.dtype)
    trusted |= tf.equal(incoming, -np.inf) | ~chain.within()[:, 1:, tf.newaxis]

    def by_one_product():
        ahead = tf.math.divide_no_nan(uses, scaled) * weights[:, tf.newaxis, tf.newaxis]
        return tf.exp(chain.transitions - shift) * _summed_products(tf.exp(alpha), ahead)

    def step_by_step():
        def cell(inputs, counts, _):
            alpha, incoming, uses = inputs
            edges = _edges(
                alpha[:, :, tf.newaxis],
                chain.transitions,
                incoming[:, tf.newaxis],
                uses[:, tf.newaxis],
            )
            return uses[:, 0], counts + edges

        none = chain.at_each_row(tf.zeros_like(chain.transitions))
        _, counts = recursions.scan(cell, [alpha, incoming, uses], none, none.dtype, 1)
        return tf.reduce_sum(counts * weights[:, tf.newaxis, tf.newaxis], axis=0)

    return tf.cond(tf.reduce_all(trusted), by_one_product, step_by_step)
