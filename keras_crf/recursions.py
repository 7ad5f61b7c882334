"""The recurrences of a linear-chain CRF, in stateless TensorFlow.

One row with kept steps t = 1..n scores a path y as

    score(y) = start[y_1] + sum_t potentials[t, y_t]
               + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

and whatever is asked of it follows from one recurrence:

    incoming_1 = start        incoming_{t+1} = (incoming_t + potentials_t) ⊗ transitions

where ⊗ is a matrix product with logsumexp (for Viterbi: max) in place of the sum. What comes in at
step t gathers the scores of all that may stand before it: alpha_t = incoming_t + potentials_t.
Read from the right, a chain is again a chain, with `transitions` transposed and `start` and `end`
changed over; what comes in there is beta_t. A dropped step leaves the state of the recurrence as
it is: that is the one mask rule.

Rabiner, "A Tutorial on Hidden Markov Models", 1989 (scaling: section V.A); Lafferty, McCallum and
Pereira, "Conditional Random Fields", 2001.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

# A turn of tf.while_loop costs more than a step of a small chain, so each turn takes several.
STEPS_PER_TURN = 8


class Chain(NamedTuple):
    """The scores of a batch of chains, in one float dtype; dropped steps hold potentials of 0."""

    potentials: tf.Tensor  # [B, T, K]
    transitions: tf.Tensor  # [K, K], [i, j] from i to j
    start: tf.Tensor  # [K]
    end: tf.Tensor  # [K]
    mask: tf.Tensor  # [B, T] bool, True keeps a step

    def reverse(self):
        """The same chains, read from the right."""
        return Chain(
            potentials=tf.reverse(self.potentials, [1]),
            transitions=tf.transpose(self.transitions),
            start=self.end,
            end=self.start,
            mask=tf.reverse(self.mask, [1]),
        )

    def at_each_row(self, scores):
        """Scores [...], repeated for the rows of the batch: [B, ...]."""
        return tf.repeat(scores[tf.newaxis], tf.shape(self.mask)[0], axis=0)


def scan(cell, inputs, state, mask, output_dtype):
    """Drives the RNN cell `cell(inputs_t, state) -> (output_t, state)` from left to right.

    Args:
        cell: the function of one step; inputs_t is a list of [B, ...] tensors.
        inputs: list of tensors [B, T, ...].
        state: tensor [B, ...] that goes into the first step.
        mask: [B, T] bool; a dropped step keeps the state, and its output means nothing.
        output_dtype: the dtype of the cell's output.

    Returns:
        The outputs [B, T, ...], and the state after the last step.
    """
    steps = tf.shape(mask)[1]
    turns = tf.maximum((steps + STEPS_PER_TURN - 1) // STEPS_PER_TURN, 1)
    kept = mask[(..., *[tf.newaxis] * (state.shape.rank - 1))]
    blocks = [_in_turns(tensor, turns) for tensor in (kept, *inputs)]

    def turn(index, state, outputs):
        steps_now = [tf.unstack(block[index], STEPS_PER_TURN) for block in blocks]
        outputs_now = []
        for kept_now, *inputs_now in zip(*steps_now, strict=True):
            output, proposed = cell(inputs_now, state)
            state = tf.where(kept_now, proposed, state)
            outputs_now.append(output)
        return index + 1, state, outputs.write(index, tf.stack(outputs_now))

    outputs = tf.TensorArray(output_dtype, size=turns)
    _, state, outputs = tf.while_loop(
        lambda index, *_: index < turns, turn, (0, state, outputs), maximum_iterations=turns
    )
    return _from_turns(outputs.stack(), steps), state


def _in_turns(tensor, turns):
    """[B, T, ...] -> [turns, STEPS_PER_TURN, B, ...]; what is added at the end is dropped steps."""
    rest = list(range(2, tensor.shape.rank))
    time_major = tf.transpose(tensor, [1, 0, *rest])
    added = turns * STEPS_PER_TURN - tf.shape(tensor)[1]
    padded = tf.pad(time_major, [[0, added]] + [[0, 0]] * (tensor.shape.rank - 1))
    shape = tf.concat([[turns, STEPS_PER_TURN], tf.shape(padded)[1:]], 0)
    blocks = tf.reshape(padded, shape)
    blocks.set_shape([None, STEPS_PER_TURN, *time_major.shape[1:]])
    return blocks


def _from_turns(blocks, steps):
    """[turns, STEPS_PER_TURN, B, ...] -> [B, T, ...]."""
    time_major = tf.reshape(blocks, tf.concat([[-1], tf.shape(blocks)[2:]], 0))[:steps]
    return tf.transpose(time_major, [1, 0, *range(2, blocks.shape.rank - 1)])


def relative(scores):
    """Scores less the largest of the last axis, if there is one: their exp never overflows."""
    return scores - finite(tf.reduce_max(scores, axis=-1, keepdims=True))


def finite(scores):
    """Zero in place of -inf, so that -inf less it is -inf and not NaN."""
    return tf.where(tf.equal(scores, -np.inf), tf.zeros_like(scores), scores)


def log(sums):
    """The logarithm, with a gradient of 0 (not NaN) where it is -inf."""
    positive = tf.not_equal(sums, 0)
    return tf.where(positive, tf.math.log(tf.where(positive, sums, tf.ones_like(sums))), -np.inf)


def logsumexp(scores, axis):
    """log sum exp, -inf where all scores are, and with a gradient that is never NaN for that."""
    largest = finite(tf.reduce_max(scores, axis=axis, keepdims=True))
    sums = tf.reduce_sum(tf.exp(scores - largest), axis=axis)
    return log(sums) + tf.squeeze(largest, axis)


def incoming(chain):
    """What comes in at each step, relative to the best alpha of the kept step before it.

        incoming_1 = start        incoming_{t+1} = (alpha_t - max alpha_t) ⊗ transitions

    so that numbers stay small however long the row is; `scales` gives what was taken off.

    Returns:
        [B, T, K] log messages; at dropped steps, what would come in there.
    """
    scaled, shift = _scaled_incoming(chain)
    return tf.cond(
        _nothing_underflowed(chain, scaled),
        lambda: log(scaled) + shift,
        lambda: _exact_incoming(chain),
    )


def scales(chain, messages):
    """max alpha_t, [B, T], that `incoming` took off after each step; 0 on dropped steps."""
    largest = tf.reduce_max(messages + chain.potentials, axis=-1)
    return tf.where(chain.mask, largest, tf.zeros_like(largest))


def _scaled_incoming(chain):
    """The recurrence on exponentials, a matrix product a step: (exp of incoming - shift, shift)."""
    shift = transition_shift(chain)
    weights = tf.exp(relative(chain.potentials))
    transitions = tf.exp(chain.transitions - shift)

    def cell(inputs, state):
        (weight,) = inputs
        alpha = state * weight
        alpha = tf.math.divide_no_nan(alpha, tf.reduce_max(alpha, axis=-1, keepdims=True))
        return state, tf.matmul(alpha, transitions)

    start = chain.at_each_row(tf.exp(chain.start - shift))
    return scan(cell, [weights], start, chain.mask, start.dtype)[0], shift


def _exact_incoming(chain):
    """The same recurrence on logarithms: slower, and right for scores of any size."""

    def cell(inputs, state):
        (potentials,) = inputs
        alpha = relative(state + potentials)
        return state, logsumexp(alpha[:, :, tf.newaxis] + chain.transitions, axis=1)

    start = chain.at_each_row(chain.start)
    return scan(cell, [chain.potentials], start, chain.mask, start.dtype)[0]


def transition_shift(chain):
    """The largest of transitions, start and end: exp of any of them less it is at most 1."""
    scores = tf.concat([tf.reshape(chain.transitions, [-1]), chain.start, chain.end], 0)
    return finite(tf.reduce_max(scores))


def smallest_trusted(dtype):
    """The smallest sum of exponentials that cannot have lost a term that matters to underflow."""
    limits = np.finfo(dtype.as_numpy_dtype)
    return limits.tiny / limits.eps**2


def _nothing_underflowed(chain, scaled):
    """Whether each scaled message is large enough to trust, or 0 because no path leads there."""
    trusted = tf.greater_equal(scaled, smallest_trusted(scaled.dtype))
    return tf.cond(
        tf.reduce_all(trusted),
        lambda: True,
        lambda: tf.reduce_all(trusted | ~_reachable(chain, scaled)),
    )


def _reachable(chain, scaled):
    """[B, T, K] bool: whether a path that nothing forbids comes in at the step and tag."""
    alive = tf.greater(scaled, 0)
    leaving = tf.cast(alive & tf.greater(chain.potentials, -np.inf), scaled.dtype)
    allowed = tf.cast(tf.greater(chain.transitions, -np.inf), scaled.dtype)
    entered = tf.where(chain.mask[..., tf.newaxis], tf.matmul(leaving, allowed) > 0, alive)
    at_first = chain.at_each_row(tf.greater(chain.start, -np.inf))
    return tf.concat([at_first[:, tf.newaxis], entered[:, :-1]], axis=1)


def viterbi(chain):
    """The best path, [B, T] int32, 0 on dropped steps.

        best_t = potentials_t + incoming_t, with max in place of logsumexp
        y_n = argmax(best_n + end)        y_t = argmax_i(best_t[i] + transitions[i, y_{t+1}])

    Of equal paths it is the one with the lowest tag, last step first. Only the best scores are
    kept: the way back finds each predecessor again.
    """
    arriving = tf.transpose(chain.transitions)  # [j, i]

    def forward(inputs, state):
        (potentials,) = inputs
        best = relative(state + potentials)
        return best, tf.reduce_max(best[:, tf.newaxis] + arriving, axis=-1)

    def backward(inputs, state):
        (best,) = inputs
        tags = tf.argmax(best + state, axis=-1, output_type=tf.int32)
        return tags, tf.gather(arriving, tags)

    start, end = chain.at_each_row(chain.start), chain.at_each_row(chain.end)
    best, _ = scan(forward, [chain.potentials], start, chain.mask, start.dtype)
    reverse = tf.reverse(best, [1]), tf.reverse(chain.mask, [1])
    tags, _ = scan(backward, reverse[:1], end, reverse[1], tf.int32)
    return tf.where(chain.mask, tf.reverse(tags, [1]), 0)


def previous_kept(mask):
    """The last kept step before each step, [B, T] int32, or -1 where there is none.

    The r-th kept step of a row is written at place r of a list, where those behind it look it up.
    """
    kept_before = tf.cumsum(tf.cast(mask, tf.int32), axis=1, exclusive=True)
    rows, steps = tf.shape(mask)[0], tf.shape(mask)[1]
    place = tf.where(mask, kept_before, steps)  # dropped steps go to one place, never read
    row = tf.zeros_like(place) + tf.range(rows)[:, tf.newaxis]
    step = tf.zeros_like(place) + tf.range(steps)
    kept = tf.scatter_nd(tf.stack([row, place], axis=-1), step, [rows, steps + 1])
    previous = tf.gather(kept, tf.maximum(kept_before - 1, 0), batch_dims=1)
    return tf.where(kept_before > 0, previous, -1)
