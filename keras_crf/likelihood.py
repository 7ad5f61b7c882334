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
    """What comes in at each step from either side, [B, T, K], as `recursions.incoming` has it."""

    from_left: tf.Tensor
    from_right: tf.Tensor


def messages(chain):
    """The messages of both directions: the same recurrence, over time and over reversed time."""
    return Messages(recursions.incoming(chain), incoming_from_right(chain))


def incoming_from_right(chain):
    """What comes in at each step from the steps behind it: [B, T, K], relative log beta."""
    return tf.reverse(recursions.incoming(chain.reverse()), [1])


def total(terms):
    """The sum over time, [B, T] -> [B], exact enough for rows of any length."""
    return tf.cast(tf.reduce_sum(tf.cast(terms, tf.float64), axis=1), terms.dtype)


def kept_only(chain, values):
    """Values [B, T, ...] with zeros on the dropped steps."""
    mask = chain.mask[(..., *[tf.newaxis] * (values.shape.rank - 2))]
    return tf.where(mask, values, tf.zeros_like(values))


def first_kept(chain):
    """[B, T] bool: true at the first kept step of each row."""
    return chain.mask & (recursions.previous_kept(chain.mask) < 0)


def last_kept(chain):
    """[B, T] bool: true at the last kept step of each row."""
    return tf.reverse(first_kept(chain.reverse()), [1])


def picked(scores, tags):
    """scores[b, t, tags[b, t]], gathered from the flattened scores: [B, T]."""
    shape = tf.shape(scores)
    places = tf.reshape(tf.range(shape[0] * shape[1]), shape[:2]) * shape[2] + tags
    return tf.gather(tf.reshape(scores, [-1]), places)


def arriving_scores(chain, tags):
    """What each step's tag would cost to arrive at, given the kept tag before: [B, T, K].

    A row of `transitions`, or `start` where nothing was kept before.
    """
    previous = recursions.previous_kept(chain.mask)
    previous_tags = tf.gather(tags, tf.maximum(previous, 0), batch_dims=1)
    behind = tf.gather(chain.transitions, previous_tags)
    return tf.where(previous[..., tf.newaxis] < 0, chain.start, behind)


def contributions(chain, tags):
    """What each step's potential and its arrival (at the last step also `end`) give: two [B, T]."""
    potentials = picked(chain.potentials, tags)
    arrival = picked(arriving_scores(chain, tags), tags)
    leaving = tf.where(last_kept(chain), tf.gather(chain.end, tags), tf.zeros_like(arrival))
    return kept_only(chain, potentials), kept_only(chain, arrival + leaving)


def score(chain, tags):
    """The unnormalised score of the path, [B]."""
    potentials, arrival = contributions(chain, tags)
    return total(potentials + arrival)


def partition_terms(chain, from_right):
    """[B, T] terms whose sum is log_partition: what was scaled off, and what is left at the end.

    The recurrence from the right ends at the first kept step, where `start` closes it.
    """
    scales = recursions.scales(chain, from_right)
    alpha = chain.start + recursions.relative(chain.potentials + from_right)
    rest = tf.where(first_kept(chain), recursions.logsumexp(alpha, axis=-1), tf.zeros_like(scales))
    return scales + rest


def log_partition(chain):
    """log of the sum of exp(score) over all paths, [B], with the closed-form gradient."""

    @tf.custom_gradient
    def value(*scores):
        mine = Chain(*scores, chain.mask)
        from_right = incoming_from_right(mine)

        def gradient(upstream):
            both = Messages(recursions.incoming(mine), from_right)
            return expected_counts(mine, both, upstream)

        return total(partition_terms(mine, from_right)), gradient

    return value(*chain[:4])


def log_prob(chain, tags):
    """log p(tags), [B], as the sum of `token_log_prob`, with the closed-form gradient."""

    @tf.custom_gradient
    def value(*scores):
        mine = Chain(*scores, chain.mask)
        from_right = incoming_from_right(mine)

        def gradient(upstream):
            both = Messages(recursions.incoming(mine), from_right)
            observed = observed_counts(mine, tags, upstream)
            return observed.less(expected_counts(mine, both, upstream))

        return total(token_log_prob(mine, from_right, tags)), gradient

    return value(*chain[:4])


def not_a_number(chain):
    """[B]: NaN for the rows with a NaN among their scores, else 0."""
    shared = [tf.reduce_any(tf.math.is_nan(scores)) for scores in chain[1:4]]
    wrong = tf.reduce_any(tf.math.is_nan(chain.potentials), axis=[1, 2]) | tf.reduce_any(shared)
    return tf.where(wrong, tf.constant(np.nan, chain.potentials.dtype), 0)


def token_log_prob(chain, from_right, tags):
    """log p(y_t given the tags before it, and x), [B, T]; 0 on dropped steps.

    Given the tags before it, a step's tag is a softmax: what it costs to arrive at the tag, its
    potential, and what comes in from the right. A sum of such terms, none above 0, keeps the digits
    that score - log_partition, a difference of two large numbers, would lose.
    """
    scores = arriving_scores(chain, tags) + recursions.relative(chain.potentials + from_right)
    scores = recursions.relative(scores)
    chosen = picked(scores, tags)
    is_other = tf.not_equal(tf.range(tf.shape(scores)[2]), tags[..., tf.newaxis])
    others = tf.reduce_sum(tf.where(is_other, tf.exp(scores), tf.zeros_like(scores)), axis=-1)
    # The largest score is 0: with it chosen, this is -log1p(others), right to the last digit.
    log_probs = chosen - tf.math.log1p(others + tf.math.expm1(chosen))
    log_probs = tf.where(tf.equal(chosen, -np.inf), chosen, log_probs)
    return kept_only(chain, log_probs)


def log_alpha(chain):
    """log alpha, [B, T, K]: what was scaled off before a step is added again."""
    from_left = recursions.incoming(chain)
    scales = tf.cast(recursions.scales(chain, from_left), tf.float64)
    scaled_off = tf.cast(tf.cumsum(scales, axis=1, exclusive=True), from_left.dtype)
    return kept_only(chain, chain.potentials + from_left + scaled_off[..., tf.newaxis])


def log_beta(chain):
    """log beta, [B, T, K]: alpha of the chain read from the right, less the step's potentials."""
    return kept_only(chain, tf.reverse(log_alpha(chain.reverse()), [1]) - chain.potentials)


def marginals(chain, both):
    """p(y_t = k given x), [B, T, K]; 0 on dropped steps and where there is no legal path."""
    weights = tf.exp(recursions.relative(chain.potentials + both.from_left + both.from_right))
    probabilities = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=-1, keepdims=True))
    return kept_only(chain, probabilities)


def edge_marginals(chain, both):
    """p(y_s = i, y_t = j given x), s the kept step before t, at [b, t-1, i, j]: [B, T-1, K, K]."""
    alpha, entered = _alpha_before(chain, both)
    edges = _edges(
        alpha[:, :, :, tf.newaxis],
        chain.transitions,
        both.from_left[:, :, tf.newaxis],
        marginals(chain, both)[:, :, tf.newaxis],
    )
    return tf.where(entered[..., tf.newaxis], edges, tf.zeros_like(edges))[:, 1:]


def _edges(alpha, transitions, incoming, marginals):
    """p(y_s = i, y_t = j) = exp(alpha_s[i] + transitions[i, j] - incoming_t[j]) p(y_t = j)."""
    return tf.exp(alpha + transitions - recursions.finite(incoming)) * marginals


def _alpha_before(chain, both):
    """alpha of the kept step before each step, [B, T, K], and whether there is one, [B, T, 1]."""
    previous = recursions.previous_kept(chain.mask)
    alpha = recursions.relative(chain.potentials + both.from_left)
    entered = (chain.mask & (previous >= 0))[..., tf.newaxis]
    return tf.gather(alpha, tf.maximum(previous, 0), batch_dims=1), entered


def expected_counts(chain, both, weights):
    """The expected use of each score, rows weighted by `weights` [B]."""
    weighted = marginals(chain, both) * weights[:, tf.newaxis, tf.newaxis]
    return Counts(weighted, _expected_transitions(chain, both, weighted), *_ends(chain, weighted))


def observed_counts(chain, tags, weights):
    """The use of each score by the path `tags`, rows weighted by `weights` [B]."""
    used = kept_only(chain, tf.one_hot(tags, tf.shape(chain.start)[0], dtype=weights.dtype))
    weighted = used * weights[:, tf.newaxis, tf.newaxis]
    previous = recursions.previous_kept(chain.mask)
    used_before = tf.gather(used, tf.maximum(previous, 0), batch_dims=1)
    used_before = tf.where(previous[..., tf.newaxis] < 0, tf.zeros_like(used), used_before)
    return Counts(weighted, _summed_products(used_before, weighted), *_ends(chain, weighted))


def _ends(chain, uses):
    """The uses [B, T, K] of first and of last kept steps, summed: [K] and [K]."""
    for_start = tf.where(first_kept(chain)[..., tf.newaxis], uses, tf.zeros_like(uses))
    for_end = tf.where(last_kept(chain)[..., tf.newaxis], uses, tf.zeros_like(uses))
    return tf.reduce_sum(for_start, [0, 1]), tf.reduce_sum(for_end, [0, 1])


def _summed_products(left, right):
    """sum over rows and steps of left[b, t, i] right[b, t, j]: [K, K], by one matrix product."""
    tags = tf.shape(left)[2]
    flat_left, flat_right = (tf.reshape(values, [-1, tags]) for values in (left, right))
    return tf.matmul(flat_left, flat_right, transpose_a=True)


def _expected_transitions(chain, both, weighted):
    """The sum of the edge marginals, [K, K], without any [B, T, K, K]."""
    alpha, entered = _alpha_before(chain, both)
    shift = recursions.transition_shift(chain)
    scaled = tf.exp(both.from_left - shift)
    trusted = scaled >= recursions.smallest_trusted(scaled.dtype)
    trusted |= tf.equal(both.from_left, -np.inf) | ~entered

    def by_one_product():
        zeros = tf.zeros_like(scaled)
        behind = tf.where(entered, tf.exp(alpha), zeros)
        ahead = tf.where(entered, tf.math.divide_no_nan(weighted, scaled), zeros)
        return tf.exp(chain.transitions - shift) * _summed_products(behind, ahead)

    def step_by_step():
        def cell(inputs, counts):
            alpha, incoming, weighted = inputs
            edges = _edges(
                alpha[:, :, tf.newaxis],
                chain.transitions,
                incoming[:, tf.newaxis],
                weighted[:, tf.newaxis],
            )
            return weighted[:, 0], counts + edges

        none = chain.at_each_row(tf.zeros_like(chain.transitions))
        inputs = [alpha, both.from_left, weighted]
        _, counts = recursions.scan(cell, inputs, none, entered[..., 0], none.dtype)
        return tf.reduce_sum(counts, axis=0)

    return tf.cond(tf.reduce_all(trusted), by_one_product, step_by_step)
