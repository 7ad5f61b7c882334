"""Top-k, MBR and samples, against all paths listed, in every regime and dtype."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import test_golden_values as golden
from keras_crf import LinearChainCRF
from keras_crf.sampling import drawn
from laws import EVERY_MASK, ROWS, STEPS, TAGS, draw_array, draw_scores
from oracle import Oracle, Row
from regimes import DTYPES, REGIMES, run
from test_distribution import chains

MANY = 300  # more than the 3^5 paths that there are
DRAWS = 2000
TOLERANCE = {"float32": 1e-5, "float64": 1e-11}


class VaryingRow(Row):
    """A row whose transitions are [n, K, K], [t] into step t."""

    def contributions(self, paths):
        arrivals = np.zeros(paths.shape)
        arrivals[..., :1] += self.start[paths[..., :1]]
        into = np.arange(1, max(len(self.potentials), 1))
        arrivals[..., 1:] += self.transitions[into, paths[..., :-1], paths[..., 1:]]
        arrivals[..., -1:] += self.end[paths[..., -1:]]
        return self.potentials[np.arange(len(self.potentials)), paths], arrivals


class VaryingOracle(Oracle):
    """The oracle for transitions [B, T-1, K, K]."""

    def __init__(self, potentials, transitions, start, end, mask):
        super().__init__(potentials, np.zeros([0, 0]), start, end, np.zeros_like(mask))
        self.mask, self.kept = mask, [np.flatnonzero(kept) for kept in mask]
        into = np.pad(transitions, [(0, 0), (1, 0), (0, 0), (0, 0)])
        rows = zip(self.potentials, into, self.kept, strict=True)
        self.rows = [VaryingRow(row[kept], moves[kept], start, end) for row, moves, kept in rows]


def draw_varying(seed, forbidden):
    moves = ROWS, STEPS - 1, TAGS, TAGS
    transitions = draw_array(np.random.default_rng(seed), 1.0, forbidden, moves)
    return draw_scores(seed, forbidden=forbidden)._replace(transitions=transitions)


CASES = {
    "ordinary": draw_scores(1),
    "forbidden": draw_scores(2, forbidden=0.25),
    "varying": draw_varying(3, 0.1),
}

every_dtype = pytest.mark.parametrize("dtype", DTYPES)

# Each pair of a regime and a dtype takes seconds to trace or compile, for each rank of transitions.
PAIRS = [("eager", "float32"), ("xla", "float32")]
QUICK = [(case, *pair) for case in ("ordinary", "forbidden") for pair in PAIRS]
QUICK.append(("varying", "graph", "float64"))
QUICK_WAY = {case: (regime, dtype) for case, regime, dtype in reversed(QUICK)}
WAYS = itertools.product(CASES, REGIMES, DTYPES)

in_every_way = pytest.mark.parametrize(
    ("case", "regime", "dtype"),
    [pytest.param(*way, marks=[] if way in QUICK else pytest.mark.slow) for way in WAYS],
)


@functools.cache
def listed(case):
    return (VaryingOracle if case == "varying" else Oracle)(*CASES[case])


@functools.cache
def all_legal(case):
    """The legal paths of each row."""
    return [set(map(tuple, row.paths[row.scores > -np.inf])) for row in listed(case).rows]


def decoded(potentials, transitions, start, end, mask):
    """All that names paths, as a dict."""
    crf = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
    return {
        "argmax": crf.argmax(),
        "top_1": crf.top_k(1),
        "top_4": crf.top_k(4),
        "top_many": crf.top_k(MANY),
        "posterior_decode": crf.posterior_decode(),
        "sample": crf.sample(DRAWS, seed=5),
        "tagging": crf.tagging(),
    }


@functools.cache
def decode(regime, dtype, case):
    scores = CASES[case]
    return run(regime, decoded, *(np.asarray(array, dtype) for array in scores[:4]), scores.mask)


@in_every_way
def test_the_k_best_paths_are_those_of_the_oracle_ties_in_order(regime, dtype, case):
    answers = decode(regime, dtype, case)
    tags, score = listed(case).top_k(MANY)
    for name, k in {"top_1": 1, "top_4": 4, "top_many": MANY}.items():
        assert answers[name].tags.dtype == np.int32
        assert_array_equal(answers[name].tags, tags[:, :k], err_msg=name)
        assert_array_equal(answers[name].score, score[:, :k], err_msg=name)
        log_prob = log_prob_of(listed(case), answers[name].tags, score[:, :k])
        tolerance = TOLERANCE[dtype]
        assert_allclose(answers[name].log_prob, log_prob, tolerance, tolerance, err_msg=name)


def log_prob_of(oracle, tags, score):
    """log p of each of the k best paths, [B, k]; -inf where the score is."""
    each = [oracle.log_prob(tags[:, rank]) for rank in range(tags.shape[1])]
    return np.where(score > -np.inf, np.stack(each, axis=1), -np.inf)


@in_every_way
def test_tagging_is_the_best_path_with_its_marginals_and_log_prob(regime, dtype, case):
    answers, oracle = decode(regime, dtype, case), listed(case)
    tagging, mask = answers["tagging"], CASES[case].mask
    assert_array_equal(tagging.tags, answers["argmax"].tags)
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    assert_allclose(tagging.marginals, oracle.marginals(), **tolerance)
    picked = np.take_along_axis(oracle.marginals(), tagging.tags[..., np.newaxis], -1)[..., 0]
    assert_allclose(tagging.confidence, np.where(mask, picked, 0), **tolerance)
    assert_allclose(tagging.log_prob, oracle.log_prob(tagging.tags), **tolerance)


@pytest.mark.parametrize("case", ["ordinary", "varying"])
def test_repeated_rows_are_answered_one_after_the_other(case):
    potentials, transitions, start, end, mask = CASES[case]
    crf = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
    assert_array_equal(crf.repeated(2).mask, np.repeat(mask, 2, axis=0))
    twice = np.repeat(crf.log_partition(), 2)
    assert_allclose(crf.repeated(2).log_partition(), twice, rtol=1e-12, atol=1e-12)
    narrowed = crf.repeated(2).narrowed(lengths=[3, 1] * len(mask))
    assert_array_equal(narrowed.mask.numpy()[1::2, 1:], False)


def test_narrowing_keeps_what_is_constrained():
    potentials, transitions, start, end, mask = CASES["ordinary"]
    crf = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
    never = np.ones([TAGS, TAGS], bool), np.arange(TAGS) > 0, np.ones(TAGS, bool)
    sets = np.broadcast_to(np.arange(TAGS) < 2, potentials.shape)
    for narrowed in (
        crf.constrained(never).constrained(sets).narrowed(lengths=[2] * len(mask)),
        crf.narrowed(lengths=[2] * len(mask)).constrained(sets).constrained(never),
    ):
        best = narrowed.argmax()
        tags, kept = best.tags.numpy(), narrowed.mask.numpy()
        assert np.all(tags[kept] < 2)
        assert not np.any(kept[:, 2:])
        first = np.argmax(kept, axis=1)
        starts = tags[np.arange(len(tags)), first][kept.any(axis=1)]
        assert np.all(starts > 0)


@in_every_way
def test_the_best_of_all_is_argmax(regime, dtype, case):
    answers = decode(regime, dtype, case)
    best, top = answers["argmax"], answers["top_1"]
    assert_array_equal(top.score[:, 0], best.score)
    assert_array_equal(top.tags[:, 0], np.where(best.score[:, None] > -np.inf, best.tags, 0))


@in_every_way
def test_no_legal_path_is_expected_to_have_more_right_tags(regime, dtype, case):
    tags, oracle = decode(regime, dtype, case)["posterior_decode"], listed(case)
    legal = oracle.log_partition() > -np.inf
    accuracy = oracle.expected_accuracy(tags)[legal]
    assert_allclose(accuracy, oracle.best_expected_accuracy()[legal], atol=TOLERANCE[dtype])
    for row in np.flatnonzero(legal):
        assert tuple(tags[row, EVERY_MASK[row]]) in all_legal(case)[row]
    assert_array_equal(tags[~EVERY_MASK], 0)


def assert_frequent_as(frequencies, probabilities):
    """Frequencies among DRAWS within five standard deviations of the probabilities."""
    deviation = np.sqrt(probabilities * np.maximum(1 - probabilities, 0) / DRAWS)
    assert np.all(np.abs(frequencies - probabilities) <= 5 * deviation + 1 / DRAWS)
    chi_square = ((frequencies - probabilities) / np.maximum(deviation, 1e-9)) ** 2
    assert np.mean(chi_square[deviation > 0]) < 1.5  # 1 is expected


@in_every_way
def test_samples_are_as_frequent_as_they_are_probable(regime, dtype, case):
    samples, oracle = decode(regime, dtype, case)["sample"], listed(case)
    assert samples.shape == (DRAWS, ROWS, STEPS)
    legal = oracle.log_partition() > -np.inf
    uses = np.eye(TAGS)[samples] * (EVERY_MASK & legal[:, None])[..., None]
    assert_frequent_as(uses.mean(axis=0), oracle.marginals())
    both = np.zeros([ROWS, STEPS - 1, TAGS, TAGS])
    for row, kept in enumerate(oracle.kept):
        for before, step in itertools.pairwise(kept):
            both[row, step - 1] = uses[:, row, before].T @ uses[:, row, step] / DRAWS
    assert_frequent_as(both, oracle.edge_marginals())


@in_every_way
def test_samples_are_legal_paths(regime, dtype, case):
    samples, legal = decode(regime, dtype, case)["sample"], all_legal(case)
    for row, kept in enumerate(EVERY_MASK):
        paths = set(map(tuple, samples[:, row, kept]))
        assert paths <= legal[row] or (not legal[row] and paths == {(0,) * kept.sum()})
    assert_array_equal(samples[:, ~EVERY_MASK], 0)


@in_every_way
def test_every_regime_and_dtype_draws_the_same(case, regime, dtype):
    expected = decode(*QUICK_WAY[case], case)["sample"]
    differing = np.mean(decode(regime, dtype, case)["sample"] != expected)
    assert differing < 1e-4  # where a draw falls on a last digit


def kept_samples(mask=None, rows=ROWS, width=STEPS, jit_compile=False, n=20, seed=7):
    """Samples of the ordinary scores: `rows` rows, filled up to `width` steps."""
    potentials = np.zeros([rows, width, TAGS], np.float32)
    mask = np.arange(width) < STEPS if mask is None else np.array(mask, bool)
    some = min(rows, ROWS)
    potentials[:some, mask] = CASES["ordinary"].potentials[:some]
    crf = LinearChainCRF(
        potentials,
        CASES["ordinary"].transitions,
        mask=np.tile(mask, [rows, 1]),
        jit_compile=jit_compile,
    )
    return crf.sample(n, seed=seed).numpy()[:, :some, mask]


@pytest.mark.parametrize(
    "change",
    [
        {"width": 14},
        {"rows": ROWS + 3},
        {"rows": 4},
        {"width": 7, "mask": [0, 1, 1, 0, 1, 1, 1]},
        {"jit_compile": True},
        {"seed": np.int64(7)},
        {"seed": (7, 0)},
        {"seed": tf.constant(7, tf.uint8)},
    ],
    ids=str,
)
def test_draws_depend_on_the_seed_and_the_row_only(change):
    samples = kept_samples(**change)
    assert_array_equal(samples, kept_samples()[:, : samples.shape[1]])


def test_other_seeds_draw_other_paths():
    samples = [kept_samples(seed=seed) for seed in (7, 8, (7, 1), (0, 7), None, None)]
    agreement = np.mean(kept_samples()[1:] == kept_samples()[:-1])  # of paths that are independent
    for number, some in enumerate(samples):
        for other in samples[:number]:
            assert np.mean(some == other) == pytest.approx(agreement, abs=0.05)


def test_without_a_seed_it_is_that_of_tensorflow():
    @tf.function(autograph=False)
    def sample():
        return LinearChainCRF(tf.zeros([1, 9, 4]), tf.zeros([4, 4])).sample(3)

    tf.random.set_seed(1)
    first, second = sample(), sample()
    assert np.any(first != second)
    tf.random.set_seed(1)
    assert_array_equal(sample(), first)


def test_a_tag_of_probability_0_is_never_drawn():
    """Not by the smallest number, nor the largest, nor where sums are rounded."""
    for dtype, bits in (("float32", 23), ("float64", 32)):
        scores = np.array([[-np.inf, 0, -np.inf, 3, -np.inf]], dtype)
        smallest, largest = np.zeros(1, dtype), np.full(1, 1 - 2.0**-bits, dtype)
        assert drawn(scores, smallest) == 1
        assert drawn(scores, largest) == 3
        assert drawn(scores - np.inf, largest) == 0
        scores = draw_array(np.random.default_rng(0), 30.0, 0.5, (4000, 129)).astype(dtype)
        for uniform in (smallest, largest):
            tags = drawn(scores, np.repeat(uniform, len(scores))).numpy()
            assert np.all(scores[np.arange(len(scores)), tags] > -np.inf)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(chains((4, 6, 5)), st.sampled_from([1, 2, 5]))
def test_the_k_best_of_a_chain_of_any_size_are_those_of_the_oracle(chain, k):
    scores, _ = chain
    tags, score, log_prob = top_k_of("graph", scores, k)
    expected_tags, expected_score = Oracle(*scores).top_k(k)
    assert_array_equal(tags, expected_tags)
    assert_array_equal(score, expected_score)
    expected = log_prob_of(Oracle(*scores), tags, score)
    assert_allclose(log_prob, expected, rtol=1e-9, atol=1e-9)


def top_k_of(regime, scores, k):
    floats = (np.asarray(array, np.float64) for array in scores[:4])
    return run(regime, best_paths(k), *floats, scores.mask)


@functools.cache
def best_paths(k):
    def of(potentials, transitions, start, end, mask):
        return LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask).top_k(k)

    return of


@settings(max_examples=40, deadline=None, derandomize=True)
@given(chains((4, 6, 5)))
def test_mbr_and_samples_of_a_chain_of_any_size(chain):
    scores, _ = chain
    floats = (np.asarray(array, np.float64) for array in scores[:4])
    tags, samples = run("graph", mbr_and_samples, *floats, scores.mask)
    oracle = Oracle(*scores)
    legal = oracle.log_partition() > -np.inf
    expected = oracle.best_expected_accuracy()
    assert_allclose(oracle.expected_accuracy(tags)[legal], expected[legal], atol=1e-10)
    assert samples.shape == (7, *scores.mask.shape)
    for sample in samples:
        assert np.all(oracle.score(sample)[legal] > -np.inf)
        assert np.all(sample[~legal] == 0)


def mbr_and_samples(potentials, transitions, start, end, mask):
    crf = LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)
    return crf.posterior_decode(), crf.sample(7, seed=1)


@pytest.mark.parametrize(
    ("shape", "jit_compile"),
    [((0, 3, 2), False), ((2, 0, 2), False), ((2, 0, 2), True), ((3, 1, 1), False)],
)
def test_small_shapes(shape, jit_compile):
    rows, steps, tags = shape
    crf = LinearChainCRF(np.ones(shape, "float32"), np.zeros([tags] * 2), jit_compile=jit_compile)
    best = crf.top_k(4)
    assert best.tags.shape == (rows, 4, steps)
    assert best.score.shape == best.log_prob.shape == (rows, 4)
    paths = min(tags**steps, 4)
    assert_array_equal(best.score[:, :paths], np.full([rows, paths], steps))
    log_prob = np.full([rows, paths], -steps * np.log(tags))
    assert_allclose(best.log_prob[:, :paths], log_prob, rtol=1e-6)
    for left_over in (best.score[:, paths:], best.log_prob[:, paths:]):
        assert_array_equal(left_over, np.full([rows, 4 - paths], -np.inf))
    assert_array_equal(crf.posterior_decode(), np.zeros([rows, steps]))
    assert_array_equal(crf.sample(2), np.zeros([2, rows, steps]))


@every_dtype
def test_paths_of_far_apart_scores_keep_their_order(dtype):
    """Where forbidden and all but forbidden meet; and rows long enough to be scaled often."""
    random = np.random.default_rng(4)
    potentials = np.round(random.normal(size=[3, 200, 4]) * 1e4).astype(dtype)
    transitions = np.where(random.random([4, 4]) < 0.3, -1e30, 0).astype(dtype)
    transitions[0, 1] = -np.inf
    crf = LinearChainCRF(potentials, transitions)
    tags, score, log_prob = crf.top_k(4)
    assert np.all(np.diff(score) <= 0)
    for rank in range(4):
        assert_array_equal(crf.score(tags[:, rank]), score[:, rank])
        assert_allclose(log_prob[:, rank], crf.log_prob(tags[:, rank]), rtol=1e-6)
    for row in tags.numpy():
        assert len(set(map(tuple, row))) == 4
    assert_array_equal(tags[:, 0], crf.argmax().tags)


def test_all_but_forbidden_paths_come_last():
    potentials = np.array([[[0, -1e30, -1e9, -np.inf]] * 2], np.float32)
    tags, score, log_prob = LinearChainCRF(potentials, np.zeros([4, 4], np.float32)).top_k(10)
    assert_array_equal(log_prob, score)
    assert_array_equal(score[0, :3], np.float32([0, -1e9, -1e9]))
    assert_array_equal(tags[0, :4], [[0, 0], [2, 0], [0, 2], [2, 2]])
    assert_array_equal(score[0, 8:], [np.float32(-2e30), -np.inf])
    assert_array_equal(tags[0, 8:], [[1, 1], [0, 0]])


@pytest.mark.parametrize("regime", ["eager", "graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_a_row_of_nan_is_nan_alone(regime):
    scores = CASES["ordinary"]
    for junk in (np.nan, np.inf):
        potentials = scores.potentials.copy()
        potentials[-1, 2, 1] = junk
        broken = scores._replace(potentials=potentials)
        tags, score, log_prob = top_k_of(regime, broken, 4)
        expected_tags, expected_score = Oracle(*scores).top_k(4)
        assert_array_equal(score[-1], [np.nan] * 4)
        assert_array_equal(log_prob[-1], [np.nan] * 4)
        assert not np.any(np.isnan(log_prob[:-1]))
        assert_array_equal(tags[-1], 0)
        assert_array_equal(tags[:-1], expected_tags[:-1])
        assert_array_equal(score[:-1], expected_score[:-1])
        _, samples = run(regime, mbr_and_samples, *broken)
        assert_array_equal(samples[:, -1], 0)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    halves = [tf.cast(array, dtype) for array in CASES["ordinary"][:2]]
    half, whole = (
        LinearChainCRF(*(tf.cast(array, to) for array in halves)) for to in (dtype, tf.float32)
    )
    for question in (
        lambda crf: crf.top_k(4),
        lambda crf: crf.posterior_decode(),
        lambda crf: crf.sample(2, seed=1),
    ):
        answers = (tf.nest.flatten(question(crf)) for crf in (half, whole))
        for of_halves, of_whole in zip(*answers, strict=True):
            assert of_halves.dtype == of_whole.dtype
            assert_array_equal(of_halves, of_whole)


def test_paths_enough_set_off_no_check_of_numerics():
    crf = LinearChainCRF(np.zeros([2, 3, 2], "float32"), np.zeros([2, 2]), lengths=[2, 3])
    tf.debugging.enable_check_numerics()
    try:
        assert_array_equal(crf.top_k(4).score, np.zeros([2, 4]))
        assert_array_equal(crf.posterior_decode(), np.zeros([2, 3]))
        crf.sample(2)
    finally:
        tf.debugging.disable_check_numerics()


@pytest.mark.parametrize("mask", [None, [[1, 0, 1], [0, 0, 1], [0, 1, 1]]], ids=["full", "holes"])
def test_the_probabilities_of_all_paths_sum_to_1_in_each_row_of_a_batch(mask):
    """With as many rows as paths, where one number for each row goes with each path as well."""
    scores = 3 * np.random.default_rng(3).normal(size=[3, 3, 3]).astype("float32")
    crf = LinearChainCRF(scores, scores[0], mask=mask)
    few, all_of_them = crf.top_k(3), crf.top_k(27)
    assert_array_equal(few.log_prob, all_of_them.log_prob[:, :3])
    assert np.all(np.diff(few.log_prob) <= 0)
    assert_allclose(np.exp(all_of_them.log_prob).sum(axis=1), [1, 1, 1], rtol=1e-6)
    assert np.all(np.exp(few.log_prob).sum(axis=1) <= 1 + 1e-6)


@pytest.mark.parametrize(
    ("size", "steps"),
    [(1.0, 1000), (1e4, 1000), pytest.param(1.0, 100_000, marks=pytest.mark.slow)],
)
def test_log_prob_of_the_best_keeps_its_digits_in_long_rows_of_large_scores(size, steps):
    """Two tags may change places at any step for almost nothing, so that many paths are close."""
    random = np.random.default_rng(5)
    potentials = random.uniform(-size, size, [2, steps, 4]).astype("float32")
    potentials[..., 1] = potentials[..., 0] + random.normal(size=[2, steps])
    transitions = random.uniform(-size, size, [4, 4]).astype("float32")
    transitions[1], transitions[:, 1] = transitions[0], transitions[:, 0]
    best = LinearChainCRF(potentials, transitions).top_k(3)
    exact = LinearChainCRF(potentials.astype("float64"), transitions)
    for rank in range(3):
        right = exact.log_prob(best.tags[:, rank]).numpy()
        assert np.all(np.abs(best.log_prob[:, rank] - right) <= 1e-5 * (1 + np.abs(right)))
    assert np.max(best.log_prob) <= 1e-6


@pytest.mark.parametrize("jit_compile", [False, True])
def test_log_prob_of_the_best_has_the_gradient_of_log_prob(jit_compile):
    potentials, transitions, start, end, mask = CASES["forbidden"]
    scores = [tf.constant(array, tf.float32) for array in (potentials, transitions, start, end)]
    weights = np.random.default_rng(6).normal(size=[ROWS, 3]).astype("float32")

    def gradients(question):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            crf = LinearChainCRF(
                *scores[:2], start=scores[2], end=scores[3], mask=mask, jit_compile=jit_compile
            )
            paths = crf.top_k(3)
            exists = paths.score > -np.inf
            log_prob = tf.where(exists, question(crf, paths), 0)
        return tape.gradient(log_prob, scores, weights)

    def one_by_one(crf, paths):
        return tf.stack([crf.log_prob(paths.tags[:, rank]) for rank in range(3)], axis=1)

    of_all = gradients(lambda crf, paths: paths.log_prob), gradients(one_by_one)
    for mine, expected in zip(*of_all, strict=True):
        assert_allclose(mine, expected, atol=2e-6)
    assert all(np.any(gradient) for gradient in of_all[1][:2])


@pytest.mark.parametrize("question", ["top_k", "sample"])
@pytest.mark.parametrize("number", [0, -1, True, 2.0, "2", None, np.ones(2, int)])
def test_a_number_of_paths_that_is_none_is_refused_in_words(question, number):
    crf = LinearChainCRF(np.zeros([1, 2, 2], "float32"), np.zeros([2, 2]))
    name = {"top_k": "k", "sample": "n"}[question]
    with pytest.raises(ValueError, match=rf"^{name} must be a whole number of at least 1.*: got "):
        getattr(crf, question)(number)


@pytest.mark.parametrize("seed", [1.5, "1", [1, 2, 3], [[1, 2]], [0.0, 1.0]])
def test_a_seed_that_is_none_is_refused_in_words(seed):
    crf = LinearChainCRF(np.zeros([1, 2, 2], "float32"), np.zeros([2, 2]))
    with pytest.raises(ValueError, match=r"seed must be None, a whole number or two of them: got"):
        crf.sample(2, seed=seed)


# Golden values.


@every_dtype
def test_the_next_best_of_contrib_with_ties(dtype):
    potentials = np.array([[[4, 5, -3], [3, -1, 3], [-1, 2, 1]]], dtype)
    crf = LinearChainCRF(potentials, [[-3, 5, -2], [3, 4, 1], [1, 2, 1]])
    tags, score, _ = crf.top_k(6)
    assert_array_equal(score, [[18, 14, 14, 13, 11, 11]])
    assert_array_equal(tags[0], [[1, 0, 1], [0, 1, 1], [1, 1, 1], [1, 2, 1], [0, 0, 1], [1, 2, 2]])
    assert_array_equal(crf.posterior_decode(), [[1, 0, 1]])


@every_dtype
@pytest.mark.parametrize(
    ("mask", "paths", "scores"),
    [
        (np.ones([2, 3]), [[4, 2, 4], [3, 2, 4], [4, 2, 3]], [9.4, 9.1, 8.8]),
        (golden.SHORT, [[4, 2, 0], [3, 2, 0], [2, 4, 0]], [5.1, 4.8, 4.2]),
        (golden.HOLE, [[2, 0, 4], [2, 0, 3], [4, 0, 2]], [5.1, 4.5, 3.0]),
    ],
    ids=["full", "short", "hole"],
)
def test_the_next_best_of_allennlp(dtype, mask, paths, scores):
    tags, score, _ = golden.tagger(dtype, mask=mask).top_k(4)
    assert_array_equal(tags[1, :3], paths)
    assert_allclose(score[1, :3], scores, rtol=1e-5)
    if mask[0, 1]:
        assert_array_equal(tags[0, :3], [[2, 4, 3], [4, 2, 3], [3, 2, 3]])
        assert_allclose(score[0, :3], [15.5, 15.1, 14.8], rtol=1e-6)


@every_dtype
def test_mbr_goes_where_viterbi_does_not(dtype):
    """In AllenNLP's case by a transition of -5.6; in CRFsuite's self-check at the last step."""
    assert_array_equal(golden.tagger(dtype).posterior_decode(), [[2, 2, 3], [4, 2, 4]])
    crf = LinearChainCRF(np.log([golden.CHANCES]).astype(dtype), np.log(golden.CHANCES_OF_NEXT))
    assert_array_equal(crf.argmax().tags, [[1, 0, 2]])
    assert_array_equal(crf.posterior_decode(), [[1, 0, 0]])
    best = crf.top_k(4)
    assert_array_equal(best.tags[0, :3], [[1, 0, 2], [0, 2, 0], [1, 0, 0]])
    assert_allclose(np.exp(best.log_prob)[:, :3], [[0.2481903, 0.1654602, 0.1489142]], rtol=1e-5)


@every_dtype
def test_the_viterbi_cases_of_allennlp(dtype):
    no_repeats = np.where(np.eye(5), -np.inf, 0)
    potentials = np.array([[[0, 0, 0, 3, 5]] + [[0, 0, 0, 3, 4]] * 5], dtype)
    best = LinearChainCRF(potentials, no_repeats).top_k(4)
    assert_array_equal(best.tags[0, 0], [4, 3, 4, 3, 4, 3])
    assert_array_equal(best.score[0, 0], 22)
    potentials[0, 0, 4] = 4
    best = LinearChainCRF(potentials, no_repeats).top_k(4)
    assert_array_equal(best.tags[0, :2], [[4, 3, 4, 3, 4, 3], [3, 4, 3, 4, 3, 4]])
    assert_array_equal(best.score[0, :2], [21, 21])


@every_dtype
def test_the_top_k_case_of_allennlp(dtype):
    potentials = np.array([[[1, 0, 0, 4], [1, 0, 6, 2], [0, 3, 0, 4]]], dtype)
    transitions = np.zeros([4, 4])
    transitions[0, 0], transitions[2, 1] = 1, 5
    tags, score, _ = LinearChainCRF(potentials, transitions).top_k(4)
    assert_array_equal(score, [[18, 15, 14, 14]])
    assert_array_equal(tags[0, :2], [[3, 2, 1], [0, 2, 1]])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_scores_of_the_best_have_a_gradient_and_what_is_served_has_none(jit_compile):
    potentials, transitions = tf.Variable([[[0.0, 1.0], [0.5, 0.0]]]), tf.Variable(np.zeros([2, 2]))

    def gradients(question):
        with tf.GradientTape() as tape:
            answer = question(LinearChainCRF(potentials, transitions, jit_compile=jit_compile))
        return tape.gradient(answer, [potentials, transitions])

    of_second = gradients(lambda crf: crf.top_k(3).score[0, 1])  # of the path 1 1
    assert_array_equal(of_second[0], [[[0, 1], [0, 1]]])
    assert_array_equal(of_second[1], [[0, 0], [0, 1]])
    assert gradients(lambda crf: crf.tagging().log_prob) == [None, None]
