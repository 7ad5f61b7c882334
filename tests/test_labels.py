"""Partly known labels: allowed sets, one-hot labels, ignored steps, and the terms of each step."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import CRFLoss, LinearChainCRF
from laws import EVERY_MASK, SHAPE, TAGS, draw_scores, draw_tags
from oracle import Oracle
from regimes import DTYPES, REGIMES, run

TOLERANCE = {"float32": 3e-5, "float64": 1e-11}
ALLOWED = np.random.default_rng(5).random(SHAPE) < 0.6
ALLOWED[3:6] = True
TAGS_OF_ROWS = draw_tags(1)


def partial_answers(potentials, transitions, start, end, mask, allowed, tags):
    """Answers about allowed sets and tags, with the gradients for potentials and transitions."""

    def distribution():
        return LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)

    def gradients(question):
        with tf.GradientTape() as tape:
            tape.watch([potentials, transitions])
            answer = question(distribution())
        return tape.gradient(answer, [potentials, transitions])

    crf = distribution()
    return {
        "log_prob": crf.log_prob(allowed),
        "terms": crf.token_log_prob(allowed),
        "gradients": gradients(lambda crf: crf.log_prob(allowed)),
        "gradients_of_terms": gradients(lambda crf: crf.token_log_prob(allowed)),
        "path": crf.log_prob(tags),
        "path_terms": crf.token_log_prob(tags),
        "path_gradients": gradients(lambda crf: crf.log_prob(tags)),
        "gradients_of_path_terms": gradients(lambda crf: crf.token_log_prob(tags)),
        "one_hot": crf.log_prob(tf.one_hot(tags, TAGS)),
    }


def ask(regime, dtype, scores, allowed=ALLOWED):
    floats = [np.asarray(array, dtype) for array in scores[:4]]
    tags = TAGS_OF_ROWS.astype("int32")
    return run(regime, partial_answers, *floats, scores.mask, allowed, tags)


# Tracing and compiling take seconds each: the other pairs, XLA among them, are slow tests.
OFTEN = [("eager", "float32"), ("graph", "float64")]
CASES = [
    case if case in OFTEN else pytest.param(*case, marks=pytest.mark.slow)
    for case in itertools.product(REGIMES, DTYPES)
]


@pytest.mark.parametrize(("regime", "dtype"), CASES)
class TestAgainstAllPaths:
    def test_sets_have_the_probability_of_the_paths_that_agree(self, regime, dtype):
        scores = draw_scores(7)
        expected = Oracle(*scores).allowed_log_prob(ALLOWED)
        answers = ask(regime, dtype, scores)
        assert np.isinf(expected).any()
        assert_allclose(answers["log_prob"], expected, atol=TOLERANCE[dtype])
        assert_allclose(answers["terms"].sum(axis=1), expected, atol=TOLERANCE[dtype])

    def test_with_forbidden_scores_too(self, regime, dtype):
        scores = draw_scores(8, forbidden=0.1)
        oracle = Oracle(*scores)
        legal = oracle.log_partition() > -np.inf
        with np.errstate(invalid="ignore"):
            expected = oracle.allowed_log_prob(ALLOWED)[legal]
        answers = ask(regime, dtype, scores)
        assert_allclose(answers["log_prob"][legal], expected, atol=TOLERANCE[dtype])
        for name in ("gradients", "gradients_of_terms", "gradients_of_path_terms"):
            for gradient in answers[name]:
                assert not np.isnan(gradient).any(), name

    def test_the_gradient_is_what_is_expected_of_the_paths_that_agree_less_of_all(
        self, regime, dtype
    ):
        scores = draw_scores(7)
        oracle = Oracle(*scores)
        possible = oracle.allowed_log_prob(ALLOWED) > -np.inf
        expected = oracle.allowed_counts(ALLOWED)[possible]
        answers = ask(regime, dtype, scores)
        for name in ("gradients", "gradients_of_terms"):
            potentials = answers[name][0][possible]
            assert_allclose(potentials, expected, atol=TOLERANCE[dtype], err_msg=name)

    def test_the_terms_of_a_path_sum_to_its_log_prob_and_so_do_their_gradients(self, regime, dtype):
        answers = ask(regime, dtype, draw_scores(9))
        terms = answers["path_terms"]
        assert_allclose(terms.sum(axis=1), answers["path"], atol=TOLERANCE[dtype])
        assert (terms <= 0).all()
        assert_array_equal(terms[~EVERY_MASK], 0)
        pairs = zip(answers["gradients_of_path_terms"], answers["path_gradients"], strict=True)
        for ours, closed in pairs:
            assert_allclose(ours, closed, atol=20 * TOLERANCE[dtype])

    def test_one_hot_labels_are_tags(self, regime, dtype):
        answers = ask(regime, dtype, draw_scores(9))
        assert_allclose(answers["one_hot"], answers["path"], atol=TOLERANCE[dtype])

    def test_a_row_of_which_nothing_is_known_gives_exactly_0_and_no_gradient(self, regime, dtype):
        answers = ask(regime, dtype, draw_scores(7))
        assert_array_equal(answers["log_prob"][3:6], 0)
        assert_array_equal(answers["terms"][3:6], 0)
        assert_array_equal(answers["gradients"][0][3:6], 0)


POTENTIALS = [
    [[1, 0, 0, 0.1, 0.4, 0.6], [0, 0.5, 0.7, 0, 0.1, 0.3], [0.1, 0.5, 2, 0.7, 1, 0],
     [0.4, 1, 0.9, 0.2, 0.9, 0]],
    [[0, 0, 1, 0.7, 0.4, 0.3], [0, 0.1, 0.4, 0.8, 0, 0.2], [0, 0.5, 0.4, 0.9, 0, 1],
     [0.3, 0.1, 0.7, 0, 0, 0.6]],
]  # fmt: skip
TRANSITIONS = [
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.5, 0.2, 0.9, 0.7, 0.4, 0.1], [-0.8, 7.3, -0.2, 3.7, 0.3, 1],
    [0.2, 0.4, 0.6, -0.8, 1, -1.2], [-1, 0, -1, 0.1, 1, 0.1], [1, 1, 1, 1, 1, 1],
]  # fmt: skip
START, END = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [-0.1, -0.2, 0.3, -0.4, -0.4, -0.5]


class TestGoldenValues:
    """Those of pytorch-partial-crf."""

    @pytest.mark.parametrize(
        ("row", "labels", "expected"),
        [
            (0, [1, 3, 4, 5], 16.6687753),
            (1, [3, 0, 2, 5], 14.2431849),
            (1, [3, 0], 7.3692138),
            (0, [-1, 3, 4, -1], 10.5617693),
            (1, [1, 1, -1, 1], 8.3392306),
            (1, [1, 1], 8.2692138),
            (1, [-1, -1, -1, -1], 0),
            (1, [-1, -1, -1], 0),
        ],
    )
    def test_unlabelled_steps_may_have_any_tag(self, row, labels, expected):
        potentials = np.array([POTENTIALS[row][: len(labels)]], np.float64)
        crf = LinearChainCRF(potentials, TRANSITIONS, start=START, end=END)
        loss = -float(crf.log_prob([labels], ignore_index=-1)[0])
        assert loss == pytest.approx(expected, abs=1e-6)

    def test_a_decoder_restricted_by_forbidden_potentials_is_that_of_the_source(self):
        allowed = [{0, 1, 3, 4, 5}, {0, 2, 3, 4, 5}, {2, 3, 5}, {0, 2, 3, 4, 5}]
        sets = np.array([[[tag in step for tag in range(6)] for step in allowed]])
        potentials = np.where(sets, np.array([POTENTIALS[0]]), -np.inf)
        crf = LinearChainCRF(potentials, TRANSITIONS, start=START, end=END)
        assert_array_equal(crf.argmax().tags, [[5, 2, 3, 2]])
        assert float(crf.argmax().score[0]) == pytest.approx(9.1)
        assert float(crf.log_partition()[0]) == pytest.approx(11.5321377, abs=1e-6)


class TestTransitionsThatDependOnTheInput:
    """[B, T-1, K, K], here the same at each step, so that [K, K] has the right answers."""

    @pytest.mark.slow
    @pytest.mark.parametrize("regime", REGIMES)
    def test_give_the_answers_of_shared_ones_where_they_are_the_same(self, regime):
        scores = draw_scores(11, forbidden=0.05)
        varied = np.tile(scores.transitions, (SHAPE[0], SHAPE[1] - 1, 1, 1))
        shared = ask("graph", "float64", scores)
        answers = ask(regime, "float64", scores._replace(transitions=varied))
        for name in ("log_prob", "terms", "path", "path_terms", "one_hot"):
            assert_allclose(answers[name], shared[name], atol=1e-10, err_msg=name)
        for name in ("gradients", "path_gradients", "gradients_of_path_terms"):
            potentials, transitions = answers[name]
            assert_allclose(potentials, shared[name][0], atol=1e-10, err_msg=name)
            assert_allclose(transitions.sum((0, 1)), shared[name][1], atol=1e-10, err_msg=name)

    def test_lead_into_their_step_from_the_kept_step_before_it(self):
        transitions = np.zeros([1, 2, 2, 2])
        transitions[0, 1] = [[0, 5], [0, 0]]
        crf = LinearChainCRF(np.zeros([1, 3, 2]), transitions, mask=[[1, 0, 1]])
        assert float(crf.score([[0, 0, 1]])[0]) == 5
        assert_array_equal(crf.argmax().tags, [[0, 0, 1]])
        assert_array_equal(crf.transitions, np.where([[[[0]], [[1]]]], transitions, 0))

    @pytest.mark.parametrize("shape", [(1, 3, 2, 2), (2, 2, 2, 2), (1, 2, 2, 3)])
    def test_of_another_shape_are_refused(self, shape):
        message = r"transitions must have the shape \[K, K\] or \[B, T-1, K, K\] = \[1, 2, 2, 2\]"
        with pytest.raises(ValueError, match=message):
            LinearChainCRF(np.zeros([1, 3, 2]), np.zeros(shape))

    @pytest.mark.parametrize("steps", [0, 1])
    def test_are_empty_where_there_is_at_most_one_step(self, steps):
        crf = LinearChainCRF(np.zeros([2, steps, 3]), np.zeros([2, 0, 3, 3]))
        assert_allclose(crf.log_partition(), [steps * np.log(3)] * 2)
        assert_array_equal(crf.argmax().tags, np.zeros([2, steps]))


class TestBadInput:
    CRF = LinearChainCRF(np.zeros([1, 2, 3]), np.zeros([3, 3]), lengths=[1])

    def test_sets_of_other_numbers_are_refused_on_kept_steps_only(self):
        sets = [[[1, 0, 0], [7, 7, 7]]]
        assert float(self.CRF.log_prob(sets)[0]) == pytest.approx(-np.log(3))
        with pytest.raises(ValueError, match=r"must hold 0 and 1.*got 2 at row 0, step 0"):
            self.CRF.log_prob([[[2, 0, 0], [0, 0, 0]]])

    def test_sets_of_another_shape_are_refused(self):
        with pytest.raises(ValueError, match=r"allowed sets must have the shape .*\(1, 2, 3\)"):
            self.CRF.log_prob(np.ones([1, 2, 4]))

    def test_a_label_that_is_neither_a_tag_nor_ignored_is_refused(self):
        with pytest.raises(ValueError, match=r"tags must lie in 0\.\.2 .*got the tag -2"):
            self.CRF.log_prob([[-2, -1]], ignore_index=-1)

    @pytest.mark.parametrize(
        ("dtype", "ignore_index"), [("uint8", 256), ("int8", 257), ("int32", 2**32), ("uint8", -1)]
    )
    def test_a_label_that_the_dtype_does_not_have_ignores_nothing(self, dtype, ignore_index):
        crf = LinearChainCRF(np.arange(6.0).reshape(1, 2, 3), np.zeros([3, 3]))
        tags = np.array([[0, 1]], dtype)
        assert_array_equal(crf.log_prob(tags, ignore_index=ignore_index), crf.log_prob(tags))

    @pytest.mark.parametrize("ignore_index", [0.5, True, [0, 1], np.nan])
    def test_an_ignore_index_that_is_no_whole_number_is_refused(self, ignore_index):
        message = "ignore_index must be None or a whole number; got"
        with pytest.raises(ValueError, match=message):
            self.CRF.log_prob([[0, 1]], ignore_index=ignore_index)
        with pytest.raises(ValueError, match=message):
            CRFLoss(ignore_index=ignore_index)

    @pytest.mark.parametrize("name", ["transitions", "start", "end"])
    @pytest.mark.parametrize("dtype", ["bool", "complex64"])
    def test_what_is_allowed_is_not_taken_for_scores(self, name, dtype):
        scores = {"transitions": np.zeros([3, 3]), "start": np.zeros(3), "end": np.zeros(3)}
        scores[name] = scores[name].astype(dtype)
        with pytest.raises(TypeError, match=rf"{name} must be real numbers, scores; got {dtype}"):
            LinearChainCRF(np.zeros([1, 2, 3]), **scores)

    def test_a_set_that_allows_nothing_is_impossible(self):
        empty = np.zeros([1, 2, 3], bool)
        assert float(self.CRF.log_prob(empty)[0]) == -np.inf
        assert_array_equal(self.CRF.token_log_prob(empty), [[-np.inf, 0]])
