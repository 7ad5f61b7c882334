"""The memory that a model leaves behind when it is gone: tuners and k-fold make hundreds of models.

    python benchmarks/many_models.py [--models 30] [--task fit ...]

For each task, in a fresh process: a small tagger is made, used and dropped (`del`,
`keras.backend.clear_session`, `gc.collect`), again and again. The figures are the memory of the
process after the first, the fifth and the last model, and the growth for each model from the fifth
on, when all that is kept for good has been made. "softmax" has a softmax layer in place of the CRF.
Ends non-zero when a task with a CRF grows by more than 2 MiB for each model.
"""

import argparse
import gc
import json
import sys
import tempfile

import numpy as np
from measuring import RETURN_FREED_MEMORY, in_fresh_process, memory_in_use

MEBIBYTE = 2**20
MOST_GROWTH = 2  # MiB for each model
SETTLED = 5  # models until everything that stays has been made
TAG_NAMES = ["O", "B-X", "I-X"]


def labelled_sentences():
    """(word ids, tag ids), [8, 6] each, with padding and without a broken span."""
    words = np.ones([8, 6], "int32")
    words[::2, 4:] = 0
    return words, np.tile([0, 1, 2, 2, 0, 0], [8, 1]).astype("int32")


def make_model(head="crf", jit_compile="auto", metrics=(), layer=None):
    """A compiled tagger over word ids; `layer` holds further arguments of the `CRFLayer`."""
    import keras

    import keras_crf

    words = keras.Input([None], dtype="int32", name="words")
    features = keras.layers.Embedding(9, 4, mask_zero=True)(words)
    if head == "crf":
        last = keras_crf.CRFLayer(3, tag_names=TAG_NAMES, **(layer or {}))
        loss = keras_crf.CRFLoss()
    else:
        last = keras.layers.Dense(3, activation="softmax")
        loss = "sparse_categorical_crossentropy"
    model = keras.Model(words, last(features))
    model.compile("adam", loss=loss, metrics=list(metrics), jit_compile=jit_compile)
    return model


def fit(**options):
    """Makes a model and trains it for two epochs."""
    model = make_model(**options)
    model.fit(*labelled_sentences(), epochs=2, verbose=0)
    return model


def fit_evaluate_predict(**options):
    """Makes a model, and calls each of Keras' loops."""
    model = fit(**options)
    model.evaluate(*labelled_sentences(), verbose=0)
    model.predict(labelled_sentences()[0], verbose=0)


def with_span_f1(head):
    """Makes a model that is evaluated by its spans."""
    import keras_crf

    fit_evaluate_predict(head=head, metrics=[keras_crf.SpanF1(TAG_NAMES)])


def fit_again():
    """Makes a model, and compiles and trains it twice."""
    import keras_crf

    model = fit()
    model.compile("adam", loss=keras_crf.CRFLoss())
    model.fit(*labelled_sentences(), verbose=0)


def save_and_load():
    """Trains a model, saves it, loads it and trains the loaded one."""
    import keras

    with tempfile.TemporaryDirectory() as directory:
        fit().save(f"{directory}/tagger.keras")
        model = keras.models.load_model(f"{directory}/tagger.keras")
    model.fit(*labelled_sentences(), verbose=0)


def export_and_load():
    """Exports a model, loads the export and tags with it."""
    import tensorflow as tf

    import keras_crf

    with tempfile.TemporaryDirectory() as directory:
        keras_crf.export_tagger(make_model(), f"{directory}/1")
        tagger = tf.saved_model.load(f"{directory}/1")
    words = tf.constant(labelled_sentences()[0])
    tagger.signatures["serving_default"](words=words, lengths=tf.fill([8], 4))


TASKS = {
    "softmax": lambda: fit_evaluate_predict(head="softmax"),
    "fit": fit,
    "fit, evaluate, predict": fit_evaluate_predict,
    "with a scheme": lambda: fit_evaluate_predict(layer={"scheme": "BIO"}),
    "SpanF1": lambda: with_span_f1("crf"),
    "softmax and SpanF1": lambda: with_span_f1("softmax"),
    "fit again": fit_again,
    "save and load": save_and_load,
    "export and load": export_and_load,
    "compile(jit_compile=True)": lambda: fit(jit_compile=True),
    "CRFLayer(jit_compile=True)": lambda: fit(layer={"jit_compile": True}),
}
LIMITED = [task for task in TASKS if task != "softmax"]


def memory_after_each(task, models):
    """The MiB of this process after each of so many models, all of them gone."""
    import keras

    used = []
    for _ in range(models):
        TASKS[task]()
        keras.backend.clear_session()
        gc.collect()
        used.append(memory_in_use() / MEBIBYTE)
    return used


def growth(used):
    """The MiB that each model adds from the fifth on: the slope of the line through the figures."""
    settled = used[SETTLED - 1 :]
    return float(np.polyfit(range(len(settled)), settled, 1)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=30)
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--measure", choices=TASKS, help="measure in this very process")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(memory_after_each(arguments.measure, arguments.models)))
        return 0
    too_much = []
    print(f"MiB after model {'1':>17}{SETTLED:>8}{arguments.models:>8}   growth for each model")
    for task in arguments.task:
        used = in_fresh_process(
            __file__,
            *("--measure", task, "--models", arguments.models),
            environment=RETURN_FREED_MEMORY,
        )
        first, fifth, last = used[0], used[SETTLED - 1], used[-1]
        print(f"{task:27}{first:8.0f}{fifth:8.0f}{last:8.0f}   {growth(used):+.2f}", flush=True)
        if task in LIMITED and growth(used) > MOST_GROWTH:
            too_much.append(task)
    if too_much:
        print(f"more than {MOST_GROWTH} MiB for each model: {', '.join(too_much)}")
    return 1 if too_much else 0


if __name__ == "__main__":
    sys.exit(main())
