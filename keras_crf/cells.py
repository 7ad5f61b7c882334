"""The RNN cells of `tf.contrib.crf`: one step of a recurrence, for `keras.layers.RNN`."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from keras_crf.scores import logsumexp
from keras_crf.tensor_like import TensorLike


class _TransitionsCell(keras.layers.Layer):
    """A Keras RNN cell that holds transitions, [K, K]; its config holds them as a list."""

    def __init__(self, transition_params: TensorLike, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)  # scores keep the dtype they come in
        self.transition_params = tf.convert_to_tensor(transition_params)
        self.state_size = self.output_size = self.transition_params.shape[0]

    def call(self, inputs: TensorLike, states: TensorLike) -> tuple:
        """One step: (output, states), the states nested as they came."""
        state = keras.tree.flatten(states)[0]
        output, state = self._step(tf.cast(inputs, state.dtype), state)
        return output, keras.tree.pack_sequence_as(states, [state])

    def _arrivals(self, state):
        """state[i] + transition_params[i, j], [B, K, K]."""
        return state[:, :, tf.newaxis] + tf.cast(self.transition_params, state.dtype)

    def get_config(self) -> dict[str, Any]:
        transition_params = self.transition_params.numpy().tolist()
        return {**super().get_config(), "transition_params": transition_params}


@keras.saving.register_keras_serializable(package="keras_crf")
class CrfForwardRnnCell(_TransitionsCell):
    """The forward recurrence as an RNN cell, for `keras.layers.RNN` or any other loop.

        alpha_t[j] = inputs_t[j] + logsumexp_i(alpha_{t-1}[i] + transition_params[i, j])

    `call(inputs, states)` takes inputs [B, K] and alpha [B, K] (a tensor, or a list of it), and
    returns the new alpha twice. The state of the first step is `inputs[:, 0]`.

    >>> cell = CrfForwardRnnCell([[0.0, 1.0], [2.0, 0.0]])
    >>> alpha = keras.layers.RNN(cell)(tf.zeros([1, 3, 2]), initial_state=tf.zeros([1, 2]))
    >>> alpha.shape
    TensorShape([1, 2])
    """

    def _step(self, inputs, state):
        alpha = inputs + logsumexp(self._arrivals(state), axis=1)
        return alpha, alpha


@keras.saving.register_keras_serializable(package="keras_crf")
class CrfDecodeForwardRnnCell(_TransitionsCell):
    """The forward half of Viterbi as an RNN cell.

        best_t[j] = inputs_t[j] + max_i(best_{t-1}[i] + transition_params[i, j])

    `call(inputs, states)` takes inputs [B, K] and best scores [B, K], and returns backpointers
    int32 [B, K] (of equal ones the lowest) and the new best scores.

    >>> cell = CrfDecodeForwardRnnCell([[0.0, 1.0], [2.0, 0.0]])
    >>> backpointers, best = cell(tf.zeros([1, 2]), tf.zeros([1, 2]))
    >>> backpointers.numpy()
    array([[1, 0]], dtype=int32)
    """

    def _step(self, inputs, state):
        arrivals = self._arrivals(state)
        backpointers = tf.argmax(arrivals, axis=1, output_type=tf.int32)
        return backpointers, inputs + tf.reduce_max(arrivals, axis=1)


@keras.saving.register_keras_serializable(package="keras_crf")
class CrfDecodeBackwardRnnCell(keras.layers.Layer):
    """The backward half of Viterbi as an RNN cell: follows backpointers.

    `call(inputs, states)` takes backpointers int32 [B, K] and tags int32 [B, 1], and returns the
    tags before them, [B, 1], twice.

    >>> cell = CrfDecodeBackwardRnnCell(2)
    >>> tags, _ = cell(tf.constant([[1, 0]]), tf.constant([[0]]))
    >>> tags.numpy()
    array([[1]], dtype=int32)
    """

    def __init__(self, num_tags: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_tags = num_tags
        self.state_size = self.output_size = 1

    def call(self, inputs: TensorLike, states: TensorLike) -> tuple:
        """One step: (tags, states), the states nested as they came."""
        tags = tf.cast(keras.tree.flatten(states)[0], tf.int32)
        tags = tf.gather(tf.cast(inputs, tf.int32), tags, batch_dims=1)
        return tags, keras.tree.pack_sequence_as(states, [tags])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_tags": self.num_tags}
