"""Small taggers, data whose right answers are known, and processes that start afresh."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_crf import CRFLayer, CRFLoss, export_tagger

ROOT = pathlib.Path(__file__).parents[1]

# X1 of the public reports: row a of length 1, row b of length 3, with junk behind the first.
TRANSITIONS = np.array([[0.5, -0.5], [0.0, 0.25]], "float32")
POTENTIALS = np.array(
    [[[1, 0], [9, -9], [-9, 9]], [[0, 0.75], [1, 0], [0, 0.25]]],
    "float32",
)
LENGTHS = np.array([1, 3], "int32")
MASK = np.array([[True, False, False], [True, True, True]])
LABELS = np.array([[0, 1, 1], [1, 0, 1]], "int32")
LOSSES = np.array([0.313262, 2.016171])
BEST = np.array([[0, 0, 0], [1, 0, 0]])
MARGINALS = np.array(
    [
        [[0.731059, 0.268941], [0, 0], [0, 0]],
        [[0.370994, 0.629006], [0.738333, 0.261667], [0.600250, 0.399750]],
    ]
)


def layer_with(transitions, start=None, end=None, **options):
    """A CRFLayer that takes potentials, with these scores."""
    num_tags = len(transitions)
    layer = CRFLayer(num_tags, use_kernel=False, use_boundary=start is not None, **options)
    layer.build((None, None, num_tags))
    layer.set_weights([np.array(w) for w in (transitions, start, end) if w is not None])
    return layer


KERAS = tuple(map(int, keras.__version__.split(".")[:2]))
accuracy_leaves_out_padding = pytest.mark.skipif(
    KERAS < (3, 12),
    reason='metrics=["accuracy"] of Keras before 3.12 counts padding, for every layer; '
    "`keras_crf.TagAccuracy` does not",
)

masks_pass_concatenate = pytest.mark.skipif(
    KERAS < (3, 12),
    reason="Keras before 3.12 makes a mask behind `Concatenate` of a shape that it takes for fixed",
)


def loss_of_step(model, inputs, labels):
    """Trains on one batch; its own loss, where Keras before 3.15 gives the mean since the reset."""
    model.reset_metrics()
    return float(model.train_on_batch(inputs, labels, return_dict=True)["loss"])


# Tracing a graph takes seconds, so these models run eagerly where a test is not about the graph.


def x1_model(reduction="sum_over_batch_size", *, metrics=(), run_eagerly=True, **options):
    """A compiled model of the inputs [potentials, lengths] with the transitions of X1."""
    potentials = keras.Input((None, 2), name="potentials")
    lengths = keras.Input((), dtype="int32", name="lengths")
    outputs = layer_with(TRANSITIONS, **options)(potentials, lengths=lengths)
    model = keras.Model([potentials, lengths], outputs)
    loss = CRFLoss(reduction=reduction)
    model.compile("sgd", loss=loss, metrics=list(metrics), run_eagerly=run_eagerly)
    return model


def tagger(num_tags=3, optimizer="adam", *, metrics=(), run_eagerly=True, **options):
    """A compiled Sequential model: ids, of which 0 is padding, to tags."""
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32", name="words"),
            keras.layers.Embedding(20, 4, mask_zero=True),
            CRFLayer(num_tags, name="crf", **options),
        ]
    )
    model.compile(optimizer, loss=CRFLoss(), metrics=list(metrics), run_eagerly=run_eagerly)
    model.optimizer.build(model.trainable_variables)  # else Keras traces the first step twice
    return model


class Subclassed(keras.Model):
    """The model of `tagger`, as a class."""

    def __init__(self):
        super().__init__()
        self.embedding = keras.layers.Embedding(20, 4, mask_zero=True)
        self.crf = CRFLayer(3)

    def call(self, words):
        return self.crf(self.embedding(words))


def sentences(lengths=(5, 1, 3, 5, 2, 4), steps=5, num_tags=3, seed=0):
    """Word ids in 1..19, of which a function gives the tags; behind the lengths 0, and -100."""
    words = np.random.default_rng(seed).integers(1, 20, [len(lengths), steps]).astype("int32")
    kept = np.arange(steps) < np.array(lengths)[:, np.newaxis]
    return words * kept, np.where(kept, words % num_tags, -100)


PYTHON_PATH = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "examples")))


def run_python(script, *arguments, **environment):
    """Runs a script in a process of its own, which has to succeed, and returns what it printed."""
    finished = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={
            **os.environ,
            "PYTHONPATH": PYTHON_PATH,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **environment,
        },
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


TEXT_TAGS = ["O", "B-Ort", "I-Ort"]
VOCABULARY = ["a", "flight", "from", "Köln", "to", "New", "York"]


def text_tagger(**options):
    """A Sequential model of strings, whose BiLSTM would read what stands behind a row, and whose
    tags keep to BIO."""
    large = keras.initializers.RandomNormal(stddev=2)
    return keras.Sequential(
        [
            keras.Input((None,), dtype="string", name="words"),
            keras.layers.StringLookup(vocabulary=VOCABULARY, mask_token=""),
            keras.layers.Embedding(9, 3, mask_zero=True, embeddings_initializer=large),
            keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True)),
            CRFLayer(3, tag_names=TEXT_TAGS, scheme="BIO", kernel_initializer=large, **options),
        ]
    )


def texts(lengths, seed=0):
    """Tokens [B, T] of `text_tagger`, some of them unknown, with tokens behind the lengths too."""
    tokens = np.array([*VOCABULARY, "Ulm"], object)
    return np.random.default_rng(seed).choice(tokens, [len(lengths), max(lengths)])


class TextExport:
    """A `text_tagger`, and what it was exported as."""

    def __init__(self, directory):
        keras.utils.set_random_seed(3)
        self.model = text_tagger(output_mode="int")
        self.directory = directory
        warm_up = [{"words": [["from", "Köln"]], "lengths": [2]}]
        export_tagger(self.model, directory, top_k=2, warm_up=warm_up)
        self.loaded = tf.saved_model.load(directory)
        self.signatures = self.loaded.signatures
