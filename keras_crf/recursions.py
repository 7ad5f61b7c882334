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

import numpy as np
import tensorflow as tf

from keras_crf.chain import product, row
from keras_crf.scan import STEPS_PER_TURN, scan, time_first
from keras_crf.scores import finite, forbidden, log, logsumexp, relative

# Numbers are scaled every few steps only. (STEPS_PER_TURN is a multiple of it.)
STEPS_PER_SCALING = 4


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
            alpha = _scaled(alpha)
        return state, product(alpha, exponentials.leaving(inputs))

    start = exponentials.at_each_row(exponentials.start)
    messages, _ = scan(cell, exponentials.by_step(), start, start.dtype)
    return time_first(messages)


def _exact_messages(chain):
    """The same recurrence on logarithms: slower, and right for scores of any size."""
    return _messages(chain, logsumexp, STEPS_PER_SCALING)


def _messages(chain, add_up, steps_per_turn=STEPS_PER_TURN):
    """The recurrence as it stands above, with `add_up` over the tags of the step before."""

    def cell(inputs, state, place):
        alpha = state + inputs[0]
        if place % STEPS_PER_SCALING == 0:
            alpha = relative(alpha)
        return state, add_up(alpha[:, :, tf.newaxis] + chain.leaving(inputs), axis=1)

    start = chain.at_each_row(chain.start)
    return time_first(scan(cell, chain.by_step(), start, start.dtype, steps_per_turn)[0])


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
        return tf.reduce_all(right | tf.expand_dims(behind, -1))

    return tf.cond(
        tf.reduce_all(trusted(smallest) | behind), lambda: True, only_where_no_path_leads
    )


def _reachable(chain, scaled):
    """[B, T, K] bool: whether a path that nothing forbids comes in at the step and tag."""
    leaving = tf.greater(scaled, 0) & ~forbidden(chain.potentials)
    allowed = tf.cast(~forbidden(chain.out_of_steps()), scaled.dtype)
    entered = tf.greater(product(tf.cast(leaving, scaled.dtype), allowed), 0)
    at_first = chain.at_each_row(~forbidden(chain.start)[tf.newaxis])
    return tf.concat([at_first, entered], axis=1)[:, :-1]


def viterbi(chain):
    """The best path, [B, T] int32, 0 behind a row's length.

        best_t = potentials_t + incoming_t, with max in place of logsumexp
        y_n = argmax(best_n + end)        y_t = argmax_i(best_t[i] + transitions[i, y_{t+1}])

    Of equal paths it is the one with the lowest tag, last step first. Only the messages are kept:
    the way back finds each predecessor again.
    """
    chain, _ = chain.centered()
    return viterbi_way_back(chain, _messages(chain, tf.reduce_max))


def viterbi_way_back(chain, messages):
    """The best path of a centered chain, given what comes in at each step of it, [B, T, K]."""
    arriving = tf.linalg.matrix_transpose(chain.transitions)  # [j, i]

    def backward(inputs, state, _):
        tags = tf.argmax(inputs[0] + state, axis=-1, output_type=tf.int32)
        return tags, row(inputs[1] if chain.varies else arriving, tags)

    best = chain.potentials + messages
    inputs = [best, arriving] if chain.varies else [best]
    by_step, by_row = Places(chain, by_step=True), Places(chain, by_step=False)
    from_last = [by_step.reverse(values) for values in inputs]
    rows = chain.lengths.shape
    tags, _ = scan(backward, from_last, chain.at_each_row(chain.end), tf.int32, output_shape=rows)
    return tf.where(chain.within(), by_row.reverse(tags), 0)


def three_messages(chain, exponentials):
    """What comes in at each step of a centered chain: `_messages` of the maximum, and
    `scaled_messages` from the left and from the right, [B, T, K] each, by one loop.

    Where rows are few, a loop costs by its turns and ops, and not by what they work on.
    """
    if chain.varies:  # then each recurrence has moves of its own to carry along
        right = chain.reverse_time(scaled_messages(exponentials.reverse()))
        return _messages(chain, tf.reduce_max), scaled_messages(exponentials), right
    backwards = tf.transpose(exponentials.transitions)

    def cell(inputs, state, place):
        potentials, weights, last_weights = inputs
        best, left, right = state
        best, left, right = best + potentials, left * weights, right * last_weights
        if place % STEPS_PER_SCALING == 0:
            best, left, right = relative(best), _scaled(left), _scaled(right)
        best = tf.reduce_max(best[:, :, tf.newaxis] + chain.transitions, axis=1)
        left, right = tf.matmul(left, exponentials.transitions), tf.matmul(right, backwards)
        return state, (best, left, right)

    by_step, by_row = Places(chain, by_step=True), Places(chain, by_step=False)
    weights = exponentials.potentials
    inputs = [by_step(chain.potentials), by_step(weights), by_step.reverse(weights)]
    ends = (chain.start, exponentials.start, exponentials.end)
    types = tuple(scores.dtype for scores in ends)
    state = tuple(map(chain.at_each_row, ends))
    (best, left, right), _ = scan(cell, inputs, state, types)
    return by_row(best), by_row(left), by_row.reverse(right)


class Places:
    """Takes values [B, T, ...] into [T, B, ...] (`by_step`), or back, by one gather: in the order
    of the steps, or with the steps of each row in reverse.

    (Transposing is slower: TensorFlow sets up oneDNN for it, at each call.)
    """

    def __init__(self, chain, by_step):
        rows, steps = tf.shape(chain.lengths)[0], tf.shape(chain.potentials)[1]
        row, step, lengths = tf.range(rows)[:, tf.newaxis], tf.range(steps), chain.lengths
        if by_step:
            row, step = row[:, 0], step[:, tf.newaxis]
        else:
            lengths = lengths[:, tf.newaxis]
        mirrored = lengths - 1 - step
        mirrored = tf.where(mirrored >= 0, mirrored, step)
        self.in_order, self.in_reverse = (
            row * steps + step if by_step else step * rows + row for step in (step, mirrored)
        )

    def __call__(self, values):
        return tf.gather(_flat(values), self.in_order)

    def reverse(self, values):
        """Values in the other layout, with the steps of each row up to its length in reverse."""
        return tf.gather(_flat(values), self.in_reverse)


def _flat(values):
    return tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], axis=0))


def _scaled(alpha):
    return tf.math.divide_no_nan(alpha, tf.reduce_max(alpha, axis=-1, keepdims=True))
