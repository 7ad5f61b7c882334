"""The parts of a picture, by Matplotlib, which is imported when the first one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

MOST = 40  # inches: no figure grows beyond, for Matplotlib to draw it
FONT = 9  # points
LETTER = 0.6 / 72  # inches a letter and point, about
LEAST_DRAWN = 0.005  # edges of a trellis below this probability could not be seen


def matplotlib_parts():
    """The `matplotlib` package with what is drawn with here."""
    try:
        import matplotlib
        import matplotlib.collections
        import matplotlib.figure
        import matplotlib.patches
    except ImportError as error:
        message = 'keras_crf.plot needs Matplotlib: pip install "keras-crf-layer[plot]"'
        raise ImportError(message) from error
    return matplotlib


def figure_for(rows, columns, cell, labels):
    """A figure and axes for a cell [height, width] (inches) at each row and column, all named."""
    height, width = cell
    angle = _angle(columns, width)
    beside = LETTER * FONT * max(map(len, rows)) + 1.8
    below = LETTER * FONT * max(map(len, columns)) * np.sin(np.radians(angle)) + 0.9
    size = [width * len(columns) + beside, max(height * len(rows), 1) + below]
    figure = matplotlib_parts().figure.Figure(np.clip(size, 3.5, MOST), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylabel(labels[0], fontsize=FONT + 1)
    axes.set_xlabel(labels[1], fontsize=FONT + 1)
    # Words such as $5 are no formulas.
    axes.set_yticks(range(len(rows)), rows, fontsize=FONT, parse_math=False)
    slanted = {"ha": "right", "rotation_mode": "anchor"} if angle == 45 else {}
    axes.set_xticks(
        range(len(columns)), columns, rotation=angle, fontsize=FONT, parse_math=False, **slanted
    )
    return figure, axes


def _angle(columns, width):
    """How far labels must be turned so as not to overlap."""
    if LETTER * FONT * (max(map(len, columns)) + 1) <= width:
        return 0
    return 45 if width >= 0.3 else 90


def colour_bar(figure, axes, image, label):
    """Says what the colours mean."""
    bar = figure.colorbar(image, ax=axes, label=label, pad=0.02, fraction=0.05, aspect=15)
    bar.ax.tick_params(labelsize=FONT - 1)


def legend(figure, handles=None):
    """A legend above the axes."""
    columns = 2 if figure.get_figwidth() >= 5 else 1
    given = {} if handles is None else {"handles": handles}
    figure.legend(
        loc="outside upper right",
        fontsize=FONT,
        frameon=False,
        ncols=columns,
        markerscale=0.4,
        **given,
    )


def boxes(figure, axes, places, label, **look):
    """A box around the cell of each place (row, column), and a legend for them."""
    parts = matplotlib_parts()
    squares = [parts.patches.Rectangle((x - 0.5, y - 0.5), 1, 1) for y, x in places]
    drawn = parts.collections.PatchCollection(squares, label=label, **look)
    axes.add_collection(drawn)
    legend(figure, [parts.patches.Patch(label=label, **look)])


def numbers(axes, table, largest, width):
    """Each finite score in its cell, where all of them fit."""
    texts = [[_short(score, largest) for score in row] for row in table]
    longest = max(len(text) for row in texts for text in row)
    size = min(FONT, width * 0.9 / (LETTER * longest))
    if size < 6:
        return
    for y, x in np.argwhere(np.isfinite(table)):
        colour = "white" if abs(table[y, x]) > 0.6 * largest else "black"
        axes.text(x, y, texts[y][x], ha="center", va="center", fontsize=size, color=colour)


def _short(score, largest):
    text = f"{score:.{0 if largest >= 100 else 1}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def edges(probabilities):
    """Lines from each tag to each of the next step, [T - 1, K, K], dark where probable."""
    places = np.argwhere(probabilities >= LEAST_DRAWN)
    shown = probabilities[tuple(places.T)]
    lines = [[(step, before), (step + 1, after)] for step, before, after in places]
    colours = np.zeros([len(lines), 4])
    colours[:, :3] = 0.35
    colours[:, 3] = np.clip(0.15 + 0.6 * shown, 0, 1)
    widths = 0.6 + 2.4 * shown
    collections = matplotlib_parts().collections
    return collections.LineCollection(lines, colors=colours, linewidths=widths, zorder=1)


def nodes(figure, axes, probabilities):
    """A circle for each step and tag of probabilities [T, K], large and dark where probable."""
    step, tag = np.indices(probabilities.shape)
    shown = np.clip(probabilities.ravel(), 0, 1)
    look = {"cmap": "Blues", "vmin": 0, "vmax": 1, "edgecolors": "0.3", "linewidths": 0.7}
    circles = axes.scatter(step.ravel(), tag.ravel(), s=12 + 170 * shown, c=shown, zorder=3, **look)
    colour_bar(figure, axes, circles, "probability")
