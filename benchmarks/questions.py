"""What the questions to a distribution cost, beside those that every tagger asks.

    python benchmarks/questions.py [--rounds 15]

`marginals` beside loss + gradients, `top_k(5)` beside `argmax`, and `sample(100)` beside
`sample(1)`, which shares its one pass of messages. In turns, in one process; ends non-zero when a
ratio is above its limit.
"""

import argparse
import itertools
import statistics
import sys
import time

import numpy as np
from measuring import MODES, make_problem

SHAPES = [(32, 64, 9), (32, 128, 20)]
# (question, compared with, the most it may cost as a multiple)
LIMITS = [("marginals", "loss", 1.3), ("top_k(5)", "argmax", 8), ("sample(100)", "sample(1)", None)]


def make_questions(jit_compile):
    """The questions by name, functions of potentials, transitions, lengths and tags."""
    import tensorflow as tf

    import keras_crf

    def ask(question):
        def answer(potentials, transitions, lengths, tags):
            crf = keras_crf.LinearChainCRF(potentials, transitions, lengths=lengths)
            return question(crf, tags)

        return tf.function(answer, jit_compile=jit_compile)

    @tf.function(jit_compile=jit_compile)
    def loss(potentials, transitions, lengths, tags):
        with tf.GradientTape() as tape:
            tape.watch([potentials, transitions])
            crf = keras_crf.LinearChainCRF(potentials, transitions, lengths=lengths)
            value = -tf.reduce_sum(crf.log_prob(tags))
        return value, tape.gradient(value, [potentials, transitions])

    return {
        "loss": loss,
        "marginals": ask(lambda crf, tags: crf.marginals()),
        "argmax": ask(lambda crf, tags: crf.argmax()),
        "top_k(5)": ask(lambda crf, tags: crf.top_k(5)),
        "sample(1)": ask(lambda crf, tags: crf.sample(1, seed=0)),
        "sample(100)": ask(lambda crf, tags: crf.sample(100, seed=0)),
    }


def with_lengths(potentials, transitions, tags):
    """Arguments of the questions: the problem, with rows of T/2 to T steps."""
    batch, steps, _ = potentials.shape
    lengths = np.random.default_rng(1).integers(steps // 2, steps + 1, batch).astype(np.int32)
    return potentials, transitions, lengths, tags


def measure(questions, problem, rounds, calls=5):
    """Median milliseconds by question; a turn is a few calls in a row, of which the first is not
    counted."""
    import tensorflow as tf

    times = {name: [] for name in questions}
    for _, (name, question) in itertools.product(range(rounds + 1), questions.items()):
        turn = []
        for _ in range(calls + 1):
            begin = time.perf_counter()
            for tensor in tf.nest.flatten(question(*problem)):
                tensor.numpy()
            turn.append(1e3 * (time.perf_counter() - begin))
        times[name].append(statistics.median(turn[1:]))
    return {name: statistics.median(taken[1:]) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    met = True
    for shape, (mode, jit_compile) in itertools.product(SHAPES, MODES.items()):
        taken = measure(make_questions(jit_compile), with_lengths(*make_problem(*shape)), rounds)
        print(f"{shape!s:14} {mode:5}", "  ".join(f"{k} {v:.2f} ms" for k, v in taken.items()))
        for question, other, limit in LIMITS:
            ratio = taken[question] / taken[other]
            met &= limit is None or ratio <= limit
            print(f"    {question} / {other} {ratio:.2f}" + (f" (most {limit})" if limit else ""))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
