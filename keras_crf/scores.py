"""Arithmetic on scores, that is logarithms, where -inf forbids."""

import tensorflow as tf


def relative(scores):
    """Scores less the largest of the last axis, if there is one: their exp never overflows."""
    return scores - finite(tf.reduce_max(scores, axis=-1, keepdims=True))


def finite(scores):
    """Zero in place of -inf, so that -inf less it is -inf and not NaN."""
    return tf.where(forbidden(scores), tf.zeros_like(scores), scores)


def forbidden(scores):
    """Where scores are -inf. (A constant -inf would set off tf.debugging.enable_check_numerics.)"""
    return tf.less(scores, scores.dtype.min)


def only_where(allowed, scores):
    """Scores where allowed, and -inf elsewhere. (No constant, see `forbidden`.)"""
    return tf.where(allowed, scores, tf.math.log(tf.cast(allowed, scores.dtype)))


def log(sums):
    """The logarithm, with a gradient of 0 (not NaN) where it is -inf."""
    positive = tf.not_equal(sums, 0)
    of_positive = tf.math.log(tf.where(positive, sums, tf.ones_like(sums)))
    return tf.where(positive, of_positive, tf.stop_gradient(tf.math.log(sums)))


def logsumexp(scores, axis):
    """log sum exp, -inf where all scores are, and with a gradient that is never NaN for that."""
    largest = finite(tf.reduce_max(scores, axis=axis, keepdims=True))
    sums = tf.reduce_sum(tf.exp(scores - largest), axis=axis)
    return log(sums) + tf.squeeze(largest, axis)


def log_softmax(scores):
    """log of each one's share in the sum of exp over the last axis; -inf where the score is.

    Right to the last digit for shares near 1 too, with the largest score, 0, left out of the sum:
    -log1p(the others). The gradient is never NaN, not even where all scores are -inf.
    """
    scores = relative(scores)
    is_largest = tf.equal(
        tf.range(tf.shape(scores)[-1]),
        tf.argmax(scores, axis=-1, output_type=tf.int32)[..., tf.newaxis],
    )
    nothing = tf.zeros_like(scores)
    largest = tf.reduce_sum(tf.where(is_largest, scores, nothing), axis=-1, keepdims=True)
    others = tf.where(is_largest, nothing, tf.exp(scores))
    others = tf.reduce_sum(others, axis=-1, keepdims=True)
    return scores - tf.math.log1p(others + tf.math.expm1(finite(largest)))
