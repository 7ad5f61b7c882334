"""Forward-backward on scaled exponentials: what training runs, wherever floats can hold it.

With weights_t = exp(potentials_t), moves = exp(transitions), and scale_t now and then the largest
of what it divides, else 1, one recurrence goes over time and over reversed time:

    left_1 = exp(start)    left_{t+1} = leaving_t moves    leaving_t = left_t weights_t / scale_t
    right_n = exp(end)     ahead_t = weights_t right_t     total_t = sum_k left_t[k] ahead_t[k]

and every step answers for itself, whatever was scaled off elsewhere:

    p(y_t = k)       = left_t[k] ahead_t[k] / total_t
    p(y_t | y_{t-1}) = moves[y_{t-1}, y_t] ahead_t[y_t] / sum_k moves[y_{t-1}, k] ahead_t[k]
    expected use of transitions = moves ∘ sum_t leaving_{t-1}^T (ahead_t / total_t)

(Rabiner, "A Tutorial on Hidden Markov Models", 1989, equations 27, 37 and section V.A.) Each answer
comes with whether it can be trusted: that nothing which matters to it was too small for its dtype.
Chains are those of `Chain.centered`, exponentials those of `Chain.exponentials`.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import recursions


class FromRight(NamedTuple):
    """What comes in at each step from behind it, up to a factor for each row and step."""

    messages: tf.Tensor  # [B, T, K], exponentials
    trusted: tf.Tensor  # [] bool


def from_right(chain, exponentials):
    """What comes in at each step from behind it."""
    messages = recursions.scaled_messages(exponentials.reverse())
    trusted = recursions.nothing_underflowed(messages, chain.lengths, chain.reverse)
    return FromRight(chain.reverse_time(messages), trusted)


def marginals(exponentials, left, right, weights):
    """p(y_t = k) times the weight [B] of the row, and what of it lies ahead of the messages from
    the left, [B, T, K] both; and whether to trust them. 0 behind a row's length."""
    ahead = exponentials.potentials * right.messages
    total = tf.reduce_sum(left * ahead, axis=-1)
    within = exponentials.within()
    factor = tf.math.divide_no_nan(weights[:, tf.newaxis], total)
    share = ahead * tf.where(within, factor, tf.zeros_like(factor))[..., tf.newaxis]
    # What underflowed on the left is less than the smallest float of a total, then as now.
    trusted = tf.reduce_all(recursions.trusted(total) | ~within) & right.trusted
    return left * share, share, trusted


def summed_edges(exponentials, left, share):
    """The expected use of transitions, given the share of `marginals`.

    That is [K, K], by one matrix product; or [B, T, K, K] where they vary.
    """
    alpha = left * exponentials.potentials
    largest = tf.reduce_max(alpha, axis=-1)
    steps = tf.shape(largest)[1]
    scales = tf.where(recursions.scaled_after(steps), largest, tf.ones_like(largest))
    # Nothing leaves the last step of a row, which stands before the first one of the next.
    is_last = tf.equal(tf.range(steps), steps - 1)
    kept = tf.math.divide_no_nan(tf.where(is_last, tf.zeros_like(scales), 1), scales)
    leaving = alpha * kept[..., tf.newaxis]
    if exponentials.varies:
        behind = tf.roll(leaving, 1, axis=1)[..., tf.newaxis]
        return exponentials.transitions * behind * share[:, :, tf.newaxis]
    leaving, share = (tf.reshape(values, [-1, tf.shape(share)[2]]) for values in (leaving, share))
    return exponentials.transitions * tf.matmul(leaving[:-1], share[1:], transpose_a=True)


def token_log_prob(exponentials, right, arriving, is_chosen):
    """log p(y_t is chosen, given that those before it are), [B, T], 0 behind a row's length; and
    whether to trust it.

    Given exp of what it costs to arrive at each tag from those chosen before, and which are chosen,
    [B, T, K] both. No digits are lost, be the probability near 0 or near 1: nothing is subtracted.
    """
    scores = arriving * exponentials.potentials * right.messages
    chosen = tf.reduce_sum(tf.where(is_chosen, scores, tf.zeros_like(scores)), axis=-1)
    others = tf.reduce_sum(tf.where(is_chosen, tf.zeros_like(scores), scores), axis=-1)
    within = exponentials.within()
    ratio = tf.where(within, tf.math.divide_no_nan(others, chosen), tf.zeros_like(chosen))
    trusted = tf.reduce_all(recursions.trusted(chosen) | ~within) & right.trusted
    return -tf.math.log1p(ratio), trusted
