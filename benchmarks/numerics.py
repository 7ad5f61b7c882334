"""How many digits LinearChainCRF keeps: its float32 results against float64.

    python benchmarks/numerics.py [--most-steps 100000]

The contract for scores of up to 1e4 in size and rows of up to 100,000 steps is

    |log_prob - right| <= 1e-5 (1 + |right|)        log_prob <= 1e-6

What is right is computed here, step by step, in NumPy's float64, from the same float32 scores; the
library's own float64 has to agree with it. Prints the tables of docs/numerics.md. If a case misses
the contract, it is named, and the command ends non-zero.
"""

import argparse
import math
import sys
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_crf import LinearChainCRF

ROWS = 4
STEPS = (1, 10, 100, 1_000, 10_000, 100_000)
BOUND = 1e-5
HIGHEST = 1e-6
FLOAT64_BOUND = 1e-10


class Problem(NamedTuple):
    """Scores of a batch, in float32."""

    potentials: np.ndarray  # [B, T, K]
    transitions: np.ndarray  # [K, K]


class Errors(NamedTuple):
    """The largest errors of a batch; the first four in parts of 1 + |right|."""

    random_path: float  # log_prob of a random path
    best_path: float  # log_prob of the best path
    float64: float  # log_prob of either, by the library in float64
    log_partition: float
    marginals: float  # absolute
    highest: float  # the highest log_prob

    @property
    def log_prob(self):
        """The larger error of the two paths."""
        return max(self.random_path, self.best_path)


def uniform(size):
    """Scores between -size and size, each independent of all others."""

    def make(rng, steps, number_of_tags):
        potentials = rng.uniform(-size, size, (ROWS, steps, number_of_tags))
        return potentials, rng.uniform(-size, size, (number_of_tags, number_of_tags))

    return make


def normal(rng, steps, number_of_tags):
    """Scores as a fresh model has them."""
    potentials = rng.normal(size=(ROWS, steps, number_of_tags))
    return potentials, rng.normal(size=(number_of_tags, number_of_tags))


def peaked(rng, steps, number_of_tags):
    """Scores as a well-trained model has them: one path leads by 10 to 30 at each step."""
    potentials, transitions = normal(rng, steps, number_of_tags)
    tags = rng.integers(0, number_of_tags, (ROWS, steps, 1))
    lead = rng.uniform(10, 30, (ROWS, steps, 1))
    np.put_along_axis(potentials, tags, np.take_along_axis(potentials, tags, 2) + lead, axis=2)
    return potentials, transitions


def tied(rng, steps, number_of_tags):
    """All paths equally good."""
    return np.zeros((ROWS, steps, number_of_tags)), np.zeros((number_of_tags, number_of_tags))


def two_paths(rng, steps, number_of_tags):
    """Tags 0 and 1 equally good at each step, and dear to change: two paths share the row."""
    potentials, _ = tied(rng, steps, number_of_tags)
    potentials[:, :, 2:] = -20
    return potentials, staying(number_of_tags, -20)


def parallel_paths(size, change):
    """Each tag has the same scores in another order, and never changes: K paths end in a tie."""

    def make(rng, steps, number_of_tags):
        scores = size * rng.normal(size=(ROWS, steps, 1)).astype(np.float32)
        potentials = rng.permuted(np.repeat(scores, number_of_tags, axis=2), axis=1)
        return potentials, staying(number_of_tags, change)

    return make


def large_and_staying(rng, steps, number_of_tags):
    """Large potentials, and tags that are as dear to change."""
    return uniform(1e4)(rng, steps, number_of_tags)[0], staying(number_of_tags, -1e4)


def staying(number_of_tags, change):
    """Transitions that cost nothing from a tag to itself, and `change` to any other."""
    return np.where(np.eye(number_of_tags), 0.0, change)


SCORES = {
    "N(0, 1)": normal,
    "up to 100": uniform(1e2),
    "up to 10,000": uniform(1e4),
    "one path leads by 10 to 30": peaked,
    "all zero": tied,
    "two equal paths": two_paths,
    "parallel paths, N(0, 0.1), changes cost 80": parallel_paths(0.1, -80),
    "parallel paths, N(0, 1), changes cost 10,000": parallel_paths(1, -1e4),
    "up to 10,000, changes cost 10,000": large_and_staying,
}
CASES = [(name, 5, STEPS) for name in SCORES] + [
    (name, number_of_tags, STEPS[:4])
    for number_of_tags in (2, 20)
    for name in ("N(0, 1)", "up to 10,000", "one path leads by 10 to 30")
]


def make_problem(name, steps, number_of_tags):
    scores = SCORES[name](np.random.default_rng(steps), steps, number_of_tags)
    return Problem(*(values.astype(np.float32) for values in scores))


def logsumexp(scores, axis):
    largest = scores.max(axis=axis, keepdims=True)
    return np.log(np.exp(scores - largest).sum(axis=axis)) + largest.squeeze(axis)


def forward(potentials, transitions):
    """log alpha less its largest at each step [B, T, K], and what was taken off [B, T]."""
    alphas, largest = np.empty_like(potentials), np.empty(potentials.shape[:2])
    alpha = potentials[:, 0]
    for step in range(potentials.shape[1]):
        if step > 0:
            arriving = logsumexp(alpha[:, :, np.newaxis] + transitions, axis=1)
            alpha = potentials[:, step] + arriving
        largest[:, step] = alpha.max(axis=-1)
        alpha = alpha - largest[:, step, np.newaxis]
        alphas[:, step] = alpha
    return alphas, largest


def log_partition(potentials, transitions):
    alphas, largest = forward(potentials, transitions)
    scales = np.array([math.fsum(row) for row in largest])
    return scales + logsumexp(alphas[:, -1], axis=-1)


def marginals(potentials, transitions):
    from_left, _ = forward(potentials, transitions)
    from_right, _ = forward(potentials[:, ::-1], transitions.T)
    scores = from_left + from_right[:, ::-1] - potentials
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def log_prob(potentials, transitions, tags):
    """log p(tags), [B]: less log_partition, of scores from which those of the path were taken.

    A path's score is then what it leads the path `tags` by, and that path's own is 0: there is no
    difference of two large numbers to lose digits in.
    """
    path = np.take_along_axis(potentials, tags[:, :, np.newaxis], 2)[:, :, 0]
    path[:, 1:] += transitions[tags[:, :-1], tags[:, 1:]]
    return -log_partition(potentials - path[:, :, np.newaxis], transitions)


def best_path(potentials, transitions):
    """Viterbi, [B, T]."""
    best, _ = _best_scores(potentials, transitions)
    tags = np.empty(potentials.shape[:2], int)
    behind = np.zeros_like(best[:, 0])
    for step in reversed(range(potentials.shape[1])):
        tags[:, step] = (best[:, step] + behind).argmax(axis=-1)
        behind = transitions.T[tags[:, step]]
    return tags


def _best_scores(potentials, transitions):
    """The forward recurrence with max in place of logsumexp."""
    best = np.empty_like(potentials)
    arriving = np.zeros_like(best[:, 0])
    for step in range(potentials.shape[1]):
        score = potentials[:, step] + arriving
        best[:, step] = score - score.max(axis=-1, keepdims=True)
        arriving = (best[:, step, :, np.newaxis] + transitions).max(axis=1)
    return best, arriving


def relative_error(found, right):
    """The largest error, in parts of 1 + |right|; infinite if anything is NaN."""
    errors = np.abs(found.numpy().astype(np.float64) - right) / (1 + np.abs(right))
    return np.nan_to_num(errors, nan=np.inf).max()


def measure(problem):
    """The `Errors` of a problem."""
    scores = [values.astype(np.float64) for values in problem]
    number_of_tags = problem.transitions.shape[0]
    random_path = np.random.default_rng(0).integers(0, number_of_tags, problem.potentials.shape[:2])
    paths = [random_path, best_path(*scores)]
    right = [log_prob(*scores, tags) for tags in paths]
    single = LinearChainCRF(*problem)
    double = LinearChainCRF(*(tf.constant(values) for values in scores))
    found = [single.log_prob(tags) for tags in paths]
    in_float64 = [double.log_prob(tags) for tags in paths]
    return Errors(
        *map(relative_error, found, right),
        float64=max(map(relative_error, in_float64, right)),
        log_partition=relative_error(single.log_partition(), log_partition(*scores)),
        marginals=np.abs(single.marginals().numpy() - marginals(*scores)).max(),
        highest=max(values.numpy().max() for values in found),
    )


def measure_all(most_steps):
    """The `Errors` of all cases, by (name, K) and T."""
    measured = {}
    for name, number_of_tags, all_steps in CASES:
        for steps in all_steps:
            if steps <= most_steps:
                problem = make_problem(name, steps, number_of_tags)
                measured.setdefault((name, number_of_tags), {})[steps] = measure(problem)
                print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    return measured


def print_table(title, measured, field):
    """A Markdown table of one field: a line for each case, a column for each T."""
    print(f"\n{title}\n")
    print("| scores | K | " + " | ".join(f"T = {steps:,}" for steps in STEPS) + " |")
    print("|---|---|" + "---|" * len(STEPS))
    for (name, number_of_tags), by_steps in measured.items():
        cells = [_cell(by_steps.get(steps), field) for steps in STEPS]
        print(f"| {name} | {number_of_tags} | " + " | ".join(cells) + " |")


def _cell(errors, field):
    return "" if errors is None else f"{getattr(errors, field):.0e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most-steps", type=int, default=STEPS[-1])
    measured = measure_all(parser.parse_args().most_steps)
    for title, field in {
        "log_prob of a random path: error / (1 + |log_prob|)": "random_path",
        "log_prob of the best path: error / (1 + |log_prob|)": "best_path",
        "log_partition: error / (1 + |log_partition|)": "log_partition",
        "marginals: the largest absolute error": "marginals",
    }.items():
        print_table(title, measured, field)
    return judge(measured)


def judge(measured):
    """Prints what misses the contract, and the worst of everything; 0 if it holds."""
    held = True
    print()
    for (name, number_of_tags), by_steps in measured.items():
        for steps, errors in by_steps.items():
            if errors.log_prob > BOUND:
                print(
                    f"missed at {errors.log_prob:.0e}: {name}, K = {number_of_tags}, T = {steps:,}"
                )
            held &= errors.log_prob <= BOUND
            held &= errors.highest <= HIGHEST and errors.float64 <= FLOAT64_BOUND
    all_errors = [errors for by_steps in measured.values() for errors in by_steps.values()]
    highest = max(errors.highest for errors in all_errors)
    float64 = max(errors.float64 for errors in all_errors)
    print(f"the highest log_prob of all: {highest:.0e} (allowed {HIGHEST:.0e})")
    print(f"the largest error in float64: {float64:.0e} (allowed {FLOAT64_BOUND:.0e})")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
