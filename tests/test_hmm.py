"""Hidden Markov models as chains: golden numbers, all paths, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF
from oracle import all_paths
from regimes import DTYPES, REGIMES, run

BOXES = {
    "initial": [0.2, 0.4, 0.4],
    "transition": [[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]],
    "emission": [[0.5, 0.5], [0.4, 0.6], [0.7, 0.3]],
}
SEEN = [[0, 1, 0]]  # red, white, red

every_regime = pytest.mark.parametrize("regime", REGIMES)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def in_dtype(dtype):
    return {name: np.array(value, dtype) for name, value in BOXES.items()}


@every_dtype
def test_the_boxes_of_balls(dtype):
    crf = LinearChainCRF.from_hmm(**in_dtype(dtype), observations=SEEN)
    best = crf.argmax()
    assert best.score.dtype == dtype
    assert_allclose(np.exp(crf.log_partition()), [0.130218], rtol=1e-6)
    assert_array_equal(best.tags, [[2, 2, 2]])
    assert_allclose(np.exp(best.score), [0.0147], rtol=1e-5)


def test_the_weather():
    """Normal emissions, given as log-densities: cold days, then hot ones."""
    degrees = np.array([-2, 0, 2, 4, 6, 8, 10], float)[:, np.newaxis]
    mean, deviation = np.array([0, 15]), np.array([5, 10])
    log_densities = -0.5 * ((degrees - mean) / deviation) ** 2 - np.log(deviation)
    crf = LinearChainCRF(
        log_densities[np.newaxis], np.log([[0.7, 0.3], [0.2, 0.8]]), start=np.log([0.8, 0.2])
    )
    assert_array_equal(crf.argmax().tags, [[0, 0, 0, 0, 0, 1, 1]])


def draw_hmm(seed, states, symbols):
    """Rows that sum to 1, with zeros among them."""
    random = np.random.default_rng(seed)

    def rows(*shape):
        weights = (
            random.random(shape) * (random.random(shape) < 0.7) + 1e-3 * np.eye(*shape[-2:])[0]
        )
        return weights / weights.sum(axis=-1, keepdims=True)

    return rows(1, states)[0], rows(states, states), rows(states, symbols)


def asked(initial, transition, emission, observations, mask):
    crf = LinearChainCRF.from_hmm(initial, transition, emission, observations, mask=mask)
    return crf.log_partition(), crf.marginals()


@every_regime
@every_dtype
def test_random_models_agree_with_all_paths(regime, dtype):
    observations = np.random.default_rng(1).integers(0, 4, (3, 4)).astype("int32")
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    observations = np.where(mask, observations, -1)
    for seed in range(4):
        hmm = draw_hmm(seed, 3, 4)
        log_partition, marginals = run(
            regime, asked, *(part.astype(dtype) for part in hmm), observations, mask
        )
        for row, kept in enumerate(mask.sum(axis=1)):
            joint = joint_probabilities(*hmm, observations[row, :kept])
            assert_allclose(np.exp(log_partition[row]), joint.sum(), rtol=1e-4)
            if kept and joint.sum():
                first = np.bincount(all_paths(kept, 3)[:, 0], joint, 3) / joint.sum()
                assert_allclose(marginals[row, 0], first, atol=1e-5)


def joint_probabilities(initial, transition, emission, seen):
    """P(path, seen) of all paths, [K^T]."""
    paths = all_paths(len(seen), len(initial))
    if not len(seen):
        return np.ones(1)
    moves = transition[paths[:, :-1], paths[:, 1:]].prod(axis=1)
    return initial[paths[:, 0]] * moves * emission[paths, seen].prod(axis=1)


def test_the_gradient_is_the_expected_use_of_each_probability():
    """As in Baum and Welch: d log P / d log p = the expected counts, here of emissions."""
    emission = tf.constant(BOXES["emission"])
    with tf.GradientTape() as tape:
        tape.watch(emission)
        hmm = BOXES | {"emission": emission}
        crf = LinearChainCRF.from_hmm(**hmm, observations=SEEN)
        log_partition = crf.log_partition()
    counts = emission * tape.gradient(log_partition, emission)
    marginals = crf.marginals().numpy()[0]
    red, white = marginals[0] + marginals[2], marginals[1]
    assert_allclose(counts, np.stack([red, white], axis=1), rtol=1e-5)


WRONG = [
    ({"observations": [[0, 1, 2]]}, r"observations must lie in 0\.\.1 .* got 2 at row 0, step 2"),
    ({"initial": [0.2, 0.4, 0.5]}, r"initial must sum to 1; got 1\.1"),
    ({"initial": [1.2, 0.4, -0.6]}, r"initial must hold probabilities; got -0\.\d* at state 2"),
    (
        {"emission": [[0.5, 0.5], [0.4, 0.5], [0.7, 0.3]]},
        r"emission must sum to 1 for each state; got the sum 0\.\d* at row 1",
    ),
    (
        {"emission": [[0.5, 0.5], [0.4, 0.6], [1.7, -0.7]]},
        r"emission must hold probabilities; got -0\.\d* at state 2, column 1",
    ),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_values_that_are_wrong_are_refused(wrong, words):
    arguments = BOXES | {"observations": SEEN} | wrong
    with pytest.raises(ValueError, match=words):
        LinearChainCRF.from_hmm(**arguments)
    arrays = [np.array(arguments[name]) for name in (*BOXES, "observations")]
    with pytest.raises(tf.errors.InvalidArgumentError, match=words.split(r"\.\.")[0].split(";")[0]):
        run("graph", asked, *arrays, np.ones([1, 3], bool))
    assert np.isnan(run("xla", asked, *arrays, np.ones([1, 3], bool))[0])


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"observations": [0, 1, 0]}, ValueError, r"observations must have rank 2.*got rank 1"),
        ({"observations": [[0.0]]}, TypeError, "observations must be whole numbers, got float32"),
        ({"initial": [1, 0, 0]}, TypeError, "initial must be floating point, got int32"),
        ({"initial": [0.5, 0.5]}, ValueError, r"initial must have the shape \(3,\).*got \(2,\)"),
        (
            {"transition": [[0.5, 0.5]] * 3},
            ValueError,
            r"transition must have the shape \(3, 3\), one state .*got \(3, 2\)",
        ),
        ({"lengths": [4]}, ValueError, r"lengths must lie in 0\.\.3; got 4"),
    ],
)
def test_types_and_shapes_that_are_wrong_are_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        LinearChainCRF.from_hmm(**(BOXES | {"observations": SEEN} | wrong))
