"""tf.contrib's functions: their numbers, their argument names, and where we differ from them."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF, crf
from regimes import REGIMES, run

INPUTS = np.array([[[4, 5, -3], [3, -1, 3], [-1, 2, 1], [0, 0, 0]]], np.float32)
TRANSITIONS = np.array([[-3, 5, -2], [3, 4, 1], [1, 2, 1]], np.float32)
TAGS, LENGTHS = np.array([[1, 2, 1, 0]]), np.array([3])
LOG_NORM = 18.0461218
NEG_INF = -np.inf

every_regime = pytest.mark.parametrize("regime", REGIMES)
float_types = pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
integer_types = pytest.mark.parametrize("integers", ["int32", "int64"])


def whole_numbers(inputs, tags, lengths, transitions):
    """What contrib says about one set of tags, as a dict."""
    return {
        "unary": crf.crf_unary_score(tags, lengths, inputs),
        "binary": crf.crf_binary_score(tags, lengths, transitions),
        "score": crf.crf_sequence_score(inputs, tags, lengths, transitions),
    }


def sums_over_paths(inputs, tags, bitmap, lengths, transitions):
    """What contrib says about all tags, as a dict."""
    log_likelihood, same_transitions = crf.crf_log_likelihood(inputs, tags, lengths, transitions)
    return {
        "log_norm": crf.crf_log_norm(inputs, lengths, transitions),
        "log_likelihood": log_likelihood,
        "transitions": same_transitions,
        "multitag": crf.crf_multitag_sequence_score(inputs, bitmap, lengths, transitions),
    }


def decoded(inputs, bitmap, lengths, transitions):
    """What contrib says about the best tags, as a tuple."""
    best = crf.crf_decode(inputs, transitions, lengths)
    return *best, *crf.crf_constrained_decode(inputs, bitmap, transitions, lengths)


def bitmap_of(*steps):
    return np.array([steps], bool)


BITMAP = bitmap_of([1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0, 1])
CONSTRAINT = bitmap_of([1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 1])


@every_regime
@float_types
@integer_types
def test_the_scores_of_the_base_case(regime, dtype, integers):
    arguments = INPUTS.astype(dtype), TAGS.astype(integers), LENGTHS.astype(integers)
    scores = run(regime, whole_numbers, *arguments, TRANSITIONS.astype(dtype))
    assert scores == {"unary": 10, "binary": 3, "score": 13}


@every_regime
@float_types
def test_the_sums_over_paths_of_the_base_case(regime, dtype):
    transitions = TRANSITIONS.astype(dtype)
    sums = run(regime, sums_over_paths, INPUTS.astype(dtype), TAGS, BITMAP, LENGTHS, transitions)
    assert_allclose(sums["log_norm"], LOG_NORM, rtol=1e-6)
    assert_allclose(sums["log_likelihood"], -5.0461218, rtol=1e-6)
    assert_allclose(sums["multitag"], 18.0089970, rtol=1e-6)
    assert_array_equal(sums["transitions"], TRANSITIONS)
    assert sums["log_norm"].dtype == ("float64" if dtype == "float64" else "float32")


@every_regime
@float_types
def test_the_best_tags_of_the_base_case(regime, dtype):
    arguments = INPUTS.astype(dtype), CONSTRAINT, LENGTHS, TRANSITIONS.astype(dtype)
    tags, score, constrained_tags, constrained_score = run(regime, decoded, *arguments)
    assert_array_equal(tags, [[1, 0, 1, 0]])
    assert_array_equal(constrained_tags, [[0, 1, 1, 0]])
    assert tags.dtype == constrained_tags.dtype == np.int32
    assert (score, constrained_score) == (18, 14)


def test_the_probabilities_of_all_27_taggings_sum_to_1():
    every = np.array(list(itertools.product(range(3), repeat=3)))
    scores = crf.crf_sequence_score(
        np.repeat(INPUTS[:, :3], 27, axis=0), every, np.full(27, 3), TRANSITIONS
    )
    probabilities = np.exp(scores - LOG_NORM)
    assert_allclose(probabilities.sum(), 1, atol=1e-6)
    best_first = np.argsort(-scores.numpy(), kind="stable")
    assert every[best_first[:4]].tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 2, 1]]
    assert_array_equal(np.sort(scores)[::-1][:6], [18, 14, 14, 13, 11, 11])
    assert_allclose(probabilities.max(), 0.9549256, atol=1e-6)


def test_the_gradient_of_the_base_case_is_marginals_and_counts():
    inputs, transitions = tf.constant(INPUTS, tf.float64), tf.constant(TRANSITIONS, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([inputs, transitions])
        log_norm = crf.crf_log_norm(inputs, LENGTHS, transitions)
    for_inputs, for_transitions = tape.gradient(log_norm, [inputs, transitions])
    marginals = [
        [0.0191378, 0.9808155, 0.0000467],
        [0.9561764, 0.0362623, 0.0075613],
        [0.0007767, 0.9973749, 0.0018484],
        [0, 0, 0],
    ]
    counts = [
        [0.0008871, 0.9739705, 0.0004566],
        [0.9559026, 0.0531117, 0.0080636],
        [0.0001634, 0.0065551, 0.0008895],
    ]
    assert_allclose(for_inputs[0], marginals, atol=6e-8)
    assert_allclose(for_transitions, counts, atol=6e-8)


def test_the_edge_marginals_of_the_base_case():
    distribution = LinearChainCRF(INPUTS, TRANSITIONS, lengths=LENGTHS)
    edges = [
        [
            [0.0008711, 0.0181308, 0.000136],
            [0.9552619, 0.0181308, 0.0074229],
            [0.0000434, 0.0000008, 0.0000025],
        ],
        [
            [0.000016, 0.9558397, 0.0003206],
            [0.0006407, 0.0349809, 0.0006407],
            [0.00012, 0.0065542, 0.000887],
        ],
        np.zeros([3, 3]),
    ]
    assert_allclose(distribution.edge_marginals()[0], edges, atol=1e-6)


def test_filtered_inputs_are_minus_infinity_where_the_bitmap_forbids():
    expected = [[4, NEG_INF, NEG_INF], [NEG_INF, -1, 3], [NEG_INF, 2, 1], [NEG_INF, 0, 0]]
    assert_array_equal(crf.crf_filtered_inputs(INPUTS, CONSTRAINT)[0], expected)


@every_regime
@pytest.mark.parametrize("length", [0, 1])
def test_one_step_counts_by_its_length(regime, length):
    """The shortcut that contrib and tfa take for one step ignores lengths; here they count."""
    lengths, first = np.array([length]), INPUTS[:, :1]
    scores = run(regime, whole_numbers, first, TAGS[:, :1], lengths, TRANSITIONS)
    assert scores == {"unary": 5 * length, "binary": 0, "score": 5 * length}
    sums = run(
        regime, sums_over_paths, first, TAGS[:, :1], bitmap_of([1, 1, 0]), lengths, TRANSITIONS
    )
    assert_allclose(sums["log_norm"], 5.3135069 * length, atol=1e-6)
    assert_allclose(sums["log_likelihood"], -0.3135069 * length, atol=1e-6)
    assert_allclose(sums["multitag"], 5.3132617 * length, atol=1e-6)
    best = run(regime, decoded, first, bitmap_of([0, 1, 1]), lengths, TRANSITIONS)
    assert [part.tolist() for part in best] == [[[length]], [5 * length]] * 2


@pytest.mark.parametrize(
    ("step", "tag", "score", "log_norm"), [(1, 0, 3, 3.7022633), (2, 1, 2, 2.3490122)]
)
def test_one_step_is_a_softmax(step, tag, score, log_norm):
    inputs = INPUTS[:, step : step + 1]
    tags, best = crf.crf_decode(inputs, TRANSITIONS, [1])
    assert (int(tags[0, 0]), float(best[0])) == (tag, score)
    assert_allclose(crf.crf_log_norm(inputs, [1], TRANSITIONS), [log_norm], rtol=1e-6)


@every_regime
def test_a_row_of_length_0_gives_zeros_in_every_function(regime):
    lengths = np.array([0])
    scores = run(regime, whole_numbers, INPUTS, TAGS, lengths, TRANSITIONS)
    assert scores == {"unary": 0, "binary": 0, "score": 0}
    sums = run(regime, sums_over_paths, INPUTS, TAGS, BITMAP, lengths, TRANSITIONS)
    assert [sums[name] for name in ("log_norm", "log_likelihood", "multitag")] == [0, 0, 0]
    for part in run(regime, decoded, INPUTS, BITMAP, lengths, TRANSITIONS):
        assert_array_equal(part, np.zeros_like(part))


@pytest.mark.parametrize(("length", "log_norm"), [(0, 0), (10, 35.0943791)])
def test_the_log_norm_of_ones(length, log_norm):
    ones, lengths = np.ones([2, 10, 5], np.float32), [length, length]
    transitions = np.ones([5, 5], np.float32)
    assert_allclose(crf.crf_log_norm(ones, lengths, transitions), [log_norm] * 2, rtol=1e-6)
    tags, score = crf.crf_decode(ones, transitions, lengths)
    assert (tags.shape.rank, score.shape.rank) == (2, 1)


@pytest.mark.parametrize(
    ("lengths", "tags", "scores"),
    [
        (
            [5, 2],
            [[0, 1, 0, 4, 1, 0, 0, 0, 0, 0], [0, 2, 0, 0, 0, 0, 0, 0, 0, 0]],
            [15.558804, 4.2312727],
        ),
        (
            [10, 10],
            [[0, 1, 0, 4, 1, 4, 1, 3, 3, 2], [0, 2, 1, 3, 3, 2, 3, 4, 0, 4]],
            [31.144918, 28.810345],
        ),
    ],
)
def test_tags_past_the_length_are_0(lengths, tags, scores):
    """tensorflow/addons issue 1443."""
    inputs = np.random.RandomState(1).normal(1, 1, [2, 10, 5]).astype(np.float32)
    best_tags, best_scores = crf.crf_decode(inputs, np.ones([5, 5], np.float32), lengths)
    assert_array_equal(best_tags, tags)
    assert_allclose(best_scores, scores, rtol=1e-6)


def test_every_function_takes_the_argument_names_of_contrib():
    common = {"sequence_lengths": LENGTHS, "transition_params": TRANSITIONS}
    score = crf.crf_sequence_score(inputs=INPUTS, tag_indices=TAGS, **common)
    multitag = crf.crf_multitag_sequence_score(inputs=INPUTS, tag_bitmap=BITMAP, **common)
    log_norm = crf.crf_log_norm(inputs=INPUTS, **common)
    log_likelihood, _ = crf.crf_log_likelihood(inputs=INPUTS, tag_indices=TAGS, **common)
    unary = crf.crf_unary_score(tag_indices=TAGS, sequence_lengths=LENGTHS, inputs=INPUTS)
    binary = crf.crf_binary_score(tag_indices=TAGS, **common)
    decode = {"potentials": INPUTS, "transition_params": TRANSITIONS, "sequence_length": LENGTHS}
    _, best = crf.crf_decode(**decode)
    filtered = crf.crf_filtered_inputs(inputs=INPUTS, tag_bitmap=CONSTRAINT)
    _, constrained = crf.crf_constrained_decode(tag_bitmap=CONSTRAINT, **decode)
    alpha = crf.crf_forward(inputs=INPUTS[:, 1:], state=INPUTS[:, 0], **common)
    pointers, scores = crf.crf_decode_forward(inputs=INPUTS[:, 1:], state=INPUTS[:, 0], **common)
    tags = crf.crf_decode_backward(inputs=pointers, state=np.array([[1]]))
    _, one_row = crf.viterbi_decode(score=INPUTS[0, :3], transition_params=TRANSITIONS)
    numbers = [score, unary, binary, best, constrained, one_row]
    assert [float(np.squeeze(number)) for number in numbers] == [13, 10, 3, 18, 14, 18]
    assert_allclose(
        np.concatenate([multitag, log_norm, log_likelihood]),
        [18.0089970, LOG_NORM, -5.0461218],
        rtol=1e-6,
    )
    assert [part.shape for part in (filtered, alpha, pointers, scores, tags)] == [
        (1, 4, 3),
        (1, 3),
        (1, 3, 3),
        (1, 3),
        (1, 3, 1),
    ]


def recurrences(inputs, state, transitions, lengths):
    """The loops beneath contrib's functions: alpha, backpointers and best scores, and tags."""
    alpha = crf.crf_forward(inputs, state, transitions, lengths)
    pointers, best = crf.crf_decode_forward(inputs, state, transitions, lengths - 1)
    last = tf.argmax(best, axis=1, output_type=tf.int32)[:, tf.newaxis]
    return alpha, pointers, best, crf.crf_decode_backward(tf.reverse(pointers, [1]), last)


@every_regime
@float_types
def test_the_recurrences_beneath_give_log_norm_and_best_tags(regime, dtype):
    inputs, transitions = INPUTS[:, :3].astype(dtype), TRANSITIONS.astype(dtype)
    alpha, pointers, best, tags = run(
        regime, recurrences, inputs[:, 1:], inputs[:, 0], transitions, LENGTHS
    )
    assert_allclose(np.logaddexp.reduce(alpha, axis=1), [LOG_NORM], rtol=1e-6)
    assert pointers.dtype == tags.dtype == np.int32
    assert best.max() == 18
    assert tags[0, ::-1, 0].tolist() == [1, 0]


@pytest.mark.parametrize("lengths", [[8, 10], [0, 11]])
def test_backpointers_are_0_past_the_length(lengths):
    random = np.random.default_rng(0)
    inputs, state = random.normal(size=(2, 11, 3)), random.normal(size=(2, 3))
    pointers, best = crf.crf_decode_forward(inputs, state, random.normal(size=(3, 3)), lengths)
    for row, length in enumerate(lengths):
        assert_array_equal(pointers[row, length:], 0)
    if lengths[0] == 0:
        assert_array_equal(best[0], state[0])


@pytest.mark.parametrize("length", [0, 1])
def test_crf_forward_of_a_row_of_at_most_one_step_is_its_state(length):
    state = INPUTS[:, 0]
    assert_array_equal(crf.crf_forward(INPUTS[:, 1:], state, TRANSITIONS, [length]), state)
    assert_array_equal(crf.crf_forward(INPUTS[:, :0], state, TRANSITIONS, [length]), state)


def through_rnn(cell, inputs, state):
    """The outputs and the last state of `keras.layers.RNN(cell)`."""
    rnn = keras.layers.RNN(cell, return_sequences=True, return_state=True)
    return rnn(tf.constant(inputs), initial_state=[tf.constant(state)])


def test_keras_rnn_runs_the_forward_cell():
    cell = crf.CrfForwardRnnCell(TRANSITIONS)
    outputs, state = through_rnn(cell, INPUTS[:, 1:3], INPUTS[:, 0])
    assert_allclose(np.logaddexp.reduce(state, axis=1), [LOG_NORM], rtol=1e-6)
    assert_array_equal(outputs[:, -1], state)


def test_keras_rnn_runs_both_cells_of_decoding():
    forward = crf.CrfDecodeForwardRnnCell(TRANSITIONS)
    pointers, best = through_rnn(forward, INPUTS[:, 1:3], INPUTS[:, 0])
    expected, _ = crf.crf_decode_forward(INPUTS[:, 1:3], INPUTS[:, 0], TRANSITIONS, [2])
    assert_array_equal(pointers, expected)
    assert float(tf.reduce_max(best)) == 18
    last = tf.argmax(best, axis=1, output_type=tf.int32)[:, tf.newaxis]
    backward = crf.CrfDecodeBackwardRnnCell(3)
    tags, first = through_rnn(backward, tf.reverse(pointers, [1]), last)
    assert tags[0, :, 0].numpy().tolist() == [0, 1]
    assert int(first[0, 0]) == 1


CELLS = [
    crf.CrfForwardRnnCell(TRANSITIONS),
    crf.CrfDecodeForwardRnnCell(TRANSITIONS),
    crf.CrfDecodeBackwardRnnCell(3),
]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: type(cell).__name__)
def test_a_cell_comes_back_from_its_config(cell):
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(cell))
    assert type(again) is type(cell)
    assert again.get_config() == cell.get_config()
    assert (again.state_size, again.output_size) == (cell.state_size, cell.output_size)
    layer = keras.layers.RNN.from_config(keras.layers.RNN(cell).get_config())
    assert layer.cell.get_config() == cell.get_config()


def test_the_sizes_of_the_cells():
    assert [(cell.state_size, cell.output_size) for cell in CELLS] == [(3, 3), (3, 3), (1, 1)]


def test_transitions_left_out_are_made_and_can_be_trained():
    with tf.GradientTape() as tape:
        log_likelihood, transitions = crf.crf_log_likelihood(INPUTS, TAGS, LENGTHS)
    gradient = tape.gradient(log_likelihood, transitions)
    assert isinstance(transitions, tf.Variable)
    assert np.abs(gradient).max() > 0
    transitions.assign_add(0.5 * gradient)
    after, same = crf.crf_log_likelihood(INPUTS, TAGS, LENGTHS, transitions)
    assert same is transitions
    assert after > log_likelihood


def test_transitions_left_out_inside_a_tf_function_raise():
    @tf.function
    def step():
        return crf.crf_log_likelihood(INPUTS, TAGS, LENGTHS)[0]

    with pytest.raises(ValueError, match=r"transition_params=None inside a tf\.function.*outside"):
        step()


def gradient_of_multitag(inputs, bitmap, lengths, transitions):
    with tf.GradientTape() as tape:
        tape.watch([inputs, transitions])
        score = crf.crf_multitag_sequence_score(inputs, bitmap, lengths, transitions)
    return score, *tape.gradient(score, [inputs, transitions])


@every_regime
def test_a_step_that_allows_no_tag_gives_no_nan_gradient(regime):
    bitmap = bitmap_of([1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0])
    score, for_inputs, for_transitions = run(
        regime, gradient_of_multitag, INPUTS, bitmap, LENGTHS, TRANSITIONS
    )
    assert score == -np.inf
    assert_array_equal(for_inputs, 0)
    assert_array_equal(for_transitions, 0)


@every_regime
def test_bitmap_steps_past_the_length_are_not_read(regime):
    bitmap = bitmap_of([1, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0])
    score, for_inputs, _ = run(
        regime, gradient_of_multitag, INPUTS, bitmap, np.array([1]), TRANSITIONS
    )
    assert_allclose(score, [5.3132617], rtol=1e-6)
    assert_array_equal(for_inputs[0, 1:], 0)


def test_a_full_bitmap_gives_the_log_norm_and_a_one_hot_one_the_score():
    full, one_hot = np.ones_like(BITMAP), np.eye(3, dtype=bool)[TAGS]
    assert_allclose(
        crf.crf_multitag_sequence_score(INPUTS, full, LENGTHS, TRANSITIONS), [LOG_NORM], rtol=1e-6
    )
    assert_allclose(
        crf.crf_multitag_sequence_score(INPUTS, one_hot, LENGTHS, TRANSITIONS), [13], rtol=1e-6
    )


@pytest.mark.parametrize("tag", [-1, 3])
@pytest.mark.parametrize(
    "question",
    [
        lambda tags: crf.crf_sequence_score(INPUTS, tags, LENGTHS, TRANSITIONS),
        lambda tags: crf.crf_unary_score(tags, LENGTHS, INPUTS),
        lambda tags: crf.crf_binary_score(tags, LENGTHS, TRANSITIONS),
        lambda tags: crf.crf_log_likelihood(INPUTS, tags, LENGTHS, TRANSITIONS),
    ],
    ids=["sequence", "unary", "binary", "log_likelihood"],
)
def test_a_tag_out_of_range_is_an_error_and_never_its_neighbour(question, tag):
    with pytest.raises(ValueError, match=rf"0\.\.2 .* the tag {tag} at row 0, step 1"):
        question([[1, tag, 1, 0]])


def test_a_tag_out_of_range_past_the_length_is_not_read():
    score = crf.crf_sequence_score(INPUTS, [[1, 2, 1, -100]], LENGTHS, TRANSITIONS)
    assert_array_equal(score, [13])


def test_viterbi_decode_of_whole_numbers_keeps_the_fractions_of_the_transitions():
    tags, score = crf.viterbi_decode(np.array([[0, 0], [0, 0]]), [[0.25, 0.5], [0.75, 0.0]])
    assert (tags, score) == ([1, 0], 0.75)
    assert isinstance(score, np.floating)
    assert type(tags) is list


@pytest.mark.parametrize(
    ("score", "transitions", "tags", "best"),
    [
        (
            [[0, 0, 0, 3, 5]] + [[0, 0, 0, 3, 4]] * 5,
            np.where(np.eye(5), NEG_INF, 0),
            [4, 3, 4, 3, 4, 3],
            22,
        ),
        (  # two paths tie: the lowest tag at the last step
            [[0, 0, 0, 3, 4]] * 6,
            np.where(np.eye(5), NEG_INF, 0),
            [4, 3, 4, 3, 4, 3],
            21,
        ),
        ([[1, 0, 0, 4], [1, 0, 6, 2], [0, 3, 0, 4]], {(0, 0): 1, (2, 1): 5}, [3, 2, 1], 18),
        (
            [[0, 0, 0, 4, 4]] * 6,
            {(4, 4): -10, (4, 3): -10, (3, 4): -10},
            [3, 3, 3, 3, 3, 3],
            24,
        ),
        ([[0, 2, 1], [3, 0, 0]], {}, [1, 0], 5),
    ],
)
def test_viterbi_decode_of_the_utility_cases(score, transitions, tags, best):
    if isinstance(transitions, dict):
        pairs, transitions = transitions, np.zeros([len(score[0])] * 2)
        for pair, value in pairs.items():
            transitions[pair] = value
    assert crf.viterbi_decode(score, transitions) == (tags, best)


def test_viterbi_decode_of_observed_tags():
    observed, score = [2, None, None, 0, 4, None], np.array([[0, 0, 0, 7, 7]] * 6, float)
    for step, tag in enumerate(observed):
        if tag is not None:
            score[step, np.arange(5) != tag] = NEG_INF
    transitions = np.zeros([5, 5])
    transitions[4, 4], transitions[4, 3], transitions[3, 4] = -10, -2, -2
    assert crf.viterbi_decode(score, transitions)[0] == [2, 3, 3, 0, 4, 3]


def test_viterbi_decode_of_no_step_is_empty():
    assert crf.viterbi_decode(np.zeros([0, 3]), TRANSITIONS) == ([], 0)


def test_viterbi_decode_says_what_shape_it_wants():
    with pytest.raises(ValueError, match=r"\[time, tags\]; got \(1, 4, 3\)"):
        crf.viterbi_decode(INPUTS, TRANSITIONS)


def test_one_function_with_a_signature_serves_every_length():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 10]),
            tf.TensorSpec([10, 10]),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def decode(potentials, transitions, lengths):
        return crf.crf_decode(potentials, transitions, lengths)

    for steps in (1, 16):
        tags, score = decode(tf.ones([2, steps, 10]), tf.ones([10, 10]), [steps, 1])
        assert_array_equal(tags, np.zeros([2, steps]))
        assert_array_equal(score, [2 * steps - 1, 1])


def test_bad_shapes_are_refused_in_words():
    with pytest.raises(ValueError, match=r"rank 3, \[batch, time, tags\]; got rank 2"):
        crf.crf_log_norm(INPUTS[0], LENGTHS, TRANSITIONS)
    with pytest.raises(ValueError, match=r"transitions must have the shape .*\[3, 3\]"):
        crf.crf_decode(INPUTS, TRANSITIONS[:2], LENGTHS)
    with pytest.raises(ValueError, match=r"tag_bitmap must have the shape of inputs.*\(1, 2, 3\)"):
        crf.crf_constrained_decode(INPUTS, BITMAP[:, :2], TRANSITIONS, LENGTHS)
    with pytest.raises(ValueError, match=r"lengths must lie in 0\.\.4; got 5 at row 0"):
        crf.crf_log_norm(INPUTS, [5], TRANSITIONS)
    with pytest.raises(TypeError, match="floating point, got int32"):
        crf.crf_log_norm(INPUTS.astype(np.int32), LENGTHS, TRANSITIONS)
