"""LinearChainCRF.constrained: rules of a scheme and allowed sets, in every answer."""

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF, tags
from laws import SHAPE, TAGS, draw_scores
from oracle import Oracle
from regimes import in_a_graph, run

NAMES = ["O", "B-X", "I-X"]
RULES = tags.allowed_transitions(NAMES, "BIO")
SETS = np.random.default_rng(3).random(SHAPE) < 0.8


def answers(potentials, transitions, start, end, mask, sets):
    scores = [potentials, transitions, start, end]
    with tf.GradientTape() as tape:
        tape.watch(scores)
        free = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
        crf = free.constrained(RULES).constrained(sets)
        log_partition = crf.log_partition()
    return {
        "log_partition": log_partition,
        "marginals": crf.marginals(),
        "tags": crf.argmax().tags,
        "most_right": crf.posterior_decode(),
        "drawn": crf.sample(4, seed=1),
        "gradients": tape.gradient(log_partition, scores),
    }


def ruled(scores):
    """The oracle of the scores with -inf where the rules and the sets forbid."""
    shut = [
        np.where(allowed, part, -np.inf) for allowed, part in zip(RULES, scores[1:4], strict=True)
    ]
    return Oracle(np.where(SETS, scores.potentials, -np.inf), *shut, scores.mask)


@in_a_graph
class TestEveryAnswer:
    SCORES = draw_scores(21)

    def ask(self, regime):
        floats = [np.asarray(array, "float64") for array in self.SCORES[:4]]
        return run(regime, answers, *floats, self.SCORES.mask, SETS)

    def test_is_that_of_scores_with_minus_infinity_there(self, regime):
        oracle, found = ruled(self.SCORES), self.ask(regime)
        assert_allclose(found["log_partition"], oracle.log_partition(), atol=1e-10)
        assert_allclose(found["marginals"], oracle.marginals(), atol=1e-10)
        legal = oracle.log_partition() > -np.inf
        assert legal.any()
        assert not legal.all()
        assert_array_equal(found["tags"][legal], oracle.argmax()[0][legal])

    def test_is_legal(self, regime):
        oracle, found = ruled(self.SCORES), self.ask(regime)
        legal = oracle.log_partition() > -np.inf
        for paths in (found["tags"], found["most_right"], *found["drawn"]):
            assert (oracle.score(paths)[legal] > -np.inf).all()
        assert_array_equal(found["marginals"][~SETS], 0)

    def test_has_no_gradient_for_what_is_ruled_out_and_none_that_is_not_a_number(self, regime):
        gradients = self.ask(regime)["gradients"]
        for gradient, allowed in zip(gradients[1:], RULES, strict=True):
            assert not np.isnan(gradient).any()
            assert_array_equal(gradient[~allowed], 0)


def test_sets_say_nothing_of_dropped_steps():
    crf = LinearChainCRF(np.zeros([1, 3, TAGS]), np.zeros([TAGS, TAGS]), mask=[[1, 0, 1]])
    sets = np.array([[[1, 1, 0], [0, 0, 0], [0, 1, 1]]], bool)
    assert_allclose(np.exp(crf.constrained(sets).log_partition()), [4])


@pytest.mark.parametrize(
    ("allowed", "error", "message"),
    [
        (RULES[:2], ValueError, r"three arrays, \(transitions, start, end\); got 2"),
        (
            (RULES[0], RULES[1], [True]),
            ValueError,
            r"allowed end must have the shape \[3\]; got \(1,",
        ),
        (
            np.ones([1, 2, 4], bool),
            ValueError,
            r"allowed must have the shape of the potentials.*\(1, 2, 4",
        ),
        (np.ones([1, 2, 3]), TypeError, r"allowed must be bool, got float64"),
    ],
)
def test_other_arrays_are_refused(allowed, error, message):
    crf = LinearChainCRF(np.zeros([1, 2, 3]), np.zeros([3, 3]))
    with pytest.raises(error, match=message):
        crf.constrained(allowed)
