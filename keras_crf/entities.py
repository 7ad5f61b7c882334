"""How probable entities are: spans of a type, summed over all tag sequences that read as them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_crf import schemes, spans
from keras_crf.legality import detect_scheme
from keras_crf.schemes import OUTSIDE

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_crf.distribution import LinearChainCRF


class Entity(NamedTuple):
    """The steps start, start + 1, ..., end - 1 of a row, and their type ("" for none)."""

    row: int
    type: str
    start: int
    end: int


class DecodedEntity(NamedTuple):
    """A span of the best path, and the probability that it is there, on any path."""

    type: str
    start: int
    end: int
    probability: float


def entity_log_prob(
    distribution: LinearChainCRF,
    entities: Iterable[tuple],
    tag_names: Iterable[str],
    scheme: str | None = None,
    *,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> tf.Tensor:
    """log p(there is exactly this span, of this type and with these borders), [N], in nats.

    The sum over all paths on which `tags_to_spans` finds the span, however they are tagged within
    it, beside it and elsewhere; broken sequences count as it reads them, and with scores that
    forbid them there are none. With `tags.span_boundaries`, and K beyond either end of a row,

        sum over y_{s-1}, ..., y_e of p(y_{s-1}, ..., y_e)
            starts[y_{s-1}, y_s] continues[y_s, y_{s+1}] ... (not continues[y_{e-1}, y_e])

    with y_s of the type, e exclusive: one step of the forward recurrence for each step of the span.
    It takes memory for some [N, L, K, K], L the steps of the longest entity.

    Args:
        distribution: a `LinearChainCRF` over the tags.
        entities: N tuples `(row, type, start, end)`, such as `Entity`, `end` exclusive. Steps are
            counted as in the potentials, and all of an entity must be kept by the mask; the tags
            beside it are those of the next kept steps.
        tag_names: the K names of the tags, by id.
        scheme: the name of a scheme, such as "BIO"; left out, the one that `tags.detect_scheme`
            finds for the names, as for `SpanF1`.
        separator, prefix_first: how the names are written.
        unused_tags: those of the names that are read as O, such as "PAD".

    Returns:
        A tensor [N] in the dtype of the distribution: never above 0, -inf where nothing is legal.

    Raises:
        ValueError: an unknown scheme, names that are not of it or not as many as tags; a type that
            is in no name; entities that are empty or lie outside their row, or over dropped steps.

    Source: Culotta and McCallum, "Confidence Estimation for Information Extraction", 2004.

    >>> from keras_crf import LinearChainCRF
    >>> crf = LinearChainCRF(np.zeros([1, 2, 3]), np.zeros([3, 3]))  # 9 paths, all equal
    >>> names = ["O", "B-X", "I-X"]
    >>> np.exp(entity_log_prob(crf, [(0, "X", 0, 2)], names, "BIO")).round(4)  # B-X I-X, I-X I-X
    array([0.2222])
    """
    reading = _Reading(distribution, tag_names, scheme, separator, prefix_first, unused_tags)
    entities = [Entity(*entity) for entity in entities]
    for entity in entities:
        _check(entity, reading.types)
    return reading.log_prob(distribution, entities)


def decoded_entities(
    distribution: LinearChainCRF,
    tag_names: Iterable[str],
    scheme: str | None = None,
    *,
    separator: str = "-",
    prefix_first: bool = True,
    unused_tags: Iterable[str] = (),
) -> list[list[DecodedEntity]]:
    """The spans of the best path of each row, each with its probability.

    The probability is exp of `entity_log_prob`: that exactly this span is there on a path drawn
    from the distribution, so a span may be sure on an unsure path, or the reverse.

    Args:
        distribution, tag_names, scheme, separator, prefix_first, unused_tags: as for
            `entity_log_prob`. Called eagerly; a span that goes on over dropped steps holds them
            from `start` to `end`.

    Returns:
        For each row a list of `DecodedEntity(type, start, end, probability)`, in order.

    Raises:
        ValueError: as `entity_log_prob`.

    >>> from keras_crf import LinearChainCRF
    >>> crf = LinearChainCRF(np.log([[[0.1, 0.8, 0.1], [0.9, 0.05, 0.05]]]), np.zeros([3, 3]))
    >>> [[entity]] = decoded_entities(crf, ["O", "B-X", "I-X"], "BIO")
    >>> f"{entity.type} {entity.start}..{entity.end} {entity.probability:.3f}"
    'X 0..1 0.855'
    """
    reading = _Reading(distribution, tag_names, scheme, separator, prefix_first, unused_tags)
    mask, paths = distribution.mask.numpy(), distribution.argmax().tags.numpy()
    kept = [np.flatnonzero(row) for row in mask]
    entities = [
        Entity(row, *span)
        for row, steps in enumerate(kept)
        for span in spans.tags_to_spans(
            [reading.names[tag] for tag in paths[row, steps]], reading.scheme, **reading.spelled
        )
    ]
    probabilities = np.exp(reading.log_prob(distribution, entities, among_kept=True))
    decoded: list[list[DecodedEntity]] = [[] for _ in mask]
    for (row, type_, start, end), probability in zip(entities, probabilities, strict=True):
        first, last = kept[row][[start, end - 1]].tolist()
        decoded[row].append(DecodedEntity(type_, first, last + 1, float(probability)))
    return decoded


class _Reading:
    """How a scheme reads the tags of a distribution."""

    def __init__(self, distribution, tag_names, scheme, separator, prefix_first, unused_tags):
        self.names = schemes.different(tag_names)
        number_of_tags = distribution.transitions.shape[-1]
        if len(self.names) != number_of_tags:
            raise ValueError(
                f"tag_names must be {number_of_tags}, one for each tag of the distribution; "
                f"got {len(self.names)}."
            )
        self.spelled = {
            "separator": separator,
            "prefix_first": prefix_first,
            "unused_tags": schemes.as_names(unused_tags),
        }
        self.scheme = detect_scheme(self.names, **self.spelled) if scheme is None else scheme
        self.boundaries = spans.span_boundaries(self.names, self.scheme, **self.spelled)
        tags = schemes.parse(self.names, schemes.scheme_named(self.scheme), **self.spelled)
        self.types = [tag.type if tag.prefix != OUTSIDE else None for tag in tags]

    def log_prob(self, distribution, entities, among_kept=False):
        """log p of each entity, [N]; `among_kept` counts the steps without the dropped ones."""
        of_type = np.array(
            [[own == entity.type for own in self.types] for entity in entities], bool
        )
        numbers = [(entity.row, entity.start, entity.end - entity.start) for entity in entities]
        return distribution._span_log_prob(
            *np.array(numbers, np.int64).reshape(-1, 3).T,
            self.boundaries,
            of_type.reshape(-1, len(self.types)),
            among_kept,
        )


def _check(entity, types):
    """Refuses an entity that no tags could stand for."""
    known = sorted({type_ for type_ in types if type_ is not None})
    if entity.type not in known:
        raise ValueError(f"the types of the tag names are {known}; got {(*entity,)}.")
    if not all(isinstance(number, (int, np.integer)) for number in (entity[0], *entity[2:])):
        raise ValueError(f"row, start and end must be whole numbers; got {(*entity,)}.")
    if entity.start >= entity.end:
        raise ValueError(f"{entity} is empty: its end is exclusive, and must be above its start.")
