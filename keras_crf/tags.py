"""Tag schemes: which tags may follow each other, and the spans that tags stand for.

The schemes are IOB1, IOB2 (also BIO), IOE1, IOE2, IOBES (BIOES), BILOU (BIOUL) and BMES, in any
case. A name is a prefix and a type, B-PER, or a bare prefix, B; O is outside every span. Everywhere
`separator` is what stands between the two, and `prefix_first=False` reads PER-B. A type may hold
the separator: B-geo-loc is of the type geo-loc.

>>> tags_to_spans(["B-PER", "I-PER", "O", "B-LOC"], "BIO")
[Span(type='PER', start=0, end=2), Span(type='LOC', start=3, end=4)]
>>> convert_scheme(["B-PER", "I-PER", "O", "B-LOC"], "BIO", "BIOES")
['B-PER', 'E-PER', 'O', 'S-LOC']
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

from keras_crf import schemes
from keras_crf.entities import (
    DecodedEntity as DecodedEntity,
    Entity as Entity,
    decoded_entities as decoded_entities,
    entity_log_prob as entity_log_prob,
)
from keras_crf.legality import (
    AllowedTransitions as AllowedTransitions,
    allowed_transitions as allowed_transitions,
    can_occur as can_occur,
    detect_scheme as detect_scheme,
    shortest_impossible_length as shortest_impossible_length,
)
from keras_crf.schemes import END, START, UNUSED, Tag
from keras_crf.spans import (
    Span as Span,
    SpanBoundaries as SpanBoundaries,
    convert_scheme as convert_scheme,
    span_boundaries as span_boundaries,
    spans_to_tags as spans_to_tags,
    tags_to_spans as tags_to_spans,
)


class BrokenTag(NamedTuple):
    """A place where a sequence breaks the rules: `tag`, at `index`, may not follow `previous`.

    At the start `previous` is None. Where the last tag may not be the last, `tag` is None and
    `index` is the number of tags.
    """

    index: int  # type: ignore[assignment]  # a tuple's own method
    previous: str | None
    tag: str | None


def is_legal(
    tags: Iterable[str],
    scheme: str,
    *,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> bool:
    """Whether a tag sequence keeps the rules of the scheme, and holds none of `unused_tags`.

    The empty one does.

    >>> is_legal(["O", "B-X", "I-X"], "IOB2"), is_legal(["O", "I-X"], "IOB2")
    (True, False)
    """
    spelled: dict[str, Any] = {"separator": separator, "prefix_first": prefix_first}
    return not broken_tags(tags, scheme, unused_tags=unused_tags, **spelled)


def broken_tags(
    tags: Iterable[str],
    scheme: str,
    *,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> list[BrokenTag]:
    """The places where a tag sequence breaks the rules of the scheme, in order.

    Returns:
        A list of `BrokenTag(index, previous, tag)`: one for each pair of neighbours that
        `allowed_transitions` forbids, and for a first or last tag that may not be that. One of
        `unused_tags` may stand nowhere.

    Raises:
        ValueError: an unknown scheme, or tags that are not of the scheme.

    >>> broken_tags(["I-X", "O", "B-X"], "IOBES")
    [BrokenTag(index=0, previous=None, tag='I-X'),
     BrokenTag(index=1, previous='I-X', tag='O'),
     BrokenTag(index=3, previous='B-X', tag=None)]
    """
    scheme, names = schemes.scheme_named(scheme), list(tags)
    parsed = schemes.parse(names, scheme, separator, prefix_first, unused_tags, UNUSED)
    pairs = itertools.pairwise([Tag(START), *parsed, Tag(END)])
    wrong = [step for step, pair in enumerate(pairs) if schemes.as_pair(*pair) not in scheme.legal]
    named = [None, *names, None]
    return [BrokenTag(step, named[step], named[step + 1]) for step in wrong]
