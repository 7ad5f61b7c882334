"""How uncertain a distribution is, and how far it lies from another one.

A chain is Markov: y_t depends on the tags before it through y_{t-1} alone. With

    log_next_t[i, j] = log p(y_t = j | y_{t-1} = i)
                     = log_softmax_j(transitions[i, j] + potentials_t[j] + incoming from the right)

(at the first step `start` in place of transitions) entropies and divergences are sums over steps of
conditional ones, each under p(y_{t-1} = i), the marginals:

    entropy       = sum_t E_i[- sum_j p_t[i, j] log p_t[i, j]]
    cross_entropy = sum_t E_i[- sum_j p_t[i, j] log q_t[i, j]]
    kl_divergence = sum_t E_i[  sum_j p_t[i, j] log(p_t[i, j] / q_t[i, j])]

No term is below 0, so what is near 0 keeps its digits, which log_partition - E[score], a difference
of two large numbers, would lose. The tensors log_next are [B, T, K, K].

Hernando, Crespi and Cybenko, "Efficient Computation of the Hidden Markov Model Entropy for a Given
Observation Sequence", 2005; Mann and McCallum, "Efficient Computation of Entropy Gradient for
Semi-Supervised Conditional Random Fields", 2007.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from keras_crf import checks, likelihood, messages
from keras_crf.asking import Asking
from keras_crf.chain import a_step_later
from keras_crf.graphs import as_graph_or_compiled
from keras_crf.raising import refuse_unless
from keras_crf.scores import finite, forbidden, log_softmax

if TYPE_CHECKING:
    from keras_crf.distribution import LinearChainCRF


@as_graph_or_compiled
def _entropy(chain, steps):
    centered, both = messages.both_ways(chain)
    log_next = _log_next(centered, both.from_right)
    entropies = _expected_surprise(log_next, log_next)
    return _expected(centered, both, entropies) + likelihood.not_a_number(chain)


@as_graph_or_compiled
def _cross_entropy(chain, steps, other):
    return _compared(chain, other, _expected_surprise)


@as_graph_or_compiled
def _kl_divergence(chain, steps, other):
    return _compared(chain, other, _divergence)


def _compared(chain, other, compare):
    """The expectation of `compare(log_next, log_next of other)` over all steps, [B]."""
    centered, both = messages.both_ways(chain)
    centered_other, _ = other.centered()
    mine = _log_next(centered, both.from_right)
    theirs = _log_next(centered_other, messages.from_right(centered_other))
    wrong = likelihood.not_a_number(chain) + likelihood.not_a_number(other)
    impossible = _infinite_if_left_out(centered, both, mine, theirs)
    return _expected(centered, both, compare(mine, theirs)) + impossible + wrong


def _log_next(chain, from_right):
    """log p(y_t = j | y_{t-1} = i) of a centered chain, [B, T, K, K]; -inf where nothing is legal.

    At the first step all i stand for the start of the row.
    """
    ahead = likelihood.within_only(chain, chain.potentials + from_right.messages)
    moves = tf.where(chain.at_first()[..., tf.newaxis, tf.newaxis], chain.start, chain.transitions)
    return log_softmax(moves + ahead[:, :, tf.newaxis])


def _expected_surprise(log_p, log_q):
    """- sum_j p_j log q_j over the last axis, with 0 for what q forbids."""
    return -tf.reduce_sum(tf.exp(log_p) * finite(log_q), axis=-1)


def _divergence(log_p, log_q):
    """sum_j p_j log(p_j / q_j) over the last axis, with 0 * log(0 / q_j) = 0.

        = sum_j p_j log(p_j / q_j) - p_j + q_j = sum_j p_j (gap_j + exp(-gap_j) - 1)

    since p and q sum to 1, with gap = log p - log q. So written no term is below 0, and where p is
    close to q the sum, of second order in the gap, does not drown in the rounding of the gap. 0
    where p has nothing that is legal, and does not sum to 1.
    """
    p, q = tf.exp(log_p), tf.exp(log_q)
    gap = finite(log_p) - finite(log_q)
    near = (tf.abs(gap) < 1) & ~forbidden(log_p) & ~forbidden(log_q)
    small = tf.where(near, gap, tf.zeros_like(gap))
    terms = tf.where(near, p * (tf.math.expm1(-small) + small), q - p + p * gap)
    sums = tf.reduce_sum(tf.maximum(terms, 0), axis=-1)  # rounding may leave terms below 0
    return tf.where(tf.reduce_all(forbidden(log_p), axis=-1), tf.zeros_like(sums), sums)


def _expected(chain, both, values):
    """sum_t E[values_t[y_{t-1}]], [B]: values [B, T, K], at the first step those at tag 0."""
    before = a_step_later(likelihood.marginals(chain, both))
    at_start = tf.one_hot(0, tf.shape(values)[2], dtype=values.dtype)
    before = tf.where(chain.at_first()[..., tf.newaxis], at_start, before)
    expected = tf.reduce_sum(before * values, axis=-1)
    return likelihood.total(likelihood.within_only(chain, expected))


def _infinite_if_left_out(chain, both, log_p, log_q):
    """[B]: +inf where q forbids what p allows, else 0. (No constant, see `scores.forbidden`.)"""
    possible = ~forbidden(chain.potentials + both.from_left.messages + both.from_right.messages)
    possible_before = chain.at_first()[..., tf.newaxis] | a_step_later(possible, first=False)
    left_out = possible_before[..., tf.newaxis] & ~forbidden(log_p) & forbidden(log_q)
    is_left_out = tf.reduce_any(likelihood.within_only(chain, left_out), axis=[1, 2, 3])
    return -tf.math.log(tf.cast(~is_left_out, log_p.dtype))


class Information(Asking):
    """The methods of `LinearChainCRF` that measure uncertainty."""

    def entropy(self) -> tf.Tensor:
        """- sum over all paths y of p(y) log p(y), [B], in nats; differentiable.

        The sum over steps of the expected entropy of y_t given y_{t-1}, which keeps its digits
        when the distribution is peaked. Forbidden paths add 0; 0 in a row without kept steps or
        without a legal path. Takes memory for some [B, T, K, K].

        Source: Hernando, Crespi and Cybenko 2005; its gradient: Mann and McCallum 2007.

        >>> crf = LinearChainCRF([[[0.0, 0.0], [0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> print(f"{crf.entropy()[0]:.4f}")  # log 4
        1.3863
        """
        return self._run(_entropy)

    def cross_entropy(self, other: LinearChainCRF) -> tf.Tensor:
        """- sum over all paths y of p(y) log q(y), [B], in nats, with q the distribution `other`.

        +inf where `other` forbids a path that this distribution allows, however improbable it is;
        what is forbidden here adds 0, whatever `other` says (0 * inf = 0). Differentiable in both:
        of an infinite row, the gradient is that of the finite terms. 0 in a row without kept steps
        or without a legal path. Takes memory for some [B, T, K, K].

        Args:
            other: a `LinearChainCRF` over the same steps and tags: of the same shape, with the same
                mask. Either may have transitions [K, K] or [B, T-1, K, K]. It is computed in the
                dtype of this one.

        Raises:
            TypeError: `other` is no `LinearChainCRF`.
            ValueError: another shape or mask (in a graph that does not know it when traced
                InvalidArgumentError; under XLA the rows whose masks differ give NaN).

        >>> even, odds = (LinearChainCRF([[[0.0, odds]]], [[0.0] * 2] * 2) for odds in (0.0, 1.0))
        >>> print(f"{even.cross_entropy(odds)[0]:.4f}, {even.cross_entropy(even)[0]:.4f}")
        0.8133, 0.6931
        """
        return self._run_on_both(_cross_entropy, other)

    def kl_divergence(self, other: LinearChainCRF) -> tf.Tensor:
        """sum over all paths y of p(y) log(p(y) / q(y)), [B], in nats, with q that of `other`.

        `cross_entropy(other) - entropy()`, never below 0, and computed so that it keeps its digits
        where the two are close; 0 for equal ones. +inf, 0, gradients, memory, arguments and errors
        are those of `cross_entropy`. A teacher p trains a student q, or the reverse.

        >>> even, odds = (LinearChainCRF([[[0.0, odds]]], [[0.0] * 2] * 2) for odds in (0.0, 1.0))
        >>> print(f"{even.kl_divergence(odds)[0]:.4f}, {even.kl_divergence(even)[0]:.4f}")
        0.1201, 0.0000
        """
        return self._run_on_both(_kl_divergence, other)

    def _run_on_both(self, function, other):
        chain, right = _comparable(self, other)
        result = self._run(function, chain)
        return result + likelihood.nan_unless(right, result.dtype)


def _comparable(this, other):
    """The chain of `other` in the dtype of this one, and [B] bool of the rows with equal masks."""
    if not isinstance(other, Information):
        raise TypeError(f"other must be a LinearChainCRF, got {type(other).__name__}.")
    mine, theirs = this._chain.potentials, other._chain.potentials
    if not theirs.shape.is_compatible_with(mine.shape):
        raise ValueError(
            "other must have the batch, time and tag axes of this distribution: got potentials of "
            f"the shape {theirs.shape} to compare with {mine.shape}."
        )
    theirs = checks.same_shape(theirs, "other", tf.shape(mine), "distribution, and its tags")
    mask = checks.same_shape(other.mask, "the mask of other", tf.shape(this.mask), "distribution")
    same = tf.equal(mask, this.mask)
    message = "other must have the mask of this distribution: its mask holds {value}, not the same,"
    refuse_unless(same, message, tf.cast(mask, tf.int32))
    chain = other._chain._replace(potentials=theirs).cast(mine.dtype)
    return chain, tf.reduce_all(same, axis=1)
