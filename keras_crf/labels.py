"""Labels: what is known of the true path of each row, and how probable that is.

Tags [B, T] say all of it; allowed sets [B, T, K] say where each tag lies. With `arriving_t` the
scores of all that may stand before step t and agrees with the labels there,

    p(labels) = prod_t p(y_t agrees, given that those before it do)
    p(y_t agrees | ...) = sum over k that agree / sum over all k of exp(arriving_t + ahead_t)[k]

For tags arriving_t is a row of `transitions`; for sets it is what comes in at each step of the
chain that is restricted to them. The gradient of log p(labels) is what is expected of the paths
that agree, which for tags is the path itself, less what is expected of all paths.

(Partial labels: Tsuboi, Kashima, Mori, Oda and Matsumoto, "Training Conditional Random Fields Using
Incomplete Annotations", 2008, equation 2.)
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import forward_backward, messages, recursions
from keras_crf.branches import seldom
from keras_crf.chain import Chain
from keras_crf.graphs import custom_gradient
from keras_crf.likelihood import (
    arriving_scores,
    marginals,
    not_a_number,
    observed_counts,
    scaled_counts,
    total,
    within_only,
)
from keras_crf.scores import forbidden, log, only_where, relative


class Arriving(NamedTuple):
    """What comes in at each step from those before it that agree with the labels."""

    messages: tf.Tensor  # [B, T, K], exponentials
    trusted: tf.Tensor  # [] bool


def agreeing(chain, labels):
    """[B, T, K] bool: which tags agree with the labels, tags [B, T] or sets [B, T, K]."""
    if labels.shape.rank == 3:
        return labels
    return tf.equal(tf.range(tf.shape(chain.potentials)[2]), labels[..., tf.newaxis])


def restricted(chain, allowed):
    """The chain without the tags that are not allowed."""
    return chain._replace(potentials=only_where(allowed, chain.potentials))


def log_prob(chain, labels):
    """log p(labels), [B], as the sum of `token_log_prob`, with the closed-form gradient."""

    @custom_gradient
    def value(labels, *scores_and_lengths):
        labels = tf.identity(labels)
        mine = Chain(*map(tf.identity, scores_and_lengths))
        centered, _ = mine.centered()
        exponentials = centered.exponentials()
        right = forward_backward.from_right(centered, exponentials)
        arriving = _arriving(centered, exponentials, labels)

        def gradient(upstream):
            if labels.shape.rank == 3:
                upstream *= _says_something(mine, labels)
            left = recursions.scaled_messages(exponentials)
            expected = scaled_counts(centered, exponentials, left, right, upstream)
            agreed = _agreeing_counts(centered, exponentials, labels, arriving, upstream)
            return None, *agreed.less(expected), None

        result = labels_log_prob(mine, exponentials, right, labels, arriving)
        return tf.stop_gradient(result), gradient

    return value(labels, *chain)


def _says_something(chain, labels):
    """[B]: 1 for rows whose labels do not agree with every tag, else 0."""
    disagree = ~agreeing(chain, labels) & chain.within()[..., tf.newaxis]
    return tf.cast(tf.reduce_any(disagree, axis=[1, 2]), chain.potentials.dtype)


def labels_log_prob(chain, exponentials, right, labels, arriving):
    """log p(labels), [B], given the exponentials of the chain and what comes in from both sides.

    In float64 where scores lie so far apart that the sums of one step lose digits in float32.
    """
    chosen = agreeing(chain, labels)
    terms, trusted = forward_backward.token_log_prob(exponentials, right, arriving.messages, chosen)

    def in_float64():
        return total(token_log_prob(chain.cast(tf.float64), labels), chain.potentials.dtype)

    return tf.cond(trusted & arriving.trusted, lambda: total(terms), seldom(in_float64))


def _restricted_exponentials(exponentials, allowed):
    zeros = tf.zeros_like(exponentials.potentials)
    return exponentials._replace(potentials=tf.where(allowed, exponentials.potentials, zeros))


def _arriving(chain, exponentials, labels):
    """exp of what it costs to arrive at each tag of a centered chain."""
    if labels.shape.rank == 2:
        return Arriving(arriving_scores(exponentials, labels), True)
    scaled = recursions.scaled_messages(_restricted_exponentials(exponentials, labels))
    trusted = recursions.nothing_underflowed(
        scaled, chain.lengths, lambda: restricted(chain, labels)
    )
    return Arriving(scaled, trusted)


def _agreeing_counts(chain, exponentials, labels, arriving, weights):
    """The expected use of each score by the paths that agree, rows weighted by `weights` [B]."""
    if labels.shape.rank == 2:
        return observed_counts(chain, labels, weights)
    exponentials = _restricted_exponentials(exponentials, labels)
    chain = restricted(chain, labels)
    right = forward_backward.from_right(chain, exponentials)
    return scaled_counts(chain, exponentials, arriving.messages, right, weights)


def token_log_prob(chain, labels):
    """log p(y_t agrees with the labels, given that those before it do), [B, T]; 0 behind a row's
    length.

    A sum of such terms, none above 0, keeps the digits that score - log_partition, a difference of
    two large numbers, would lose.
    """
    centered, _ = chain.centered()
    arriving = (
        arriving_scores(centered, labels)
        if labels.shape.rank == 2
        else messages.from_left(restricted(centered, labels).centered()[0]).messages
    )
    scores = relative(arriving + centered.potentials + messages.from_right(centered).messages)
    shares = _log_share(scores, agreeing(chain, labels))
    return within_only(chain, shares + not_a_number(chain)[:, tf.newaxis])


def _log_share(scores, is_chosen):
    """log of the share of the chosen in the sum of exp(scores), of which the largest is 0."""
    none = tf.zeros_like(scores)
    others = tf.reduce_sum(tf.where(is_chosen, none, tf.exp(scores)), axis=-1)
    chosen = _logsumexp_of(scores, is_chosen)
    impossible = forbidden(chosen)
    legal = tf.where(impossible, tf.zeros_like(chosen), chosen)
    # The largest score is 0: with it chosen, this is -log1p(others), right to the last digit.
    log_share = legal - tf.math.log1p(others + tf.math.expm1(legal))
    log_share = tf.where(tf.equal(others, 0), tf.zeros_like(others), log_share)
    return tf.where(impossible, chosen, log_share)


def _logsumexp_of(scores, is_chosen):
    """log sum exp of the chosen scores [..., K]; -inf where there are none but -inf."""
    none = tf.zeros_like(scores)
    legal = is_chosen & ~forbidden(scores)
    largest = tf.reduce_max(tf.where(legal, scores, scores.dtype.min), axis=-1, keepdims=True)
    largest = tf.stop_gradient(
        tf.where(tf.equal(largest, scores.dtype.min), tf.zeros_like(largest), largest)
    )
    weights = tf.exp(tf.where(legal, scores - largest, none))
    return log(tf.reduce_sum(tf.where(legal, weights, none), axis=-1)) + largest[..., 0]


def tagging(chain):
    """The best path [B, T], p(y_t = k) [B, T, K] and log p(best path) [B], by one loop each way."""
    centered, _ = chain.centered()
    exponentials = centered.exponentials()
    best, left, right = recursions.three_messages(centered, exponentials)
    tags = recursions.viterbi_way_back(centered, best)
    trusted = recursions.nothing_underflowed(
        chain.reverse_time(right), chain.lengths, centered.reverse
    )
    right = forward_backward.FromRight(right, trusted)
    once = tf.ones_like(chain.lengths, chain.potentials.dtype)
    uses, _, trusted = forward_backward.marginals(exponentials, left, right, once)
    by_logarithms = seldom(lambda: marginals(*messages.both_ways(centered)))
    uses = tf.cond(trusted, lambda: uses, by_logarithms)
    arriving = _arriving(centered, exponentials, tags)
    return tags, uses, labels_log_prob(chain, exponentials, right, tags, arriving)
