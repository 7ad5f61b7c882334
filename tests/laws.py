"""What holds for every distribution over tag sequences.

A test class inherits `Laws` and says which `scores` they are to hold for. All scores have one
shape, SHAPE, so that each regime is traced once and answers every law.
"""

import functools
import itertools
from types import MappingProxyType

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from oracle import Scores, all_paths
from regimes import ask, every_way

SHAPE = ROWS, STEPS, TAGS = 32, 5, 3  # 32 rows: one for each mask of 5 steps
EVERY_MASK = np.array(list(itertools.product([False, True], repeat=STEPS)))


def draw_scores(seed, size=1.0, forbidden=0.0):
    """Scores under every mask there is."""
    draw = functools.partial(draw_array, np.random.default_rng(seed), size, forbidden)
    return Scores(draw(SHAPE), draw([TAGS, TAGS]), draw([TAGS]), draw([TAGS]), EVERY_MASK)


def draw_array(random, size, forbidden, shape):
    """Normal scores, each -inf with the probability `forbidden`.

    They are whole eighths, whose sums are exact in float32: what ties in float64 ties there too.
    """
    scores = np.round(8 * size * random.normal(size=shape)) / 8
    return np.where(random.random(shape) < forbidden, -np.inf, scores)


def draw_tags(seed, shape=SHAPE):
    return np.random.default_rng(seed).integers(0, shape[2], shape[:2])


def assert_same_answers(actual, expected, tolerance):
    """All answers are equal; infinities and tags exactly, numbers to the relative `tolerance`."""
    for name, expectation in expected.items():
        parts = expectation if isinstance(expectation, (tuple, list)) else [expectation]
        answer = actual[name]
        answers = answer if isinstance(answer, (tuple, list)) else [answer]
        for one, other in zip(answers, parts, strict=True):
            assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=name)


@every_way
class Laws:
    """Inherit, and give `scores`; `tolerance` where they are so large that rounding shows."""

    scores = None
    tags = draw_tags(0)
    tolerance = MappingProxyType({"float32": 2e-5, "float64": 1e-11})

    def ask(self, regime, dtype, scores=None, tags=None):
        scores = self.scores if scores is None else scores
        return ask(regime, dtype, scores, self.tags if tags is None else tags)

    def test_the_probabilities_of_all_paths_sum_to_one(self, regime, dtype):
        paths = all_paths(3, TAGS)
        mask = EVERY_MASK.copy()
        mask[: len(paths)] = [True, False, True, True, False]
        tags = self.tags.copy()
        tags[: len(paths), mask[0]] = paths
        potentials = self.scores.potentials.copy()
        potentials[: len(paths)] = potentials[-1]
        scores = self.scores._replace(potentials=potentials, mask=mask)
        answers = self.ask(regime, dtype, scores, tags)
        assert answers["log_partition"][0] > -np.inf
        probabilities = np.exp(answers["log_prob"][: len(paths)])
        assert_allclose(probabilities.sum(), 1, atol=self.tolerance[dtype])

    def test_marginals_sum_to_one_at_each_kept_step(self, regime, dtype):
        answers = self.ask(regime, dtype)
        legal = answers["log_partition"] > -np.inf
        sums = answers["marginals"].sum(axis=-1)
        assert_allclose(sums, EVERY_MASK & legal[:, None], atol=self.tolerance[dtype])

    def test_the_margins_of_the_edge_marginals_are_the_marginals(self, regime, dtype):
        answers = self.ask(regime, dtype)
        marginals, edges = answers["marginals"], answers["edge_marginals"]
        for row, kept in enumerate(EVERY_MASK):
            for before, step in itertools.pairwise(np.flatnonzero(kept)):
                edge = edges[row, step - 1]
                assert_allclose(edge.sum(1), marginals[row, before], atol=self.tolerance[dtype])
                assert_allclose(edge.sum(0), marginals[row, step], atol=self.tolerance[dtype])

    def test_log_prob_is_score_less_log_partition(self, regime, dtype):
        answers = self.ask(regime, dtype)
        score, log_prob = answers["score"], answers["log_prob"]
        possible = score > -np.inf
        difference = score[possible] - answers["log_partition"][possible]
        rounding = self.tolerance[dtype] * np.maximum(1, np.abs(score[possible]).max(initial=0))
        assert_allclose(log_prob[possible], difference, atol=rounding, rtol=0)
        assert_array_equal(log_prob[~possible], -np.inf)

    def test_log_prob_is_never_above_zero(self, regime, dtype):
        assert np.all(self.ask(regime, dtype)["log_prob"] <= 0)

    def test_the_gradient_of_log_partition_is_what_is_expected(self, regime, dtype):
        answers = self.ask(regime, dtype)
        marginals = answers["marginals"]
        ends = [(row, *np.flatnonzero(kept)[[0, -1]]) for row, kept in enumerate(EVERY_MASK[1:], 1)]
        expected = (
            marginals,
            answers["edge_marginals"].sum(axis=(0, 1)),
            sum(marginals[row, first] for row, first, _ in ends),
            sum(marginals[row, last] for row, _, last in ends),
        )
        gradient = {"gradient": answers["partition_gradient"]}
        assert_same_answers(gradient, {"gradient": expected}, self.tolerance[dtype])

    def test_what_lies_on_dropped_steps_changes_nothing(self, regime, dtype):
        expected = self.ask(regime, dtype)
        for junk, label in ((1e30, -100), (np.nan, 99), (np.inf, -1), (-np.inf, TAGS)):
            potentials = np.where(EVERY_MASK[..., None], self.scores.potentials, junk)
            tags = np.where(EVERY_MASK, self.tags, label)
            answers = self.ask(regime, dtype, self.scores._replace(potentials=potentials), tags)
            assert_same_answers(answers, expected, 0)

    def test_the_gradient_on_dropped_steps_is_exactly_zero(self, regime, dtype):
        answers = self.ask(regime, dtype)
        assert np.all(answers["partition_gradient"][0][~EVERY_MASK] == 0)
        assert np.all(answers["log_prob_gradient"][0][~EVERY_MASK] == 0)

    def test_a_dropped_step_changes_nothing_wherever_it_stands(self, regime, dtype):
        """Rows 0..4 hold one chain of 4 steps, with a dropped step before, within or behind it."""
        mask = EVERY_MASK.copy()
        mask[:STEPS] = ~np.eye(STEPS, dtype=bool)
        potentials, tags = self.scores.potentials.copy(), self.tags.copy()
        for row in range(STEPS):
            potentials[row, mask[row]] = self.scores.potentials[-1, 1:]
            tags[row, mask[row]] = self.tags[-1, 1:]
        scores = self.scores._replace(potentials=potentials, mask=mask)
        answers = self.ask(regime, dtype, scores, tags)
        for name in ("score", "log_partition", "log_prob", "best_score"):
            of_rows = answers[name][:STEPS]
            assert_allclose(of_rows, np.repeat(of_rows[:1], STEPS), rtol=self.tolerance[dtype])
        for name in ("marginals", "forward_messages", "backward_messages", "best_tags"):
            of_rows = answers[name][:STEPS][mask[:STEPS]].reshape(STEPS, STEPS - 1, -1)
            expected = np.repeat(of_rows[:1], STEPS, axis=0)
            assert_allclose(
                of_rows, expected, rtol=self.tolerance[dtype], atol=self.tolerance[dtype]
            )

    def test_a_row_answers_alone_as_it_does_in_the_batch(self, regime, dtype):
        """All other rows are replaced: by empty ones, and by ones without a legal path."""
        expected = self.ask(regime, dtype)
        row = ROWS - 1
        for junk, kept in ((0.0, False), (-np.inf, True)):
            potentials, mask = np.full(SHAPE, junk), np.full((ROWS, STEPS), kept)
            potentials[row], mask[row] = self.scores.potentials[row], EVERY_MASK[row]
            scores = self.scores._replace(potentials=potentials, mask=mask)
            answers = self.ask(regime, dtype, scores)
            for name in ("score", "log_partition", "log_prob", "marginals", "best_tags"):
                rounding = 1e-6 if dtype == "float32" else 1e-13
                assert_allclose(answers[name][row], expected[name][row], rtol=rounding)

    def test_a_chain_read_from_the_right_is_the_same_chain(self, regime, dtype):
        potentials, transitions, start, end, mask = self.scores
        reverse = Scores(potentials[:, ::-1], transitions.T, end, start, mask[:, ::-1])
        tolerance = self.tolerance[dtype]
        forth = self.ask(regime, dtype)
        back = self.ask(regime, dtype, reverse, self.tags[:, ::-1])
        for name in ("score", "log_partition", "log_prob", "best_score"):
            assert_allclose(back[name], forth[name], rtol=tolerance, atol=tolerance)
        assert_allclose(back["marginals"][:, ::-1], forth["marginals"], atol=tolerance)
        alpha = back["backward_messages"][:, ::-1] + np.where(mask[..., None], potentials, 0)
        assert_allclose(alpha, forth["forward_messages"], rtol=tolerance, atol=tolerance)

    def test_a_constant_on_all_tags_of_a_step_changes_no_probability(self, regime, dtype):
        potentials = self.scores.potentials.copy()
        potentials[:, 2] += 8.0
        expected = self.ask(regime, dtype)
        answers = self.ask(regime, dtype, self.scores._replace(potentials=potentials))
        tolerance = self.tolerance[dtype]
        for name in ("log_prob", "marginals", "edge_marginals"):
            assert_allclose(answers[name], expected[name], rtol=tolerance, atol=tolerance)
        added = 8.0 * EVERY_MASK[:, 2]
        moved = expected["log_partition"] + added
        assert_allclose(answers["log_partition"], moved, rtol=tolerance, atol=tolerance)

    def test_the_best_score_is_the_score_of_the_best_tags(self, regime, dtype):
        best = self.ask(regime, dtype)
        legal = best["best_score"] > -np.inf
        again = self.ask(regime, dtype, tags=best["best_tags"])
        assert_array_equal(again["score"][legal], best["best_score"][legal])
        assert np.all(best["best_score"] >= best["score"])
        assert np.all(again["log_prob"][legal] >= best["log_prob"][legal] - self.tolerance[dtype])

    def test_every_regime_gives_the_same(self, regime, dtype):
        here, eagerly = self.ask(regime, dtype), self.ask("eager", dtype)
        assert_same_answers(here, eagerly, self.tolerance[dtype])
