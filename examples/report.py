"""Entity scores, by the rules and in the form of seqeval's default mode (that of conlleval); and
what there is to say of broken tags, and of single sentences.

A scheme is a name such as "BIO", or None for tags of no scheme, as parts of speech are: each of
them is scored by itself, and none is broken. The formulas fit on a page, and seqeval would bring
scikit-learn and SciPy along; the tests compare every figure and the printed report with seqeval.
"""

import textwrap
from collections import Counter

from keras_crf.tags import broken_tags, is_legal, tags_to_spans

AVERAGES = ("micro avg", "macro avg", "weighted avg")


def count_illegal(sentences, scheme):
    """The number of tag sequences that break the rules of the scheme."""
    return sum(not is_legal(tags, scheme) for tags in sentences) if scheme else 0


def broken_report(part, sentences, scheme):
    """A line on the tags of sentences `(tokens, tags)` that break the scheme; "" if none does."""
    broken = [
        (number, place)
        for number, (_, tags) in enumerate(sentences if scheme else [], start=1)
        for place in broken_tags(tags, scheme)
    ]
    if not broken:
        return ""
    number, place = broken[0]
    return (
        f"{part}: {len(broken)} broken tag{'s' * (len(broken) > 1)} in "
        f"{len({number for number, _ in broken})} of {len(sentences)} sentences under {scheme}; "
        f"the first: sentence {number}, {_described(place)}"
    )


def entity_scores(gold, predicted, scheme):
    """Precision, recall, F1 and support by entity type, then the three averages.

    Args:
        gold, predicted: lists of tag sequences, sentence by sentence of the same length.
        scheme: the tag scheme of both, such as "BIO".

    Returns:
        A dict from row name to `(precision, recall, f1, support)`.
    """
    correct, guessed, wanted = Counter(), Counter(), Counter()
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        gold_entities = _entities(gold_tags, scheme)
        predicted_entities = _entities(predicted_tags, scheme)
        wanted.update(type_ for type_, _, _ in gold_entities)
        guessed.update(type_ for type_, _, _ in predicted_entities)
        correct.update(type_ for type_, _, _ in gold_entities & predicted_entities)
    types = sorted(wanted | guessed)
    rows = {type_: _row(correct[type_], guessed[type_], wanted[type_]) for type_ in types}
    micro = _row(correct.total(), guessed.total(), wanted.total())
    macro = _mean_row(rows.values(), [1] * len(rows))
    weighted = _mean_row(rows.values(), [support for *_, support in rows.values()])
    return rows | dict(zip(AVERAGES, (micro, macro, weighted), strict=True))


def entity_f1(gold, predicted, scheme):
    """The micro average of the entity F1."""
    return entity_scores(gold, predicted, scheme)["micro avg"][2]


def entity_report(gold, predicted, scheme):
    """The scores as the text that seqeval's `classification_report` prints."""
    scores = entity_scores(gold, predicted, scheme)
    width = max(map(len, scores))
    names = ("precision", "recall", "f1-score", "support")
    lines = [" " * width + " " + "".join(f" {name:>9}" for name in names), ""]
    for name, (*ratios, support) in scores.items():
        if name == AVERAGES[0]:
            lines.append("")
        numbers = "".join(f" {ratio:>9.2f}" for ratio in ratios)
        lines.append(f"{name:>{width}} {numbers} {support:>9}")
    return "\n".join(lines) + "\n"


def sentence_report(tokens, entities, gold_tags, scheme):
    """A sentence, and below it a line for each `DecodedEntity`: how probable, what type, which.

    Those that the gold tags do not have are marked as wrong.
    """
    right = tags_to_spans(gold_tags, scheme)
    width = max((len(entity.type) for entity in entities), default=0)
    lines = [_shortened(tokens, 96)]
    for type_, start, end, probability in entities:
        mark = "" if (type_, start, end) in right else "  wrong"
        lines.append(
            f"  {probability:.2f}  {type_:<{width}}  {_shortened(tokens[start:end], 48)}{mark}"
        )
    return "\n".join(lines)


def _shortened(tokens, width):
    return textwrap.shorten(" ".join(tokens), width, placeholder=" ...")


def _described(place):
    """A `BrokenTag` in words; tokens are counted from 1, as sentences are."""
    if place.tag is None:
        return f"token {place.index}, {place.previous} at the end"
    follows = "at the start" if place.previous is None else f"after {place.previous}"
    return f"token {place.index + 1}, {place.tag} {follows}"


def _entities(tags, scheme):
    """The entities of one sentence: a set of `(type, start, end)`."""
    if scheme is None:
        return {(tag, step, step + 1) for step, tag in enumerate(tags)}
    spans = tags_to_spans(tags, scheme)
    return {(type_ or "_", start, end) for type_, start, end in spans}  # seqeval's name for no type


def _row(correct, guessed, wanted):
    precision, recall = _ratio(correct, guessed), _ratio(correct, wanted)
    return precision, recall, _ratio(2 * precision * recall, precision + recall), wanted


def _mean_row(rows, weights):
    weighted_rows = list(zip(rows, weights, strict=True))
    total = sum(weights)
    means = [_ratio(sum(row[i] * weight for row, weight in weighted_rows), total) for i in range(3)]
    return *means, sum(support for *_, support in rows)


def _ratio(part, whole):
    return part / whole if whole else 0.0
