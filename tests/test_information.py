"""Entropy, cross-entropy and Kullback-Leibler divergence against the oracle."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF
from laws import EVERY_MASK, SHAPE, TAGS, draw_array, draw_scores
from oracle import Oracle, Scores, all_paths, information, information_gradients
from regimes import DTYPES, every_way, run

TOLERANCE = {"float32": 2e-5, "float64": 1e-11}
WEIGHTS = np.linspace(0.5, 2.0, SHAPE[0])

every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def measures(p, t, start, end, q, other_t, other_start, other_end, mask):
    """entropy, cross_entropy and kl_divergence of two distributions with one mask."""
    crf = LinearChainCRF(p, t, start=start, end=end, mask=mask)
    other = LinearChainCRF(q, other_t, start=other_start, end=other_end, mask=mask)
    return crf.entropy(), crf.cross_entropy(other), crf.kl_divergence(other)


def slope(which, *arguments):
    """The gradient of the sum of a measure, weighted by row, for the scores of both."""
    *scores, mask, weights = arguments
    with tf.GradientTape() as tape:
        tape.watch(scores)
        value = measures(*scores, mask)[which]
    return tape.gradient(value, scores, weights, tf.UnconnectedGradients.ZERO)


SLOPES = [functools.partial(slope, which) for which in range(3)]


def floats(dtype, scores, others):
    return [np.asarray(array, dtype) for array in (*scores[:4], *others[:4])]


def ask(regime, dtype, scores, others):
    return np.array(run(regime, measures, *floats(dtype, scores, others), scores.mask))


def ask_slope(which, regime, dtype, scores, others):
    weights = np.asarray(WEIGHTS, dtype)
    return run(regime, SLOPES[which], *floats(dtype, scores, others), scores.mask, weights)


def no_more_forbidden(others, scores):
    """`others` that allow whatever `scores` allow."""
    pairs = zip(others[:4], scores[:4], strict=True)
    allowed = [np.where(np.isinf(q) & np.isfinite(p), 0.25, q) for q, p in pairs]
    return Scores(*allowed, scores.mask)


def assert_agrees(regime, dtype, scores, others, tolerance):
    actual = ask(regime, dtype, scores, others)
    expected = information(Oracle(*scores), Oracle(*others))
    assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    assert np.all(actual[[0, 2]] >= 0)


@every_way
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_every_mask_agrees_with_the_oracle(regime, dtype, forbidden):
    scores, others = (draw_scores(seed, forbidden=forbidden) for seed in (1, 2))
    others = no_more_forbidden(others, scores)
    assert_agrees(regime, dtype, scores, others, 3 * TOLERANCE[dtype])
    entropy, crossed, divergence = ask(regime, dtype, scores, scores)
    assert_allclose(crossed, entropy, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert_array_equal(divergence, 0)


ENTROPY, CROSS_ENTROPY, DIVERGENCE = range(3)
each_gradient = pytest.mark.parametrize(  # each traces for seconds
    ("which", "regime", "dtype"),
    [
        (ENTROPY, "eager", "float64"),
        (DIVERGENCE, "graph", "float32"),
        pytest.param(CROSS_ENTROPY, "eager", "float64", marks=pytest.mark.slow),
        pytest.param(DIVERGENCE, "eager", "float64", marks=pytest.mark.slow),
        pytest.param(ENTROPY, "xla", "float32", marks=pytest.mark.slow),
        pytest.param(CROSS_ENTROPY, "xla", "float32", marks=pytest.mark.slow),
        pytest.param(DIVERGENCE, "xla", "float32", marks=pytest.mark.slow),
    ],
)


@each_gradient
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_the_gradient_agrees_with_the_oracle(which, regime, dtype, forbidden):
    scores, others = (draw_scores(seed, forbidden=forbidden) for seed in (1, 2))
    others = no_more_forbidden(others, scores)
    answers = ask_slope(which, regime, dtype, scores, others)
    *of_this, of_other = information_gradients(Oracle(*scores), Oracle(*others), WEIGHTS)
    if which == ENTROPY:
        of_other = [np.zeros_like(part) for part in of_other]
    for one, gradient in zip(answers, of_this[which] + of_other, strict=True):
        assert_allclose(one, gradient, rtol=10 * TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


@each_gradient
def test_no_gradient_is_nan_or_infinite(which, regime, dtype):
    scores, others = (draw_scores(seed, forbidden=0.15) for seed in (3, 4))
    none = scores._replace(start=np.full(TAGS, -np.inf))
    for pair in ((scores, others), (none, others), (others, none)):
        parts = ask_slope(which, regime, dtype, *pair)
        assert all(np.all(np.isfinite(part)) for part in parts)
        assert_array_equal(parts[0][~EVERY_MASK], 0)
        assert_array_equal(parts[4][~EVERY_MASK], 0)


@st.composite
def pairs(draw):
    """Two chains of one size and mask, the second of which allows all that the first does."""
    limits = (0, 3), (0, 6), (1, 5)
    shape = rows, steps, tags = [draw(st.integers(*limit)) for limit in limits]
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size, forbidden = draw(st.sampled_from([1.0, 1.0, 5.0])), draw(st.sampled_from([0.0, 0.1, 0.5]))
    mask = random.random((rows, steps)) < draw(st.sampled_from([0.3, 1.0]))
    shapes = shape, [tags, tags], [tags], [tags]
    scores, others = (
        Scores(*(draw_array(random, size, forbidden, shape) for shape in shapes), mask)
        for _ in range(2)
    )
    return scores, no_more_forbidden(others, scores)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(pairs())
def test_chains_of_any_size_agree_with_the_oracle(pair):
    assert_agrees("graph", "float64", *pair, 10 * TOLERANCE["float64"])


@every_way
def test_it_is_infinite_where_the_other_forbids_what_is_allowed(regime, dtype):
    scores, others = draw_scores(3, forbidden=0.05), draw_scores(4, forbidden=0.05)
    expected = information(Oracle(*scores), Oracle(*others))
    assert 5 < np.isinf(expected[1]).sum() < SHAPE[0] - 5
    assert_allclose(ask(regime, dtype, scores, others), expected, rtol=1e-4, atol=1e-4)


@every_way
def test_what_is_improbable_beyond_all_floats_still_counts(regime, dtype):
    """Tag 1 is allowed with the probability exp(-2000), which is 0; the other forbids it."""
    scores = draw_scores(5)
    one = np.arange(TAGS) == 1
    scores = scores._replace(potentials=scores.potentials - 2000.0 * one)
    others = scores._replace(start=np.where(one, -np.inf, scores.start))
    entropy, crossed, divergence = ask(regime, dtype, scores, others)
    held = EVERY_MASK.any(axis=1)
    assert np.all(np.isfinite(entropy))
    assert_array_equal(crossed[held], np.inf)
    assert_array_equal(divergence[held], np.inf)
    _, _, backwards = ask(regime, dtype, others, scores)
    assert_allclose(backwards, 0, atol=1e-30)


@every_way
def test_without_a_legal_path_there_is_no_information(regime, dtype):
    scores, others = draw_scores(6), draw_scores(7)
    none = scores._replace(start=np.full(TAGS, -np.inf))
    assert_array_equal(ask(regime, dtype, none, others), 0)
    crossed = ask(regime, dtype, others, none)[1]
    assert_array_equal(crossed, np.where(EVERY_MASK.any(axis=1), np.inf, 0))


@every_way
def test_a_row_with_nan_in_either_gets_nan_and_no_other_row_does(regime, dtype):
    scores, others = draw_scores(8), draw_scores(9)
    potentials = scores.potentials.copy()
    potentials[-1, 2, 1] = np.nan
    one = ask(regime, dtype, scores._replace(potentials=potentials), others)
    two = ask(regime, dtype, scores, others._replace(potentials=potentials))
    assert np.all(np.isnan(one[:, -1]))
    assert np.all(np.isnan(two[1:, -1]))
    assert np.all(np.isfinite(one[:, :-1]))
    assert np.all(np.isfinite(two[:, :-1]))


@every_way
def test_what_lies_on_dropped_steps_changes_nothing(regime, dtype):
    scores, others = draw_scores(10), draw_scores(11)
    expected = ask(regime, dtype, scores, others)
    for junk in (1e30, np.nan, -np.inf):
        pair = (
            chain._replace(potentials=np.where(EVERY_MASK[..., None], chain.potentials, junk))
            for chain in (scores, others)
        )
        assert_array_equal(ask(regime, dtype, *pair), expected)


@every_dtype
def test_a_uniform_distribution_has_the_entropy_of_its_number_of_paths(dtype):
    lengths = [0, 1, 4, 5]
    crf = LinearChainCRF(np.zeros([4, 5, 3], dtype), np.zeros([3, 3]), lengths=lengths)
    assert_allclose(crf.entropy(), np.multiply(lengths, np.log(3)), rtol=1e-6)
    one_tag = LinearChainCRF(np.ones([2, 5, 1], dtype), [[3.0]])
    assert_array_equal(one_tag.entropy(), 0)
    assert_array_equal(one_tag.kl_divergence(one_tag), 0)


@every_dtype
def test_a_peaked_distribution_keeps_its_digits(dtype):
    """The second tag is 20 nats behind, and scores are large: entropy is about 5 * 21 exp(-20)."""
    potentials = np.zeros([1, 5, 2], dtype)
    potentials[..., 0] = 1000
    potentials[..., 1] = 980
    entropy = LinearChainCRF(potentials, np.full([2, 2], 64.0)).entropy()
    chance = np.exp(-20.0) / (1 + np.exp(-20.0))
    exact = -5 * (chance * np.log(chance) + (1 - chance) * np.log1p(-chance))
    assert_allclose(entropy, [exact], rtol=1e-5 if dtype == "float32" else 1e-12)


@every_dtype
def test_the_divergence_of_close_distributions_keeps_its_digits(dtype):
    """Of second order: half of the variance of the difference, here 2**-20 on one of two tags."""
    gap = 2.0**-20
    crf, other = (
        LinearChainCRF(np.array([[[0, odds]]], dtype), np.zeros([2, 2])) for odds in (0, gap)
    )
    assert_allclose(
        crf.kl_divergence(other), [gap**2 / 8], rtol=1e-2 if dtype == "float32" else 1e-6
    )


@pytest.mark.parametrize(
    ("regime", "dtype"),
    [
        ("eager", "float64"),
        pytest.param("graph", "float32", marks=pytest.mark.slow),
        pytest.param("xla", "float32", marks=pytest.mark.slow),
    ],
)
def test_transitions_may_vary_in_one_or_in_the_other(regime, dtype):
    random = np.random.default_rng(12)
    shared, varying = random.normal(size=(3, 3)), random.normal(size=(2, 2, 3, 3))
    p, q = random.normal(size=(2, 2, 3, 3)).astype(dtype)
    for mine, theirs in ((shared, varying), (varying, shared)):
        mine, theirs = (array.astype(dtype) for array in (mine, theirs))
        log_p, log_q = log_probs_of_all_paths(p, mine), log_probs_of_all_paths(q, theirs)
        surprises = -log_p, -log_q, log_p - log_q
        expected = [np.sum(np.exp(log_p) * surprise, axis=1) for surprise in surprises]
        answers = run(regime, measures_without_ends, p, mine, q, theirs)
        assert_allclose(answers, expected, rtol=10 * TOLERANCE[dtype])


def measures_without_ends(p, mine, q, theirs):
    crf, other = LinearChainCRF(p, mine), LinearChainCRF(q, theirs)
    return crf.entropy(), crf.cross_entropy(other), crf.kl_divergence(other)


def log_probs_of_all_paths(potentials, transitions):
    """[B, K^T], by a batch that holds each row once for each path."""
    rows, steps, tags = potentials.shape
    paths = all_paths(steps, tags)
    repeated = np.repeat(potentials, len(paths), axis=0)
    if transitions.ndim == 4:
        transitions = np.repeat(transitions, len(paths), axis=0)
    crf = LinearChainCRF(np.float64(repeated), np.float64(transitions))
    return crf.log_prob(np.tile(paths, (rows, 1))).numpy().reshape(rows, -1)


@pytest.mark.slow
def test_a_student_learns_what_its_teacher_says():
    random = np.random.default_rng(13)
    teacher = LinearChainCRF(random.normal(size=(2, 4, 3)), random.normal(size=(3, 3)))
    potentials, transitions = tf.Variable(tf.zeros([2, 4, 3])), tf.Variable(tf.zeros([3, 3]))
    divergences = []
    for _ in range(60):
        with tf.GradientTape() as tape:
            divergence = teacher.kl_divergence(LinearChainCRF(potentials, transitions))
        for variable, slope in zip(
            (potentials, transitions),
            tape.gradient(divergence, [potentials, transitions]),
            strict=True,
        ):
            variable.assign_sub(0.5 * tf.cast(slope, tf.float32))
        divergences.append(np.sum(divergence))
    assert divergences[-1] < 0.02 * divergences[0]


ZEROS, SQUARE = np.zeros([2, 3, 4], np.float32), np.zeros([4, 4], np.float32)


@pytest.mark.parametrize("question", ["cross_entropy", "kl_divergence"])
@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        (ZEROS, TypeError, "other must be a LinearChainCRF, got ndarray"),
        (
            LinearChainCRF(ZEROS[:, :2], SQUARE),
            ValueError,
            r"batch, time and tag axes.*\(2, 2, 4\) to compare with \(2, 3, 4\)",
        ),
        (LinearChainCRF(ZEROS[..., :1], [[0.0]]), ValueError, r"\(2, 3, 1\)"),
        (LinearChainCRF(ZEROS[:1], SQUARE), ValueError, r"\(1, 3, 4\)"),
        (
            LinearChainCRF(ZEROS, SQUARE, lengths=[3, 1]),
            ValueError,
            "other must have the mask .* holds 0, not the same, at row 1, step 1",
        ),
    ],
)
def test_another_thing_shape_or_mask_is_refused(question, other, error, words):
    crf = LinearChainCRF(ZEROS, SQUARE)
    with pytest.raises(error, match=words):
        getattr(crf, question)(other)


def divergence_under(potentials, others, mask):
    no_moves = tf.zeros(tf.repeat(tf.shape(potentials)[2:], 2), potentials.dtype)
    crf = LinearChainCRF(potentials, no_moves)
    return crf.kl_divergence(LinearChainCRF(others, tf.zeros([4, 4]), mask=mask))


def test_masks_that_differ_are_refused_in_graphs_and_give_nan_under_xla():
    mask = np.array([[1, 1, 1], [1, 0, 1]], bool)
    with pytest.raises(tf.errors.InvalidArgumentError, match="other must have the mask"):
        run("graph", divergence_under, ZEROS, ZEROS, mask)
    assert_array_equal(run("xla", divergence_under, ZEROS, ZEROS, mask), [0, np.nan])


@pytest.mark.parametrize("shape", [(1, 3, 4), (2, 1, 4), (2, 3, 1)])
def test_shapes_that_a_graph_did_not_know_are_refused_when_it_runs(shape):
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have the batch and time axes"):
        run(
            "graph",
            divergence_under,
            ZEROS[: shape[0], : shape[1], : shape[2]],
            ZEROS,
            ZEROS[..., 0] == 0,
        )
