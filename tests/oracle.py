"""The answers of a linear-chain CRF by listing all K^T paths, in NumPy float64.

Slow, and so short that it can be checked by eye. Rows are compressed to their kept steps first;
what lies on dropped steps is never read.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np


class Scores(NamedTuple):
    """The arrays that make a batch of chains."""

    potentials: np.ndarray  # [B, T, K]
    transitions: np.ndarray  # [K, K]
    start: np.ndarray  # [K]
    end: np.ndarray  # [K]
    mask: np.ndarray  # [B, T] bool


def logsumexp(scores):
    """log sum exp of all entries; -inf of none, and of nothing but -inf."""
    largest = np.max(scores, initial=-np.inf)
    if largest == -np.inf:
        return largest
    return largest + np.log(np.sum(np.exp(scores - largest)))


@functools.cache
def all_paths(steps, number_of_tags):
    """Every path, [K^steps, steps], ordered by the last tag, then the one before it, and so on."""
    paths = itertools.product(range(number_of_tags), repeat=steps)
    return np.array(list(paths), int).reshape(number_of_tags**steps, steps)[:, ::-1]


class Row:
    """One row without dropped steps: potentials [n, K]."""

    def __init__(self, potentials, transitions, start, end):
        self.potentials, self.transitions = potentials, transitions
        self.start, self.end = start, end
        self.paths = all_paths(*potentials.shape)
        self.scores = np.sum(np.add(*self.contributions(self.paths)), axis=-1)
        self.log_partition = logsumexp(self.scores)
        legal = self.log_partition > -np.inf
        relative = self.scores - self.log_partition if legal else np.full_like(self.scores, -np.inf)
        self.probabilities = np.exp(relative)

    def contributions(self, paths):
        """What each step's potential, and its arrival, give to paths [..., n]: two [..., n]."""
        steps = np.arange(len(self.potentials))
        arrivals = np.zeros(paths.shape)
        arrivals[..., :1] += self.start[paths[..., :1]]
        arrivals[..., 1:] += self.transitions[paths[..., :-1], paths[..., 1:]]
        arrivals[..., -1:] += self.end[paths[..., -1:]]
        return self.potentials[steps, paths], arrivals

    def marginal(self, step, tag):
        """p(y_step = tag)."""
        return self.probabilities[self.paths[:, step] == tag].sum()

    def edge_marginal(self, step, before, tag):
        """p(y_{step-1} = before, y_step = tag)."""
        used = (self.paths[:, step - 1] == before) & (self.paths[:, step] == tag)
        return self.probabilities[used].sum()

    def alpha(self, step, tag):
        """log of the summed exp(score) of the paths that end in `tag` at `step`."""
        upto = Row(
            self.potentials[: step + 1], self.transitions, self.start, np.zeros_like(self.end)
        )
        return logsumexp(upto.scores[upto.paths[:, step] == tag])

    def beta(self, step, tag):
        """log of the summed exp(score) of what may follow `tag` at `step`."""
        behind = Row(self.potentials[step + 1 :], self.transitions, self.transitions[tag], self.end)
        return logsumexp(behind.scores) if len(behind.potentials) else self.end[tag]


class Oracle:
    """`LinearChainCRF` by listing: the same questions, asked of NumPy arrays."""

    def __init__(self, potentials, transitions, start=None, end=None, mask=None):
        self.potentials = np.asarray(potentials, np.float64)
        self.shape = self.potentials.shape
        no_score = np.zeros(self.shape[2])
        self.mask = np.ones(self.shape[:2], bool) if mask is None else np.asarray(mask, bool)
        shared = (transitions, *(no_score if ends is None else ends for ends in (start, end)))
        self.shared = [np.asarray(scores, np.float64) for scores in shared]
        self.kept = [np.flatnonzero(kept) for kept in self.mask]
        pairs = zip(self.potentials, self.kept, strict=True)
        self.rows = [Row(potentials[kept], *self.shared) for potentials, kept in pairs]

    def _each_row(self, answer):
        """`answer(row, kept)` of each row that has steps, [B]; 0 for the others."""
        pairs = zip(self.rows, self.kept, strict=True)
        return np.array([answer(row, kept) if len(kept) else 0.0 for row, kept in pairs])

    def _each_tag(self, answer):
        """`answer(row, r, tag)` at the r-th kept step, [B, T, K]; 0 on dropped steps."""
        values = np.zeros(self.shape)
        for place in np.ndindex(self.shape):
            row, step, tag = place
            if self.mask[row, step]:
                values[place] = answer(self.rows[row], self._rank(row, step), tag)
        return values

    def _rank(self, row, step):
        return int(self.mask[row, :step].sum())

    def log_partition(self):
        return self._each_row(lambda row, kept: row.log_partition)

    def score(self, tags):
        return np.sum(np.add(*self.contributions(tags)), axis=1)

    def log_prob(self, tags):
        score = self.score(tags)
        log_partition = self.log_partition()
        forbidden = score == -np.inf
        return np.where(forbidden, -np.inf, score - np.where(forbidden, 0, log_partition))

    def contributions(self, tags):
        parts = np.zeros((2, *self.shape[:2]))
        for part, row, kept, path in zip(
            np.moveaxis(parts, 1, 0), self.rows, self.kept, np.asarray(tags), strict=True
        ):
            part[:, kept] = row.contributions(path[kept])
        return tuple(parts)

    def marginals(self):
        return self._each_tag(Row.marginal)

    def edge_marginals(self):
        """The edge into kept step t stands at index t-1, whatever was dropped before it."""
        rows, steps, tags = self.shape
        edges = np.zeros((rows, max(steps - 1, 0), tags, tags))
        for place in np.ndindex(edges.shape):
            row, step, before, tag = place
            rank = self._rank(row, step + 1)
            if self.mask[row, step + 1] and rank > 0:
                edges[place] = self.rows[row].edge_marginal(rank, before, tag)
        return edges

    def forward_messages(self):
        return self._each_tag(Row.alpha)

    def backward_messages(self):
        return self._each_tag(Row.beta)

    def argmax(self):
        """The best tags [B, T] (the lowest last tag, then the one before it, ...), and scores."""
        tags = np.zeros(self.shape[:2], int)
        for row, kept, path in zip(self.rows, self.kept, tags, strict=True):
            path[kept] = row.paths[np.argmax(row.scores)]
        return tags, self._each_row(lambda row, kept: row.scores.max())

    def expected_counts(self, weights=1.0):
        """The gradient of sum(weights * log_partition): of potentials, transitions, start, end."""
        weights = np.broadcast_to(weights, self.shape[:1])
        return self._counts(
            self.marginals() * weights[:, None, None],
            self.edge_marginals() * weights[:, None, None, None],
        )

    def observed_counts(self, tags, weights=1.0):
        """The gradient of sum(weights * score(tags))."""
        rows, steps, number_of_tags = self.shape
        weights = np.broadcast_to(weights, self.shape[:1])
        uses = np.eye(number_of_tags)[np.where(self.mask, tags, 0)] * self.mask[..., None]
        edges = np.zeros((rows, max(steps - 1, 0), number_of_tags, number_of_tags))
        for row, kept in enumerate(self.kept):
            for before, step in itertools.pairwise(kept):
                edges[row, step - 1] = np.outer(uses[row, before], uses[row, step])
        return self._counts(uses * weights[:, None, None], edges * weights[:, None, None, None])

    def _counts(self, uses, edges):
        ends = np.zeros((2, self.shape[2]))
        for row, kept in enumerate(self.kept):
            if len(kept):
                ends += uses[row, kept[[0, -1]]]
        return uses, edges.sum(axis=(0, 1)), *ends

    def log_prob_gradient(self, tags, weights=1.0):
        """The gradient of sum(weights * log_prob(tags))."""
        pairs = zip(self.observed_counts(tags, weights), self.expected_counts(weights), strict=True)
        return tuple(observed - expected for observed, expected in pairs)

    def allowed_log_prob(self, allowed):
        """log of the probability that each kept step's tag lies in its set, [B]."""
        log_probs = np.zeros(len(self.mask))
        for index, (row, kept) in enumerate(zip(self.rows, self.kept, strict=True)):
            agree = allowed[index, kept][np.arange(len(kept)), row.paths].all(axis=1)
            if len(kept):
                log_probs[index] = logsumexp(row.scores[agree]) - row.log_partition
        return log_probs

    def allowed_counts(self, allowed):
        """The gradient of the sum of `allowed_log_prob` with respect to potentials, [B, T, K]."""
        shut = np.where(allowed, self.potentials, -np.inf)
        return Oracle(shut, *self.shared, self.mask).marginals() - self.marginals()

    def top_k(self, k):
        """The k best legal paths, tags [B, k, T] and scores [B, k] (-inf where there are fewer).

        Of equal paths the one with the lowest last tag first, then the one before it, ...
        """
        rows, steps, _ = self.shape
        tags, scores = np.zeros((rows, k, steps), int), np.full((rows, k), -np.inf)
        for row, kept, paths, score in zip(self.rows, self.kept, tags, scores, strict=True):
            best = np.argsort(-row.scores, kind="stable")[: min(k, np.sum(row.scores > -np.inf))]
            paths[: len(best), kept] = row.paths[best]
            score[: len(best)] = row.scores[best]
        return tags, scores

    def expected_accuracy(self, tags):
        """sum_t p(y_t) of each row's path, [B]."""
        marginals = np.take_along_axis(self.marginals(), np.asarray(tags)[..., None], axis=2)
        return np.where(self.mask, marginals[..., 0], 0).sum(axis=1)

    def best_expected_accuracy(self):
        """The largest `expected_accuracy` of the legal paths, [B]; 0 where there is none."""

        def best(row, kept):
            places = [
                [row.marginal(step, tag) for tag in range(self.shape[2])]
                for step in range(len(kept))
            ]
            accuracy = np.array(places)[np.arange(len(kept)), row.paths].sum(axis=1)
            return accuracy[row.scores > -np.inf].max(initial=0)

        return self._each_row(best)


# What follows compares two distributions, or asks about parts of paths.


def _log(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def _times(probabilities, numbers):
    """Their products, with 0 * inf = 0."""
    return probabilities * np.where(probabilities > 0, numbers, 0)


def information(this, other):
    """(entropy, cross_entropy, kl_divergence), [B] each, of two oracles with the same mask."""
    answers = np.zeros((3, len(this.rows)))
    for answer, row, other_row, kept in zip(
        answers.T, this.rows, other.rows, this.kept, strict=True
    ):
        if len(kept):
            p, log_p, log_q = (
                row.probabilities,
                _log(row.probabilities),
                _log(other_row.probabilities),
            )
            surprises = -log_p, -log_q, np.where(p > 0, log_p, 0) - log_q
            answer[:] = [_times(p, surprise).sum() for surprise in surprises]
    return answers


def information_gradients(this, other, weights):
    """The gradients of sums weighted by row: of the entropy for the scores of `this`; of
    cross_entropy and of kl_divergence for those of `this`, and (for both alike) of `other`.

    With s(y) = score(y) - E[score] and the values g(y) that are averaged, d E[g] / d score(y) =
    p(y) (g(y) - E[g]), and of -log q(y) it is q(y) - p(y).
    """
    totals = [[np.zeros_like(part) for part in (this.potentials, *this.shared)] for _ in range(4)]
    for index, kept in enumerate(this.kept):
        if len(kept):
            row, q = this.rows[index], other.rows[index].probabilities
            p = row.probabilities
            values = _log(p) * -1, _log(q) * -1, np.where(p > 0, _log(p), 0) - _log(q)
            slopes = [_times(p, value - _times(p, value).sum()) for value in values]
            for total, slope in zip(totals, [*slopes, q - p], strict=True):
                _add_uses(total, row, kept, index, slope * weights[index])
    return totals


def _add_uses(total, row, kept, index, amounts):
    """Adds to potentials, transitions, start and end the `amounts` of the paths that use them."""
    potentials, transitions, start, end = total
    for path, amount in zip(row.paths, amounts, strict=True):
        potentials[index, kept, path] += amount
        np.add.at(transitions, (path[:-1], path[1:]), amount)
        start[path[0]] += amount
        end[path[-1]] += amount


def subpath_log_prob(this, rows, starts, tags, lengths):
    """log of the summed probabilities of the paths with these tags at these kept steps, [N]."""
    answers = np.zeros(len(rows))
    for index, (row, start, path, length) in enumerate(
        zip(rows, starts, tags, lengths, strict=True)
    ):
        if length:
            first = this._rank(row, start)
            own = this.rows[row]
            carried = own.paths[:, first : first + length] == path[:length]
            answers[index] = _log(own.probabilities[carried.all(axis=1)].sum())
    return answers
