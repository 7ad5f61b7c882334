"""What a CRF costs when it is served: an export with it against the same model with softmax.

    python benchmarks/serving_latency.py [--directory build/bench/serving] [--turns 40] [--calls 25]

A BiLSTM(64) tagger with 13 tags is exported twice, with a CRF by `export_tagger`, and with softmax
(its outputs: the most probable tag of each step, and its probability). A C program loads both by
TensorFlow's C API and sends sentences of 30 tokens, to both in turns. Ends non-zero when, by the
medians, the CRF adds more than 35 % to one sentence or 15 % to a batch of 64.
"""

import argparse
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

import keras_crf

HERE = pathlib.Path(__file__).parent
CLIENT = HERE.parent / "savedmodel_demo" / "c_client"
STEPS, WORDS, UNITS, TAGS = 30, 10_000, 64, 13
MOST_ADDED = {1: 0.35, 64: 0.15}  # by batch size
KINDS = ("softmax", "CRF")


def tagger(last_layer):
    keras.utils.set_random_seed(0)
    bilstm = keras.layers.Bidirectional(keras.layers.LSTM(UNITS, return_sequences=True))
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32", name="words"),
            keras.layers.Embedding(WORDS, UNITS, mask_zero=True),
            bilstm,
            last_layer,
        ]
    )


def export_softmax(model, directory):
    def tagged(inputs):
        probabilities = model(inputs["words"], training=False)
        return {
            "tag_ids": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
            "confidence": tf.reduce_max(probabilities, axis=-1),
        }

    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = {"words": tf.TensorSpec([None, None], tf.int32, name="words")}
    archive.add_endpoint("serving_default", tagged, input_signature=[signature])
    archive.write_out(str(directory), verbose=False)


def export_both(directory):
    softmax, crf = (directory / kind / "1" for kind in KINDS)
    export_softmax(tagger(keras.layers.Dense(TAGS, activation="softmax")), softmax)
    keras_crf.export_tagger(tagger(keras_crf.CRFLayer(TAGS)), crf, overwrite=True)
    return [softmax, crf]


def build(directory):
    program = directory / "serving_latency"
    library = tf.sysconfig.get_lib()
    sources = [HERE / "serving_latency.c", CLIENT / "saved_model.c"]
    includes = [f"-I{tf.sysconfig.get_include()}", f"-I{CLIENT}"]
    libraries = [f"-L{library}", f"-Wl,-rpath,{library}"]
    libraries += [f"-l:libtensorflow_{part}.so.2" for part in ("cc", "framework")]
    command = ["cc", "-std=c11", "-O2", *includes, *sources, "-o", program, *libraries]
    subprocess.run(command, check=True)
    return program


def milliseconds(program, exports, rows, options):
    """The times of all calls, an array for each export."""
    numbers = [rows, STEPS, WORDS, options.turns, options.calls]
    finished = subprocess.run(
        [program, *map(str, numbers), *exports],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    calls = np.loadtxt(finished.stdout.splitlines())
    return [calls[calls[:, 0] == number, 1] / 1e3 for number in range(len(exports))]


def report(rows, times):
    """Prints a line for each export; whether the CRF adds no more than it may."""
    medians = [np.median(taken) for taken in times]
    for kind, taken, median in zip(KINDS, times, medians, strict=True):
        worst, throughput = np.percentile(taken, 99), 1e3 * rows / np.mean(taken)
        print(
            f"batch {rows:2}  {kind:7}  p50 {median:7.3f}  p99 {worst:7.3f}  "
            f"{throughput:7.0f} sentences/s"
        )
    added, most = medians[1] / medians[0] - 1, MOST_ADDED[rows]
    print(f"          the CRF adds {added:.0%} (most {most:.0%})")
    return added <= most


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=pathlib.Path, default="build/bench/serving")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--calls", type=int, default=25)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    exports, program = export_both(options.directory), build(options.directory)
    print(f"milliseconds a call, sentences of {STEPS} tokens, BiLSTM({UNITS}), {TAGS} tags")
    met = [
        report(rows, milliseconds(program, exports, rows, options)) for rows in sorted(MOST_ADDED)
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
