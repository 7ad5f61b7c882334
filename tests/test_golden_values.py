"""Numbers that any correct CRF with boundary scores gives, in float64 by listing every path."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF
from regimes import DTYPES

TAGGED = np.array([[2, 3, 4], [3, 2, 2]])
POTENTIALS = [
    [[0, 0, 0.5, 0.5, 0.2], [0, 0, 0.3, 0.3, 0.1], [0, 0, 0.9, 10, 1]],
    [[0, 0, 0.2, 0.5, 0.2], [0, 0, 3, 0.3, 0.1], [0, 0, 0.9, 1, 1]],
]
TRANSITIONS = [
    [0.1, 0.2, 0.3, 0.4, 0.5],
    [0.8, 0.3, 0.1, 0.7, 0.9],
    [-0.3, 2.1, -5.6, 3.4, 4],
    [0.2, 0.4, 0.6, -0.3, -0.4],
    [1, 1, 1, 1, 1],
]
ENDS = {"start": [0.1, 0.2, 0.3, 0.4, 0.6], "end": [-0.1, -0.2, 0.3, -0.4, -0.4]}
SHORT = np.array([[1, 1, 1], [1, 1, 0]])
HOLE = np.array([[1, 0, 1], [1, 0, 1]])
ALLOWED = np.eye(5, dtype=bool) | np.roll(np.eye(5, dtype=bool), 1, axis=1)

every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def tagger(dtype, transitions=TRANSITIONS, mask=None, **ends):
    """The taggers of AllenNLP's and tfa's tests: 5 tags, boundary scores."""
    return LinearChainCRF(np.array(POTENTIALS, dtype), transitions, mask=mask, **(ENDS | ends))


@every_dtype
@pytest.mark.parametrize(
    ("mask", "log_partition", "log_prob"),
    [
        (np.ones([2, 3]), [16.6094426, 10.7692051], [-11.9094426, -10.6692051]),
        (SHORT, [16.6094426, 6.2701313], [-11.9094426, -1.4701313]),
        (HOLE, [13.9654981, 5.9333253], [-8.5654981, -3.2333253]),
    ],
    ids=["full", "short", "hole"],
)
def test_the_gold_tags(dtype, mask, log_partition, log_prob):
    crf = tagger(dtype, mask=mask)
    assert_allclose(crf.log_partition(), log_partition, rtol=1e-6)
    assert_allclose(crf.log_prob(TAGGED), log_prob, rtol=1e-6)
    assert_allclose(crf.score(TAGGED), np.add(log_partition, log_prob), atol=1e-5)


@every_dtype
@pytest.mark.parametrize("boundary", [0.0, 1.0])
def test_a_constant_boundary_moves_log_partition_and_no_probability(dtype, boundary):
    ends = dict.fromkeys(ENDS, [boundary] * 5)
    crf = tagger(dtype, **ends)
    moved = np.add([16.6434855, 10.7255206], 2 * boundary)
    assert_allclose(crf.log_partition(), moved, rtol=1e-6)
    assert_allclose(-np.mean(crf.log_prob(TAGGED)), 11.5845031, rtol=1e-6)


@every_dtype
@pytest.mark.parametrize(
    ("mask", "tags", "scores", "probabilities"),
    [
        (np.ones([2, 3]), [[2, 4, 3], [4, 2, 4]], [15.5, 9.4], [0.3297427, 0.254309]),
        (SHORT, [[2, 4, 3], [4, 2, 0]], [15.5, 5.1], [0.3297427, np.exp(5.1 - 6.2701313)]),
    ],
    ids=["full", "short"],
)
def test_the_best_tags(dtype, mask, tags, scores, probabilities):
    crf = tagger(dtype, mask=mask)
    best = crf.argmax()
    assert_array_equal(best.tags, tags)
    assert_allclose(best.score, scores, rtol=1e-6)
    assert_allclose(np.exp(crf.log_prob(best.tags)), probabilities, rtol=1e-5)


def test_the_best_tags_over_a_hole():
    best = tagger("float32", mask=HOLE).argmax()
    assert_array_equal(best.tags[1], [2, 0, 4])
    assert_allclose(best.score[1], 5.1, rtol=1e-6)


@every_dtype
def test_the_best_tags_among_the_allowed(dtype):
    """Each tag may be followed by itself and by the next, 4 by 0; any start and end."""
    crf = tagger(dtype, np.where(ALLOWED, TRANSITIONS, -np.inf), mask=SHORT)
    best = crf.argmax()
    assert_array_equal(best.tags, [[2, 3, 3], [2, 3, 0]])
    assert_allclose(best.score, [13.8, 3.8], rtol=1e-6)
    assert_allclose(crf.log_partition(), [14.4158633, 4.5834426], rtol=1e-6)
    assert_allclose(crf.log_prob(TAGGED), [-9.7158633, -np.inf], rtol=1e-6)
    legal_mass = np.exp(crf.log_partition() - tagger(dtype, mask=SHORT).log_partition())
    assert_allclose(legal_mass, [0.1115169, 0.1851315], rtol=1e-5)


def test_start_and_end_stand_at_the_first_and_last_kept_step():
    """The mask 0011100, of tf_crf_layer and tfa: +1 in front, -1 behind, both where one is kept."""
    mask = np.array([[0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0]], bool)
    zeros = np.zeros([2, 7, 3], np.float32)
    ends = {"start": np.ones(3), "end": -3 * np.ones(3)}
    crf = LinearChainCRF(zeros, np.zeros([3, 3]), mask=mask, **ends)
    _, arrivals = crf.contributions(np.zeros([2, 7], int))
    assert_array_equal(arrivals, [[0, 0, 1, 0, -3, 0, 0], [0, 0, 0, -2, 0, 0, 0]])


CHANCES = [[0.4, 0.5, 0.1], [0.4, 0.1, 0.5], [0.4, 0.1, 0.5]]
CHANCES_OF_NEXT = [[0.3, 0.1, 0.4], [0.6, 0.2, 0.1], [0.5, 0.2, 0.1]]


@every_dtype
def test_the_self_check_of_crfsuite(dtype):
    crf = LinearChainCRF(np.log([CHANCES]).astype(dtype), np.log(CHANCES_OF_NEXT))
    marginals = [
        [0.4, 0.5113754, 0.0886246],
        [0.6415719, 0.0512927, 0.3071355],
        [0.5005171, 0.0455016, 0.4539814],
    ]
    edges = [
        [
            [0.1638056, 0.0128232, 0.2233713],
            [0.409514, 0.0320579, 0.0698035],
            [0.0682523, 0.0064116, 0.0139607],
        ],
        [
            [0.2332989, 0.0194416, 0.3888314],
            [0.0397104, 0.0033092, 0.008273],
            [0.2275078, 0.0227508, 0.0568769],
        ],
    ]
    assert_allclose(crf.log_partition(), [-2.3361419], rtol=1e-6)
    assert_allclose(crf.marginals()[0], marginals, atol=1e-6)
    assert_allclose(crf.edge_marginals()[0], edges, atol=1e-6)
    assert_array_equal(crf.argmax().tags, [[1, 0, 2]])
    for path, probability in (
        ([1, 0, 2], 0.2481903),
        ([0, 2, 0], 0.1654602),
        ([1, 0, 0], 0.1489142),
    ):
        assert_allclose(np.exp(crf.log_prob([path])), [probability], rtol=1e-5)


@every_dtype
def test_a_step_of_which_nothing_is_known_is_summed_over(dtype):
    crf = tagger(dtype)
    unknown = [[2, -1, 4], [3, -1, 2]]
    assert_allclose(crf.log_prob(unknown, ignore_index=-1), [-9.849494, -6.6856346], rtol=1e-6)


@every_dtype
def test_the_next_best_tags_the_entropy_and_the_tags_most_likely_right(dtype):
    crf = tagger(dtype)
    best = crf.top_k(3)
    assert_array_equal(best.tags[:, 1:], [[[4, 2, 3], [3, 2, 3]], [[3, 2, 4], [4, 2, 3]]])
    assert_allclose(best.score[:, 1:], [[15.1, 14.8], [9.1, 8.8]], rtol=1e-6)
    assert_allclose(crf.entropy(), [2.032092, 2.4145714], rtol=1e-6)
    assert_array_equal(crf.posterior_decode(), [[2, 2, 3], [4, 2, 4]])
    short = tagger(dtype, mask=SHORT).top_k(3)
    assert_array_equal(short.tags[1], [[4, 2, 0], [3, 2, 0], [2, 4, 0]])
    assert_allclose(short.score[1], [5.1, 4.8, 4.2], rtol=1e-6)
