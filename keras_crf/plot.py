"""Pictures of what a CRF has learned and what it says of a sentence. Needs Matplotlib.

    pip install "keras-crf-layer[plot]"

Each function returns a `matplotlib.figure.Figure` of its own, sized so that its labels can be read:
a notebook shows it, `figure.savefig("transitions.png")` writes it. Nothing goes through pyplot, so
there is nothing to close.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keras_crf import drawing
from keras_crf.tensor_like import TensorLike

if TYPE_CHECKING:
    from keras_crf.distribution import LinearChainCRF
    from keras_crf.drawing import Figure
    from keras_crf.layer import CRFLayer

LONGEST = 24  # letters of a label
BEST = {"color": "tab:orange", "linewidth": 6, "alpha": 0.75, "solid_capstyle": "round"}
SECOND = {"color": "black", "linewidth": 1.8, "linestyle": (0, (3, 2))}


def transitions(
    transitions: TensorLike | CRFLayer,
    tag_names: Iterable[str] | None = None,
    start: TensorLike | None = None,
    end: TensorLike | None = None,
) -> Figure:
    """A heat map of the transition scores, from rows to columns; forbidden ones are hatched.

    Args:
        transitions: [K, K], `transitions[i, j]` from tag i to tag j, -inf where it is forbidden;
            or a built `CRFLayer`, of which the scores as they are used, `start`, `end` and
            `tag_names` are taken where they are not given.
        tag_names: the K names of the tags; their ids where left out.
        start: [K], scores of the first tag, drawn as a row above the others.
        end: [K], scores of the last tag, drawn as a column behind the others.

    Returns:
        A `matplotlib.figure.Figure`. Scores are written into the cells where they fit.

    Raises:
        ImportError: Matplotlib is missing.
        ValueError: shapes that do not go together, a layer that is not built, scores that are NaN
            or +inf.

    >>> figure = transitions([[0.5, -1.0], [-np.inf, 2.0]], ["O", "I-PER"], start=[0.0, -np.inf])
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('to', 'from')
    """
    if hasattr(transitions, "num_tags"):
        transitions, tag_names, start, end = _of_layer(transitions, tag_names, start, end)
    table, rows, columns = _table(transitions, tag_names, start, end)
    cell = 0.55 if len(rows) <= 12 else 0.4 if len(rows) <= 24 else 0.24
    figure, axes = drawing.figure_for(rows, columns, (cell, cell), labels=("from", "to"))
    finite = np.isfinite(table)
    largest = np.abs(table[finite]).max(initial=0) or 1.0
    shown = np.ma.array(np.where(finite, table, 0), mask=~finite)
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-largest, vmax=largest)
    drawing.colour_bar(figure, axes, image, "score")
    forbidden = np.argwhere(np.isneginf(table))
    if len(forbidden):
        look = {"facecolor": "0.88", "edgecolor": "0.6", "hatch": "////", "linewidth": 0}
        drawing.boxes(figure, axes, forbidden, "forbidden", **look)
    drawing.numbers(axes, table, largest, cell)
    if start is not None:
        axes.axhline(0.5, color="black", linewidth=1)
    if end is not None:
        axes.axvline(len(columns) - 1.5, color="black", linewidth=1)
    return figure


def marginals(
    marginals: TensorLike,
    words: Iterable[str] | None = None,
    tag_names: Iterable[str] | None = None,
    tags: Sequence | None = None,
) -> Figure:
    """A heat map of the probability of each tag at each step of a sentence.

    Args:
        marginals: [T, K], one row of what `LinearChainCRF.marginals` returns. Dropped steps, which
            are all zeros there, are left out of the picture.
        words: the T words, or one for each step that is not dropped; numbers where left out.
        tag_names: the K names of the tags; their ids where left out.
        tags: [T] tag ids, such as the decoded ones, to be outlined.

    Returns:
        A `matplotlib.figure.Figure`.

    Raises:
        ImportError: Matplotlib is missing.
        ValueError: shapes that do not go together, marginals that are no probabilities.

    >>> figure = marginals([[0.9, 0.1], [0.2, 0.8]], ["in", "Oslo"], ["O", "LOC"], tags=[0, 1])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['in', 'Oslo']
    """
    values = _array(marginals, "marginals", 2, "[T, K], those of one sentence")
    if not ((values >= 0) & (values <= 1 + 1e-3)).all():
        raise ValueError("marginals must lie in 0..1; take them from `LinearChainCRF.marginals`.")
    steps = np.flatnonzero(values.any(axis=1))
    axis = "step" if words is None else "word"
    words = _words(words, steps, len(values))
    names = _names(tag_names, values.shape[1], "tag_names", "the columns of the marginals")
    figure, axes = drawing.figure_for(names, words, (0.3, 0.38), labels=("tag", axis))
    image = axes.imshow(values[steps].T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    drawing.colour_bar(figure, axes, image, "probability")
    if tags is not None:
        tags = _tags(tags, steps, values.shape)
        places = np.stack([tags, np.arange(len(steps))], axis=1)
        look = {"facecolor": "none", "edgecolor": "tab:orange", "linewidth": 2}
        drawing.boxes(figure, axes, places, "decoded", **look)
    return figure


def trellis(
    distribution: LinearChainCRF,
    row: int = 0,
    words: Iterable[str] | None = None,
    tag_names: Iterable[str] | None = None,
) -> Figure:
    """The paths through a sentence: probable tags and moves, the best path and the second best.

    Circles grow and darken with the marginals of the tags, lines with those of the moves. Steps
    that the mask drops are left out of the picture.

    Args:
        distribution: a `LinearChainCRF`, such as `distribution_of(model(inputs))`.
        row: which row of the batch to draw.
        words: the T words of that row, or one for each kept step; numbers where left out.
        tag_names: the K names of the tags; their ids where left out.

    Returns:
        A `matplotlib.figure.Figure`, with the probability of both paths in its legend. Where the
        row has one legal path only, there is no second.

    Raises:
        ImportError: Matplotlib is missing.
        ValueError: no such row, or one without kept steps or without a legal path; words or names
            that do not go with it.
    """
    mask = np.asarray(distribution.mask)
    _check_row(row, mask)
    steps = np.flatnonzero(mask[row])
    nodes = np.asarray(distribution.marginals())[row][steps]
    if not nodes.any(axis=1).all() or np.isnan(nodes).any():
        raise ValueError(f"row {row} has no legal path with a finite score to draw.")
    axis = "step" if words is None else "word"
    words = _words(words, steps, mask.shape[1])
    names = _names(tag_names, nodes.shape[1], "tag_names", "the tags of the distribution")
    figure, axes = drawing.figure_for(names, words, (0.42, 0.55), labels=("tag", axis))
    if len(steps) > 1:
        moves = np.asarray(distribution.edge_marginals())[row][steps[1:] - 1]
        axes.add_collection(drawing.edges(moves))
    # A path of one step has no line to be seen by, but a ring.
    ring = {"marker": "o", "markersize": 20, "markerfacecolor": "none"} if len(steps) == 1 else {}
    for path, look in zip(_two_best(distribution, row, steps), (BEST, SECOND), strict=False):
        axes.plot(np.arange(len(steps)), path.tags, label=path.label, **look, **ring)
    drawing.nodes(figure, axes, nodes)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-0.5, len(steps) - 0.5)
    drawing.legend(figure)
    return figure


class Path(NamedTuple):
    """A path through a sentence, and what the legend says of it."""

    tags: np.ndarray  # [T], of the steps that are drawn
    label: str


def _two_best(distribution, row, steps):
    """The best path and, where there is one, the second best."""
    best = distribution.top_k(2)
    tags, log_probs = np.asarray(best.tags)[row], np.asarray(best.log_prob)[row]
    return [
        Path(path[steps], f"{name}, p = {np.exp(log_prob):.3g}")
        for name, path, log_prob in zip(("best path", "second best"), tags, log_probs, strict=True)
        if log_prob > -np.inf
    ]


# What comes in


def _of_layer(layer, tag_names, start, end):
    """The real scores of a `CRFLayer`, as its distributions have them."""
    if not layer.built:
        raise ValueError(
            "the layer has no weights yet: call it on features first, or "
            "layer.build([None, None, D]) for features of the width D."
        )
    width = layer.input_spec.axes[-1]
    chain = layer.distribution(np.zeros([1, 1, width], "float32"), jit_compile=False)._chain
    ends = [np.asarray(chain.start), np.asarray(chain.end)]
    own = [scores if layer.use_boundary or scores.any() else None for scores in ends]
    start, end = (mine if it is None else it for it, mine in zip((start, end), own, strict=True))
    names = layer.tag_names if tag_names is None else tag_names
    return np.asarray(chain.transitions), names, start, end


def _table(transitions, tag_names, start, end):
    """All scores as one table, NaN where there is none; names of its rows and of its columns."""
    table = _scores(transitions, "transitions", 2, "[K, K]")
    size = len(table)
    if table.shape != (size, size):
        raise ValueError(f"transitions must have the shape [K, K]; got {list(table.shape)}.")
    rows = columns = _names(tag_names, size, "tag_names", "the rows of the transitions")
    if start is not None:
        table, rows = np.vstack([_ends(start, "start", size), table]), ["(start)", *rows]
    if end is not None:
        last = _ends(end, "end", size)
        last = last if start is None else [np.nan, *last]
        table, columns = np.column_stack([table, last]), [*columns, "(end)"]
    return table, rows, columns


def _ends(value, name, size):
    scores = _scores(value, name, 1, "[K]")
    if len(scores) != size:
        raise ValueError(
            f"{name} must have a score for each of the {size} tags; got {len(scores)}."
        )
    return scores


def _scores(value, name, rank, axes):
    scores = _array(value, name, rank, axes)
    wrong = scores[np.isnan(scores) | np.isposinf(scores)]
    if wrong.size:
        raise ValueError(f"{name} must be finite, or -inf where forbidden; got {wrong[0]}.")
    return scores


def _array(value, name, rank, axes):
    array = np.asarray(value, np.float64)
    if array.ndim != rank or not array.size:
        raise ValueError(f"{name} must have the shape {axes}; got the shape {list(array.shape)}.")
    return array


def _names(names, number, argument, what):
    """As many labels as there are of something; numbers where there are no names."""
    names = range(number) if names is None else list(names)
    if len(names) != number:
        raise ValueError(f"{argument} must be {number}, as many as {what}; got {len(names)}.")
    texts = [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    return [text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in texts]


def _words(words, steps, number_of_steps):
    """A label for each step that is drawn."""
    if words is None:
        return [str(step) for step in steps]
    words = list(words)
    if len(words) == number_of_steps:
        words = [words[step] for step in steps]
    what = f"the kept steps, or {number_of_steps}, as many as all steps"
    return _names(words, len(steps), "words", what)


def _tags(tags, steps, shape):
    """The tags of the steps that are drawn."""
    tags = np.asarray(tags)
    if tags.shape != shape[:1] or not np.issubdtype(tags.dtype, np.integer):
        raise ValueError(
            f"tags must be {shape[0]} tag ids, one for each step of the marginals; got the shape "
            f"{list(tags.shape)}, {tags.dtype}."
        )
    tags = tags[steps]
    wrong = tags[(tags < 0) | (tags >= shape[1])]
    if wrong.size:
        raise ValueError(f"tags must lie in 0..{shape[1] - 1}; got {wrong[0]}.")
    return tags


def _check_row(row, mask):
    if not 0 <= row < len(mask):
        raise ValueError(f"row must lie in 0..{len(mask) - 1}, those of the batch; got {row}.")
    if not mask[row].any():
        raise ValueError(f"row {row} keeps no steps: there is nothing to draw.")
