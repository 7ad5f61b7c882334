"""What a tag scheme allows: which tags may follow each other, and which scheme names are of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from keras_crf import schemes
from keras_crf.schemes import END, OUTSIDE, SCHEMES, START, UNUSED, Tag


class AllowedTransitions(NamedTuple):
    """What a scheme allows: `transitions[i, j]` from tag i to tag j, `start[j]`, `end[i]`."""

    transitions: np.ndarray  # [K, K] bool
    start: np.ndarray  # [K] bool
    end: np.ndarray  # [K] bool


def detect_scheme(
    tag_names: Iterable[str],
    *,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> str:
    """The name of the scheme that a list of tag names fits.

    Of the schemes that know all the prefixes, it is the first in the order IOB2, IOB1, IOE2, IOE1,
    IOBES, BILOU, BMES under which each name can occur in a legal sequence; where there is no such
    scheme, the first that knows all the prefixes. Names cannot tell IOB1 from IOB2 as a rule, nor
    IOE1 from IOE2: name these schemes yourself. Of `unused_tags`, such as "PAD", nothing is asked.

    Raises:
        ValueError: names that no scheme knows, an empty list, or the same name twice.

    >>> detect_scheme(["O", "B-PER", "I-PER"]), detect_scheme(["B", "M", "E", "S"])
    ('IOB2', 'BMES')
    >>> detect_scheme(["O", "I-PER"])  # I-PER would never be allowed under IOB2
    'IOB1'
    """
    names = schemes.different(tag_names)
    unused_tags = schemes.unused_among(unused_tags, names)
    names = [name for name in names if name not in unused_tags]
    spelled: dict[str, Any] = {"separator": separator, "prefix_first": prefix_first}
    wrong = {name: schemes.misfits(names, scheme, **spelled) for name, scheme in SCHEMES.items()}
    known = [name for name in SCHEMES if not wrong[name]]
    if not known:
        nearest = min(wrong, key=lambda name: len(wrong[name]))
        message = schemes.misfit_message(wrong[nearest], SCHEMES[nearest], **spelled)
        raise ValueError(
            f"no scheme fits all tag names; nearest is {nearest}, but there are {message}"
        )
    useful = (
        name for name in known if can_occur(allowed_transitions(names, name, **spelled)).all()
    )
    return next(useful, known[0])


def allowed_transitions(
    tag_names: Iterable[str],
    scheme: str,
    *,
    types: str | Iterable[str] | None = None,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> AllowedTransitions:
    """Which tags may follow each other, stand first, and stand last.

    Args:
        tag_names: the K names of the tags, by id. O may be missing.
        scheme: the name of a scheme, such as "BIO".
        types: the types that are allowed, of those in the names; by default all. Tags of another
            type may neither follow nor be followed, nor stand first or last. O may.
        separator, prefix_first: how the names are written.
        unused_tags: those of the names that no sequence holds, such as "PAD" or "[CLS]", which need
            not be of the scheme: nothing is allowed for them.

    Returns:
        `AllowedTransitions`: bool `transitions` [K, K], from row to column, `start` [K], `end` [K].

    Raises:
        ValueError: an unknown scheme, names that are not of the scheme, an empty list, the same
            name twice, types that are in no name, unused tags that are none of the names.

    >>> allowed = allowed_transitions(["O", "B-X", "I-X"], "IOB2")
    >>> allowed.transitions.astype(int)
    array([[1, 1, 0],
           [1, 1, 1],
           [1, 1, 1]])
    >>> allowed.start, allowed.end
    (array([ True,  True, False]), array([ True,  True,  True]))
    """
    scheme = schemes.scheme_named(scheme)
    names = schemes.different(tag_names)
    unused_tags = schemes.unused_among(unused_tags, names)
    tags = schemes.parse(names, scheme, separator, prefix_first, unused_tags, UNUSED)
    kept = _of_types(tags, types)
    table = schemes.over(scheme.legal, [*tags, Tag(START)], [*tags, Tag(END)])
    return AllowedTransitions(
        table[:-1, :-1] & kept & kept[:, np.newaxis], table[-1, :-1] & kept, table[:-1, -1] & kept
    )


def shortest_impossible_length(allowed: tuple) -> int | None:
    """The least number of steps, from 1 on, for which there is no legal sequence; None if there is.

    A sequence of n steps may end in the tags R_n: R_1 = start, and R_{n+1} is what may follow R_n.
    The lengths without a tag that is in R_n and in `end` are impossible. There are finitely many
    sets, so they come round again, and nothing new is behind that.

    Args:
        allowed: `AllowedTransitions`, or bool `(transitions [K, K], start [K], end [K])`.

    >>> shortest_impossible_length(allowed_transitions(["B-X", "E-X"], "IOBES"))
    1
    >>> shortest_impossible_length(allowed_transitions(["O", "B-X", "I-X"], "IOB2")) is None
    True
    """
    transitions, reached, end = (np.asarray(table, bool) for table in allowed)
    seen = set()
    while reached.tobytes() not in seen:
        seen.add(reached.tobytes())
        if not (reached & end).any():
            return len(seen)
        reached = transitions[reached].any(axis=0)
    return None


def can_occur(allowed: tuple) -> np.ndarray:
    """Which tags stand in some legal sequence, bool [K].

    Args:
        allowed: `AllowedTransitions`, or bool `(transitions [K, K], start [K], end [K])`.

    >>> can_occur(allowed_transitions(["O", "I-X"], "IOB2"))  # there is no B-X for it to follow
    array([ True, False])
    """
    transitions, start, end = (np.asarray(table, bool) for table in allowed)
    return _reached(start, transitions) & _reached(end, transitions.T)


def _of_types(tags, types):
    """Bool [K]: which tags are O or of one of the types."""
    if types is None:
        return np.ones(len(tags), bool)
    types = [types] if isinstance(types, str) else list(types)
    known = list(dict.fromkeys(tag.type for tag in tags if tag.prefix not in (OUTSIDE, UNUSED)))
    unknown = [type_ for type_ in types if type_ not in known]
    if unknown:
        raise ValueError(f"types must be among those of the tag names, {known}; got {unknown}.")
    return np.array([tag.prefix == OUTSIDE or tag.type in types for tag in tags])


def _reached(reached, transitions):
    while True:
        grown = reached | transitions[reached].any(axis=0)
        if (grown == reached).all():
            return reached
        reached = grown
