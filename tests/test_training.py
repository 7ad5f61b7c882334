"""Ways to train that Keras and TensorFlow offer, each with a CRF at the end of the model."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

import toys
from keras_crf import CRFLayer, CRFLoss, TagAccuracy, distribution_of

WORDS, TAGS = toys.sentences()


def weights_after(model, epochs=2, **fit_options):
    options = {"batch_size": 2, "shuffle": False, "verbose": 0, **fit_options}
    model.fit(WORDS, TAGS, epochs=epochs, **options)
    return model.get_weights()


def assert_same_weights(one, other, tolerance=1e-6):
    for weight, expected in zip(one, other, strict=True):
        assert_allclose(weight, expected, atol=tolerance, rtol=1e-5)


DETERMINED = """
import json, keras, tensorflow as tf, toys
keras.utils.set_random_seed(7)
tf.config.experimental.enable_op_determinism()
model = toys.tagger(run_eagerly=False)
model.fit(*toys.sentences(), epochs=2, batch_size=2, verbose=0)
tags = model.predict(toys.sentences()[0], verbose=0)
print(json.dumps([weight.tolist() for weight in model.get_weights()] + [tags.tolist()]))
"""


@pytest.mark.slow
def test_under_op_determinism_two_runs_end_with_the_same_numbers():
    one, other = (json.loads(toys.run_python(DETERMINED)) for _ in range(2))
    assert one == other


def test_gradients_gathered_over_two_batches_train_as_one_batch_of_both():
    keras.utils.set_random_seed(1)
    whole = toys.tagger(optimizer=keras.optimizers.SGD(0.5))
    gathered = toys.tagger(optimizer=keras.optimizers.SGD(0.5, gradient_accumulation_steps=2))
    gathered.set_weights(whole.get_weights())
    before = whole.get_weights()
    expected = weights_after(whole, epochs=1, batch_size=6)
    found = weights_after(gathered, epochs=1, batch_size=3)
    assert_same_weights(found, expected)
    assert not np.allclose(found[0], before[0])


def encoder(kind):
    words = keras.Input((None,), dtype="int32")
    features = keras.layers.Embedding(20, 8, mask_zero=True)(words)
    if kind == "convolution":
        features = keras.layers.Conv1D(8, 3, padding="same", activation="relu")(features)
    else:
        features = keras.layers.MultiHeadAttention(2, 4)(features, features)
    tags = CRFLayer(3)(features, mask=keras.ops.not_equal(words, 0))
    return keras.Model(words, tags)


@pytest.mark.filterwarnings("ignore:Layer 'conv1d'")  # drops the mask, which is given anew
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convolution", "attention"])
def test_with_an_encoder_that_xla_takes_keras_own_choice_trains_as_no_compilation_does_f15(kind):
    keras.utils.set_random_seed(2)
    model = encoder(kind)
    weights = model.get_weights()
    found = {}
    for jit_compile in ("auto", False, True):
        model.set_weights(weights)
        model.compile(keras.optimizers.SGD(0.1), CRFLoss(), jit_compile=jit_compile)
        found[jit_compile] = weights_after(model, epochs=1)
    assert_same_weights(found["auto"], found[False], 1e-4)
    assert_same_weights(found[True], found[False], 1e-4)


@pytest.mark.slow
def test_a_dataset_of_dicts_feeds_two_crfs_of_one_model():
    words = {"words": keras.Input((None,), dtype="int32", name="words")}
    features = keras.layers.Embedding(20, 4, mask_zero=True)(words["words"])
    outputs = {
        "names": CRFLayer(3, name="names")(features),
        "chunks": CRFLayer(2, name="chunks", output_mode="int")(features),
    }
    model = keras.Model(words, outputs)
    model.compile(
        "sgd",
        loss={"names": CRFLoss(), "chunks": CRFLoss(reduction="mean_per_token")},
        metrics={"names": ["accuracy"], "chunks": [TagAccuracy()]},
    )
    labels = {"names": TAGS, "chunks": TAGS % 2}
    dataset = tf.data.Dataset.from_tensor_slices(({"words": WORDS}, labels)).batch(4)
    options = {"validation_data": dataset, "shuffle": False, "verbose": 0}
    history = model.fit(dataset, epochs=2, **options).history
    assert set(history) >= {"names_loss", "chunks_loss", "names_accuracy", "val_chunks_loss"}
    called = model({"words": WORDS})
    expected = -distribution_of(called["names"]).log_prob(np.maximum(TAGS, 0)).numpy().mean()
    per_token = -distribution_of(called["chunks"]).log_prob(np.maximum(TAGS, 0) % 2).numpy()
    expected += per_token.sum() / (WORDS != 0).sum()
    whole = ({"words": WORDS}, labels)
    found = model.evaluate(*whole, batch_size=6, verbose=0, return_dict=True)
    assert_allclose(found["loss"], expected, 1e-5)


class TrainsItself(toys.Subclassed):
    """A model with a train step of its own."""

    def train_step(self, data):
        words, tags = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=tags, y_pred=self(words, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}


def test_a_train_step_of_ones_own_trains_as_that_of_keras():
    own, plain = TrainsItself(), toys.tagger(optimizer="sgd")
    own(WORDS)
    own.compile("sgd", CRFLoss())
    own.set_weights(plain.get_weights())
    assert_same_weights(weights_after(own), weights_after(plain))


@pytest.mark.slow
def test_models_built_one_after_the_other_in_one_process_do_not_touch_each_other():
    first = toys.tagger()
    before = first.predict_on_batch(WORDS)
    for num_tags, units in ((3, 4), (4, 8), (3, 16)):  # as a search over settings does
        keras.backend.clear_session()
        model = toys.tagger(num_tags, lr_multiplier=float(units))
        losses = model.fit(WORDS, TAGS, epochs=3, verbose=0).history["loss"]
        assert losses[-1] < losses[0]
        assert model.predict_on_batch(WORDS).shape == (*WORDS.shape, num_tags)
    assert_array_equal(first.predict_on_batch(WORDS), before)


def test_a_frozen_layer_keeps_its_weights_while_the_rest_is_trained():
    model = toys.tagger(optimizer="sgd")
    crf = model.get_layer("crf")
    crf.trainable = False
    model.compile("sgd", CRFLoss(), run_eagerly=True)
    before, words_before = crf.get_weights(), model.layers[0].get_weights()
    weights_after(model)
    for weight, old in zip(crf.get_weights(), before, strict=True):
        assert_array_equal(weight, old)
    assert (model.layers[0].get_weights()[0] != words_before[0]).any()


def test_transitions_alone_can_be_frozen():
    model = toys.tagger(optimizer="sgd")
    crf = model.get_layer("crf")
    crf.transitions.trainable = False
    before = crf.transitions.numpy()
    weights_after(model)
    assert_array_equal(crf.transitions, before)
    assert len(crf.trainable_weights) == 4


def test_weights_go_by_the_names_of_the_formula():
    crf = toys.tagger().get_layer("crf")
    names = ["kernel", "bias", "transitions", "start", "end"]
    assert [weight.name for weight in crf.weights] == names
    assert [weight.path.split("/")[-2:] for weight in crf.weights] == [
        ["crf", name] for name in names
    ]


def test_a_row_of_padding_alone_trains_behind_an_lstm_and_has_no_loss_a16():
    words = WORDS.copy()
    words[1] = 0
    lstm = keras.layers.LSTM(4, return_sequences=True, use_cudnn=False)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(20, 4, mask_zero=True),
            keras.layers.Bidirectional(lstm),
            CRFLayer(3),
        ]
    )
    model.compile("sgd", CRFLoss(), run_eagerly=True)
    assert np.isfinite(model.train_on_batch(words, TAGS))
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert CRFLoss(reduction="none")(TAGS, model(words))[1] == 0
