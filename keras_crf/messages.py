"""The messages that meet at each step, and how gradients go back through them.

With alpha_t = messages_t + potentials_t - scale_t, a message is

    messages_{t+1}[j] = log sum_i exp(alpha_t[i] + transitions[i, j])

and what of it came from i is p_t(i | j) = exp(alpha_t[i] + transitions[i, j] - messages_{t+1}[j]),
the backward transition probabilities of the chain. A gradient with respect to messages therefore
goes back in one more recurrence, of the same cost and with nothing larger than [B, T, K]:

    gradient_t = upstream_t + flow_t        flow_t[i] = sum_j p_t(i | j) gradient_{t+1}[j]

flow_t is the gradient with respect to potentials_t, and transitions get the summed edges
p_t(i | j) gradient_{t+1}[j]. Scales are constants: no question's answer depends on them.
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import recursions
from keras_crf.chain import Chain, a_step_later, product
from keras_crf.graphs import custom_gradient
from keras_crf.packing import only
from keras_crf.scan import scan, time_first
from keras_crf.scores import finite, forbidden


class Incoming(NamedTuple):
    """What comes in at each step, with what was scaled off on the way there."""

    messages: tf.Tensor  # [B, T, K] logarithms
    scales: tf.Tensor  # [B, T] constants, to be added to all messages of later steps


class Messages(NamedTuple):
    """What comes in at each step from either side, in step order."""

    from_left: Incoming
    from_right: Incoming


def both_ways(chain):
    """(the chain centered, its `Messages`): one recurrence, over time and over reversed time."""
    centered, _ = chain.centered()
    return centered, Messages(from_left(centered), from_right(centered))


def from_right(chain):
    """What comes in at each step of a centered chain from behind it: scaled log beta."""
    incoming = from_left(chain.reverse())
    return Incoming(*(chain.reverse_time(values) for values in incoming))


def from_left(chain):
    """What comes in at each step of a centered chain from before it: scaled log alpha, less the
    step's potentials."""

    @custom_gradient
    def value(*scores_and_lengths):
        mine = Chain(*map(tf.identity, scores_and_lengths))
        messages = recursions.incoming(mine)
        scales = recursions.scales(mine, messages)

        def gradient(upstream, _):
            return *_backpropagated(mine, Incoming(messages, scales), upstream), None

        return tuple(map(tf.stop_gradient, (messages, scales))), gradient

    return Incoming(*value(*chain))


def scaled_alpha(chain, incoming):
    """What goes into the next step, [B, T, K]: alpha less its scale; 0 behind a row's length."""
    alpha = chain.potentials + incoming.messages - incoming.scales[..., tf.newaxis]
    return only(alpha, chain.within())


def edges(alpha, transitions, messages, uses):
    """p(i | j) uses[j], over i and j: alpha [..., K, 1], messages and uses [..., 1, K]."""
    behind = tf.exp(alpha + transitions - finite(messages))
    return tf.math.multiply_no_nan(behind, uses)


def each_edge(chain, incoming, uses):
    """p_{t-1}(i | j) uses_t[j] at [b, t, i, j], [B, T, K, K]; 0 at first steps."""
    alpha = a_step_later(scaled_alpha(chain, incoming))
    entered = chain.within() & ~chain.at_first()
    messages = only(incoming.messages, entered)[:, :, tf.newaxis]
    uses = only(uses, entered)[:, :, tf.newaxis]
    return edges(alpha[..., tf.newaxis], chain.transitions, messages, uses)


def summed_edges(chain, incoming, uses):
    """p_{t-1}(i | j) uses_t[j], summed over all steps that share their transitions.

    That is [K, K], by one matrix product where exponentials can be trusted, else step by step, and
    without any [B, T, K, K]; where transitions vary it is `each_edge`.
    """
    if chain.varies:
        return each_edge(chain, incoming, uses)
    alpha = scaled_alpha(chain, incoming)[:, :-1]
    messages, uses = _where_used(incoming.messages[:, 1:], uses[:, 1:]), uses[:, 1:]

    def by_one_product():
        ahead = tf.math.divide_no_nan(uses, tf.exp(messages))
        tags = tf.shape(uses)[2]
        flat_alpha, flat_ahead = (tf.reshape(x, [-1, tags]) for x in (tf.exp(alpha), ahead))
        return tf.exp(chain.transitions) * tf.matmul(flat_alpha, flat_ahead, transpose_a=True)

    def step_by_step():
        def cell(inputs, sums, _):
            alpha, messages, uses = inputs
            now = alpha[:, :, tf.newaxis], messages[:, tf.newaxis], uses[:, tf.newaxis]
            return uses[:, 0], sums + edges(now[0], chain.transitions, *now[1:])

        none = chain.at_each_row(tf.zeros_like(chain.transitions))
        inputs = [time_first(values) for values in (alpha, messages, uses)]
        _, sums = scan(cell, inputs, none, none.dtype, 1)
        return tf.reduce_sum(sums, axis=0)

    return tf.cond(exponentials_do(messages), by_one_product, step_by_step)


def _where_used(messages, uses):
    """Messages with zeros (whose exponential is harmless) where nothing is made of them."""
    return tf.where(tf.equal(uses, 0), tf.zeros_like(messages), messages)


def exponentials_do(messages):
    """Whether exponentials of these messages keep all that matters, [] bool."""
    trusted = recursions.trusted(tf.exp(messages))
    return tf.reduce_all(trusted | forbidden(messages))


def _backpropagated(chain, incoming, upstream):
    """Gradients for potentials, transitions, start and end, of `upstream` [B, T, K] on messages."""
    flow = _flow(chain, incoming, upstream)
    gradient = upstream + flow
    start = tf.reduce_sum(gradient[:, :1], axis=[0, 1])
    transitions = summed_edges(chain, incoming, gradient)
    return flow, transitions, start, tf.zeros_like(chain.end)


def _flow(chain, incoming, upstream):
    """flow_t[i] = sum_j p_t(i | j) gradient_{t+1}[j], [B, T, K]: what comes back to each step."""
    alpha = a_step_later(scaled_alpha(chain, incoming))
    messages = only(incoming.messages, chain.within())

    def by_products():
        transposed = tf.exp(tf.linalg.matrix_transpose(chain.transitions))

        def back(alpha, messages, gradient, transposed):
            return alpha * product(tf.math.divide_no_nan(gradient, messages), transposed)

        return _scan_back(back, [tf.exp(alpha), tf.exp(messages), upstream], transposed)

    def by_edges():
        def back(alpha, messages, gradient, transitions):
            now = alpha[:, :, tf.newaxis], messages[:, tf.newaxis], gradient[:, tf.newaxis]
            return tf.reduce_sum(edges(now[0], transitions, *now[1:]), axis=2)

        return _scan_back(back, [alpha, messages, upstream], chain.transitions)

    return tf.cond(exponentials_do(messages), by_products, by_edges)


def _scan_back(back, inputs, transitions):
    """The flow that `back(alpha of the step before, messages, gradient, transitions)` gives, last
    step first."""

    def cell(inputs_now, flow, _):
        alpha, messages, upstream, *into = inputs_now
        return flow, back(alpha, messages, upstream + flow, *(into or [transitions]))

    nothing = tf.reduce_sum(tf.zeros_like(inputs[2]), axis=1)
    inputs = inputs + [transitions] * (transitions.shape.rank == 4)
    reversed_inputs = [tf.reverse(time_first(values), [0]) for values in inputs]
    flow, _ = scan(cell, reversed_inputs, nothing, nothing.dtype)
    return time_first(tf.reverse(flow, [0]))
