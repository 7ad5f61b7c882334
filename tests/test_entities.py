"""Probabilities of entities, against all paths read by `tags_to_spans`."""

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

from keras_crf import LinearChainCRF, tags
from oracle import Oracle
from regimes import REGIMES

NAMES = {
    "IOB1": ["O", "B-X", "I-X", "I-Y"],
    "IOB2": ["I-X", "B-X", "O", "I-Y", "B-Y"],
    "IOE1": ["O", "E-X", "I-X", "I-Y"],
    "IOE2": ["O", "E-X", "I-X", "E-Y"],
    "IOBES": ["O", "B-X", "I-X", "E-X", "S-Y"],
    "BILOU": ["B-X", "L-X", "U-X", "I-X"],
    "BMES": ["B", "M", "E", "S"],
}
ROWS, STEPS = 3, 4
LENGTHS = [4, 3, 1]


def distribution(seed, number_of_tags, dtype="float64", forbidden=None, **options):
    """(crf, oracle): with every tag possible, but for the transitions that are `forbidden`."""
    random = np.random.default_rng(seed)
    shapes = (ROWS, STEPS, number_of_tags), [number_of_tags] * 2, number_of_tags, number_of_tags
    potentials, transitions, start, end = (random.normal(size=shape) for shape in shapes)
    if forbidden is not None:
        transitions, start, end = (
            np.where(allowed, scores, -np.inf)
            for scores, allowed in zip((transitions, start, end), forbidden, strict=True)
        )
    mask = np.arange(STEPS) < np.array(LENGTHS)[:, np.newaxis]
    ends = {"start": start, "end": end}
    crf = LinearChainCRF(potentials.astype(dtype), transitions, mask=mask, **ends, **options)
    return crf, Oracle(potentials, transitions, start, end, mask)


def listed_probabilities(oracle, names, scheme):
    """{(row, type, start, end): probability} of all spans on any path; `end` among kept steps."""
    probabilities = {}
    for index, row in enumerate(oracle.rows):
        for path, probability in zip(row.paths, row.probabilities, strict=True):
            for span in tags.tags_to_spans([names[tag] for tag in path], scheme):
                key = (index, *span)
                probabilities[key] = probabilities.get(key, 0) + probability
    return probabilities


@pytest.mark.parametrize("scheme", NAMES)
@pytest.mark.parametrize("legal", [False, True])
def test_every_entity_of_every_scheme(scheme, legal):
    """One call, so one trace, for each number of tags."""
    names = NAMES[scheme]
    forbidden = tags.allowed_transitions(names, scheme) if legal else None
    crf, oracle = distribution(1, len(names), forbidden=forbidden)
    expected = listed_probabilities(oracle, names, scheme)
    log_probs = tags.entity_log_prob(crf, list(expected), names, scheme)
    assert_allclose(np.exp(log_probs), list(expected.values()), rtol=1e-10)
    assert np.all(log_probs <= 0)


@pytest.mark.parametrize("regime", REGIMES)
def test_in_every_regime(regime):
    names = NAMES["IOB2"]
    entities = [(0, "X", 0, 2), (1, "Y", 1, 3), (2, "X", 0, 1)]

    def asked():
        crf, _ = distribution(2, len(names), "float32")
        return tags.entity_log_prob(crf, entities, names, "BIO")

    options = {"autograph": False, "jit_compile": regime == "xla"}
    log_probs = asked() if regime == "eager" else tf.function(asked, **options)()
    _, oracle = distribution(2, len(names))
    expected = listed_probabilities(oracle, names, "BIO")
    assert_allclose(np.exp(log_probs), [expected[entity] for entity in entities], rtol=1e-4)


def test_transitions_may_vary_and_the_distribution_may_be_compiled():
    names = NAMES["IOB2"]
    crf, oracle = distribution(3, len(names))
    varying = np.tile(oracle.shared[0], (ROWS, STEPS - 1, 1, 1))
    start, end = oracle.shared[1:]
    same = LinearChainCRF(
        oracle.potentials, varying, start=start, end=end, mask=oracle.mask, jit_compile=True
    )
    entities = [(0, "X", 1, 3), (1, "Y", 0, 1), (0, "X", 3, 4)]
    one, other = (tags.entity_log_prob(x, entities, names, "IOB2") for x in (crf, same))
    assert_allclose(one, other, rtol=1e-10)


def test_what_no_path_allows_has_the_probability_0():
    names = ["O", "B-X", "I-X"]
    crf = LinearChainCRF(np.zeros([1, 2, 3]), np.zeros([3, 3]), start=[0.0, -np.inf, -np.inf])
    assert_array_equal(tags.entity_log_prob(crf, [(0, "X", 0, 1)], names, "BIO"), [-np.inf])


def test_a_long_entity_does_not_underflow():
    """Of 3 tags two start it, and one goes on: probability 2 / 3**2000."""
    names = ["O", "B-X", "I-X"]
    crf = LinearChainCRF(np.zeros([1, 2000, 3], np.float32), np.zeros([3, 3]))
    log_prob = tags.entity_log_prob(crf, [(0, "X", 0, 2000)], names, "BIO")
    assert_allclose(log_prob, [np.log(2) - 2000 * np.log(3)], rtol=1e-5)


@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_decoded_entities_are_those_of_the_best_path(scheme):
    names = NAMES[scheme]
    crf, oracle = distribution(4, len(names))
    probabilities = listed_probabilities(oracle, names, scheme)
    best, _ = oracle.argmax()
    decoded = tags.decoded_entities(crf, names, scheme)
    for row, (entities, path, length) in enumerate(zip(decoded, best, LENGTHS, strict=True)):
        expected = tags.tags_to_spans([names[tag] for tag in path[:length]], scheme)
        assert [entity[:3] for entity in entities] == [tuple(span) for span in expected]
        for *span, probability in entities:
            assert probability == pytest.approx(probabilities[(row, *span)])


def test_a_decoded_entity_may_go_on_over_a_dropped_step():
    names = ["O", "B-X", "I-X"]
    potentials = np.log([[[0.1, 0.8, 0.1], [1, 1e-9, 1e-9], [0.1, 0.1, 0.8]]])
    crf = LinearChainCRF(potentials, np.zeros([3, 3]), mask=[[1, 0, 1]])
    [[entity]] = tags.decoded_entities(crf, names, "BIO")
    assert entity[:3] == ("X", 0, 3)
    assert entity.probability == pytest.approx(0.9 * 0.8)
    with pytest.raises(ValueError, match="must hold kept steps only; the mask drops step 1,"):
        tags.entity_log_prob(crf, [(0, "X", 0, 3)], names, "BIO")


def test_no_entities():
    names = ["O", "B-X", "I-X"]
    crf = LinearChainCRF(np.zeros([2, 0, 3], np.float32), np.zeros([3, 3]))
    assert tags.decoded_entities(crf, names, "BIO") == [[], []]
    assert tags.entity_log_prob(crf, [], names, "BIO").shape == [0]


@pytest.mark.parametrize(
    ("entity", "names", "words"),
    [
        (
            (0, "Z", 0, 1),
            None,
            r"the types of the tag names are \['X', 'Y'\]; got \(0, 'Z', 0, 1\)",
        ),
        ((0, "X", 2, 2), None, "is empty: its end is exclusive"),
        ((0, "X", 3, 5), None, "must end within its row; got the end 5 at entity 0"),
        ((1, "X", 2, 4), None, "the mask drops step 3, at entity 0, place 1"),
        ((0, "X", -1, 2), None, "starts must be at least 0; got -1 at entity 0"),
        ((3, "X", 0, 1), None, "rows must be those of the batch; got 3 at entity 0"),
        ((0, "X", 0, 1), ["O", "B-X", "I-X"], "tag_names must be 5, one for each tag.*got 3"),
    ],
)
def test_wrong_entities_are_refused(entity, names, words):
    crf, _ = distribution(5, 5)
    with pytest.raises(ValueError, match=words):
        tags.entity_log_prob(crf, [entity], names or NAMES["IOB2"], "IOB2")


def test_the_scheme_is_found_as_span_f1_finds_it():
    for scheme in ("IOB2", "IOBES", "BMES"):
        names = NAMES[scheme]
        crf, _ = distribution(3, len(names))
        assert tags.decoded_entities(crf, names) == tags.decoded_entities(crf, names, scheme)
        [entity, *_] = [(0, *found[:3]) for found in tags.decoded_entities(crf, names)[0]]
        given = tags.entity_log_prob(crf, [entity], names, scheme)
        assert_array_equal(tags.entity_log_prob(crf, [entity], names), given)


def test_unused_tags_are_read_as_o():
    names = ["PAD", "B-X", "O", "I-X"]
    crf, oracle = distribution(4, 4)
    with pytest.raises(ValueError, match=r"no scheme fits.*'PAD'.*go into unused_tags"):
        tags.decoded_entities(crf, names)
    for row, entities in enumerate(tags.decoded_entities(crf, names, unused_tags=["PAD"])):
        listed = listed_probabilities(oracle, ["O", "B-X", "O", "I-X"], "BIO")
        for entity in entities:
            assert entity.probability == pytest.approx(listed[(row, *entity[:3])], abs=1e-9)
