"""The log-probability of given tags from a step on, against the oracle."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF
from laws import EVERY_MASK, SHAPE, STEPS, TAGS, draw_scores
from oracle import Oracle, subpath_log_prob
from regimes import DTYPES, every_way, run

TOLERANCE = {"float32": 2e-5, "float64": 1e-11}

every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def every_kept_run(mask):
    """(rows, starts, lengths): all runs of kept steps, and one of length 0 in each row."""
    runs = [
        (row, start, length)
        for row, kept in enumerate(mask)
        for start, length in itertools.product(range(len(kept)), range(len(kept) + 1))
        if start + length <= len(kept) and kept[start : start + length].all()
    ]
    return np.array(runs, "int32").T


RUNS = ROWS, STARTS, LENGTHS = every_kept_run(EVERY_MASK)


def draw_tags(seed):
    """Tags for the runs, and behind their lengths what is no tag."""
    tags = np.random.default_rng(seed).integers(0, TAGS, (len(ROWS), STEPS)).astype("int32")
    return np.where(np.arange(STEPS) < LENGTHS[:, None], tags, -100)


def asked(potentials, transitions, start, end, mask, rows, starts, tags, lengths):
    crf = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
    return crf.subpath_log_prob(rows, starts, tags, lengths)


def ask(regime, dtype, scores, tags, runs=RUNS):
    rows, starts, lengths = runs
    floats = [np.asarray(array, dtype) for array in scores[:4]]
    return run(regime, asked, *floats, scores.mask, rows, starts, tags, lengths)


@every_way
@pytest.mark.parametrize(("size", "forbidden"), [(1, 0.0), (1, 0.2), (30, 0.0), (30, 0.1)])
def test_every_run_of_kept_steps_agrees_with_the_oracle(regime, dtype, size, forbidden):
    scores, tags = draw_scores(1, size=float(size), forbidden=forbidden), draw_tags(1)
    answers = ask(regime, dtype, scores, tags)
    expected = subpath_log_prob(Oracle(*scores), ROWS, STARTS, tags, LENGTHS)
    tolerance = TOLERANCE[dtype] * size
    likely = expected > -600  # below, the sums of the oracle underflow
    assert_allclose(answers[likely], expected[likely], rtol=tolerance, atol=tolerance)
    assert np.all(answers[~likely] < -590)
    assert np.all(answers <= 0)
    assert_array_equal(answers[LENGTHS == 0], 0)


@every_way
def test_a_run_over_the_whole_row_is_log_prob_and_one_of_length_1_a_marginal(regime, dtype):
    scores = draw_scores(2)._replace(mask=np.ones(SHAPE[:2], bool))
    rows, random = np.arange(SHAPE[0], dtype="int32"), np.random.default_rng(2)
    paths = random.integers(0, TAGS, SHAPE[:2]).astype("int32")
    oracle = Oracle(*scores)
    whole = ask(regime, dtype, scores, paths, (rows, 0 * rows, 0 * rows + STEPS))
    assert_allclose(whole, oracle.log_prob(paths), rtol=TOLERANCE[dtype])
    single = ask(regime, dtype, scores, paths[:, ::-1], (rows, 0 * rows + 4, 0 * rows + 1))
    marginals = oracle.marginals()[rows, 4, paths[:, 4]]
    assert_allclose(single, np.log(marginals), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@every_dtype
def test_the_self_check_of_crfsuite(dtype):
    chances = [[0.4, 0.5, 0.1], [0.4, 0.1, 0.5], [0.4, 0.1, 0.5]]
    of_next = [[0.3, 0.1, 0.4], [0.6, 0.2, 0.1], [0.5, 0.2, 0.1]]
    crf = LinearChainCRF(np.log([chances]).astype(dtype), np.log(of_next))
    log_probs = crf.subpath_log_prob([0, 0, 0], [0, 1, 2], [[1, 0], [0, 2], [0, 0]], [2, 2, 1])
    assert_allclose(np.exp(log_probs), [0.409514, 0.3888314, 0.5005171], rtol=1e-5)
    assert_allclose(crf.entropy(), [2.3804022], rtol=1e-6)


@every_dtype
def test_a_peaked_chain_keeps_its_digits(dtype):
    """Large scores that differ by 20: p(all right) = 1 - 4 exp(-20)."""
    potentials = np.full([1, 4, 2], 1000, dtype)
    potentials[..., 1] -= 20
    crf = LinearChainCRF(potentials, np.full([2, 2], 64.0))
    log_prob = crf.subpath_log_prob([0], [0], [[0, 0, 0, 0]])
    assert_allclose(log_prob, [-4 * np.log1p(np.exp(-20.0))], rtol=1e-5)


@pytest.mark.parametrize("regime", ["eager", "graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_transitions_may_vary(regime):
    random = np.random.default_rng(3)
    potentials, shared = random.normal(size=(2, 4, 3)), random.normal(size=(3, 3))
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], bool)
    varying = np.tile(shared, (2, 3, 1, 1))
    varying[1, 0] = 1e30  # leads into the first kept step, from a dropped one: not read
    ends, runs = np.zeros(3), [np.array(x, "int32") for x in ([0, 0, 1], [0, 2, 1])]
    tags, lengths = (
        np.array([[0, 1, 2], [2, 1, 0], [1, 0, 2]], "int32"),
        np.array([3, 2, 3], "int32"),
    )
    answers = [
        run(regime, asked, potentials, moves, ends, ends, mask, *runs, tags, lengths)
        for moves in (shared, varying)
    ]
    assert_allclose(*answers, rtol=1e-12)


def test_the_gradient_sums_what_was_observed_less_what_was_expected():
    """Of the whole row it is that of log_prob."""
    potentials, transitions = tf.random.normal([2, 4, 3]), tf.random.normal([3, 3])
    tags = tf.constant([[0, 1, 2, 2], [1, 1, 0, 2]])
    slopes = []
    for whole in (True, False):
        with tf.GradientTape() as tape:
            tape.watch([potentials, transitions])
            crf = LinearChainCRF(potentials, transitions)
            value = crf.log_prob(tags) if whole else crf.subpath_log_prob([0, 1], [0, 0], tags)
        slopes.append(tape.gradient(value, [potentials, transitions]))
    for one, other in zip(*slopes, strict=True):
        assert_allclose(one, other, atol=1e-5)


def test_nothing_asked_nothing_answered():
    crf = LinearChainCRF(np.zeros([2, 0, 3]), np.zeros([3, 3]))
    assert_array_equal(crf.subpath_log_prob([1], [0], np.zeros([1, 0], int)), [0])
    assert_array_equal(crf.subpath_log_prob([1], [0], [[7, 7]], [0]), [0])
    no_subpaths = np.zeros([0], int), np.zeros([0], int), np.zeros([0, 2], int)
    assert crf.subpath_log_prob(*no_subpaths).shape == [0]


MASK = np.array([[1, 1, 1], [1, 0, 1]], bool)
ZEROS, RIGHT = np.zeros([2, 3, 3]), {"rows": [0, 1], "starts": [1, 0], "lengths": [2, 1]}
WRONG = [
    ({"rows": [0, 2]}, "rows must be those of the batch; got 2 at subpath 1"),
    ({"rows": [-1, 1]}, "rows must be those of the batch; got -1 at subpath 0"),
    ({"starts": [-1, 0]}, "starts must be at least 0; got -1 at subpath 0"),
    ({"starts": [2, 0]}, "each subpath must end within its row; got the end 4 at subpath 0"),
    ({"lengths": [3, 1], "starts": [0, 0]}, r"lengths must lie in 0\.\.L; got 3 at subpath 0"),
    ({"lengths": [2, 2]}, "the mask drops step 1, at subpath 1, place 1"),
    ({"tags": [[0, 3], [0, 0]]}, r"tags must lie in 0\.\.K-1; got 3 at subpath 0, place 1"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_a_subpath_that_breaks_a_rule_is_named(wrong, words):
    crf = LinearChainCRF(ZEROS, np.zeros([3, 3]), mask=MASK)
    arguments = {"tags": [[0, 1], [2, 0]]} | RIGHT
    assert np.all(np.isfinite(crf.subpath_log_prob(**arguments)))
    with pytest.raises(ValueError, match=words):
        crf.subpath_log_prob(**(arguments | wrong))


@pytest.mark.parametrize(("wrong", "words"), WRONG)
def test_in_a_graph_it_is_an_error_and_under_xla_nan(wrong, words):
    arguments = {"tags": [[0, 1], [2, 0]]} | RIGHT | wrong
    runs = [np.array(arguments[name], "int32") for name in ("rows", "starts", "tags", "lengths")]
    scores = ZEROS, np.zeros([3, 3]), np.zeros(3), np.zeros(3), MASK
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=words.split(";")[0].split(" step 1")[0]
    ):
        run("graph", asked, *scores, *runs)
    broken = int(words.split("subpath ")[-1].split(",")[0])
    assert_array_equal(np.isnan(run("xla", asked, *scores, *runs)), np.arange(2) == broken)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"tags": [[0.0, 1.0], [2.0, 0.0]]}, TypeError, "tags must be whole numbers, got float32"),
        ({"tags": [0, 1]}, ValueError, r"tags must have rank 2, \[subpaths, steps\]; got rank 1"),
        ({"rows": 1}, ValueError, r"rows must have rank 1, \[subpaths\]; got rank 0"),
        ({"starts": [0]}, ValueError, r"starts must hold one number for each subpath: got \(1,\)"),
    ],
)
def test_other_types_and_shapes_are_refused(wrong, error, words):
    crf = LinearChainCRF(ZEROS, np.zeros([3, 3]))
    with pytest.raises(error, match=words):
        crf.subpath_log_prob(**({"tags": [[0, 1], [2, 0]]} | RIGHT | wrong))
