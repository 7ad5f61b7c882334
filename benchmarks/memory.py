"""The memory of loss and gradients: it has to grow with B*T*K, and never with B*T*K*K.

    python benchmarks/memory.py [--batch 8] [--steps 1024]

For each K, in a fresh process: the peak of LinearChainCRF.log_prob and its gradients above what was
in use before the call. Small transitions take the scaled recurrence, transitions of up to 10,000
the exact one. Then the whole process of a CRFLayer with 1,000 tags in `fit`. Ends non-zero when
memory grows faster than K, or training takes more than 2 GB.

"jit" compiles in the call that is measured, which takes a few dozen MB at any K: what counts is the
slope of the line through the figures.
"""

import argparse
import json
import sys

import numpy as np
from measuring import (
    BYTES_OF_A_FLOAT,
    MEGABYTE,
    MODES,
    RETURN_FREED_MEMORY,
    TASKS,
    in_fresh_process,
    memory_of_first_call,
    peak_memory,
)

NUMBERS_OF_TAGS = (16, 32, 64, 128, 256)
SIZES = {"scaled": 1.0, "exact": 1e4}
TRAINING = {"batch": 8, "steps": 64, "number_of_tags": 1000}
MOST_BYTES_OF_TRAINING = 2e9
# How much more than four times the memory four times the tags may take.
MOST_GROWTH = 1.25


def measure_training(jit_compile, batch, steps, number_of_tags):
    """The peak bytes of the process that trains a model for two steps."""
    import keras

    import keras_crf

    layers = [keras.Input((None, 64)), keras_crf.CRFLayer(number_of_tags)]
    model = keras.Sequential(layers)
    model.compile("adam", loss=keras_crf.CRFLoss(), jit_compile=jit_compile)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2 * batch, steps, 64)).astype(np.float32)
    tags = rng.integers(0, number_of_tags, features.shape[:2])
    model.fit(features, tags, batch_size=batch, verbose=0)
    return peak_memory()


def extra_of(mode, kind, batch, steps, number_of_tags):
    """The extra bytes of loss and gradients, from a fresh process."""
    arguments = (mode, SIZES[kind], batch, steps, number_of_tags)
    return in_fresh_process(__file__, "--loss", *arguments, environment=RETURN_FREED_MEMORY)


def print_growth(mode, kind, batch, steps):
    """A line for each K; returns whether memory grew no faster than K."""
    print(f"\n{mode}, {kind} recurrence, B = {batch}, T = {steps}")
    print(f"{'K':>5} {'MB':>9} {'floats / BTK':>13} {'floats / BTKK':>14}")
    extras = {}
    for number_of_tags in NUMBERS_OF_TAGS:
        extra = extra_of(mode, kind, batch, steps, number_of_tags)
        floats = extra / BYTES_OF_A_FLOAT / (batch * steps * number_of_tags)
        per_square = floats / number_of_tags
        print(f"{number_of_tags:5} {extra / MEGABYTE:9.1f} {floats:13.1f} {per_square:14.3f}")
        sys.stdout.flush()
        extras[number_of_tags] = extra
    slope, constant = np.polyfit(list(extras), list(extras.values()), 1)
    floats = slope / BYTES_OF_A_FLOAT / (batch * steps)
    print(f"the line through these: {floats:.1f} floats * BTK + {constant / MEGABYTE:.1f} MB")
    return extras[256] <= MOST_GROWTH * 4 * extras[64]


def print_training():
    """The whole process of training with many tags; returns whether it stayed small enough."""
    print(f"\nfit with B = {TRAINING['batch']}, T = {TRAINING['steps']}, K = 1,000: whole process")
    met = True
    for jit_compile in ("auto", "False"):
        peak = in_fresh_process(__file__, "--training", jit_compile)
        met &= peak <= MOST_BYTES_OF_TRAINING
        print(f"jit_compile={jit_compile:6} {peak / MEGABYTE:6.0f} MB", flush=True)
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=1024)
    parser.add_argument("--loss", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--training", choices=("auto", "False"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loss:
        mode, size, *shape = options.loss
        extra = memory_of_first_call(TASKS[0], mode, float(size), *map(int, shape))
        print(json.dumps(extra))
        return 0
    if options.training:
        jit_compile = "auto" if options.training == "auto" else False
        print(json.dumps(measure_training(jit_compile, **TRAINING)))
        return 0
    pairs = [(mode, kind) for kind in SIZES for mode in MODES]
    met = [print_growth(mode, kind, options.batch, options.steps) for mode, kind in pairs]
    return 0 if all([*met, print_training()]) else 1


if __name__ == "__main__":
    sys.exit(main())
