"""Bug reports from the trackers of other CRF libraries, each as a promise: the core's share.

A test is named by the report's letter and number in the list it comes from. X0..X5 are the small
chains that the reports are told with; their answers come from listing every path in float64.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF, crf as contrib
from oracle import Oracle, Scores
from regimes import REGIMES, ask, in_a_graph, run

every_regime = pytest.mark.parametrize("regime", REGIMES)

TRANSITIONS = np.array([[0.5, -0.5], [0, 0.25]], np.float32)
ROW_A, ROW_B = [[1.0, 0]], [[0, 0.75], [1, 0], [0, 0.25]]
X1 = np.array([ROW_A + [[0, 0]] * 2, ROW_B], np.float32)
X1_TAGS, X1_LENGTHS = np.array([[0, 0, 0], [1, 0, 1]]), np.array([1, 3])
X1_LOSSES = [0.313262, 2.016171]
X1_MARGINALS = [[0.370994, 0.629006], [0.738333, 0.261667], [0.600250, 0.399750]]
X2_ENDS = {"start": np.array([0.5, 0], np.float32), "end": np.array([0, 1], np.float32)}
X3 = np.array([[[0, 0.5], [3, -3], [0, 0.25]]], np.float32)
X4 = np.array([[[0.1, 0], [0.1, 0], [0, 1]]], np.float32)
X4_TRANSITIONS = np.array([[0, -2], [0, 0]], np.float32)
X5 = np.array([[[1, 0, 2], [0, 0, 1.5]]], np.float32)
X5_RULES = {
    "transitions": np.array([[0, 0, -np.inf], [0, 0, 0], [0, 0, 0]], np.float32),
    "start": np.array([0, 0, -np.inf], np.float32),
}


def row_b(**arguments):
    return LinearChainCRF([ROW_B], TRANSITIONS, **arguments)


def x1(**arguments):
    return LinearChainCRF(X1, TRANSITIONS, **arguments)


def loss_and_best(potentials, transitions, start, end, mask, tags):
    """The negative log-likelihood, and the best tags with their score."""
    crf = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
    return -crf.log_prob(tags), *crf.argmax()


def ask_for_loss_and_best(regime, scores, tags):
    floats = [np.asarray(array, np.float32) for array in scores[:4]]
    return run(regime, loss_and_best, *floats, np.asarray(scores.mask, bool), np.asarray(tags))


def without_ends(potentials, mask):
    """Scores of X1's transitions and no boundary scores."""
    return Scores(np.asarray(potentials), TRANSITIONS, *np.zeros((2, 2)), np.asarray(mask))


@pytest.mark.parametrize(
    "arguments", [{}, {"mask": np.ones([1, 3], bool)}, {"lengths": [3]}], ids=str
)
def test_a1_the_loss_is_the_same_without_a_mask_with_a_full_one_and_with_lengths(arguments):
    assert_allclose(row_b(**arguments).log_prob([[1, 0, 1]]), [-2.016171], atol=1e-6)


@every_regime
@pytest.mark.parametrize("label", [-100, 99])
def test_a2_labels_on_padding_are_not_read(regime, label):
    mask = np.array([[1, 0, 0], [1, 1, 1]], bool)
    tags = np.where(mask, X1_TAGS, label)
    losses, *_ = ask_for_loss_and_best(regime, without_ends(X1, mask), tags)
    assert_allclose(losses, X1_LOSSES, atol=1e-6)


def test_a2_minus_100_on_a_kept_step_is_an_error():
    with pytest.raises(ValueError, match="the tag -100 at row 1, step 1"):
        x1(lengths=X1_LENGTHS).log_prob([[0, -100, -100], [1, -100, 1]])


@every_regime
def test_a3_a_mask_whose_first_step_is_off(regime):
    potentials, mask = np.array([[[1e3, -1e3], *ROW_B]]), [[False, True, True, True]]
    loss, tags, _ = ask_for_loss_and_best(regime, without_ends(potentials, mask), [[1, 1, 0, 1]])
    assert_allclose(loss, [2.016171], atol=1e-6)
    assert tags[0, 1:].tolist() == [1, 0, 0]


@every_regime
def test_a4_a_row_of_length_0(regime):
    mask = np.array([[False] * 3, [True] * 3])
    losses, tags, scores = ask_for_loss_and_best(regime, without_ends(X1, mask), X1_TAGS)
    assert_allclose(losses, [0, 2.016171], atol=1e-6)
    assert_array_equal(tags, [[0, 0, 0], [1, 0, 0]])
    assert_allclose(scores, [0, 2.25])


def test_a5_tags_past_the_length_are_0():
    potentials = np.random.default_rng(0).normal(size=(2, 6, 2)).astype(np.float32)
    tags = LinearChainCRF(potentials, TRANSITIONS, lengths=[2, 5]).argmax().tags.numpy()
    for row, length in enumerate([2, 5]):
        alone = Oracle(potentials[row : row + 1, :length], TRANSITIONS).argmax()[0]
        assert_array_equal(tags[row, :length], alone[0])
        assert_array_equal(tags[row, length:], 0)


@pytest.mark.parametrize("mask_type", ["bool", "int8", "uint8", "int32", "float32"])
def test_a6_a_mask_of_any_type_holds_more_than_255_steps(mask_type):
    zeros = np.zeros([1, 260, 3], np.float32)
    crf = LinearChainCRF(zeros, zeros[0, :3], mask=np.ones([1, 260], mask_type))
    assert_allclose(crf.log_prob(np.zeros([1, 260], int)), [-285.639195], rtol=1e-6)
    assert_array_equal(crf.argmax().tags, np.zeros([1, 260]))


def test_a7_a_row_of_length_1_in_a_longer_batch():
    assert_allclose(x1(lengths=X1_LENGTHS).log_prob(X1_TAGS), np.negative(X1_LOSSES), atol=1e-6)


@every_regime
def test_a8_a19_loss_and_decoding_join_over_a_hole(regime):
    loss, tags, score = ask_for_loss_and_best(
        regime, without_ends(X3, [[True, False, True]]), [[1, 0, 1]]
    )
    assert_allclose(loss, [0.916117], atol=1e-6)
    assert (tags[0, [0, 2]].tolist(), score.tolist()) == ([1, 1], [1.0])


def test_a9_no_mask_makes_the_loss_negative():
    """200 masks of 7 steps, each against the row without its dropped steps."""
    random = np.random.default_rng(0)
    shape = 200, 7, 4
    mask, tags = random.random(shape[:2]) < 0.6, random.integers(0, 4, shape[:2])
    ends = random.normal(size=(2, 4))
    scores = Scores(random.normal(size=shape), random.normal(size=(4, 4)), *ends, mask)
    log_probs = ask("graph", "float32", scores, tags)["log_prob"]
    assert log_probs.max() <= 0
    assert_allclose(log_probs, Oracle(*scores).log_prob(tags), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kept", [[0, 1, 1, 1, 0], [1, 1, 1, 0, 0]])
def test_a10_the_end_scores_count_and_train_behind_any_padding(kept):
    kept = np.array([kept], bool)
    potentials, tags = np.full([1, 5, 2], 7.0, np.float32), np.zeros([1, 5], int)
    potentials[kept], tags[kept] = ROW_B, [1, 0, 1]
    scores = Scores(potentials, TRANSITIONS, *X2_ENDS.values(), kept)
    answers = ask("graph", "float32", scores, tags)
    assert_allclose(answers["log_prob"], [-1.746748], atol=1e-6)
    assert_allclose(answers["log_partition"], [4.246748], atol=1e-6)
    assert (answers["best_tags"][kept].tolist(), answers["best_score"].tolist()) == (
        [0, 0, 1],
        [2.75],
    )
    assert np.abs(answers["log_prob_gradient"][3]).min() > 0.1


@pytest.mark.parametrize("mask_type", ["bool", "int32", "int64", "uint8", "float32"])
def test_a11_a_mask_of_numbers_is_a_mask(mask_type):
    mask = np.array([[1, 0, 0], [1, 1, 1]], mask_type)
    assert_allclose(x1(mask=mask).log_prob(X1_TAGS), np.negative(X1_LOSSES), atol=1e-6)


@pytest.mark.parametrize("value", [2.0, 0.5])
def test_a11_a_mask_of_other_numbers_is_an_error(value):
    mask = np.array([[1, 0, 0], [1, value, 1]], np.float32)
    with pytest.raises(
        ValueError, match=f"True and False, or 1 and 0; got {value} at row 1, step 1"
    ):
        x1(mask=mask)


def test_a12_a_dropped_step_of_a_million_changes_nothing():
    potentials = X3.copy()
    potentials[0, 1] = 1e6
    crf = LinearChainCRF(potentials, TRANSITIONS, mask=[[1, 0, 1]])
    assert_allclose(crf.log_prob([[1, 0, 1]]), [-0.916117], atol=1e-6)
    assert_allclose(crf.log_partition(), [1.916117], atol=1e-6)


def test_a13_tags_or_a_mask_longer_than_the_potentials_are_an_error():
    potentials = np.zeros([2, 5, 3], np.float32)
    both = r"tags.*\(2, 6\).*\(2, 5, 3\)", r"mask.*\(2, 6\).*\(2, 5, 3\)"

    @tf.function
    def traced():
        return LinearChainCRF(potentials, np.zeros([3, 3])).log_prob(tf.zeros([2, 6], tf.int32))

    with pytest.raises(ValueError, match=both[0]):
        LinearChainCRF(potentials, np.zeros([3, 3])).log_prob(np.zeros([2, 6], int))
    with pytest.raises(ValueError, match=both[0]):
        traced()
    with pytest.raises(ValueError, match=both[1]):
        LinearChainCRF(potentials, np.zeros([3, 3]), mask=np.ones([2, 6], bool))


def test_a14_a_mask_of_rank_3_is_an_error():
    with pytest.raises(ValueError, match=r"mask must have rank 2, \[batch, time\]; got rank 3"):
        x1(mask=np.ones([2, 3, 1], bool))


def test_a17_with_mask_and_lengths_a_step_counts_if_both_keep_it():
    mask = np.array([[1, 1, 0], [0, 1, 1]], bool)
    expected = [[True, False, False], [False, True, True]]
    assert_array_equal(x1(mask=mask, lengths=X1_LENGTHS).mask, expected)
    assert_array_equal(x1(mask=mask).narrowed(lengths=X1_LENGTHS).mask, expected)
    assert_array_equal(x1(lengths=X1_LENGTHS).narrowed(mask=mask).mask, expected)


@pytest.mark.parametrize("score", [0, 1e4, -1e4, np.nan])
@pytest.mark.parametrize("label", [0, 1])
def test_a18_what_lies_on_padding_has_no_effect_and_no_gradient(score, label):
    padding = np.arange(3) >= X1_LENGTHS[:, None]
    potentials = tf.constant(np.where(padding[..., None], score, X1), tf.float32)
    tags = np.where(padding, label, X1_TAGS)
    with tf.GradientTape() as tape:
        tape.watch(potentials)
        crf = LinearChainCRF(potentials, TRANSITIONS, lengths=X1_LENGTHS)
        log_prob = crf.log_prob(tags)
    assert_allclose(log_prob, np.negative(X1_LOSSES), atol=1e-6)
    assert_array_equal(tape.gradient(log_prob, potentials)[padding], 0)


def test_a20_a21_e4_a_row_does_not_depend_on_its_batch():
    random = np.random.default_rng(1)
    scores = Scores(
        random.normal(size=(5, 4, 3)),
        random.normal(size=(3, 3)),
        *random.normal(size=(2, 3)),
        np.arange(4) < np.array([[4], [4], [3], [3], [3]]),
    )
    tags = random.integers(0, 3, (5, 4))
    together = ask("graph", "float64", scores, tags)
    assert together["log_prob"].max() <= 0
    for row in range(5):
        of_row = slice(row, row + 1)
        alone = scores._replace(potentials=scores.potentials[of_row], mask=scores.mask[of_row])
        answers = ask("graph", "float64", alone, tags[of_row])
        for name in ("log_prob", "log_partition", "marginals", "best_tags", "best_score"):
            assert_allclose(answers[name][0], together[name][row], rtol=1e-12, err_msg=name)


def test_a22_a_mask_of_first_sub_words_is_the_row_of_those_steps():
    random = np.random.default_rng(2)
    potentials, tags = random.normal(size=(1, 7, 3)), random.integers(0, 3, (1, 7))
    transitions = random.normal(size=(3, 3))
    ends, mask = np.zeros((2, 3)), np.array([[0, 1, 0, 1, 1, 0, 1]], bool)
    hole = Scores(potentials, transitions, *ends, mask)
    gathered = Scores(potentials[:, mask[0]], transitions, *ends, np.ones([1, 4], bool))
    with_holes = ask("graph", "float64", hole, tags)
    without = ask("graph", "float64", gathered, tags[:, mask[0]])
    assert_allclose(with_holes["log_prob"], without["log_prob"], rtol=1e-12)
    assert_array_equal(with_holes["best_tags"][mask], without["best_tags"][0])


@every_regime
def test_b1_one_step_alone_and_in_a_batch_of_longer_rows(regime):
    alone = without_ends([ROW_A], [[True]])
    loss, tags, _ = ask_for_loss_and_best(regime, alone, [[0]])
    assert_allclose(loss, [0.313262], atol=1e-6)
    assert tags.tolist() == [[0]]


def test_b2_no_tag_is_outside_the_users_own():
    random = np.random.default_rng(3)
    scores = Scores(
        random.normal(size=(1000, 5, 4)),
        random.normal(size=(4, 4)),
        *random.normal(size=(2, 4)),
        np.arange(5) < random.integers(1, 6, (1000, 1)),
    )
    tags = ask("graph", "float32", scores, np.zeros([1000, 5], int))["best_tags"]
    assert (tags.min(), tags.max()) == (0, 3)


def test_b7_no_axis_need_be_known():
    answers = ask("graph", "float32", without_ends(X1, np.ones([2, 3], bool)), X1_TAGS)
    assert_allclose(answers["log_prob"][1], -2.016171, atol=1e-6)


@every_regime
def test_b9_a_tag_counted_from_1_is_an_error_where_it_can_be_raised_and_nan_elsewhere(regime):
    scores, tags = without_ends(X1, np.ones([2, 3], bool)), [[0, 1, 1], [1, 0, 2]]
    if regime == "xla":
        losses, *_ = ask_for_loss_and_best(regime, scores, tags)
        assert_array_equal(np.isnan(losses), [False, True])
    else:
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
            ask_for_loss_and_best(regime, scores, tags)
        for words in ("tags must lie in 0..", "the tag", "2", "at row", "1", "step"):
            assert words in str(error.value)


@pytest.mark.parametrize("shape", [(3, 2), (1, 3, 2, 2)])
def test_b10_potentials_of_another_rank_are_an_error(shape):
    words = rf"rank 3, \[batch, time, tags\]; got rank {len(shape)}"
    with pytest.raises(ValueError, match=words):
        LinearChainCRF(np.zeros(shape, np.float32), TRANSITIONS)


def test_b12_ragged_potentials_and_tags_say_themselves_how_long_rows_are():
    ragged = tf.ragged.constant([ROW_A, ROW_B], ragged_rank=1, dtype=tf.float32)
    tags = tf.RaggedTensor.from_tensor(X1_TAGS, lengths=ragged.row_lengths())
    crf = LinearChainCRF(ragged, TRANSITIONS)
    for labels in (tags, X1_TAGS, tf.ragged.map_flat_values(tf.one_hot, tags, 2)):
        assert_allclose(crf.log_prob(labels), np.negative(X1_LOSSES), atol=1e-6)
    assert_array_equal(crf.mask, [[True, False, False], [True, True, True]])
    with pytest.raises(
        ValueError, match=r"ragged tags must end with the last kept step.*got 2 .*row 0"
    ):
        crf.log_prob(tf.ragged.constant([[0, 1], [1, 0, 1]]))


def test_b12_ragged_functions_of_contrib_need_no_lengths():
    ragged = tf.ragged.constant([ROW_A, ROW_B], ragged_rank=1, dtype=tf.float32)
    tags = tf.RaggedTensor.from_tensor(X1_TAGS, lengths=ragged.row_lengths())

    @tf.function
    def answers(ragged, tags):
        bitmap = tf.ragged.map_flat_values(tf.one_hot, tags, 2)
        return (
            contrib.crf_log_likelihood(ragged, tags, None, TRANSITIONS)[0],
            contrib.crf_multitag_sequence_score(ragged, bitmap, None, TRANSITIONS),
            contrib.crf_unary_score(tags, None, ragged)
            + contrib.crf_binary_score(tags, None, TRANSITIONS),
            contrib.crf_decode(ragged, TRANSITIONS, None)[0],
        )

    likelihood, only_these, score, decoded = answers(ragged, tags)
    assert_allclose(likelihood, np.negative(X1_LOSSES), atol=1e-6)
    assert_allclose(only_these, score, atol=1e-6)
    assert_array_equal(decoded, [[0, 0, 0], [1, 0, 0]])


def test_b12_what_is_ragged_along_tags_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"potentials\.to_tensor\(\).*row_lengths\(\) as lengths"):
        LinearChainCRF(tf.ragged.constant([[[0.0], [1.0, 2.0]]]), TRANSITIONS)


def test_b14_one_tag_leaves_no_choice():
    scores = Scores(np.ones([2, 3, 1]), np.ones([1, 1]), *np.ones((2, 1)), np.ones([2, 3], bool))
    answers = ask("graph", "float32", scores, np.zeros([2, 3], int))
    assert_array_equal(answers["log_prob"], [0, 0])
    assert_array_equal(answers["best_tags"], np.zeros([2, 3]))


@every_regime
def test_b15_an_empty_batch(regime):
    scores = without_ends(np.zeros([0, 3, 2]), np.ones([0, 3], bool))
    losses, tags, scores = ask_for_loss_and_best(regime, scores, np.zeros([0, 3], int))
    assert (losses.shape, tags.shape, scores.shape) == ((0,), (0, 3), (0,))


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(tf.float16, 2e-3), (tf.bfloat16, 2e-3), (tf.float32, 1e-6), (tf.float64, 1e-6)],
)
def test_c1_every_float_type_is_computed_in_at_least_float32(dtype, tolerance):
    crf = LinearChainCRF(tf.cast(X1, dtype), TRANSITIONS, lengths=X1_LENGTHS)
    log_prob = crf.log_prob(X1_TAGS)
    assert log_prob.dtype == (tf.float64 if dtype == tf.float64 else tf.float32)
    assert crf.argmax().tags.dtype == tf.int32
    assert_allclose(log_prob, np.negative(X1_LOSSES), atol=tolerance)


@in_a_graph
def test_c3_a_tag_that_cannot_be_reached_has_gradient_0_and_makes_no_nan(regime):
    scores = Scores(
        np.array([[[0.5, 1, 2], [0, 1, 3], [1, 0, 2]]], np.float32),
        np.array([[0, 1, -np.inf], [1, 0, -np.inf], [0, 0, -np.inf]], np.float32),
        np.array([0, 0, -np.inf], np.float32),
        np.zeros(3, np.float32),
        np.ones([1, 3], bool),
    )
    answers = ask(regime, "float32", scores, np.array([[0, 1, 1]]))
    assert_allclose(answers["log_partition"], Oracle(*scores).log_partition(), atol=1e-5)
    for name in ("partition_gradient", "log_prob_gradient"):
        potentials, transitions, start, end = answers[name]
        assert all(np.isfinite(part).all() for part in (potentials, transitions, start, end))
        assert_array_equal(potentials[..., 2], 0)
        assert_array_equal(transitions[2], 0)
        assert_array_equal(transitions[:, 2], 0)
        assert (start[2], end[2]) == (0, 0)


def test_c1_float64_keeps_ten_digits():
    scores = without_ends(X1, np.arange(3) < X1_LENGTHS[:, None])
    log_prob = ask("graph", "float64", scores, X1_TAGS)["log_prob"]
    assert_allclose(log_prob, Oracle(*scores).log_prob(X1_TAGS), rtol=1e-10)


def test_c4_large_scores_keep_the_loss_finite_and_never_negative():
    moved = LinearChainCRF(X1[1:] + 1e4, TRANSITIONS).log_prob([[1, 0, 1]])
    assert_allclose(moved, [-2.016171], atol=5e-3)
    assert float(moved[0]) <= 0
    assert np.isfinite(LinearChainCRF(X1[1:] * 1e3, TRANSITIONS).log_prob([[1, 0, 1]]))


def test_c8_the_gradient_is_the_marginals_less_the_gold_and_is_not_cut_to_0():
    potentials = tf.Variable([ROW_B])
    with tf.GradientTape() as tape:
        loss = -LinearChainCRF(potentials, TRANSITIONS).log_prob([[1, 0, 1]])
    assert_allclose(tape.gradient(loss, potentials)[0, 0], [0.370994, -0.370994], atol=1e-6)
    well_fitted = tf.Variable([[[0.0, 11], [11, 0], [0, 11]]])
    with tf.GradientTape() as tape:
        loss = -LinearChainCRF(well_fitted, TRANSITIONS).log_prob([[1, 0, 1]])
    assert 0 < float(loss[0]) < 2e-4
    assert np.abs(tape.gradient(loss, well_fitted)).min() > 1e-6


def test_c9_a_step_without_a_legal_tag_is_minus_infinity_and_not_nan():
    potentials = X1[1:].copy()
    potentials[0, 1] = -np.inf
    crf = LinearChainCRF(potentials, TRANSITIONS)
    assert_array_equal(crf.log_partition(), [-np.inf])
    assert_array_equal(crf.argmax().score, [-np.inf])


@pytest.mark.parametrize("constant", [-50, 0.5, 1e3])
def test_c10_a_constant_on_every_score_changes_no_loss(constant):
    crf = LinearChainCRF(X1[1:] + np.float32(constant), TRANSITIONS)
    assert_allclose(crf.log_prob([[1, 0, 1]]), [-2.016171], atol=2e-7 * max(50, abs(constant)))
    assert_array_equal(crf.argmax().tags, [[1, 0, 0]])


@pytest.mark.parametrize("forbidden", [-1e4, -1e9, -np.inf])
def test_c12_a_very_bad_transition_is_as_good_as_a_forbidden_one(forbidden):
    rules = {name: np.maximum(scores, np.float32(forbidden)) for name, scores in X5_RULES.items()}
    crf = LinearChainCRF(X5, **rules)
    assert_array_equal(crf.argmax().tags, [[1, 2]])
    assert_allclose(crf.log_prob([[1, 2]]), [1.5 - 2.478071], atol=1e-6)


def test_e1_the_confidence_of_a_tag_and_of_a_path():
    crf = row_b()
    assert_allclose(crf.marginals()[0], X1_MARGINALS, atol=1e-6)
    assert_allclose(crf.log_partition(), [3.516171], atol=1e-6)
    assert_allclose(np.exp(crf.log_prob([[1, 0, 0]])), [0.281909], atol=1e-6)
    best = crf.argmax()
    assert (best.tags.numpy().tolist(), best.score.numpy().tolist()) == ([[1, 0, 0]], [2.25])


def test_e2_forbidden_tags_do_not_come_out():
    ruled = LinearChainCRF(X5, **X5_RULES)
    best = ruled.argmax()
    assert (best.tags.numpy().tolist(), best.score.numpy().tolist()) == ([[1, 2]], [1.5])
    assert_allclose(ruled.log_partition(), [2.478071], atol=1e-6)
    free = LinearChainCRF(X5, np.zeros([3, 3])).argmax()
    assert (free.tags.numpy().tolist(), free.score.numpy().tolist()) == ([[2, 2]], [3.5])


def test_e2_no_illegal_transition_in_1000_random_rows():
    random = np.random.default_rng(4)
    mask = np.arange(8) < random.integers(1, 9, (1000, 1))
    scores = Scores(5 * random.normal(size=(1000, 8, 3)), *X5_RULES.values(), np.zeros(3), mask)
    tags = ask("graph", "float32", scores, np.zeros([1000, 8], int))["best_tags"]
    assert np.all(tags[:, 0] != 2)
    assert not np.any((tags[:, :-1] == 0) & (tags[:, 1:] == 2) & mask[:, 1:])


def test_e6_e7_the_best_path_of_many_random_rows_is_that_of_all_paths():
    """Whole numbers, so that many paths tie."""
    random = np.random.default_rng(5)
    for number_of_tags in (2, 3, 4, 5):
        scores = Scores(
            random.integers(-2, 3, (75, 6, number_of_tags)),
            random.integers(-2, 3, [number_of_tags] * 2),
            *random.integers(-2, 3, (2, number_of_tags)),
            np.arange(6) < random.integers(1, 7, (75, 1)),
        )
        answers = ask("graph", "float32", scores, np.zeros([75, 6], int))
        tags, score = Oracle(*scores).argmax()
        assert_array_equal(answers["best_tags"], tags)
        assert_array_equal(answers["best_score"], score)


def test_e9_rules_for_start_and_end_hold():
    start_rule = LinearChainCRF(X5[:, :1], np.zeros([3, 3]), start=X5_RULES["start"])
    assert_array_equal(start_rule.argmax().tags, [[0]])
    potentials = np.array([[[0, 0, 0], [0, 5, 0]]], np.float32)
    end_rule = LinearChainCRF(potentials, np.zeros([3, 3]), end=[0, -np.inf, 0])
    assert end_rule.argmax().tags[0, 1] != 1


def test_e13_transitions_are_from_row_to_column():
    best = LinearChainCRF(np.zeros([1, 2, 2], np.float32), [[0, 5], [0, 0.0]]).argmax()
    assert (best.tags.numpy().tolist(), best.score.numpy().tolist()) == ([[0, 1]], [5])


def test_e14_what_is_forbidden_stays_so_however_good_the_rest():
    potentials = np.array([[[1e4, 0], [0, 1e4]]], np.float32)
    best = LinearChainCRF(potentials, [[0, -np.inf], [0, 0]]).argmax()
    assert (best.tags[0, 0], best.tags[0, 1]) != (0, 1)


def test_e17_the_tags_come_in_the_order_of_time():
    best = LinearChainCRF(10 * np.eye(4, dtype=np.float32)[np.newaxis], np.zeros([4, 4])).argmax()
    assert_array_equal(best.tags, [[0, 1, 2, 3]])


def test_e18_the_first_tag_may_be_any():
    assert_array_equal(LinearChainCRF([[[0, 3.0]]], np.zeros([2, 2])).argmax().tags, [[1]])


def test_x0_with_all_scores_zero_every_path_is_equally_probable():
    for steps, tags in itertools.product((1, 3), (2, 3)):
        zeros = np.zeros([1, steps, tags])
        scores = Scores(zeros, np.zeros([tags, tags]), *np.zeros((2, tags)), zeros[..., 0] == 0)
        answers = ask("graph", "float64", scores, np.zeros([1, steps], int))
        assert_allclose(answers["log_prob"], [-steps * np.log(tags)], rtol=1e-12)


def test_x4_the_best_path_is_not_the_best_tag_of_each_step():
    crf = LinearChainCRF(X4, X4_TRANSITIONS)
    best = crf.argmax()
    assert (best.tags.numpy().tolist(), best.score.numpy().tolist()) == ([[1, 1, 1]], [1.0])
    assert_allclose(crf.log_prob(best.tags), [-1.009139], atol=1e-6)
