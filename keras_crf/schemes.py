"""Tag schemes as tables: what may follow what, and where the spans of a sequence begin and end.

A tag is a prefix and a type: B-PER is B and PER, a bare B is B and "", O is outside every span. A
table is a set of triples (prefix before, prefix after, whether both tags have the same type), and
is written as rows that stand for many triples: ("BI", "I", SAME) says B-X I-X and I-X I-X. All that
is known of a scheme stands in its tables; the functions that read them know none by name.
"""

import collections
import functools
import itertools
from typing import NamedTuple

import numpy as np

START, OUTSIDE, END = "^", "O", "$"  # prefixes too: START before the first tag, END after the last
UNUSED = "?"  # the prefix of tags that have probability 0: in no table, so that nothing allows them
SAME, OTHER, ANY = (True,), (False,), (True, False)  # what "the same type" may be in a row


class Tag(NamedTuple):
    """A name taken apart."""

    prefix: str
    type: str = ""  # "" where the name is a bare prefix


class Reading(NamedTuple):
    """Where spans begin and end, as tables over pairs of neighbours; see `tags.span_boundaries`."""

    starts: frozenset  # the second tag starts a span
    continues: frozenset  # the second tag goes on with the span that the first is in
    ends: frozenset  # the span that the first is in, if not continued, was whole


class Scheme(NamedTuple):
    """A tag scheme: its prefixes, the pairs of neighbours it allows, and its strict reading."""

    name: str
    prefixes: str
    legal: frozenset
    strict: Reading


def _table(*rows):
    return frozenset(
        (before, after, same)
        for all_before, all_after, types in rows
        for before in all_before
        for after in all_after
        for same in types
    )


def _relettered(scheme, name, letters):
    """The same scheme under another name and with other letters, {old: new}."""
    new = str.maketrans(letters)

    def renamed(table):
        return frozenset((x.translate(new), y.translate(new), same) for x, y, same in table)

    reading = Reading(*(renamed(table) for table in scheme.strict))
    return Scheme(name, scheme.prefixes.translate(new), renamed(scheme.legal), reading)


# How broken sequences are read by conlleval, and by seqeval where it is given no scheme: each tag
# but O is in a span, and starts one unless it can continue the one before. Good for all schemes.
LENIENT = Reading(
    starts=_table(("OBIMELSU", "BSU", ANY), ("OELSU", "IMEL", ANY), ("BIM", "IMEL", OTHER)),
    continues=_table(("BIM", "IMEL", SAME)),
    ends=_table(("BIMELSU", "OBSU", ANY), ("ELSU", "IMEL", ANY), ("BIM", "IMEL", OTHER)),
)

# The strict readings are those of seqeval's strict mode, also where IOB1 and IOE1 might be read
# otherwise, for figures to agree.
IOB1 = Scheme(  # B only where a span follows one of the same type at once
    "IOB1",
    "OBI",
    legal=_table(("^OBI", "OI$", ANY), ("BI", "B", SAME)),
    strict=Reading(
        starts=_table(("OB", "I", ANY), ("I", "I", OTHER), ("BI", "B", SAME)),
        continues=_table(("BI", "I", SAME)),
        ends=_table(("BI", "O", ANY), ("BI", "I", OTHER), ("I", "B", ANY), ("B", "B", SAME)),
    ),
)
IOB2 = Scheme(  # each span begins with B
    "IOB2",
    "OBI",
    legal=_table(("^OBI", "OB$", ANY), ("BI", "I", SAME)),
    strict=Reading(
        starts=_table(("OBI", "B", ANY)),
        continues=_table(("BI", "I", SAME)),
        ends=_table(("BI", "OB", ANY), ("BI", "I", OTHER)),
    ),
)
IOE1 = Scheme(  # E only where a span of the same type follows at once
    "IOE1",
    "OIE",
    legal=_table(("^OI", "OIE$", ANY), ("E", "IE", SAME)),
    strict=Reading(
        starts=_table(("OE", "I", ANY), ("I", "I", OTHER), ("E", "E", SAME)),
        continues=_table(("I", "IE", SAME)),
        ends=_table(("I", "O", ANY), ("I", "IE", OTHER), ("E", "IE", SAME)),
    ),
)
IOE2 = Scheme(  # each span ends with E
    "IOE2",
    "OIE",
    legal=_table(("^OE", "OIE$", ANY), ("I", "IE", SAME)),
    strict=Reading(
        starts=_table(("OE", "IE", ANY), ("I", "IE", OTHER)),
        continues=_table(("I", "IE", SAME)),
        ends=_table(("E", "OIE", ANY)),
    ),
)
IOBES = Scheme(  # each span is B, any number of I, and E; or S alone
    "IOBES",
    "OBIES",
    legal=_table(("^OES", "OBS$", ANY), ("BI", "IE", SAME)),
    strict=Reading(
        starts=_table(("OBIES", "BS", ANY)),
        continues=_table(("BI", "IE", SAME)),
        ends=_table(("ES", "OBIES", ANY)),
    ),
)
BILOU = _relettered(IOBES, "BILOU", {"E": "L", "S": "U"})
BMES = _relettered(IOBES, "BMES", {"I": "M"})

SCHEMES = {scheme.name: scheme for scheme in (IOB2, IOB1, IOE2, IOE1, IOBES, BILOU, BMES)}
ALIASES = {
    "BIO": "IOB2",
    "BIO2": "IOB2",
    "BIOES": "IOBES",
    "BIESO": "IOBES",
    "BIOUL": "BILOU",
    "BMESO": "BMES",
}


def scheme_named(name):
    """The `Scheme` of a name or alias in any case, such as "BIO"."""
    canonical = str(name).upper()
    canonical = ALIASES.get(canonical, canonical)
    if canonical not in SCHEMES:
        known = ", ".join([*SCHEMES, *ALIASES])
        raise ValueError(f"scheme must be one of {known}, in any case; got {name!r}.")
    return SCHEMES[canonical]


def split(name, separator="-", prefix_first=True):
    """The `Tag` that a name says: B-geo-loc is B and geo-loc, with the prefix last geo-loc-B."""
    if separator not in name:
        return Tag(name)
    if prefix_first:
        prefix, _, type_ = name.partition(separator)
    else:
        type_, _, prefix = name.rpartition(separator)
    return Tag(prefix, type_)


def join(tag, separator="-", prefix_first=True):
    """The name of a `Tag`: the reverse of `split`."""
    if not tag.type:
        return tag.prefix
    return separator.join(tag if prefix_first else reversed(tag))


def check_separator(separator):
    """Refuses what could not be found between a prefix and a type."""
    if not isinstance(separator, str) or not separator:
        raise ValueError(f"separator must be a string with a character in it, got {separator!r}.")


def misfits(names, scheme, separator="-", prefix_first=True, unused_tags=()):
    """The names that are none of the scheme's and not unused, each once and in their order."""
    check_separator(separator)

    def fits(name):
        if not isinstance(name, str):
            raise TypeError(f"tags are given by their names, as strings; got {name!r}.")
        tag = split(name, separator, prefix_first)
        known = tag.prefix in tuple(scheme.prefixes) and not (tag.prefix == OUTSIDE and tag.type)
        return known and join(tag, separator, prefix_first) == name  # which "B-" is not

    unused_tags = as_names(unused_tags)
    return [name for name in dict.fromkeys(names) if name not in unused_tags and not fits(name)]


def parse(names, scheme, separator="-", prefix_first=True, unused_tags=(), unused=OUTSIDE):
    """A `Tag` for each name; names that are none of the scheme's are refused.

    Each of `unused_tags` becomes a tag of the prefix `unused`: OUTSIDE for code that looks for
    spans, UNUSED for code that asks what is allowed.
    """
    names, unused_tags = list(names), as_names(unused_tags)
    wrong = misfits(names, scheme, separator, prefix_first, unused_tags)
    if wrong:
        raise ValueError(misfit_message(wrong, scheme, separator, prefix_first))
    tags = {name: split(name, separator, prefix_first) for name in set(names)}
    tags |= dict.fromkeys(unused_tags, Tag(unused))
    return [tags[name] for name in names]


def as_names(names):
    """A tuple of names, from several or from one."""
    return (names,) if isinstance(names, str) else tuple(names)


def unused_among(unused_tags, tag_names):
    """`unused_tags` as a list, refused unless each is one of the tag names and some are left."""
    unused_tags = list(dict.fromkeys(as_names(unused_tags)))
    if unused_tags and tag_names is None:
        raise ValueError(f"unused_tags={unused_tags} needs tag_names, in the order of the tag ids.")
    unknown = [name for name in unused_tags if name not in tag_names]
    if unknown:
        raise ValueError(f"unused_tags must be among tag_names, {list(tag_names)}; got {unknown}.")
    if unused_tags and len(unused_tags) == len(tag_names):
        raise ValueError(f"unused_tags must leave a tag that is used; got all of {unused_tags}.")
    return unused_tags


def misfit_message(wrong, scheme, separator, prefix_first):
    """What to say about names that are none of the scheme's."""
    prefixes = scheme.prefixes[1:]
    typed = ", ".join(join(Tag(prefix, "X"), separator, prefix_first) for prefix in prefixes)
    shown = str(wrong[:20]) + (f" and {len(wrong) - 20} more" if len(wrong) > 20 else "")
    return (
        f"names that are not of {scheme.name}: {shown}. Its own are O, {typed} for a type X, and "
        f"{', '.join(prefixes)} without types. Choose the names' own scheme, or say how they are "
        f"written, now separator={separator!r} and prefix_first={prefix_first}. Names of tags that "
        "no sequence holds, such as PAD or [CLS], go into unused_tags."
    )


def different(tag_names):
    """The names as a list, refused if it is empty or has one twice."""
    names = list(tag_names)
    repeated = [name for name, times in collections.Counter(names).items() if times > 1]
    if not names or repeated:
        got = f"got more than once {repeated}" if repeated else "got none"
        raise ValueError(f"tag_names must be different names, one for each tag; {got}.")
    return names


def as_pair(before, after):
    """Two neighbours as the tables have them."""
    return before.prefix, after.prefix, before.type == after.type


def over(table, rows, columns):
    """Bool [rows, columns]: which pairs of tags are in the table."""
    return np.array([[as_pair(row, column) in table for column in columns] for row in rows])


# How a tag in a span stands to its neighbour: in one span with it, or in the next span of the same
# type, or neither.
CONTINUES, TOUCHES, APART = "continues", "touches", "apart"


@functools.cache
def spelling(scheme):
    """{(relation to the tag before, to the tag after): prefix}, as legal sequences have it.

    One prefix for each, since a scheme has one legal sequence for each set of spans.
    """
    inner = scheme.prefixes.replace(OUTSIDE, "")
    neighbours = [(OUTSIDE, False), *((prefix, same) for prefix in inner for same in ANY)]

    def relation(*pair):
        if pair not in scheme.legal:
            return None
        if pair in LENIENT.continues:
            return CONTINUES
        return TOUCHES if pair[2] else APART

    prefixes = {}
    for prefix in inner:
        before = {relation(other, prefix, same) for other, same in neighbours} - {None}
        after = {relation(prefix, other, same) for other, same in neighbours} - {None}
        prefixes.update(dict.fromkeys(itertools.product(before, after), prefix))
    return prefixes
