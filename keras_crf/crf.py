"""The functions of `tf.contrib.crf` and `tfa.text`, over the same core as the rest.

Names, argument order and what is returned are theirs; all arguments can be given by keyword.
`sequence_lengths` [B] become masks; the normaliser is the forward recurrence, an RNN cell driven
by `tf.while_loop`; scores are gathered from flattened vectors. What differs:

- a row of length 0 has score 0, log norm 0, log-likelihood 0 and tags 0, in every function;
- lengths count when there is one step, as they do when there are more;
- inputs may be of any float dtype; float16 and bfloat16 are computed, and returned, in float32;
- a tag outside 0..K-1 on a kept step, or a length above T, is an error (NaN under XLA, which cannot
  raise), never a neighbour's score;
- `transition_params=None` makes a variable that can be trained;
- a step whose bitmap allows no tag gives -inf, with a gradient of 0 and not NaN;
- inputs, tags and bitmaps may be ragged along time; lengths may then be None.

B is the batch, T time, K the number of tags; `transition_params[i, j]` is from tag i to tag j.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from keras_crf import checks
from keras_crf.cells import (
    CrfDecodeBackwardRnnCell,
    CrfDecodeForwardRnnCell,
    CrfForwardRnnCell,
)
from keras_crf.distribution import LinearChainCRF
from keras_crf.scan import scan, time_first
from keras_crf.tensor_like import TensorLike


def crf_sequence_score(
    inputs: TensorLike,
    tag_indices: TensorLike,
    sequence_lengths: TensorLike,
    transition_params: TensorLike,
) -> tf.Tensor:
    """The unnormalised score of each row's tags, [B].

        sum_t inputs[t, y_t] + sum_{t>1} transition_params[y_{t-1}, y_t]

    Args:
        inputs: float [B, T, K], the unary scores.
        tag_indices: integer [B, T].
        sequence_lengths: integer [B].
        transition_params: float [K, K].

    Raises:
        ValueError: shapes that do not go together; a tag outside 0..K-1 within a row's length.

    >>> transition_params = [[0.0, 1.0], [2.0, 0.0]]
    >>> crf_sequence_score([[[4.0, 5.0], [3.0, -1.0]]], [[1, 0]], [2], transition_params).numpy()
    array([10.], dtype=float32)
    """
    return LinearChainCRF(inputs, transition_params, lengths=sequence_lengths).score(tag_indices)


def crf_multitag_sequence_score(
    inputs: TensorLike,
    tag_bitmap: TensorLike,
    sequence_lengths: TensorLike,
    transition_params: TensorLike,
) -> tf.Tensor:
    """log of the summed exp of the scores of all taggings that a bitmap allows, [B].

    Args:
        inputs: float [B, T, K].
        tag_bitmap: bool [B, T, K], true where the tag is allowed.
        sequence_lengths: integer [B].
        transition_params: float [K, K].

    >>> bitmap, transition_params = [[[True, True]]], [[0.0, 1.0], [2.0, 0.0]]
    >>> print(crf_multitag_sequence_score([[[4.0, 5.0]]], bitmap, [1], transition_params))
    tf.Tensor([5.3132615], shape=(1,), dtype=float32)
    """
    filtered = crf_filtered_inputs(inputs, tag_bitmap)
    return crf_log_norm(filtered, sequence_lengths, transition_params)


def crf_log_norm(
    inputs: TensorLike, sequence_lengths: TensorLike, transition_params: TensorLike
) -> tf.Tensor:
    """log Z, the log of the summed exp of the scores of all taggings, [B].

        alpha_1 = inputs_1
        alpha_t = inputs_t + logsumexp_i(alpha_{t-1}[i] + transition_params[i, :])
        log Z = logsumexp(alpha_n)

    The gradient is the closed form: marginals, and expected transition counts.

    Args:
        inputs: float [B, T, K].
        sequence_lengths: integer [B].
        transition_params: float [K, K].

    >>> print(crf_log_norm(tf.ones([1, 10, 5]), [10], tf.ones([5, 5])))  # 19 + 10 ln 5
    tf.Tensor([35.09438], shape=(1,), dtype=float32)
    """
    return LinearChainCRF(inputs, transition_params, lengths=sequence_lengths).log_partition()


def crf_log_likelihood(
    inputs: TensorLike,
    tag_indices: TensorLike,
    sequence_lengths: TensorLike,
    transition_params: TensorLike | None = None,
) -> tuple[tf.Tensor, TensorLike]:
    """log p(tags given inputs) of each row, and the transitions used: ([B], [K, K]).

    Args:
        inputs: float [B, T, K].
        tag_indices: integer [B, T].
        sequence_lengths: integer [B].
        transition_params: float [K, K]; left out, a new `tf.Variable` is made and returned, to be
            trained and passed the next time.

    Raises:
        ValueError: as `crf_sequence_score`; `transition_params` left out inside a `tf.function`.

    >>> log_likelihood, transitions = crf_log_likelihood(tf.zeros([1, 2, 2]), [[0, 1]], [2])
    >>> transitions.shape
    TensorShape([2, 2])
    """
    if transition_params is None:
        transition_params = _new_transitions(checks.potentials(checks.padded(inputs, "inputs")[0]))
    crf = LinearChainCRF(inputs, transition_params, lengths=sequence_lengths)
    return crf.log_prob(tag_indices), transition_params


def _new_transitions(potentials):
    if not tf.executing_eagerly():
        raise ValueError(
            "crf_log_likelihood got transition_params=None inside a tf.function, where the new "
            "variable would be lost. Make it outside, transitions = tf.Variable(tf.zeros([K, K])), "
            "and pass it."
        )
    initial = keras.initializers.GlorotUniform()([potentials.shape[2]] * 2, dtype="float32")
    return tf.Variable(tf.cast(initial, potentials.dtype), name="transitions")


def crf_unary_score(
    tag_indices: TensorLike, sequence_lengths: TensorLike, inputs: TensorLike
) -> tf.Tensor:
    """sum_t inputs[t, y_t] of each row, [B]. The tags come first.

    >>> crf_unary_score([[1, 0]], [2], [[[4.0, 5.0], [3.0, -1.0]]]).numpy()
    array([8.], dtype=float32)
    """
    scores = checks.potentials(checks.padded(inputs, "inputs")[0])
    number_of_tags = tf.shape(scores)[2]
    no_transitions = tf.zeros([number_of_tags, number_of_tags], scores.dtype)
    return crf_sequence_score(inputs, tag_indices, sequence_lengths, no_transitions)


def crf_binary_score(
    tag_indices: TensorLike, sequence_lengths: TensorLike, transition_params: TensorLike
) -> tf.Tensor:
    """sum_{t>1} transition_params[y_{t-1}, y_t] of each row, [B].

    >>> crf_binary_score([[1, 0]], [2], [[0.0, 1.0], [2.0, 0.0]]).numpy()
    array([2.], dtype=float32)
    """
    transition_params = tf.convert_to_tensor(transition_params)
    none = tf.zeros_like(transition_params[0])
    if not isinstance(tag_indices, tf.RaggedTensor):
        tag_indices = checks.tensor(tag_indices, "tag_indices")
    checks.rank(tag_indices, "tag_indices", "[batch, time]")
    inputs = tf.ragged.map_flat_values(
        lambda tags: tf.zeros_like(tags, none.dtype)[..., tf.newaxis] + none, tag_indices
    )
    return crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)


def crf_filtered_inputs(inputs: TensorLike, tag_bitmap: TensorLike) -> tf.Tensor:
    """`inputs` with -inf where `tag_bitmap` does not allow the tag, [B, T, K].

    >>> crf_filtered_inputs([[[4.0, 5.0]]], [[[False, True]]]).numpy()
    array([[[-inf,   5.]]], dtype=float32)
    """
    if isinstance(inputs, tf.RaggedTensor):
        return tf.ragged.map_flat_values(crf_filtered_inputs, inputs, tag_bitmap)
    inputs = checks.tensor(inputs, "inputs")
    allowed = tf.cast(checks.tensor(tag_bitmap, "tag_bitmap"), tf.bool)
    if not allowed.shape.is_compatible_with(inputs.shape):
        raise ValueError(
            f"tag_bitmap must have the shape of inputs, {inputs.shape}; got {allowed.shape}."
        )
    return tf.where(allowed, inputs, tf.constant(-np.inf, inputs.dtype))


def crf_decode(
    potentials: TensorLike, transition_params: TensorLike, sequence_length: TensorLike
) -> tuple[tf.Tensor, tf.Tensor]:
    """The best tags of each row and their score: (int32 [B, T], [B]). The transitions come second.

    Tags past the length are 0. Of equally good taggings it is the one with the lowest last tag,
    then the lowest tag before it, and so on.

    Args:
        potentials: float [B, T, K].
        transition_params: float [K, K].
        sequence_length: integer [B].

    >>> tags, score = crf_decode([[[4.0, 5.0], [3.0, -1.0]]], [[0.0, 1.0], [2.0, 0.0]], [2])
    >>> tags.numpy(), score.numpy()
    (array([[1, 0]], dtype=int32), array([10.], dtype=float32))
    """
    best = LinearChainCRF(potentials, transition_params, lengths=sequence_length).argmax()
    return best.tags, best.score


def crf_constrained_decode(
    potentials: TensorLike,
    tag_bitmap: TensorLike,
    transition_params: TensorLike,
    sequence_length: TensorLike,
) -> tuple[tf.Tensor, tf.Tensor]:
    """`crf_decode` among the taggings that `tag_bitmap`, bool [B, T, K], allows.

    >>> bitmap, transition_params = [[[True, False]]], [[0.0, 1.0], [2.0, 0.0]]
    >>> tags, score = crf_constrained_decode([[[4.0, 5.0]]], bitmap, transition_params, [1])
    >>> tags.numpy()
    array([[0]], dtype=int32)
    """
    filtered = crf_filtered_inputs(potentials, tag_bitmap)
    return crf_decode(filtered, transition_params, sequence_length)


def viterbi_decode(
    score: TensorLike, transition_params: TensorLike
) -> tuple[list[int], np.floating]:
    """The best tags of one row of NumPy scores: (list of T ints, NumPy scalar).

    Args:
        score: [T, K] array-like, of any number type; computed in float64.
        transition_params: [K, K] array-like.

    >>> tags, score = viterbi_decode([[4, 5], [3, -1]], [[0, 1], [2, 0]])
    >>> tags, float(score)
    ([1, 0], 10.0)
    """
    score = np.asarray(score, np.float64)
    if score.ndim != 2:
        raise ValueError(f"score must have the shape [time, tags]; got {score.shape}.")
    best = LinearChainCRF(score[np.newaxis], np.asarray(transition_params, np.float64)).argmax()
    return best.tags.numpy()[0].tolist(), best.score.numpy()[0]


def crf_forward(
    inputs: TensorLike,
    state: TensorLike,
    transition_params: TensorLike,
    sequence_lengths: TensorLike,
) -> tf.Tensor:
    """alpha at the last step of each row, [B, K], from alpha at its first: the forward recurrence.

    Args:
        inputs: float [B, T-1, K], the unary scores of all steps but the first.
        state: float [B, K], those of the first.
        transition_params: float [K, K].
        sequence_lengths: integer [B], the lengths of whole rows; a row of length 0 or 1 gives
            `state` itself.

    >>> crf_forward(tf.zeros([1, 0, 2]), [[4.0, 5.0]], [[0.0, 1.0], [2.0, 0.0]], [1]).numpy()
    array([[4., 5.]], dtype=float32)
    """
    inputs = checks.potentials(inputs)
    state = tf.cast(state, inputs.dtype)
    return _run(CrfForwardRnnCell(transition_params), inputs, state, sequence_lengths, less=1)[1]


def crf_decode_forward(
    inputs: TensorLike,
    state: TensorLike,
    transition_params: TensorLike,
    sequence_lengths: TensorLike,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The forward half of Viterbi: (backpointers int32 [B, T-1, K], best scores [B, K]).

    Args:
        inputs: float [B, T-1, K], the unary scores of all steps but the first.
        state: float [B, K], those of the first.
        transition_params: float [K, K].
        sequence_lengths: integer [B], the lengths of the rows less one. Backpointers past them are
            0, and the best scores are those of the last step within.

    >>> backpointers, best = crf_decode_forward(
    ...     [[[3.0, -1.0]]], [[4.0, 5.0]], [[0.0, 1.0], [2.0, 0.0]], [1])
    >>> backpointers.numpy(), best.numpy()
    (array([[[1, 0]]], dtype=int32), array([[10.,  4.]], dtype=float32))
    """
    inputs = checks.potentials(inputs)
    state = tf.cast(state, inputs.dtype)
    return _run(CrfDecodeForwardRnnCell(transition_params), inputs, state, sequence_lengths)


def crf_decode_backward(inputs: TensorLike, state: TensorLike) -> tf.Tensor:
    """The backward half of Viterbi: the tags before `state`, int32 [B, T-1, 1], last step first.

    Args:
        inputs: int32 [B, T-1, K], backpointers, last step first.
        state: int32 [B, 1], the last tag of each row.

    >>> crf_decode_backward([[[1, 0]]], [[0]]).numpy()
    array([[[1]]], dtype=int32)
    """
    inputs = tf.cast(inputs, tf.int32)
    full = tf.repeat(tf.shape(inputs)[1], tf.shape(inputs)[0])
    cell = CrfDecodeBackwardRnnCell(inputs.shape[-1])
    return _run(cell, inputs, tf.cast(state, tf.int32), full)[0]


def _run(cell, inputs, state, lengths, less=0):
    """A Keras RNN cell over int32 or float inputs: (outputs, 0 behind lengths - less; last state).

    Behind a row's length its state stays as it is.
    """
    within = tf.sequence_mask(tf.cast(lengths, tf.int32) - less, tf.shape(inputs)[1])

    def step(inputs_now, state, _):
        inside, inputs_now = inputs_now
        output, proposed = cell(inputs_now, state)
        return tf.where(inside, output, 0), tf.where(inside, proposed, state)

    output_dtype = state.dtype if isinstance(cell, CrfForwardRnnCell) else tf.int32
    by_time = [time_first(values) for values in (within[..., tf.newaxis], inputs)]
    outputs, state = scan(step, by_time, state, output_dtype)
    return time_first(outputs), state
