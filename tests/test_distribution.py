"""`LinearChainCRF` against the oracle, in every regime and dtype."""

from types import MappingProxyType

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import laws
from keras_crf import LinearChainCRF
from laws import EVERY_MASK, SHAPE, TAGS, assert_same_answers, draw_array, draw_scores, draw_tags
from oracle import Oracle, Scores
from regimes import DTYPES, REGIMES, ask, nodes_within, run

WEIGHTS = np.linspace(0.5, 2.0, SHAPE[0])
TOLERANCE = {"float32": 1e-5, "float64": 1e-11}

every_regime = pytest.mark.parametrize("regime", REGIMES)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


class TestOrdinaryScores(laws.Laws):
    scores = draw_scores(seed=1)


class TestForbiddenScores(laws.Laws):
    scores = draw_scores(seed=2, forbidden=0.15)


class TestWideScores(laws.Laws):
    """Wide enough for exp to underflow in float64: the exact recurrence steps in."""

    scores = draw_scores(seed=3, size=1000.0, forbidden=0.05)
    tolerance = MappingProxyType({"float32": 5e-4, "float64": 1e-11})  # 4 roundings of 1000


def expected_answers(scores, tags, weights):
    """What `ask` should give."""
    oracle = Oracle(*scores)
    best_tags, best_score = oracle.argmax()
    return {
        "score": oracle.score(tags),
        "log_partition": oracle.log_partition(),
        "log_prob": oracle.log_prob(tags),
        "marginals": oracle.marginals(),
        "edge_marginals": oracle.edge_marginals(),
        "forward_messages": oracle.forward_messages(),
        "backward_messages": oracle.backward_messages(),
        "contributions": oracle.contributions(tags),
        "best_tags": np.where(best_score[:, None] > -np.inf, best_tags, 0),
        "best_score": best_score,
        "partition_gradient": oracle.expected_counts(weights),
        "log_prob_gradient": oracle.log_prob_gradient(tags, weights),
    }


def assert_agrees_with_the_oracle(regime, dtype, scores, tags, weights, tolerance):
    actual = ask(regime, dtype, scores, tags, weights)
    legal = actual["best_score"][:, None] > -np.inf
    actual["best_tags"] = np.where(legal, actual["best_tags"], 0)  # else they mean nothing
    assert_same_answers(actual, expected_answers(scores, tags, weights), tolerance)


@every_regime
@every_dtype
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("forbidden", [0.0, 0.2])
def test_every_mask_agrees_with_the_oracle(regime, dtype, seed, forbidden):
    scores, tags = draw_scores(seed, forbidden=forbidden), draw_tags(seed)
    assert_agrees_with_the_oracle(regime, dtype, scores, tags, WEIGHTS, TOLERANCE[dtype])


def padded(scores, tags, shape=SHAPE):
    """The same distributions as a batch of `shape`: with empty rows, dropped steps, no new tags."""
    added = [
        (0, wanted - size) for size, wanted in zip(scores.potentials.shape, shape, strict=True)
    ]

    def pad(array, widths, value):
        return np.pad(array, widths, constant_values=value)

    padded_scores = Scores(
        pad(scores.potentials, added, -np.inf),
        pad(scores.transitions, [added[2]] * 2, -np.inf),
        pad(scores.start, added[2], -np.inf),
        pad(scores.end, added[2], -np.inf),
        pad(scores.mask, added[:2], False),
    )
    return padded_scores, pad(tags, added[:2], 0)


@st.composite
def chains(draw, shape):
    """Scores of at most `shape`, and tags."""
    limits = zip((0, 0, 1), shape, strict=True)
    rows, steps, tags = (draw(st.integers(least, most)) for least, most in limits)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.sampled_from([1.0, 1.0, 30.0, 1e4]))
    forbidden = draw(st.sampled_from([0.0, 0.1, 0.5]))
    shapes = [rows, steps, tags], [tags, tags], [tags], [tags]
    scores = (draw_array(random, size, forbidden, shape) for shape in shapes)
    kept = draw(st.sampled_from([0.3, 0.7, 1.0]))
    mask = random.random((rows, steps)) < kept
    return Scores(*scores, mask), random.integers(0, tags, (rows, steps))


def tolerance_for(dtype, scores):
    """Float32 holds a sum of scores of 1e4 to about 1e-3, and probabilities no better."""
    finite = scores.potentials[np.isfinite(scores.potentials)]
    largest = np.abs(finite).max(initial=1.0)
    return max(TOLERANCE[dtype], 4 * largest * np.finfo(dtype).eps)


@every_dtype
@settings(max_examples=60, deadline=None, derandomize=True)
@given(chains((4, 6, 5)))
def test_a_chain_of_any_size_agrees_with_the_oracle(dtype, chain):
    scores, tags = chain
    weights = WEIGHTS[: len(tags)]
    tolerance = tolerance_for(dtype, scores)
    assert_agrees_with_the_oracle("graph", dtype, scores, tags, weights, tolerance)


@pytest.mark.parametrize("regime", ["eager", "xla"])
@every_dtype
@settings(max_examples=30, deadline=None, derandomize=True)
@given(chains((8, 5, 3)))
def test_any_chain_agrees_with_the_oracle(regime, dtype, chain):
    scores, tags = padded(*chain)
    tolerance = tolerance_for(dtype, chain[0])
    assert_agrees_with_the_oracle(regime, dtype, scores, tags, WEIGHTS, tolerance)


@every_regime
@every_dtype
def test_a_row_of_length_0_gives_zeros_and_no_gradient(regime, dtype):
    scores = draw_scores(4, forbidden=0.2)
    answers = ask(regime, dtype, scores, draw_tags(4))
    empty = ~EVERY_MASK.any(axis=1)
    for name, answer in answers.items():
        for part in answer[:1] if name.endswith("gradient") else tf.nest.flatten(answer):
            assert_array_equal(part[empty], 0, err_msg=name)


@every_regime
@every_dtype
def test_without_a_legal_path_the_partition_is_zero_and_nothing_is_nan(regime, dtype):
    scores = draw_scores(5)._replace(start=np.full(TAGS, -np.inf))
    answers = ask(regime, dtype, scores, draw_tags(5))
    held = EVERY_MASK.any(axis=1)
    for name in ("score", "log_partition", "log_prob", "best_score"):
        assert_array_equal(answers[name][held], -np.inf, err_msg=name)
    for part in answers["partition_gradient"]:
        assert_array_equal(part, 0)
    assert all(np.all(np.isfinite(part)) for part in answers["log_prob_gradient"])
    assert_array_equal(answers["marginals"], 0)


@every_regime
@every_dtype
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_row_with_nan_or_infinity_gets_nan_and_no_other_row_does(regime, dtype, wrong):
    scores, tags = draw_scores(6), draw_tags(6)
    potentials = scores.potentials.copy()
    potentials[-1, 2, 1] = wrong  # the last row keeps all steps
    expected = ask(regime, dtype, scores, tags)
    answers = ask(regime, dtype, scores._replace(potentials=potentials), tags)
    for name in ("log_partition", "log_prob", "marginals", "best_score"):
        assert np.all(np.isnan(answers[name][-1])), name
        assert_allclose(answers[name][:-1], expected[name][:-1], rtol=TOLERANCE[dtype])


@every_regime
@every_dtype
def test_no_gradient_reaches_what_is_forbidden(regime, dtype):
    """C3: a tag that can never be reached leaves all else finite, and gets exactly 0."""
    scores = draw_scores(7)
    never = np.arange(TAGS) == 1
    scores = scores._replace(
        transitions=np.where(never, -np.inf, scores.transitions),
        start=np.where(never, -np.inf, scores.start),
    )
    potentials, transitions, start, end = ask(regime, dtype, scores, 0 * draw_tags(7))[
        "partition_gradient"
    ]
    for part in (potentials, transitions, start, end):
        assert np.all(np.isfinite(part))
        assert_array_equal(part[..., never], 0)
    assert_array_equal(transitions[never], 0)
    assert transitions[0, 0] > 0


def finite_differences(function, array, step=1e-5):
    """d function(array)[...] / d array, [*array.shape, *result.shape]."""

    def difference(place):
        moved = np.zeros_like(array)
        moved[place] = step
        return (function(array + moved) - function(array - moved)) / (2 * step)

    slopes = np.array([difference(place) for place in np.ndindex(array.shape)])
    return slopes.reshape(*array.shape, *slopes.shape[1:])


@pytest.mark.parametrize("argument", range(4), ids=["potentials", "transitions", "start", "end"])
@pytest.mark.parametrize("question", ["log_partition", "log_prob"])
def test_the_gradient_is_the_slope(argument, question):
    scores, tags = draw_scores(8, forbidden=0.1), draw_tags(8)
    rows = slice(-4, None)
    scores = scores._replace(potentials=scores.potentials[rows], mask=scores.mask[rows])
    tags = np.asarray(Oracle(*scores).argmax()[0])  # a legal path

    def total(array):
        moved = scores._replace(**{scores._fields[argument]: array})
        return ask("graph", "float64", moved, tags)[question].sum()

    names = {"log_partition": "partition_gradient", "log_prob": "log_prob_gradient"}
    gradient = ask("graph", "float64", scores, tags)[names[question]][argument]
    slope = finite_differences(total, scores[argument])
    allowed = np.isfinite(scores[argument])
    assert_allclose(gradient[allowed], slope[allowed], atol=1e-8)


def squares_of_marginals(potentials, transitions):
    """The gradient of the sum of squared marginals of a small chain."""
    with tf.GradientTape() as tape:
        tape.watch([potentials, transitions])
        value = tf.reduce_sum(LinearChainCRF(potentials, transitions).marginals() ** 2)
    return value, tape.gradient(value, [potentials, transitions])


@pytest.mark.slow
@every_regime
def test_the_marginals_have_a_gradient(regime):
    random = np.random.default_rng(0)
    potentials, transitions = random.normal(size=(2, 3, 2)), random.normal(size=(2, 2))
    _, gradient = run(regime, squares_of_marginals, potentials, transitions)

    def value(potentials, transitions):
        return np.sum(Oracle(potentials, transitions).marginals() ** 2)

    for_potentials = finite_differences(lambda array: value(array, transitions), potentials)
    for_transitions = finite_differences(lambda array: value(potentials, array), transitions)
    assert_allclose(gradient[0], for_potentials, atol=1e-8)
    assert_allclose(gradient[1], for_transitions, atol=1e-8)


def hessian_vector_product(potentials, transitions, vector):
    """d/d(potentials, transitions) of <vector, d log_partition / d potentials>."""
    with tf.GradientTape() as outer:
        outer.watch([potentials, transitions])
        with tf.GradientTape() as inner:
            inner.watch(potentials)
            log_partition = LinearChainCRF(potentials, transitions).log_partition()
        along = tf.reduce_sum(vector * inner.gradient(log_partition, potentials))
    return outer.gradient(along, [potentials, transitions])


@pytest.mark.slow
@pytest.mark.parametrize("regime", ["eager", "graph"])
def test_the_gradient_of_log_partition_has_a_gradient(regime):
    random = np.random.default_rng(1)
    potentials, transitions = random.normal(size=(2, 3, 2)), random.normal(size=(2, 2))
    vector = random.normal(size=potentials.shape)

    def along(potentials, transitions):
        return np.sum(vector * Oracle(potentials, transitions).marginals())

    of_potentials, of_transitions = run(
        regime, hessian_vector_product, potentials, transitions, vector
    )
    slope = finite_differences(lambda array: along(array, transitions), potentials)
    assert_allclose(of_potentials, slope, atol=1e-8)
    slope = finite_differences(lambda array: along(potentials, array), transitions)
    assert_allclose(of_transitions, slope, atol=1e-8)


def relative_error(potentials, transitions, tags):
    """|log_prob - float64's| / (1 + |log_prob|) of the float32 result, the worst of the rows."""
    potentials, transitions = np.float32(potentials), np.float32(transitions)
    approximate, exact = (
        LinearChainCRF(tf.cast(potentials, dtype), transitions).log_prob(tags).numpy()
        for dtype in DTYPES
    )
    assert np.all(approximate <= 1e-6)
    return np.max(np.abs(approximate - exact) / (1 + np.abs(exact)))


@pytest.mark.parametrize("steps", [200, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("size", "offset", "transition_size", "transition_offset"),
    [
        (1, 0, 1, 0),
        (30, 0, 30, 0),
        (1e4, 0, 1, 0),
        (1, 1e4, 1, 0),
        (1, 0, 1e4, 0),
        (1, 0, 1, 1e4),
        (1e4, 0, 1e4, 0),
    ],
)
def test_float32_log_prob_keeps_five_digits(
    steps, size, offset, transition_size, transition_offset
):
    random = np.random.default_rng(9)
    potentials = np.float32(offset + size * random.normal(size=(2, steps, 5)))
    transitions = np.float32(transition_offset + transition_size * random.normal(size=(5, 5)))
    best = LinearChainCRF(potentials, transitions).argmax().tags
    any_tags = random.integers(0, 5, (2, steps))
    for tags in (best, any_tags):
        assert relative_error(potentials, transitions, tags) <= 1e-5


@every_dtype
def test_what_is_far_behind_at_each_step_counts_once_the_rest_is_forbidden(dtype):
    """Two pairs of tags with no way between; the pair that is 4000 nats behind may end alone."""
    steps, random = 200, np.random.default_rng(10)
    potentials = random.normal(size=(2, steps, 5)).astype(dtype)
    potentials[..., :3] += 20
    between = np.zeros([5, 5])
    between[:3, 3:] = between[3:, :3] = -np.inf
    crf = LinearChainCRF(potentials, between, end=[-np.inf] * 3 + [0.0] * 2)
    expected = np.logaddexp(potentials[..., 3], potentials[..., 4]).sum(axis=1, dtype=np.float64)
    assert_allclose(crf.log_partition(), expected, rtol=1e-6 if dtype == "float32" else 1e-12)
    gradient = crf.marginals().numpy()
    assert_array_equal(gradient[..., :3], 0)
    assert_allclose(gradient[..., 3:].sum(axis=-1), 1, atol=1e-5)


def test_the_exact_recurrence_gives_the_expected_counts_too():
    """Transitions 1e4 apart, against float64, which alone could hold their exponentials no more."""
    random = np.random.default_rng(11)
    scores = draw_scores(11)._replace(transitions=np.float32(1e4 * random.normal(size=(3, 3))))
    exact = ask("eager", "float64", scores, draw_tags(11), WEIGHTS)
    expected = Oracle(*scores).expected_counts(WEIGHTS)
    for part, expectation in zip(exact["partition_gradient"], expected, strict=True):
        assert_allclose(part, expectation, atol=1e-10)


def pairs_of_tags_within(nodes, number_of_tags):
    """The shapes, less their axes of 1, of all tensors with two axes of K."""
    shapes = [shape for node in nodes for shape in node.attr["_output_shapes"].list.shape]
    sizes = [[axis.size for axis in shape.dim if axis.size != 1] for shape in shapes]
    return [size for size in sizes if size.count(number_of_tags) == 2]


@pytest.mark.parametrize("question", ["log_partition", "log_prob"])
def test_a_gradient_holds_no_pairs_of_tags_over_time(question):
    """No [B, T, K, K], and no list of the [B, K, K] of each step, which a tape would keep."""
    batch, steps, tags = 5, 19, 11

    @tf.function(autograph=False)
    def gradient(potentials, transitions, path):
        with tf.GradientTape() as tape:
            tape.watch([potentials, transitions])
            crf = LinearChainCRF(potentials, transitions)
            answer = crf.log_prob(path) if question == "log_prob" else crf.log_partition()
        return tape.gradient(answer, [potentials, transitions])

    path = tf.TensorSpec([batch, steps], tf.int32)
    scores = tf.TensorSpec([batch, steps, tags]), tf.TensorSpec([tags, tags])
    nodes = nodes_within(gradient.get_concrete_function(*scores, path).graph)
    shapes = pairs_of_tags_within(nodes, tags)
    assert [batch, tags, tags] in shapes  # the exact recurrence, a step at a time
    assert max(len(shape) for shape in shapes) == 3
    assert not [node.name for node in nodes if node.op == "TensorListPushBack"]


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    scores, tags = draw_scores(12), draw_tags(12)
    halves = [tf.cast(array, dtype) for array in scores[:2]]
    whole = [tf.cast(array, tf.float32) for array in halves]
    half_crf, whole_crf = LinearChainCRF(*halves), LinearChainCRF(*whole)
    for question in ("log_partition", "marginals", "argmax", "log_prob", "score"):
        arguments = [tags] if question in ("log_prob", "score") else []
        of_halves = tf.nest.flatten(getattr(half_crf, question)(*arguments))
        of_whole = tf.nest.flatten(getattr(whole_crf, question)(*arguments))
        for half, full in zip(of_halves, of_whole, strict=True):
            assert half.dtype == full.dtype
            assert_array_equal(half, full)


@pytest.mark.parametrize("lengths_type", ["int32", "int64", "uint8"])
def test_lengths_are_short_for_a_right_padded_mask(lengths_type):
    lengths = np.arange(SHAPE[0]) % (SHAPE[1] + 1)
    crf = LinearChainCRF(*draw_scores(13)[:2], lengths=lengths.astype(lengths_type))
    assert_array_equal(crf.mask, np.arange(SHAPE[1]) < lengths[:, None])


POTENTIALS, SQUARE = np.zeros([2, 3, 4], np.float32), np.zeros([4, 4], np.float32)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"potentials": POTENTIALS[0]}, r"potentials must have rank 3.*got rank 2.*\(3, 4\)"),
        ({"potentials": POTENTIALS[..., :0]}, r"at least one tag.*\(2, 3, 0\)"),
        (
            {"transitions": SQUARE[:3]},
            r"transitions must have the shape \[K, K\] = \[4, 4\].*\(3, 4\)",
        ),
        ({"start": SQUARE[0, :3]}, r"start must have the shape \[K\] = \[4\].*\(3,\)"),
        ({"end": SQUARE}, r"end must have the shape \[K\] = \[4\].*\(4, 4\)"),
        ({"mask": np.ones([2, 3, 1])}, r"mask must have rank 2, \[batch, time\]; got rank 3"),
        ({"mask": np.ones([3, 2])}, r"mask.*\(3, 2\).*\(2, 3, 4\)"),
        ({"mask": [[1, 1, 2], [1, 1, 1]]}, r"True and False, or 1 and 0; got 2 at row 0, step 2"),
        ({"mask": [[1, 1, 1], [0.5, 1, 1]]}, r"or 1 and 0; got 0\.5 at row 1, step 0"),
        ({"lengths": [3, 4]}, r"lengths must lie in 0\.\.3; got 4 at row 1"),
        ({"lengths": [-1, 3]}, r"lengths must lie in 0\.\.3; got -1 at row 0"),
        ({"lengths": 3}, r"lengths must have the shape \[batch\], one number a row: got \(\)"),
        ({"lengths": [3]}, r"lengths must have the shape \[batch\].*\(1,\).*\(2, 3, 4\)"),
        ({"potentials": tf.ragged.constant([[[0.0]]])}, r"potentials\.to_tensor\(\)"),
        ({"mask": tf.ragged.constant([[True]])}, r"mask must be a dense tensor.*RaggedTensor"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        LinearChainCRF(**{"potentials": POTENTIALS, "transitions": SQUARE, **arguments})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"potentials": POTENTIALS.astype(int)}, r"potentials must be floating point, got int64"),
        ({"lengths": [1.0, 2.0]}, r"lengths must be whole numbers, got float32"),
    ],
)
def test_a_wrong_dtype_is_refused_in_words(arguments, words):
    with pytest.raises(TypeError, match=words):
        LinearChainCRF(**{"potentials": POTENTIALS, "transitions": SQUARE, **arguments})


QUESTIONS_OF_TAGS = ["score", "log_prob", "contributions"]


@pytest.mark.parametrize("question", QUESTIONS_OF_TAGS)
@pytest.mark.parametrize(
    ("tags", "error", "words"),
    [
        (
            [[0, 0, 0], [0, 4, 9]],
            ValueError,
            r"0\.\.3 on kept steps; got the tag 4 at row 1, step 1",
        ),
        ([[0, 0, -1], [0, 0, 0]], ValueError, r"got the tag -1 at row 0, step 2"),
        ([[0, 0], [0, 0]], ValueError, r"tags.*\(2, 2\).*\(2, 3, 4\)"),
        ([0, 0], ValueError, r"tags must have rank 2, \[batch, time\]; got rank 1"),
        ([[0.0] * 3] * 2, TypeError, r"tags must be whole numbers, got float32"),
    ],
)
def test_bad_tags_are_refused_in_words(question, tags, error, words):
    with pytest.raises(error, match=words):
        getattr(LinearChainCRF(POTENTIALS, SQUARE), question)(tags)


def asked(potentials, transitions, mask, lengths, tags):
    """One answer, for which mask, lengths and tags are checked."""
    return LinearChainCRF(potentials, transitions, mask=mask, lengths=lengths).score(tags)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tags": [[0, 0, 0], [0, 7, 0]]}, ["tags must lie in 0..", "the tag", "7", "row", "step"]),
        ({"mask": [[1, 1, 1], [1, 2, 1]]}, ["mask must hold True and False", "2", "row", "step"]),
        ({"lengths": [3, 5]}, ["lengths must lie in 0..", "5", "row", "1"]),
    ],
    ids=["tags", "mask", "lengths"],
)
def test_bad_values_raise_in_a_graph_and_give_nan_under_xla(wrong, words):
    right = {"mask": np.ones([2, 3]), "lengths": [3, 3], "tags": np.zeros([2, 3])}
    mask, lengths, tags = (np.asarray((right | wrong)[name], np.int32) for name in right)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        run("graph", asked, POTENTIALS, SQUARE, mask, lengths, tags)
    assert all(word in str(error.value) for word in words)
    scores = run("xla", asked, POTENTIALS, SQUARE, mask, lengths, tags)
    assert_array_equal(scores, [0, np.nan])


def test_shapes_that_do_not_go_together_are_refused_when_the_graph_is_traced():
    @tf.function(autograph=False)
    def traced(potentials):
        return LinearChainCRF(potentials, SQUARE, mask=tf.ones([2, 5])).log_partition()

    with pytest.raises(ValueError, match=r"mask.*\(2, 5\).*\(2, 3, 4\)"):
        traced.get_concrete_function(tf.TensorSpec([2, 3, 4]))


class TestRepr:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({}, "LinearChainCRF(B=2, T=3, K=4, dtype=float32, kept_steps=6)"),
            ({"lengths": [3, 0]}, "LinearChainCRF(B=2, T=3, K=4, dtype=float32, kept_steps=3)"),
            (
                {"mask": [[0, 1, 0]] * 2, "jit_compile": True},
                "LinearChainCRF(B=2, T=3, K=4, dtype=float32, kept_steps=2)",
            ),
        ],
        ids=["full", "lengths", "mask"],
    )
    def test_says_the_sizes_the_dtype_and_how_many_steps_are_kept(self, options, text):
        assert repr(LinearChainCRF(POTENTIALS, SQUARE, **options)) == text

    @pytest.mark.parametrize("jit_compile", [None, True])
    def test_says_none_for_what_a_graph_does_not_know(self, jit_compile):
        texts = []

        def told(potentials):
            texts.append(repr(LinearChainCRF(potentials, tf.zeros([4, 4], potentials.dtype))))
            return potentials

        spec = tf.TensorSpec([None, None, 4], tf.float64)
        traced = tf.function(told, autograph=False, jit_compile=jit_compile)
        traced.get_concrete_function(spec)
        assert texts == ["LinearChainCRF(B=None, T=None, K=4, dtype=float64)"]
        traced.get_concrete_function(tf.TensorSpec([None] * 3, tf.float16))
        assert texts[1:] == ["LinearChainCRF(B=None, T=None, K=None, dtype=float32)"]


def test_a_vectorized_map_gives_what_each_batch_gives_alone():
    random = np.random.default_rng(3)
    transitions = tf.constant(random.normal(size=[3, 3]), tf.float32)
    batches = (
        tf.constant(random.normal(size=[4, 2, 5, 3]), tf.float32),
        tf.constant(random.integers(0, 3, [4, 2, 5]), tf.int32),
    )

    def score(batch):
        potentials, path = batch
        return LinearChainCRF(potentials, transitions).score(path)

    alone = [score(batch) for batch in zip(*batches, strict=True)]
    assert_allclose(tf.vectorized_map(score, batches), alone, rtol=1e-5)
