"""Paths drawn from the distribution: messages from the right, then tag by tag from the left.

    p(y_1)           ∝ exp(start[y_1] + potentials_1[y_1] + beta_1[y_1])
    p(y_t | y_{t-1}) ∝ exp(transitions[y_{t-1}, y_t] + potentials_t[y_t] + beta_t[y_t])

Each step takes one uniform number u for each path, and the first tag at which the cumulated
probabilities exceed u. The numbers of a step come from a seed of its own, row by row: they depend
neither on how many steps a row is filled up to, nor on the rows behind it.

Rabiner, "A Tutorial on Hidden Markov Models", 1989 (beta: equation 25); Frühwirth-Schnatter, "Data
Augmentation and Dynamic Linear Models", 1994 (the same with time reversed).
"""

import tensorflow as tf

from keras_crf import likelihood, messages
from keras_crf.chain import row
from keras_crf.scan import scan, time_first
from keras_crf.scores import relative

# The same numbers on each device, and the first of them the same however many are drawn.
ALGORITHM = "philox"


def sample(chain, number_of_paths, seed):
    """Tags of independent paths, [B, T, n] int32; 0 in rows that have no legal path, or NaN."""
    centered, _ = chain.centered()
    ahead = centered.potentials + messages.from_right(centered).messages
    rows, steps = tf.shape(ahead)[0], tf.shape(ahead)[1]
    first = centered.start + ahead[:, :1]  # [B, 1, K]
    seeds = tf.random.split(seed, steps + 1, alg=ALGORITHM)[1:]

    def cell(inputs, arriving, _):
        ahead, seed, *varying = inputs
        uniform = _uniform([rows, number_of_paths], seed, ahead.dtype)
        tags = drawn(arriving + ahead[:, tf.newaxis], uniform)
        arriving = row(varying[0] if varying else centered.transitions, tags)
        arriving.set_shape(start.shape)
        return tags, arriving

    start = tf.repeat(centered.at_each_row(centered.start)[:, tf.newaxis], number_of_paths, axis=1)
    inputs = [time_first(ahead), seeds, *centered.by_step()[1:]]
    tags, _ = scan(cell, inputs, start, tf.int32)
    legal = tf.reduce_any(first >= first.dtype.min, axis=-1) & tf.equal(
        likelihood.not_a_number(chain)[:, tf.newaxis], 0
    )
    return tf.where(legal[..., tf.newaxis], time_first(tags), 0)


def _uniform(shape, seed, dtype):
    """Numbers in [0, 1), of 23 bits in float32 and of 32 in float64.

    Made of whole numbers, which XLA draws alike; of the same bits it would make other floats.
    """
    bits = tf.random.stateless_uniform(shape, seed, None, None, tf.uint32, alg=ALGORITHM)
    taken = 23 if dtype == tf.float32 else 32
    return tf.cast(tf.bitwise.right_shift(bits, 32 - taken), dtype) * 2.0**-taken


def drawn(scores, uniform):
    """Tags [...] int32 drawn with p ∝ exp(scores [..., K]), by uniform [...] in [0, 1).

    Never a tag of probability 0, whatever rounding does to the sums; 0 where all have that.
    """
    weights = tf.exp(relative(scores))
    possible = weights > 0
    upto = tf.where(possible, tf.cumsum(weights, axis=-1), tf.zeros_like(weights))
    total = tf.reduce_max(upto, axis=-1)
    exceeds = possible & (upto > (uniform * total)[..., tf.newaxis])
    return tf.argmax(exceeds, axis=-1, output_type=tf.int32)
