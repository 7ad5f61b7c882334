"""Hidden Markov models as chains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from keras_crf import checks, label_checks, likelihood
from keras_crf.raising import refuse_unless
from keras_crf.scores import log
from keras_crf.tensor_like import TensorLike

if TYPE_CHECKING:
    from keras_crf.distribution import LinearChainCRF

# How far from 1 the sum of a float32 row of probabilities may be.
TOLERANCE = 1e-4


class HiddenMarkov:
    """The constructor of `LinearChainCRF` from a hidden Markov model."""

    @classmethod
    def from_hmm(
        cls: Any,
        initial: TensorLike,
        transition: TensorLike,
        emission: TensorLike,
        observations: TensorLike,
        *,
        mask: TensorLike | None = None,
        lengths: TensorLike | None = None,
        **options: Any,
    ) -> LinearChainCRF:
        """The distribution over the hidden states of an HMM, given what was observed.

            start = log initial      transitions = log transition
            potentials[b, t, k] = log emission[k, observations[b, t]]

        so score(y) = log P(y, observations), log_partition() is log P(observations), argmax() the
        Viterbi path, marginals() the smoothed probabilities. A probability of 0 forbids, exactly.
        Differentiable in the probabilities. Where emissions are no table, pass their log-densities
        [B, T, K] as potentials to `LinearChainCRF` itself.

        Args:
            initial: float [K], P(y_1 = k).
            transition: float [K, K], [i, j] is P(y_{t+1} = j | y_t = i); rows sum to 1.
            emission: float [K, V], [k, v] is P(observation v | y_t = k); rows sum to 1.
            observations: integer [B, T], in 0..V-1; what stands on dropped steps is not read.
            mask, lengths: as for `LinearChainCRF`: a dropped step is skipped. (That is not an
                observation that is missing, on which the hidden state still moves.)
            **options: more of `LinearChainCRF`, such as `jit_compile`.

        Raises:
            TypeError: observations that are no whole numbers, probabilities that are no floats.
            ValueError: shapes that do not go together; probabilities below 0, or whose rows do not
                sum to 1 (within 1e-4); observations out of range on kept steps (in a graph
                InvalidArgumentError; under XLA the row gives NaN).

        Source: Rabiner, "A Tutorial on Hidden Markov Models", 1989, sections II and III.

        >>> crf = LinearChainCRF.from_hmm(
        ...     initial=[0.5, 0.5], transition=[[0.9, 0.1], [0.1, 0.9]],
        ...     emission=[[0.8, 0.2], [0.2, 0.8]], observations=[[0, 0, 1]])
        >>> crf.argmax().tags.numpy()
        array([[0, 0, 0]], dtype=int32)
        >>> print(f"{np.exp(crf.log_partition())[0]:.4f}")
        0.0962
        """
        emission, eright = _probabilities(emission, "emission", "[states, symbols]")
        dtype = emission.dtype
        transition, tright = _probabilities(transition, "transition", "[states, states]", dtype)
        initial, iright = _probabilities(initial, "initial", "[states]", dtype)
        _check_states(initial, transition, emission)
        observations, kept, right = _observed(observations, emission, mask, lengths)
        potentials = tf.gather(tf.transpose(log(emission)), observations)
        wrong = likelihood.nan_unless(right & eright & tright & iright, dtype)
        potentials += wrong[:, tf.newaxis, tf.newaxis]
        return cls(potentials, log(transition), start=log(initial), mask=kept, **options)


def _probabilities(value, name, axes, dtype=None):
    """Probabilities as a tensor of at least float32, and [] bool: whether they are that."""
    value = checks.tensor(value, name)
    if not value.dtype.is_floating:
        raise TypeError(f"{name} must be floating point, got {value.dtype.name}.")
    checks.rank(value, name, axes)
    value = tf.cast(value, dtype or (tf.float32 if value.dtype.size < 4 else value.dtype))
    words = ("state", "column") if value.shape.rank == 2 else ("state",)
    positive = value >= 0
    refuse_unless(positive, f"{name} must hold probabilities; got {{value}}", value, words)
    sums = tf.reduce_sum(value, axis=-1)
    to_one = tf.abs(sums - 1) <= TOLERANCE
    message = f"{name} must sum to 1 for each state; got the sum {{value}}"
    if value.shape.rank == 1:
        message, to_one, sums = f"{name} must sum to 1; got {{value}}", to_one[None], sums[None]
    refuse_unless(to_one, message, sums, ("row",))
    return value, tf.reduce_all(positive) & tf.reduce_all(to_one)


def _check_states(initial, transition, emission):
    states = emission.shape[:1]
    for value, name, wanted in (
        (initial, "initial", states),
        (transition, "transition", states + states),
    ):
        if not value.shape.is_compatible_with(wanted):
            raise ValueError(
                f"{name} must have the shape {wanted}, one state for each row of emission, "
                f"{emission.shape}; got {value.shape}."
            )


def _observed(observations, emission, mask, lengths):
    """Observations with 0 on dropped steps, [B, T] bool of kept steps, [B] bool of right rows."""
    observations = checks.tensor(observations, "observations")
    if not observations.dtype.is_integer:
        raise TypeError(f"observations must be whole numbers, got {observations.dtype.name}.")
    checks.rank(observations, "observations", "[batch, time]")
    like = tf.zeros_like(observations, emission.dtype)[..., tf.newaxis]
    kept, right = checks.mask_and_lengths(mask, lengths, like)
    symbols = emission.shape[1]
    last = "V-1" if symbols is None else symbols - 1
    message = f"observations must lie in 0..{last} on kept steps; got {{value}}"
    number_of_symbols = tf.shape(emission, tf.int64)[1]
    observations, fits = label_checks.below(observations, number_of_symbols, kept, message)
    return observations, kept, right & tf.reduce_all(fits, axis=1)
