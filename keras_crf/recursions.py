"""The recurrences of a linear-chain CRF, in stateless TensorFlow.

One row with kept steps t = 1..n scores a path y as

    score(y) = start[y_1] + sum_t potentials[t, y_t]
               + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

and whatever is asked of it follows from one recurrence:

    incoming_1 = start        incoming_{t+1} = (incoming_t + potentials_t) ⊗ transitions

where ⊗ is a matrix product with logsumexp (for Viterbi: max) in place of the sum. What comes in at
step t gathers the scores of all that may stand before it: alpha_t = incoming_t + potentials_t.
Read from the right, a chain is again a chain, with `transitions` transposed and `start` and `end`
changed over; what comes in there is beta_t. Rows may differ in length; what lies behind a row's
length is carried along, and never looked at.

Rabiner, "A Tutorial on Hidden Markov Models", 1989 (scaling: section V.A); Lafferty, McCallum and
Pereira, "Conditional Random Fields", 2001.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

# A turn of tf.while_loop costs more than a step of a small chain, so each turn takes several, and
# numbers are scaled every few steps only.
STEPS_PER_TURN = 8
STEPS_PER_SCALING = 4


class Chain(NamedTuple):
    """The scores of a batch of chains, in one float dtype."""

    potentials: tf.Tensor  # [B, T, K], zeros behind a row's length
    transitions: tf.Tensor  # [K, K], [i, j] from i to j
    start: tf.Tensor  # [K]
    end: tf.Tensor  # [K]
    lengths: tf.Tensor  # [B] int32

    def centered(self):
        """(the same chains with scores of at most 0, the `Shifts` that this took off).

        Scores far from 0 would cost digits wherever they are added.
        """
        best = finite(tf.reduce_max(self.potentials, axis=-1))
        shifts = Shifts(best, *(finite(tf.reduce_max(scores)) for scores in self[1:4]))
        scores = [mine - shift for mine, shift in zip(self[1:4], shifts[1:], strict=True)]
        return Chain(self.potentials - best[..., tf.newaxis], *scores, self.lengths), shifts

    def exponentials(self):
        """exp of all the scores."""
        return Chain(*map(tf.exp, self[:4]), self.lengths)

    def reverse(self):
        """The same chains, read from the right."""
        return Chain(
            potentials=self.reverse_time(self.potentials),
            transitions=tf.transpose(self.transitions),
            start=self.end,
            end=self.start,
            lengths=self.lengths,
        )

    def reverse_time(self, values):
        """Values [B, T, ...] with the steps of each row, up to its length, in reverse."""
        steps = tf.range(tf.shape(values)[1])
        mirrored = self.lengths[:, tf.newaxis] - 1 - steps
        return tf.gather(values, tf.where(mirrored >= 0, mirrored, steps), batch_dims=1)

    def within(self):
        """[B, T] bool: which steps lie within their row's length."""
        return tf.sequence_mask(self.lengths, tf.shape(self.potentials)[1])

    def at_each_row(self, scores):
        """Scores [...], repeated for the rows of the batch: [B, ...]."""
        return tf.repeat(scores[tf.newaxis], tf.shape(self.lengths)[0], axis=0)


class Shifts(NamedTuple):
    """The largest of each of the scores of a batch of chains."""

    potentials: tf.Tensor  # [B, T]
    transitions: tf.Tensor  # []
    start: tf.Tensor  # []
    end: tf.Tensor  # []


def scan(cell, inputs, state, output_dtype, steps_per_turn=STEPS_PER_TURN):
    """Drives the RNN cell `cell(inputs_t, state, place) -> (output_t, state)` from left to right.

    Args:
        cell: the function of one step; inputs_t is a list of the inputs of the step, and place
            says which of the steps of a turn this is.
        inputs: list of tensors [T, ...].
        state: tensor that goes into the first step.
        output_dtype: the dtype of the cell's output.
        steps_per_turn: how many steps a turn of the loop takes. What T lacks to a multiple of it
            is made up with steps of zeros.

    Returns:
        The outputs [T, ...], and the state after the last step.
    """
    steps = tf.shape(inputs[0])[0]
    turns = tf.maximum((steps + steps_per_turn - 1) // steps_per_turn, 1)
    blocks = [_in_turns(tensor, turns, steps_per_turn) for tensor in inputs]

    def turn(index, state, outputs):
        steps_now = zip(
            *(tf.unstack(block[index], steps_per_turn) for block in blocks), strict=True
        )
        outputs_now = []
        for place, inputs_now in enumerate(steps_now):
            output, state = cell(inputs_now, state, place)
            outputs_now.append(output)
        return index + 1, state, outputs.write(index, tf.stack(outputs_now))

    outputs = tf.TensorArray(output_dtype, size=turns)
    _, state, outputs = tf.while_loop(
        lambda index, *_: index < turns, turn, (0, state, outputs), maximum_iterations=turns
    )
    outputs = outputs.stack()
    return tf.reshape(outputs, tf.concat([[-1], tf.shape(outputs)[2:]], 0))[:steps], state


def _in_turns(tensor, turns, steps_per_turn):
    """[T, ...] -> [turns, steps_per_turn, ...]."""
    added = turns * steps_per_turn - tf.shape(tensor)[0]
    padded = tf.pad(tensor, [[0, added]] + [[0, 0]] * (tensor.shape.rank - 1))
    blocks = tf.reshape(padded, tf.concat([[turns, steps_per_turn], tf.shape(padded)[1:]], 0))
    blocks.set_shape([None, steps_per_turn, *tensor.shape[1:]])
    return blocks


def time_first(values):
    """[B, T, ...] -> [T, B, ...], or back."""
    return tf.transpose(values, [1, 0, *range(2, values.shape.rank)])


def relative(scores):
    """Scores less the largest of the last axis, if there is one: their exp never overflows."""
    return scores - finite(tf.reduce_max(scores, axis=-1, keepdims=True))


def finite(scores):
    """Zero in place of -inf, so that -inf less it is -inf and not NaN."""
    return tf.where(forbidden(scores), tf.zeros_like(scores), scores)


def forbidden(scores):
    """Where scores are -inf. (A constant -inf would set off tf.debugging.enable_check_numerics.)"""
    return tf.less(scores, scores.dtype.min)


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


def incoming(chain):
    """The messages of a centered chain, [B, T, K]: what comes in at each step, scaled.

        incoming_1 = start        incoming_{t+1} = (alpha_t - scale_t) ⊗ transitions

    with scale_t = `scales(chain, messages)`, so that numbers stay in range however long the row is.
    """
    scaled = scaled_messages(chain.exponentials())
    return tf.cond(
        nothing_underflowed(scaled, chain.lengths, lambda: chain),
        lambda: log(scaled),
        lambda: _exact_messages(chain),
    )


def scales(chain, messages):
    """What `incoming` takes off after each step, [B, T]: now and then, the largest of alpha."""
    largest = finite(tf.reduce_max(messages + chain.potentials, axis=-1))
    return tf.where(scaled_after(tf.shape(largest)[1]), largest, tf.zeros_like(largest))


def scaled_after(steps):
    """[T] bool: after which of so many steps the recurrence is scaled."""
    return tf.equal(tf.range(steps) % STEPS_PER_SCALING, 0)


def scaled_messages(exponentials):
    """exp of `incoming`: the recurrence on a chain's exponentials, a matrix product a step."""

    def cell(inputs, state, place):
        alpha = state * inputs[0]
        if place % STEPS_PER_SCALING == 0:
            alpha = tf.math.divide_no_nan(alpha, tf.reduce_max(alpha, axis=-1, keepdims=True))
        return state, tf.matmul(alpha, exponentials.transitions)

    weights = time_first(exponentials.potentials)
    start = exponentials.at_each_row(exponentials.start)
    messages, _ = scan(cell, [weights], start, start.dtype)
    return time_first(messages)


def _exact_messages(chain):
    """The same recurrence on logarithms: slower, and right for scores of any size."""

    def cell(inputs, state, place):
        alpha = state + inputs[0]
        if place % STEPS_PER_SCALING == 0:
            alpha = relative(alpha)
        return state, logsumexp(alpha[:, :, tf.newaxis] + chain.transitions, axis=1)

    start = chain.at_each_row(chain.start)
    inputs = [time_first(chain.potentials)]
    return time_first(scan(cell, inputs, start, start.dtype, STEPS_PER_SCALING)[0])


def trusted(scaled):
    """Which sums of exponentials cannot have lost a term that matters to underflow."""
    limits = np.finfo(scaled.dtype.as_numpy_dtype)
    return tf.greater_equal(scaled, limits.tiny / limits.eps**2)


def nothing_underflowed(scaled, lengths, chain):
    """Whether each scaled message is large enough to trust, or 0 because no path leads there.

    `chain()` is asked only if some are not.
    """
    behind = ~tf.sequence_mask(lengths, tf.shape(scaled)[1])
    smallest = tf.reduce_min(scaled, axis=-1)

    def only_where_no_path_leads():
        right = trusted(scaled) | ~_reachable(chain(), scaled)
        return tf.reduce_all(right | behind[..., tf.newaxis])

    return tf.cond(
        tf.reduce_all(trusted(smallest) | behind), lambda: True, only_where_no_path_leads
    )


def _reachable(chain, scaled):
    """[B, T, K] bool: whether a path that nothing forbids comes in at the step and tag."""
    leaving = tf.greater(scaled, 0) & ~forbidden(chain.potentials)
    allowed = tf.cast(~forbidden(chain.transitions), scaled.dtype)
    entered = tf.greater(tf.matmul(tf.cast(leaving, scaled.dtype), allowed), 0)
    at_first = chain.at_each_row(~forbidden(chain.start)[tf.newaxis])
    return tf.concat([at_first, entered], axis=1)[:, :-1]


def viterbi(chain):
    """The best path, [B, T] int32, 0 behind a row's length.

        best_t = potentials_t + incoming_t, with max in place of logsumexp
        y_n = argmax(best_n + end)        y_t = argmax_i(best_t[i] + transitions[i, y_{t+1}])

    Of equal paths it is the one with the lowest tag, last step first. Only the best scores are
    kept: the way back finds each predecessor again.
    """
    chain, _ = chain.centered()
    arriving = tf.transpose(chain.transitions)  # [j, i]

    def forward(inputs, state, place):
        best = state + inputs[0]
        if place % STEPS_PER_SCALING == 0:
            best = relative(best)
        return best, tf.reduce_max(best[:, :, tf.newaxis] + chain.transitions, axis=1)

    def backward(inputs, state, _):
        tags = tf.argmax(inputs[0] + state, axis=-1, output_type=tf.int32)
        return tags, tf.gather(arriving, tags)

    start, end = chain.at_each_row(chain.start), chain.at_each_row(chain.end)
    best, _ = scan(forward, [time_first(chain.potentials)], start, start.dtype)
    from_last = time_first(chain.reverse_time(time_first(best)))
    tags, _ = scan(backward, [from_last], end, tf.int32)
    return tf.where(chain.within(), chain.reverse_time(time_first(tags)), 0)
