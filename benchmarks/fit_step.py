"""What a CRF costs in `fit`: a BiLSTM tagger with a CRF against the same one with softmax.

    python benchmarks/fit_step.py [--rounds 15] [--steps 5]

The models train on the same padded batches, in turns, through the train function that `fit` calls.
Once as `compile` sets them up by itself and once with jit_compile=False. Ends non-zero when, by the
medians, a step with the CRF takes more than 1.25 times as long as with softmax, or one with the
rules of a tag scheme more than 1.05 times as long as without.
"""

import argparse
import statistics
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import keras_crf

BATCH, STEPS, WORDS, UNITS = 32, 64, 10_000, 64
TAG_NAMES = ["O", *(f"{prefix}-{type_}" for type_ in "WXYZ" for prefix in "BI")]
TAGS = len(TAG_NAMES)
# model -> (the one it is compared with, the most times as long a step of it may take)
LIMITS = {"CRF": ("softmax", 1.25), "CRF + BIO": ("CRF", 1.05)}


def make_batches(count):
    """Word ids and ids of legal tags, [count, B, T]; rows of T/2 to T words, padded with 0."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(STEPS // 2, STEPS + 1, (count, BATCH, 1))
    kept = np.arange(STEPS) < lengths
    words = np.where(kept, rng.integers(1, WORDS, kept.shape), 0)
    tags = rng.integers(0, TAGS, kept.shape)
    for step in range(STEPS):  # ids of B- are odd, and that of its I- is the next
        before = tags[..., step - 1] if step else np.zeros_like(tags[..., 0])
        now = tags[..., step]
        broken = (now > 0) & (now % 2 == 0) & (before != now) & (before != now - 1)
        tags[..., step] -= broken
    tags = np.where(kept, tags, 0)
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
        "CRF + BIO": tagger(
            keras_crf.CRFLayer(TAGS, tag_names=TAG_NAMES, scheme="BIO"),
            keras_crf.CRFLoss(),
            jit_compile,
        ),
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
        row = "  ".join(f"{name} {taken:7.2f}" for name, taken in medians.items())
        print(f"jit_compile={jit_compile!s:6} {row}")
        for name, (other, most) in LIMITS.items():
            ratio = medians[name] / medians[other]
            met &= ratio <= most
            print(f"    {name} / {other}: {ratio:.2f} (most {most})")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
