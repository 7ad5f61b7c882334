"""The pictures: what is in them, that it can be read, and what is refused."""

import ast
import itertools
import pathlib
import re
import runpy
import sys
from typing import NamedTuple

import matplotlib.collections
import matplotlib.figure
import matplotlib.lines
import numpy as np
import pytest

import oracle
import toys
from keras_crf import CRFLayer, LinearChainCRF, plot, tags

NAMES = ["O", "B-PER", "I-PER"]
WORDS = ["Ada", "Lovelace", "went", "to", "London"]
DOCS = toys.ROOT / "docs"
needs_top_k = pytest.mark.skipif(
    not hasattr(LinearChainCRF, "top_k"), reason="LinearChainCRF has no top_k yet"
)


class KBest(NamedTuple):
    tags: np.ndarray
    score: np.ndarray
    log_prob: np.ndarray


class Listed:
    """A `LinearChainCRF` whose k best paths are found by listing all."""

    def __init__(self, *arguments, **options):
        self.crf = LinearChainCRF(*arguments, **options)
        self.oracle = oracle.Oracle(*arguments, **options)

    def __getattr__(self, name):
        return getattr(self.crf, name)

    def top_k(self, k):
        batch, steps, _ = self.oracle.shape
        paths, scores = np.zeros([batch, k, steps], int), np.full([batch, k], -np.inf)
        for b, (row, kept) in enumerate(zip(self.oracle.rows, self.oracle.kept, strict=True)):
            best = np.argsort(-row.scores, kind="stable")[:k]
            scores[b, : len(best)] = row.scores[best]
            for place, path in enumerate(row.paths[best]):
                paths[b, place, kept] = path
        return KBest(paths, scores, scores - self.oracle.log_partition()[:, np.newaxis])


def distribution(steps=5, mask=None, make=Listed, names=NAMES, seed=0):
    """Two random rows under the rules of IOB2."""
    generator = np.random.default_rng(seed)
    allowed = tags.allowed_transitions(names, "IOB2")
    transitions, start, end = (np.where(legal, 0.0, -np.inf) for legal in allowed)
    potentials = generator.normal(size=[2, steps, len(names)]) * 2
    return make(potentials, transitions, start=start, end=end, mask=mask)


def names_of(number):
    types = [f"TYPE{i}" for i in range(number)]
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BIES")][:number]


def texts(labels):
    return [label.get_text() for label in labels]


def labels_of(figure):
    axes = figure.axes[0]
    return texts(axes.get_yticklabels()), texts(axes.get_xticklabels())


def legend_of(figure):
    return texts(figure.legends[0].get_texts()) if figure.legends else []


def boxes(figure, label):
    """The places (row, column) of the boxes of a kind."""
    found = [x for x in figure.axes[0].collections if x.get_label() == label]
    corners = [path.get_extents().min + 0.5 for x in found for path in x.get_paths()]
    return sorted((round(y), round(x)) for x, y in corners)


def extents(artists, figure):
    figure.draw_without_rendering()
    return [artist.get_window_extent() for artist in artists]


def assert_readable(figure):
    """No tick labels of an axis lie on each other, none outside, none is too small."""
    axes = figure.axes[0]
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert all(label.get_fontsize() >= 8 for label in labels)
        shown = extents(labels, figure)
        if labels[0].get_rotation() in (0, 90):
            assert not any(one.overlaps(other) for one, other in itertools.pairwise(shown))
        assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in shown)
        assert all(figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1 for box in shown)
    assert all(text.get_fontsize() >= 6 for text in axes.texts)
    if figure.legends:
        (legend,) = extents(figure.legends, figure)
        assert figure.bbox.x0 <= legend.x0
        assert legend.x1 <= figure.bbox.x1


class TestTransitions:
    SCORES = np.array([[1.0, 0.5, -np.inf], [-2.0, 0, 1.5], [0.25, -0.04, 12.0]])
    START, END = np.array([0.1, 0.2, -np.inf]), np.array([0.3, 0.4, 0.5])

    def test_shows_scores_names_and_what_is_forbidden(self):
        figure = plot.transitions(self.SCORES, NAMES)
        axes = figure.axes[0]
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("from", "to")
        assert figure.axes[1].get_ylabel() == "score"
        assert labels_of(figure) == (NAMES, NAMES)
        assert boxes(figure, "forbidden") == [(0, 2)]
        assert legend_of(figure) == ["forbidden"]
        numbers = {text.get_position()[::-1]: text.get_text() for text in axes.texts}
        assert len(numbers) == 8
        assert (numbers[1, 0], numbers[2, 1], numbers[2, 2]) == ("-2.0", "0.0", "12.0")

    def test_is_white_at_0_and_as_red_as_it_is_blue(self):
        image = plot.transitions(self.SCORES).axes[0].images[0]
        assert image.get_clim() == (-12, 12)
        assert plot.transitions(np.zeros([2, 2])).axes[0].images[0].get_clim() == (-1, 1)

    def test_start_is_a_row_above_and_end_a_column_behind(self):
        figure = plot.transitions(self.SCORES, NAMES, self.START, self.END)
        assert labels_of(figure) == (["(start)", *NAMES], [*NAMES, "(end)"])
        assert boxes(figure, "forbidden") == [(0, 2), (1, 2)]
        assert len(figure.axes[0].texts) == 16 - 2 - 1  # none where start meets end
        shown = figure.axes[0].images[0].get_array()
        np.testing.assert_array_equal(shown[0, :2], self.START[:2])
        np.testing.assert_array_equal(shown[1:, 3], self.END)
        assert labels_of(plot.transitions(self.SCORES, NAMES, end=self.END))[0] == NAMES
        assert labels_of(plot.transitions(self.SCORES, NAMES, self.START))[1] == NAMES

    def test_without_names_there_are_ids_and_without_bans_no_legend(self):
        figure = plot.transitions([[0.0, 1.0], [2.0, 3.0]])
        assert labels_of(figure) == (["0", "1"], ["0", "1"])
        assert legend_of(figure) == []

    @pytest.mark.parametrize("multiplier", [1.0, 10.0])
    def test_of_a_layer_are_the_scores_as_they_are_used(self, multiplier):
        layer = CRFLayer(3, tag_names=NAMES, lr_multiplier=multiplier)
        layer.build([None, None, 4])
        for weight, values in ((layer.start, [0, 1, 2]), (layer.transitions, np.eye(3) * 4)):
            weight.assign(np.array(values) / multiplier)
        figure = plot.transitions(layer)
        assert labels_of(figure) == (["(start)", *NAMES], [*NAMES, "(end)"])
        shown = figure.axes[0].images[0].get_array()
        np.testing.assert_allclose(shown[1:, :3], np.eye(3) * 4, rtol=1e-6)
        np.testing.assert_allclose(shown[0, :3], [0, 1, 2], rtol=1e-6)

    def test_of_a_layer_without_boundary_are_a_square(self):
        layer = CRFLayer(2, use_kernel=False, use_boundary=False)
        layer.build([None, None, 2])
        assert labels_of(plot.transitions(layer, ["a", "b"])) == (["a", "b"], ["a", "b"])

    @pytest.mark.parametrize("size", [1, 3, 12, 25, 41])
    def test_can_be_read_at_every_size(self, size):
        scores = np.random.default_rng(0).normal(size=[size, size]) * 15
        scores[:, size // 2 :] = -np.inf if size > 1 else 1
        figure = plot.transitions(scores, names_of(size), np.zeros(size), np.zeros(size))
        assert_readable(figure)
        assert bool(figure.axes[0].texts) == (size < 25)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([np.zeros([2, 3])], r"transitions must have the shape \[K, K\]; got \[2, 3\]"),
            ([np.zeros([1, 2, 2])], r"shape \[K, K\]; got the shape \[1, 2, 2\]"),
            ([[[np.nan]]], "transitions must be finite, or -inf where forbidden; got nan"),
            ([[[np.inf]]], "got inf"),
            ([np.zeros([3, 3]), ["O"]], "tag_names must be 3, as many as the rows .*; got 1"),
            ([np.zeros([3, 3]), None, [0, 0]], "start must have a score for .* 3 tags; got 2"),
            ([np.zeros([3, 3]), None, None, 1.0], r"end must have the shape \[K\]; got .*\[\]"),
            ([CRFLayer(2)], r"no weights yet: .*layer\.build\(\[None, None, D\]\)"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_words(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            plot.transitions(*arguments)


class TestMarginals:
    VALUES = np.array([[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0, 0, 0], [0.3, 0.3, 0.4]])

    def test_shows_probabilities_words_and_tags(self):
        figure = plot.marginals(self.VALUES[:2], WORDS[:2], NAMES, [0, 1])
        axes = figure.axes[0]
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("tag", "word")
        assert figure.axes[1].get_ylabel() == "probability"
        assert labels_of(figure) == (NAMES, WORDS[:2])
        assert axes.images[0].get_clim() == (0, 1)
        np.testing.assert_array_equal(axes.images[0].get_array(), self.VALUES[:2].T)
        assert boxes(figure, "decoded") == [(0, 0), (1, 1)]
        assert legend_of(figure) == ["decoded"]

    @pytest.mark.parametrize("words", [["a", "b", "c", "d"], ["a", "b", "d"]])
    def test_dropped_steps_are_left_out(self, words):
        figure = plot.marginals(self.VALUES, words, NAMES, [0, 1, -100, 2])
        assert labels_of(figure)[1] == ["a", "b", "d"]
        assert boxes(figure, "decoded") == [(0, 0), (1, 1), (2, 2)]

    def test_without_names_there_are_numbers(self):
        figure = plot.marginals(self.VALUES)
        assert labels_of(figure) == (["0", "1", "2"], ["0", "1", "3"])
        assert figure.axes[0].get_xlabel() == "step"
        assert (boxes(figure, "decoded"), legend_of(figure)) == ([], [])

    @pytest.mark.parametrize(("steps", "size"), [(1, 2), (7, 3), (30, 9), (12, 41)])
    def test_can_be_read_at_every_size(self, steps, size):
        values = np.random.default_rng(0).dirichlet(np.ones(size), steps)
        words = [
            ("Donaudampfschifffahrtsgesellschaft", "$5", "an_x^2")[i % 3] for i in range(steps)
        ]
        figure = plot.marginals(values, words, names_of(size), values.argmax(1))
        assert_readable(figure)
        assert set(labels_of(figure)[1]) <= {"Donaudampfschifffahrtsg…", "$5", "an_x^2"}

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ([np.zeros([2, 3, 4])], r"marginals must have the shape \[T, K\], those of one sent"),
            ([[[2.0, -1.0]]], r"marginals must lie in 0\.\.1"),
            ([[[np.nan, 0.5]]], r"marginals must lie in 0\.\.1"),
            ([VALUES, ["a"]], "words must be 3, as many as the kept steps, or 4, .* all .*; got 1"),
            ([VALUES, None, ["O"]], "tag_names must be 3, .*columns of the marginals; got 1"),
            ([VALUES, None, None, [0, 1]], r"tags must be 4 tag ids.*got the shape \[2\]"),
            ([VALUES, None, None, np.zeros(4)], "float64"),
            ([VALUES, None, None, [0, 1, 0, 3]], r"tags must lie in 0\.\.2; got 3"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_words(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            plot.marginals(*arguments)


def paths_of(figure):
    lines = figure.axes[0].get_lines()
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in lines]


def circles_of(figure):
    is_scatter = matplotlib.collections.PathCollection
    return next(x for x in figure.axes[0].collections if isinstance(x, is_scatter))


def edges_of(figure):
    is_lines = matplotlib.collections.LineCollection
    return [x for x in figure.axes[0].collections if isinstance(x, is_lines)]


class TestTrellis:
    def test_shows_two_paths_and_how_probable_they_are(self):
        crf = distribution()
        figure = plot.trellis(crf, 1, WORDS, NAMES)
        axes, best = figure.axes[0], crf.top_k(2)
        assert (axes.get_ylabel(), axes.get_xlabel()) == ("tag", "word")
        assert labels_of(figure) == (NAMES, WORDS)
        assert figure.axes[1].get_ylabel() == "probability"
        assert paths_of(figure) == [(list(range(5)), list(path)) for path in best.tags[1]]
        p = np.exp(best.score[1] - crf.log_partition()[1])
        assert legend_of(figure) == [f"best path, p = {p[0]:.3g}", f"second best, p = {p[1]:.3g}"]

    def test_has_a_circle_for_each_tag_and_a_line_for_each_probable_move(self):
        crf = distribution()
        figure = plot.trellis(crf)
        shown = circles_of(figure)
        np.testing.assert_allclose(shown.get_array(), np.ravel(crf.marginals()[0]), atol=1e-6)
        np.testing.assert_array_equal(np.argsort(shown.get_sizes()), np.argsort(shown.get_array()))
        moves = {(t, i, j) for t, i, j in np.argwhere(crf.edge_marginals()[0].numpy() >= 0.005)}
        drawn = {
            (int(t), int(i), int(j))
            for lines in edges_of(figure)
            for (t, i), (_, j) in lines.get_segments()
        }
        assert drawn == moves
        assert (0, 2) not in {(i, j) for _, i, j in drawn}  # from O to I-PER

    @pytest.mark.parametrize("words", [["a", "b", "c", "d", "e"], ["a", "c", "d"]])
    def test_dropped_steps_are_left_out(self, words):
        mask = np.array([[True] * 5, [True, False, True, True, False]])
        crf, kept = distribution(mask=mask), [0, 2, 3]
        figure = plot.trellis(crf, 1, words, NAMES)
        assert labels_of(figure)[1] == ["a", "c", "d"]
        best = crf.top_k(2).tags[1]
        assert paths_of(figure) == [([0, 1, 2], list(path[kept])) for path in best]
        moves = crf.edge_marginals()[1].numpy()[[1, 2]]
        assert len(edges_of(figure)[0].get_segments()) == (moves >= 0.005).sum()
        assert labels_of(plot.trellis(crf, 1))[1] == ["0", "2", "3"]

    def test_one_step_and_one_path_are_drawn_too(self):
        assert len(paths_of(plot.trellis(distribution(steps=1)))) == 2
        one_path = plot.trellis(Listed(np.zeros([1, 3, 1]), [[0.0]]))
        assert paths_of(one_path) == [([0, 1, 2], [0, 0, 0])]
        assert legend_of(one_path) == ["best path, p = 1"]

    @pytest.mark.parametrize("steps", [1, 6])
    def test_can_be_read_at_every_size(self, steps):
        words = ["Donaudampfschifffahrtsgesellschaft"] * steps
        assert_readable(plot.trellis(distribution(steps), 0, words, NAMES))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"row": 2}, r"row must lie in 0\.\.1, those of the batch; got 2"),
            ({"row": -1}, "got -1"),
            ({"row": 1}, "row 1 keeps no steps"),
            ({"words": ["a"]}, "words must be 5, as many as the kept steps.*got 1"),
            ({"tag_names": ["a"]}, "tag_names must be 3, as many as the tags of the dist.*got 1"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_words(self, options, words):
        crf = distribution(mask=[[True] * 5, [False] * 5])
        with pytest.raises(ValueError, match=words):
            plot.trellis(crf, **options)

    def test_a_row_without_a_legal_path_is_refused(self):
        crf = Listed(np.zeros([1, 2, 1]), [[-np.inf]])
        with pytest.raises(ValueError, match="row 0 has no legal path"):
            plot.trellis(crf)

    @needs_top_k
    def test_is_the_same_by_the_distributions_own_top_k(self):
        listed, own = distribution(), distribution(make=LinearChainCRF)
        for row in range(2):
            figures = [plot.trellis(crf, row) for crf in (listed, own)]
            assert paths_of(figures[0]) == paths_of(figures[1])
            assert legend_of(figures[0]) == legend_of(figures[1])


def test_figures_are_of_their_own_and_no_pyplot_is_opened(tmp_path):
    figures = [
        plot.transitions(np.eye(2)),
        plot.marginals(np.eye(2)),
        plot.trellis(distribution(steps=2)),
    ]
    for place, figure in enumerate(figures):
        assert isinstance(figure, matplotlib.figure.Figure)
        figure.savefig(tmp_path / f"{place}.png")
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_without_matplotlib_an_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "keras-crf-layer\[plot\]"'):
        plot.transitions(np.eye(2))


def test_importing_the_library_imports_no_matplotlib():
    for path in pathlib.Path(plot.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "matplotlib" not in ast.unparse(node), path


def test_the_page_about_them_prints_what_it_says(capsys):
    page = (DOCS / "metrics-and-plots.md").read_text(encoding="utf-8")
    (code, output), *_ = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out == output


def test_the_pictures_of_the_docs_are_small_and_can_be_drawn_again(tmp_path, monkeypatch):
    if not hasattr(LinearChainCRF, "top_k"):
        monkeypatch.setattr(LinearChainCRF, "top_k", second_is_first, raising=False)
    runpy.run_path(str(DOCS / "figures.py"))["draw"](tmp_path)
    for name in ("transitions.png", "trellis.png"):
        assert (tmp_path / name).stat().st_size < 60_000
        assert (DOCS / name).stat().st_size < 60_000


def second_is_first(crf, k):
    best = crf.argmax()
    several = (np.stack([x] * k, axis=1) for x in (*best, crf.log_prob(best.tags)))
    return KBest(*several)
