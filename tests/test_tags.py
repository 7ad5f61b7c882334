"""Tag schemes: the tables, the spans, and what seqeval makes of the same tags."""

import ast
import inspect
import itertools
import pathlib
import random

import numpy as np
import pytest
import seqeval.scheme
from hypothesis import given, strategies as st
from seqeval.metrics.sequence_labeling import get_entities

import columns
import keras_crf.schemes
import keras_crf.spans
from keras_crf import tags
from keras_crf.tags import BrokenTag, Span
from spelling import LIKE_IOBES, PREFIXES, SCHEMES, names_of

DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"


def all_sequences(names, longest):
    for length in range(longest + 1):
        yield from map(list, itertools.product(names, repeat=length))


def random_sequences(scheme, count, types=("X", "Y")):
    """Sequences with all kinds of breaks in them, and with whole spans."""
    generator = random.Random(scheme)
    names = names_of(scheme, types)
    for _ in range(count):
        length = generator.randrange(10)
        weights = [3, *(generator.choice((1, 5)) for _ in names[1:])]
        yield generator.choices(names, weights, k=length)


# Tables


def table_of(names, scheme, **kwargs):
    """What may follow each of the K tags and the start, as sets."""
    allowed = tags.allowed_transitions(names, scheme, **kwargs)
    rows = [set(np.flatnonzero(row)) for row in (*allowed.transitions, allowed.start)]
    for tag in np.flatnonzero(allowed.end):
        rows[tag].add("end")
    return rows


IOB_NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def test_the_table_of_iob2():
    first, second = {0, 1, 2, 3, "end"}, {0, 1, 3, 4, "end"}
    wanted = [{0, 1, 3, "end"}, first, first, second, second, {0, 1, 3}]
    assert table_of(IOB_NAMES, "IOB2") == wanted
    allowed = tags.allowed_transitions(IOB_NAMES, "BIO")
    assert (allowed.transitions.sum(), allowed.start.sum()) == (19, 3)


def test_the_table_of_iob1():
    first, second = {0, 1, 2, 4, "end"}, {0, 2, 3, 4, "end"}
    wanted = [{0, 2, 4, "end"}, first, first, second, second, {0, 2, 4}]
    assert table_of(IOB_NAMES, "IOB1") == wanted


def test_the_table_of_bilou():
    apart = {0, 1, 4, 5, 8, "end"}
    wanted = [apart, {2, 3}, {2, 3}, apart, apart, {6, 7}, {6, 7}, apart, apart, {0, 1, 4, 5, 8}]
    assert table_of(names_of("BILOU"), "BIOUL") == wanted


def test_the_table_of_bmes():
    apart = {0, 3, 4, 7, "end"}
    wanted = [{1, 2}, {1, 2}, apart, apart, {5, 6}, {5, 6}, apart, apart, {0, 3, 4, 7}]
    assert table_of(names_of("BMES")[1:], "BMES") == wanted


def test_the_table_of_tags_without_types():
    wanted = [{0, 1, 2, "end"}, {0, 1, 2, "end"}, {0, 2, "end"}, {0, 2}]
    assert table_of(["B", "I", "O"], "BIO") == wanted
    assert table_of(list("BMES"), "BMES") == [{1, 2}, {1, 2}, *[{0, 3, "end"}] * 2, {0, 3}]


def test_a_table_of_some_types_has_empty_rows_and_columns_for_the_others():
    names = names_of("IOB2", "XYZ")
    wanted = table_of(IOB_NAMES, "IOB2")
    assert table_of(names, "IOB2", types=["X", "Y"]) == [*wanted[:5], set(), set(), wanted[5]]
    assert table_of(names, "IOB2", types="X")[:3] == [{0, 1, "end"}, *[{0, 1, 2, "end"}] * 2]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_legal_is_what_the_tables_allow_and_what_its_own_spans_are_written_as(scheme):
    names = names_of(scheme)
    transitions, start, end = tags.allowed_transitions(names, scheme)
    for sequence in all_sequences(names, 4):
        ids = [names.index(name) for name in sequence]
        inner = transitions[ids[:-1], ids[1:]].all()
        by_table = not ids or (start[ids[0]] and inner and end[ids[-1]])
        spans = tags.tags_to_spans(sequence, scheme)
        written = tags.spans_to_tags(spans, len(sequence), scheme)
        assert tags.is_legal(sequence, scheme) == by_table == (written == sequence), sequence


def test_each_place_in_a_span_has_one_prefix():
    for scheme in keras_crf.schemes.SCHEMES.values():
        prefixes = keras_crf.schemes.spelling(scheme)
        other_way_round = scheme._replace(prefixes="O" + scheme.prefixes[:0:-1])
        assert prefixes == keras_crf.schemes.spelling(other_way_round)
        assert len(prefixes) == 9


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [("bio", "IOB2"), ("Bioes", "IOBES"), ("BIOUL", "BILOU"), ("ioe1", "IOE1"), ("bmes", "BMES")],
)
def test_schemes_go_by_their_other_names_in_any_case(spelled, canonical):
    names = names_of(canonical)
    for one, other in zip(
        tags.allowed_transitions(names, spelled),
        tags.allowed_transitions(names, canonical),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_the_prefix_may_stand_last_and_the_separator_be_chosen():
    wanted = [Span("geo-loc", 0, 2)]
    assert tags.tags_to_spans(["B-geo-loc", "I-geo-loc"], "BIO") == wanted
    last = {"prefix_first": False}
    assert tags.tags_to_spans(["geo-loc-B", "geo-loc-I"], "BIO", **last) == wanted
    assert tags.spans_to_tags(wanted, 3, "BIO", **last) == ["geo-loc-B", "geo-loc-I", "O"]
    under = {"separator": "_"}
    assert tags.convert_scheme(["B_a_b", "I_a_b"], "BIO", "BIOES", **under) == ["B_a_b", "E_a_b"]
    assert tags.broken_tags(["O", "X|I"], "BIO", separator="|", **last) == [(1, "O", "X|I")]
    names = [name if name == "O" else name[2:] + "-" + name[0] for name in IOB_NAMES]
    assert table_of(names, "IOB2", **last) == table_of(IOB_NAMES, "IOB2")
    assert tags.detect_scheme(names, **last) == "IOB2"


# Spans, as seqeval has them


def seqeval_default(sequence, scheme, suffix=False):
    table = LIKE_IOBES.get(scheme, {})
    lettered = [
        name[:-1] + name[-1].translate(table) if suffix else name[0].translate(table) + name[1:]
        for name in sequence
    ]
    entities = get_entities(lettered, suffix=suffix)
    return [Span(type_.replace("_", ""), start, last + 1) for type_, start, last in entities]


def seqeval_strict(sequence, scheme, suffix=False):
    if scheme == "BMES":
        table, scheme = LIKE_IOBES["BMES"], "IOBES"
        sequence = [name[0].translate(table) + name[1:] for name in sequence]
    tokens = seqeval.scheme.Tokens(sequence, getattr(seqeval.scheme, scheme), suffix=suffix)
    return [Span(x.tag.replace("_", ""), x.start, x.end) for x in tokens.entities]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("types", [("X", "Y"), ("geo-loc", "X"), ("",)], ids=str)
def test_spans_are_those_of_seqeval(scheme, types):
    for sequence in random_sequences(scheme, 2000 if types == ("X", "Y") else 300, types):
        sequence = [name.removesuffix("-") for name in sequence]
        assert tags.tags_to_spans(sequence, scheme) == seqeval_default(sequence, scheme)
        strict = tags.tags_to_spans(sequence, scheme, strict=True)
        assert strict == seqeval_strict(sequence, scheme), sequence


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_of_all_pairs_of_neighbours_are_those_of_seqeval(scheme):
    for sequence in all_sequences(names_of(scheme), 2):
        assert tags.tags_to_spans(sequence, scheme) == seqeval_default(sequence, scheme)
        strict = tags.tags_to_spans(sequence, scheme, strict=True)
        assert strict == seqeval_strict(sequence, scheme), sequence


@pytest.mark.parametrize("scheme", SCHEMES[:-1])
def test_spans_are_those_of_seqeval_with_the_prefix_last(scheme):
    for sequence in random_sequences(scheme, 200):
        sequence = [name if name == "O" else name[2:] + "-" + name[0] for name in sequence]
        lenient = tags.tags_to_spans(sequence, scheme, prefix_first=False)
        assert lenient == seqeval_default(sequence, scheme, suffix=True)
        strict = tags.tags_to_spans(sequence, scheme, strict=True, prefix_first=False)
        assert strict == seqeval_strict(sequence, scheme, suffix=True)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_of_legal_sequences_both_readings_are_one_but_for_the_gap_of_ioe1(scheme):
    for sequence in all_sequences(names_of(scheme), 4):
        if not tags.is_legal(sequence, scheme):
            continue
        missed = set(tags.tags_to_spans(sequence, scheme))
        missed -= set(tags.tags_to_spans(sequence, scheme, strict=True))
        assert scheme == "IOE1" or not missed, sequence
        assert all(sequence[span.start].startswith("E") for span in missed), sequence
    assert tags.tags_to_spans(["E-X", "E-X", "I-X"], "IOE1", strict=True) == [
        Span("X", 1, 2),
        Span("X", 2, 3),
    ]


def spans_by_boundaries(ids, boundaries):
    """The spans as the docstring of `span_boundaries` finds them, `(start, end)`."""
    spans, inside, begun = [], False, None
    outside = len(boundaries.starts) - 1
    for step, pair in enumerate(itertools.pairwise([outside, *ids, outside])):
        continued = inside and boundaries.continues[pair]
        if inside and not continued and boundaries.ends[pair]:
            spans.append((begun, step))
        inside = continued or boundaries.starts[pair]
        if inside and not continued:
            begun = step
    return spans


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_boundaries_over_tag_ids_give_the_same_spans(scheme, strict):
    names = names_of(scheme)
    boundaries = tags.span_boundaries(names, scheme, strict=strict)
    for sequence in random_sequences(scheme, 500):
        spans = tags.tags_to_spans(sequence, scheme, strict=strict)
        ids = [names.index(name) for name in sequence]
        assert spans_by_boundaries(ids, boundaries) == [(start, end) for _, start, end in spans]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_in_the_lenient_reading_each_tag_but_o_starts_or_continues_a_span(scheme):
    starts, continues, ends = tags.span_boundaries(names_of(scheme), scheme)
    within = np.array([name != "O" for name in names_of(scheme)] + [False])
    np.testing.assert_array_equal(starts, within & ~continues)
    np.testing.assert_array_equal(ends, within[:, np.newaxis] & ~continues)


# Spans to tags, and from scheme to scheme


@st.composite
def disjoint_spans(draw):
    cuts = draw(st.lists(st.integers(0, 12), unique=True).map(sorted))
    pairs = itertools.pairwise(cuts)
    types = st.sampled_from(["X", "Y-Z", "", None])
    spans = [Span(type_, *pair) for pair in pairs if (type_ := draw(types)) is not None]
    return spans, draw(st.integers(max(cuts, default=0), 14))


@given(disjoint_spans(), st.sampled_from(SCHEMES), st.booleans(), st.sampled_from(["-", "::"]))
def test_spans_come_back_from_the_legal_tags_they_are_written_as(drawn, scheme, first, separator):
    spans, length = drawn
    spelled = {"prefix_first": first, "separator": separator}
    if separator == "-" and not first:
        spans = [span._replace(type=span.type.replace("-", "")) for span in spans]
    written = tags.spans_to_tags(reversed(spans), length, scheme, **spelled)
    assert len(written) == length
    assert tags.is_legal(written, scheme, **spelled)
    assert tags.tags_to_spans(written, scheme, **spelled) == spans


@pytest.mark.parametrize("source", SCHEMES)
def test_legal_tags_come_back_from_every_scheme(source):
    legal = [x for x in all_sequences(names_of(source), 4) if tags.is_legal(x, source)]
    for target, sequence in itertools.product(SCHEMES, legal[:: 1 + len(legal) // 200]):
        converted = tags.convert_scheme(sequence, source, target)
        assert tags.is_legal(converted, target)
        assert tags.convert_scheme(converted, target, source) == sequence


@pytest.mark.parametrize(
    ("scheme", "broken", "repaired"),
    [
        ("IOB2", "O I-X I-X", "O B-X I-X"),
        ("IOB2", "B-X I-Y I-Y", "B-X B-Y I-Y"),
        ("IOB1", "O B-X I-X", "O I-X I-X"),
        ("IOE2", "I-X O I-X I-Y", "E-X O E-X E-Y"),
        ("IOE1", "I-X E-X O", "I-X I-X O"),
        ("IOBES", "B-X B-X O", "S-X S-X O"),
        ("IOBES", "I-X I-X S-X E-X E-X", "B-X E-X S-X S-X S-X"),
        ("IOBES", "B-X E-Y O", "S-X S-Y O"),
        ("BILOU", "I-X O U-X L-X", "U-X O U-X U-X"),
        ("BMES", "M M B S", "B E S S"),
    ],
)
def test_broken_tags_are_repaired_by_their_lenient_reading(scheme, broken, repaired):
    assert tags.convert_scheme(broken.split(), scheme, scheme) == repaired.split()


# Broken tags


def test_each_broken_place_is_told_with_both_its_tags():
    assert tags.broken_tags(["I-X", "O", "I-X", "I-Y"], "IOB2") == [
        BrokenTag(0, None, "I-X"),
        BrokenTag(2, "O", "I-X"),
        BrokenTag(3, "I-X", "I-Y"),
    ]
    assert tags.broken_tags(["O", "B"], "BMES") == [BrokenTag(2, "B", None)]
    assert tags.broken_tags(["B-X", "B-Y"], "IOB1") == [(0, None, "B-X"), (1, "B-X", "B-Y")]
    assert tags.broken_tags([], "IOBES") == tags.broken_tags(iter(["O"]), "IOBES") == []


CORPORA = {  # name: spans of the entities in train.tsv, by the data's own description
    "wnut17": 1975,
    "lener_br": 8894,
    "zh_gsdsimp": 6118,
}
needs_corpora = pytest.mark.skipif(not DATA.exists(), reason="the real corpora are not here")


def read_tags(name, column=-1):
    return [tags for _, tags in columns.read_columns(DATA / name / "train.tsv", column)]


def count_broken(sentences, scheme):
    return sum(len(tags.broken_tags(sentence, scheme)) for sentence in sentences)


@needs_corpora
@pytest.mark.parametrize("name", CORPORA)
def test_real_corpora_are_legal_iob2_and_have_as_many_spans_as_they_say(name):
    sentences = read_tags(name)
    assert count_broken(sentences, "IOB2") == 0
    assert sum(len(tags.tags_to_spans(x, "IOB2")) for x in sentences) == CORPORA[name]
    found = {tag for sentence in sentences for tag in sentence}
    assert tags.detect_scheme(sorted(found)) == "IOB2"


@needs_corpora
def test_a_real_corpus_is_as_broken_under_another_scheme_as_a_plain_count_says():
    sentences = read_tags("wnut17")
    # Under IOB1, each B- that does not follow a tag of its own type.
    text = "".join("O " + " ".join(sentence) + "\n" for sentence in sentences)
    pairs = [pair for line in text.splitlines() for pair in itertools.pairwise(line.split())]
    plain = sum(tag[0] == "B" and before[1:] != tag[1:] for before, tag in pairs)
    assert count_broken(sentences, "IOB1") == plain > 1900
    # With all B- made I-, under IOB2, one at the beginning of each run of one type.
    without = [[tag.replace("B-", "I-") for tag in sentence] for sentence in sentences]
    runs = sum(key != "O" for sentence in without for key, _ in itertools.groupby(sentence))
    assert count_broken(without, "IOB2") == runs
    assert count_broken(without, "IOB1") == 0


@needs_corpora
def test_real_segmented_text_is_legal_bmes_and_has_as_many_words_as_it_says():
    sentences = read_tags("zh_gsdsimp", column=1)
    assert count_broken(sentences, "BMES") == 0
    assert sum(len(tags.tags_to_spans(x, "BMES")) for x in sentences) == 98616
    assert tags.detect_scheme(sorted({tag for x in sentences for tag in x})) == "BMES"


# Which scheme, and which lengths


@pytest.mark.parametrize("scheme", ["IOB2", "IOE2", "IOBES", "BILOU", "BMES"])
def test_a_scheme_is_known_by_its_names_with_o_and_without(scheme):
    assert tags.detect_scheme(names_of(scheme)) == scheme
    assert tags.detect_scheme(names_of(scheme)[1:]) == scheme
    assert tags.detect_scheme(list(PREFIXES[scheme])) == scheme


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        ("O", "IOB2"),
        ("O B-X", "IOB2"),
        ("O I-X", "IOB1"),
        ("O I-PER B-LOC I-LOC", "IOB1"),  # as in CoNLL 2003, where B-PER never occurs
        ("O E-X", "IOE2"),
        ("O S-X", "IOBES"),
        ("O B-X E-X", "IOBES"),
        ("O U-X", "BILOU"),
        ("B-X I-X E-X S-X I-Y", "IOBES"),  # I-Y can never occur, but no other has these prefixes
    ],
)
def test_of_the_schemes_that_fit_the_first_that_uses_all_names_is_taken(names, scheme):
    assert tags.detect_scheme(names.split()) == scheme


def test_a_length_without_a_legal_sequence_is_found():
    def impossible(*names, scheme="IOBES"):
        return tags.shortest_impossible_length(tags.allowed_transitions(names, scheme))

    assert impossible("B-X", "I-X") == 1
    assert impossible("B", "E", "S", "M", scheme="BMES") is None
    assert impossible("S-X", "B-Y") is None
    assert impossible("I-X", "O", scheme="IOB2") is None
    assert impossible("I-X", scheme="IOB2") == 1
    only_y = tags.allowed_transitions(["B-X", "B-Y", "I-Y"], "IOBES", types="Y")
    assert tags.shortest_impossible_length(only_y) == 1


bools = st.booleans()


@given(st.data())
def test_the_shortest_impossible_length_is_that_of_counting_paths(data):
    size = data.draw(st.integers(1, 5))
    row = st.lists(bools, min_size=size, max_size=size)
    start, end = np.array(data.draw(row)), np.array(data.draw(row))
    transitions = np.array(data.draw(st.lists(row, min_size=size, max_size=size)))
    paths, wanted = start.astype(object), None
    for length in range(1, 40):  # 2 ** 5 sets of tags come round before that
        if paths @ end.astype(object) == 0:
            wanted = length
            break
        paths = paths @ transitions.astype(object)
    assert tags.shortest_impossible_length((transitions, start, end)) == wanted


# Bad input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tags.is_legal([], "IOB3"), r"IOB2, IOB1, .*BIO, .*in any case; got 'IOB3'"),
        (lambda: tags.is_legal(["O"], None), r"one of IOB2.*got None"),
        (lambda: tags.allowed_transitions([], "BIO"), "one for each tag; got none"),
        (lambda: tags.detect_scheme([]), "got none"),
        (lambda: tags.span_boundaries([], "BIO"), "got none"),
        (lambda: tags.allowed_transitions(["O", "B-X", "O"], "BIO"), r"more than once \['O'\]"),
        (
            lambda: tags.allowed_transitions(["O", "B-X", "E-X", "NN"], "BIO"),
            r"not of IOB2: \['E-X', 'NN'\]. Its own are O, B-X, I-X for a type X, and B, I",
        ),
        (lambda: tags.tags_to_spans(["X-B"], "BIO"), r"\['X-B'\].*prefix_first=True"),
        (lambda: tags.tags_to_spans(["B-"], "BIO"), r"\['B-'\]"),
        (lambda: tags.tags_to_spans(["O-X", "o", "", "BI"], "BIO"), r"\['O-X', 'o', '', 'BI'\]"),
        (lambda: tags.is_legal([f"Q{i}" for i in range(30)], "BIO"), r"'Q19'\] and 10 more"),
        (lambda: tags.convert_scheme(["S-X"], "BIO", "BIOES"), r"IOB2: \['S-X'\]"),
        (
            lambda: tags.detect_scheme(["O", "NOUN", "B-X"]),
            r"no scheme fits all.*nearest is IOB2, but .*\['NOUN'\]",
        ),
        (lambda: tags.detect_scheme(["B-X", "L-X", "M-X"]), r"nearest is BILOU.*\['M-X'\]"),
        (
            lambda: tags.allowed_transitions(["O", "B-X"], "BIO", types=["X", "Q"]),
            r"those of the tag names, \['X'\]; got \['Q'\]",
        ),
        (lambda: tags.is_legal(["O"], "BIO", separator=""), "separator must be a string"),
        (lambda: tags.spans_to_tags([], 1, "BIO", separator=""), "separator must be a string"),
        (lambda: tags.spans_to_tags([("X", 1, 1)], 2, "BIO"), r"start=1, end=1\) is empty"),
        (lambda: tags.spans_to_tags([("X", 1, 3)], 2, "BIO"), r"end=3\) is out of range.*<= 2"),
        (lambda: tags.spans_to_tags([("X", -1, 1)], 2, "BIO"), "out of range"),
        (lambda: tags.spans_to_tags([("X", 2, 1)], 2, "BIO"), "out of range"),
        (lambda: tags.spans_to_tags([], -1, "BIO"), "0 or more; got -1"),
        (
            lambda: tags.spans_to_tags([("X", 1, 3), ("Y", 0, 2)], 3, "BIO"),
            r"Span\(type='Y', start=0, end=2\) and Span\(type='X', start=1, end=3\) overlap",
        ),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tags.is_legal([0, 1], "BIO"), "as strings; got 0"),
        (lambda: tags.detect_scheme([b"O"]), "as strings; got b'O'"),
        (lambda: tags.spans_to_tags([(0, 2, "X")], 2, "BIO"), r"type a string; got \(0, 2, 'X'\)"),
        (lambda: tags.spans_to_tags([], 1.5, "BIO"), "float"),
    ],
)
def test_what_is_no_name_is_refused(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize(
    "module",
    [tags, keras_crf.spans, keras_crf.schemes, keras_crf.entities, keras_crf.legality],
)
def test_the_tag_modules_need_numpy_only(module):
    tree = ast.parse(inspect.getsource(module))
    for_types = [node for node in tree.body if "TYPE_CHECKING" in ast.unparse(node)[:20]]
    tree.body = [node for node in tree.body if node not in for_types]
    nodes = list(ast.walk(tree))
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {x.name for node in nodes if isinstance(node, ast.Import) for x in node.names}
    ours = {f"keras_crf{name}" for name in ("", ".entities", ".legality", ".schemes", ".spans")}
    standard = {"__future__", "collections", "collections.abc", "functools", "itertools"}
    assert names - ours <= standard | {"operator", "typing", "numpy"}


class TestUnusedTags:
    NAMES = ("PAD", "O", "[CLS]", "B-X", "I-X")
    UNUSED = ("PAD", "[CLS]")

    @pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
    def test_are_allowed_nowhere_and_change_nothing_for_the_others(self, scheme):
        names = [*self.NAMES, "E-X", "S-X"] if scheme == "IOBES" else list(self.NAMES)
        others = [tag for tag, name in enumerate(names) if name not in self.UNUSED]
        allowed = tags.allowed_transitions(names, scheme, unused_tags=self.UNUSED)
        alone = tags.allowed_transitions([names[tag] for tag in others], scheme)
        for part, expected in zip(allowed, alone, strict=True):
            whole = np.zeros_like(part)
            whole[np.ix_(*[others] * part.ndim)] = expected
            np.testing.assert_array_equal(part, whole)

    def test_are_read_as_o(self):
        sequence = ["[CLS]", "B-X", "I-X", "PAD", "I-X", "O"]
        as_o = [tag if tag not in self.UNUSED else "O" for tag in sequence]
        unused = {"unused_tags": self.UNUSED}
        for strict in (False, True):
            spans = tags.tags_to_spans(sequence, "BIO", strict=strict, **unused)
            assert spans == tags.tags_to_spans(as_o, "BIO", strict=strict)
        assert tags.convert_scheme(sequence, "BIO", "BIOES", **unused) == tags.convert_scheme(
            as_o, "BIO", "BIOES"
        )
        boundaries = tags.span_boundaries(self.NAMES, "BIO", **unused)
        expected = tags.span_boundaries(["O", "B-X", "I-X"], "BIO")
        ids = [1, 1, 1, 3, 4, 5]  # PAD, O and [CLS] as O; K at the end
        for part, of_three in zip(boundaries, expected, strict=True):
            three = [0, 0, 0, 1, 2, 3]
            np.testing.assert_array_equal(part[np.ix_(ids, ids)], of_three[np.ix_(three, three)])
            np.testing.assert_array_equal(part, of_three[np.ix_(three, three)])

    def test_are_legal_nowhere(self):
        assert not tags.is_legal(["O", "PAD"], "BIO", unused_tags="PAD")
        assert tags.broken_tags(["O", "PAD"], "BIO", unused_tags="PAD") == [
            tags.BrokenTag(1, "O", "PAD"),
            tags.BrokenTag(2, "PAD", None),
        ]

    def test_are_no_matter_to_the_scheme_that_is_found(self):
        assert tags.detect_scheme(self.NAMES, unused_tags=self.UNUSED) == "IOB2"
        with pytest.raises(ValueError, match=r"no scheme fits .*'PAD'.*go into unused_tags"):
            tags.detect_scheme(self.NAMES)

    def test_must_be_among_the_names(self):
        with pytest.raises(ValueError, match=r"unused_tags must be among tag_names.*got \['pad'\]"):
            tags.allowed_transitions(self.NAMES, "BIO", unused_tags=["pad"])


class TestTagsOfAnExport:
    def test_are_read_as_they_come(self):
        expected = [tags.Span("Köln", 0, 2), tags.Span("X", 3, 4)]
        names = ["B-Köln", "I-Köln", "O", "B-X", "", ""]
        as_bytes = [name.encode() for name in names]
        for sequence in (names, as_bytes, np.array(as_bytes, object), np.array(as_bytes)):
            assert tags.tags_to_spans(sequence, "BIO") == expected

    def test_have_no_padding_between_tags(self):
        with pytest.raises(ValueError, match=r"names that are not of IOB2: \[''\]"):
            tags.tags_to_spans([b"O", b"", b"B-X"], "BIO")
