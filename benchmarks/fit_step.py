"""What a CRF costs in `fit`: a BiLSTM tagger with a CRF against the same one with softmax.

    python benchmarks/fit_step.py [--rounds 15] [--steps 5]

Both models train on the same padded batches, in turns, through the train function that `fit` calls.
Once as `compile` sets them up by itself and once with jit_compile=False. Ends non-zero when a step
with the CRF takes more than 1.25 times as long, by the medians.
"""

import argparse
import statistics
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import keras_crf

BATCH, STEPS, TAGS, WORDS, UNITS = 32, 64, 9, 10_000, 64
MOST_TIMES_SOFTMAX = 1.25


def make_batches(count):
    """Word ids and tag ids, both [count, B, T]; rows of T/2 to T words, padded with 0."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(STEPS // 2, STEPS + 1, (count, BATCH, 1))
    kept = np.arange(STEPS) < lengths
    words = np.where(kept, rng.integers(1, WORDS, kept.shape), 0)
    tags = np.where(kept, rng.integers(0, TAGS, kept.shape), 0)
    return words.astype(np.int32), tags.astype(np.int32)


def tagger(last_layer, loss, jit_compile):
    """A compiled BiLSTM tagger that ends in `last_layer`."""
    keras.utils.set_random_seed(0)
    bilstm = keras.layers.Bidirectional(keras.layers.LSTM(UNITS, return_sequences=True))
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(WORDS, UNITS, mask_zero=True),
            bilstm,
            last_layer,
        ]
    )
    model.compile("adam", loss=loss, jit_compile=jit_compile)
    return model


def models(jit_compile):
    softmax = keras.layers.Dense(TAGS, activation="softmax")
    cross_entropy = keras.losses.SparseCategoricalCrossentropy()
    return {
        "softmax": tagger(softmax, cross_entropy, jit_compile),
        "CRF": tagger(keras_crf.CRFLayer(TAGS), keras_crf.CRFLoss(), jit_compile),
    }


def stepper(model, batches):
    """A function that trains for some steps, and gives the milliseconds of one."""
    words, tags = batches
    model.train_on_batch(words[0], tags[0])  # builds what fit would build
    endless = iter(tf.data.Dataset.from_tensor_slices(batches).repeat())

    def milliseconds(steps):
        begin = time.perf_counter()
        for _ in range(steps):
            logs = model.train_function(endless)
        float(logs["loss"])  # the step is over when its loss is known
        return 1e3 * (time.perf_counter() - begin) / steps

    return milliseconds


def measure(jit_compile, rounds, steps):
    """Median milliseconds of a step, by model, the models taking turns."""
    batches = make_batches(steps)
    steppers = {name: stepper(model, batches) for name, model in models(jit_compile).items()}
    times = {name: [] for name in steppers}
    for number in range(rounds + 1):
        for name, milliseconds in steppers.items():
            taken = milliseconds(steps)
            if number > 0:  # the first round traces and compiles
                times[name].append(taken)
    return {name: statistics.median(taken) for name, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5)
    options = parser.parse_args()
    print(f"milliseconds of a fit step, (B, T, K) = ({BATCH}, {STEPS}, {TAGS}), medians")
    met = True
    for jit_compile in ("auto", False):
        medians = measure(jit_compile, options.rounds, options.steps)
        ratio = medians["CRF"] / medians["softmax"]
        met &= ratio <= MOST_TIMES_SOFTMAX
        row = "  ".join(f"{name} {taken:7.2f}" for name, taken in medians.items())
        print(f"jit_compile={jit_compile!s:6} {row}  ratio {ratio:.2f} (most {MOST_TIMES_SOFTMAX})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
