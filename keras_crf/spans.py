"""The spans that tags stand for: from tags to spans and back, in every scheme."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_crf import schemes
from keras_crf.schemes import LENIENT, OUTSIDE, Tag


class Span(NamedTuple):
    """The steps start, start + 1, ..., end - 1, as in a slice, and their type ("" for none)."""

    type: str
    start: int
    end: int


class SpanBoundaries(NamedTuple):
    """Where spans begin and end, for tag ids i and then j; id K is beyond either end."""

    starts: np.ndarray  # [K + 1, K + 1] bool
    continues: np.ndarray  # [K + 1, K + 1] bool
    ends: np.ndarray  # [K + 1, K + 1] bool


def tags_to_spans(
    tags: Iterable[str],
    scheme: str,
    *,
    strict: bool = False,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> list[Span]:
    """The spans of a tag sequence, in order, from legal and from broken sequences.

    By default a broken sequence is read as conlleval does, and seqeval in its default mode: all
    tags but O are in a span. I (M) and E (L) go on with the span of a B or I (M) before them that
    has the same type, and any other tag starts a span. So I-X after O starts one, and a span
    without its E ends where the next tag does not go on with it. The letters L, U and M, which
    seqeval does not know in that mode, mean what E, S and I do.

    With `strict` it is read as seqeval does in its strict mode: spans must be whole by the scheme,
    and others are left out. BMES, which seqeval does not know, is read as IOBES is. A known gap of
    seqeval is kept: under IOE1, legal spans that begin with E are left out, unless they come right
    after a span of the same type.

    Args:
        tags: the names of the tags of one sequence: strings; or bytes, as the `tags` of an export,
            of which the empty ones at the end are padding.
        scheme: the name of a scheme, such as "BIO".
        strict: whether spans that are not whole are left out.
        separator, prefix_first: how the names are written.
        unused_tags: names that are read as O, such as "PAD".

    Returns:
        A list of `Span(type, start, end)`, `end` exclusive: `tags[start:end]` is the span. The type
        of bare prefixes is "".

    Raises:
        ValueError: an unknown scheme, or tags that are not of the scheme.

    >>> tags_to_spans(["I-X", "O", "B-X", "I-Y"], "IOB2")
    [Span(type='X', start=0, end=1), Span(type='X', start=2, end=3), Span(type='Y', start=3, end=4)]
    >>> tags_to_spans(["I-X", "O", "B-X", "I-Y"], "IOB2", strict=True)
    [Span(type='X', start=2, end=3)]
    """
    scheme = schemes.scheme_named(scheme)
    tags = schemes.parse(_names(tags), scheme, separator, prefix_first, unused_tags)
    starts, continues, ends = scheme.strict if strict else LENIENT
    bordered = [Tag(OUTSIDE), *tags, Tag(OUTSIDE)]
    spans, start = [], None
    for step, (before, after) in enumerate(itertools.pairwise(bordered)):
        pair = schemes.as_pair(before, after)
        if start is not None and pair in continues:
            continue
        if start is not None and pair in ends:
            spans.append(Span(before.type, start, step))
        start = step if pair in starts else None
    return spans


def spans_to_tags(
    spans: Iterable[tuple],
    length: int,
    scheme: str,
    *,
    separator: str = "-",
    prefix_first: bool = True,
) -> list[str]:
    """The legal tag sequence whose spans these are: the reverse of `tags_to_spans`.

    Args:
        spans: `Span(type, start, end)` or such tuples, in any order, `end` exclusive.
        length: the number of tags.
        scheme: the name of a scheme, such as "BIO".
        separator, prefix_first: how the names are to be written.

    Returns:
        A list of names; O where there is no span.

    Raises:
        ValueError: an unknown scheme; spans that are empty, out of range, or overlap.
        TypeError: a type that is no string, as in (start, end, type).

    >>> spans_to_tags([("PER", 0, 2), ("PER", 2, 3)], 4, "IOB1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    schemes.check_separator(separator)
    prefixes = schemes.spelling(schemes.scheme_named(scheme))
    spans = _in_order(spans, length)
    names = [OUTSIDE] * length
    for before, span, after in zip([None, *spans], spans, [*spans[1:], None], strict=False):
        first, last = _relation(before, span), _relation(span, after)
        for step in range(span.start, span.end):
            left = first if step == span.start else schemes.CONTINUES
            right = last if step == span.end - 1 else schemes.CONTINUES
            tag = Tag(prefixes[left, right], span.type)
            names[step] = schemes.join(tag, separator, prefix_first)
    return names


def convert_scheme(
    tags: Iterable[str],
    source: str,
    target: str,
    *,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> list[str]:
    """The same spans in another scheme; every scheme can tell every set of spans.

    A broken sequence is repaired by reading it as `tags_to_spans` does by default, so no tag but O
    is lost: I and E tags (M and L) that cannot go on with the tag before them, of the same type and
    B or I, start a span of their own, and a span that its E should have closed is closed before the
    next tag that does not go on with it. Converting to the same scheme does only this.

    Args:
        tags: the names of the tags of one sequence.
        source, target: names of schemes, such as "BIO".
        separator, prefix_first: how the names are written, before and after.
        unused_tags: names that become O, such as "PAD".

    Raises:
        ValueError: an unknown scheme, or tags that are not of the source.

    >>> convert_scheme(["B-X", "B-X", "I-X", "O"], "IOB2", "BILOU")
    ['U-X', 'B-X', 'L-X', 'O']
    >>> convert_scheme(["O", "I-X", "I-Y"], "IOB2", "IOB2")
    ['O', 'B-X', 'B-Y']
    """
    spelled: dict[str, Any] = {"separator": separator, "prefix_first": prefix_first}
    tags = list(tags)
    spans = tags_to_spans(tags, source, unused_tags=unused_tags, **spelled)
    return spans_to_tags(spans, len(tags), target, **spelled)


def span_boundaries(
    tag_names: Iterable[str],
    scheme: str,
    *,
    strict: bool = False,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> SpanBoundaries:
    """The tables by which `tags_to_spans` reads, over tag ids, for code that works on arrays.

    For tags y_1..y_n, with y_0 = y_{n+1} = K beyond the ends, and at first inside_0 = False:

        continued_t = inside_{t-1} and continues[y_{t-1}, y_t]
        inside_t    = continued_t or starts[y_{t-1}, y_t]

    A span begins at each t with inside_t and not continued_t. It ends before the next t that is not
    continued_t, and is counted if ends[y_{t-1}, y_t] there. Unless `strict`, inside_t is simply
    whether y_t is not O, and all spans are counted.

    Args:
        tag_names, scheme, strict, separator, prefix_first: as elsewhere here.
        unused_tags: those of the names that are read as O, such as "PAD".

    Returns:
        `SpanBoundaries`: bool `starts`, `continues` and `ends`, each [K + 1, K + 1].

    >>> span_boundaries(["O", "B-X", "I-X"], "IOB2").starts.astype(int)[-1]  # as a first tag
    array([0, 1, 1, 0])
    """
    scheme = schemes.scheme_named(scheme)
    names = schemes.different(tag_names)
    unused_tags = schemes.unused_among(unused_tags, names)
    tags = schemes.parse(names, scheme, separator, prefix_first, unused_tags)
    tags.append(Tag(OUTSIDE))
    reading = scheme.strict if strict else LENIENT
    return SpanBoundaries(*(schemes.over(table, tags, tags) for table in reading))


def _names(tags):
    """The names of a sequence as strings, without the padding of an export at the end."""
    tags = tags.numpy() if hasattr(tags, "numpy") else tags
    names = [tag.decode("utf-8") if isinstance(tag, bytes) else tag for tag in tags]
    while names and names[-1] == "":
        names.pop()
    return names


def _relation(span, following):
    """How two spans, either of which may be missing, stand to each other."""
    if span and following and (span.type, span.end) == (following.type, following.start):
        return schemes.TOUCHES
    return schemes.APART


def _in_order(spans, length):
    """The spans by their starts, refused if they are empty, out of range, or overlap."""
    if operator.index(length) < 0:
        raise ValueError(f"length must be the number of tags, 0 or more; got {length}.")
    spans = [Span(*span) for span in spans]
    for span in spans:
        if not isinstance(span.type, str):
            raise TypeError(f"spans must be (type, start, end), the type a string; got {(*span,)}.")
        if span.start == span.end:
            raise ValueError(f"{span} is empty: its end is exclusive, and must be above its start.")
        if not 0 <= span.start < span.end <= length:
            raise ValueError(f"{span} is out of range: 0 <= start < end <= {length} is wanted.")
    spans.sort(key=operator.attrgetter("start"))
    for span, following in itertools.pairwise(spans):
        if span.end > following.start:
            raise ValueError(f"{span} and {following} overlap; a step can be in one span only.")
    return spans
