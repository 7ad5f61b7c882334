"""Draws the pictures of docs/metrics-and-plots.md, from scores made up by hand.

python docs/figures.py [--directory docs]
"""

import argparse
import pathlib

import numpy as np

from keras_crf import LinearChainCRF, plot, tags

TAG_NAMES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
WORDS = ["Ada", "Lovelace", "went", "to", "New", "York"]
# What a tagger that has never heard of Ada Lovelace may say: [T, K].
POTENTIALS = np.array(
    [
        [1.4, 2.0, 0.1, 1.7, 0.0],
        [1.2, 0.6, 1.5, 0.4, 1.6],
        [4.5, 0.1, 0.2, 0.0, 0.3],
        [4.0, 0.0, 0.4, 0.2, 0.6],
        [1.1, 0.3, 0.2, 2.1, 1.0],
        [1.3, 0.9, 0.8, 1.2, 2.2],
    ]
)
TRANSITIONS = np.array(
    [
        [1.2, 0.4, 0.0, 0.3, 0.0],
        [-0.3, -1.8, 1.9, -1.4, 0.0],
        [0.6, -1.1, 0.8, -0.9, 0.0],
        [0.2, -1.3, 0.0, -2.1, 1.1],
        [0.7, -0.8, 0.0, -1.0, 0.5],
    ]
)
START = np.array([0.5, 0.8, 0.0, 0.1, 0.0])
END = np.array([0.6, -0.4, -0.1, 0.0, 0.3])


def scores():
    """Transitions, start and end, -inf where IOB2 forbids them."""
    allowed = tags.allowed_transitions(TAG_NAMES, "IOB2")
    pairs = zip(allowed, (TRANSITIONS, START, END), strict=True)
    return [np.where(legal, values, -np.inf) for legal, values in pairs]


def draw(directory):
    """Writes transitions.png and trellis.png."""
    transitions, start, end = scores()
    figure = plot.transitions(transitions, TAG_NAMES, start, end)
    save(figure, directory / "transitions.png")
    crf = LinearChainCRF(POTENTIALS[np.newaxis], transitions, start=start, end=end)
    save(plot.trellis(crf, 0, WORDS, TAG_NAMES), directory / "trellis.png")


def save(figure, path):
    figure.savefig(path, dpi=100, metadata={"Software": None}, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    draw(parser.parse_args().directory)
