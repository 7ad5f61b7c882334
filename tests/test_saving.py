"""Saved models come back in a fresh process that imports keras_crf, and training goes on."""

import json
import pathlib
import shutil

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, distribution_of

# One process for everything that is asked of saved files, since starting one takes seconds.
LOADS_AND_TRAINS_ON = """
import json
import sys

import keras
import numpy as np

import keras_crf

directory = sys.argv[1]
data = np.load(f"{directory}/data.npz")
words, tags, kinds = data["words"], data["tags"], data["kinds"]


def plain(values):
    return keras.tree.map_structure(lambda value: np.asarray(value).tolist(), values)


def facts(model, labels):
    loss = model.evaluate(words, labels, verbose=0, return_dict=True)
    return plain({"predicted": model.predict(words, verbose=0), "loss": loss})


def trained_on(model, labels):
    iterations = int(model.optimizer.iterations)
    first = model.train_on_batch(words, labels, return_dict=True)["loss"]
    after = model.evaluate(words, labels, verbose=0, return_dict=True)
    optimizer = type(model.optimizer).__name__
    return plain({"first": first, "after": after, "iterations": iterations}) | {
        "optimizer": optimizer
    }


def recompiled(model):
    model.compile(keras.optimizers.SGD(0.1), loss=keras_crf.CRFLoss(), run_eagerly=True)
    return plain(model.fit(words, tags, batch_size=6, epochs=2, verbose=0).history["loss"])


stories = {}
for name in ("tagger.keras", "tagger.h5"):
    model = keras.models.load_model(f"{directory}/{name}")
    stories[name] = facts(model, tags) | {"recompiled": recompiled(model)}

model = keras.models.load_model(f"{directory}/tagger.keras")
stories["tagger.keras"] |= trained_on(model, tags)
model = keras.models.load_model(f"{directory}/two_outputs.keras")
labels = {"tags": tags, "kind": kinds}
stories["two_outputs.keras"] = facts(model, labels) | trained_on(model, labels)
model = keras.models.load_model(f"{directory}/int.keras")
stories["int.keras"] = plain(model.predict(words, verbose=0))

import toys

model = toys.tagger()
model.load_weights(f"{directory}/tagger.weights.h5")
stories["tagger.weights.h5"] = plain(model.predict(words, verbose=0))

print(json.dumps(stories))
"""


def two_outputs():
    """A tag for each word, and a kind for the whole sentence."""
    words = keras.Input((None,), dtype="int32")
    features = keras.layers.Embedding(20, 4, mask_zero=True)(words)
    outputs = {
        "tags": CRFLayer(3, name="tags")(features),
        "kind": keras.layers.Dense(2, activation="softmax", name="kind")(
            keras.layers.GlobalAveragePooling1D()(features)
        ),
    }
    model = keras.Model(words, outputs)
    losses = {"tags": CRFLoss(), "kind": "sparse_categorical_crossentropy"}
    metrics = {"tags": ["accuracy"], "kind": ["accuracy"]}
    model.compile("adam", loss=losses, metrics=metrics, run_eagerly=True)
    return model


@pytest.fixture(scope="module")
def here_and_there(tmp_path_factory):
    """What the models do here, and what they do after loading: both by the name of the file."""
    directory = tmp_path_factory.mktemp("saved")
    words, tags = toys.sentences()
    kinds = words[:, 0] % 2
    np.savez(directory / "data.npz", words=words, tags=tags, kinds=kinds)
    options = {"tag_names": ["O", "B-X", "I-X"], "lr_multiplier": 4.0}
    tagger = toys.tagger(metrics=["accuracy"], optimizer=keras.optimizers.Adam(0.1), **options)
    weights_only, int_tagger, both = toys.tagger(), toys.tagger(output_mode="int"), two_outputs()
    tagger.fit(words, tags, batch_size=3, epochs=3, verbose=0)
    both.fit(words, {"tags": tags, "kind": kinds}, batch_size=3, epochs=2, verbose=0)
    tagger.save(directory / "tagger.keras")
    tagger.save(directory / "tagger.h5")
    both.save(directory / "two_outputs.keras")
    int_tagger.save(directory / "int.keras")
    weights_only.save_weights(directory / "tagger.weights.h5")
    here = {
        "tagger.weights.h5": weights_only.predict(words, verbose=0),
        "int.keras": int_tagger.predict(words, verbose=0),
        "two_outputs.keras": story(both, words, {"tags": tags, "kind": kinds}),
    }
    here["tagger.keras"] = here["tagger.h5"] = story(tagger, words, tags)
    return here, json.loads(toys.run_python(LOADS_AND_TRAINS_ON, directory).splitlines()[-1])


def story(model, words, labels):
    return {
        "predicted": model.predict(words, verbose=0),
        "loss": model.evaluate(words, labels, verbose=0, return_dict=True),
        "first": model.train_on_batch(words, labels, return_dict=True)["loss"],
        "after": model.evaluate(words, labels, verbose=0, return_dict=True),
    }


class TestInAFreshProcessWithoutCustomObjects:
    @pytest.mark.parametrize("name", ["tagger.keras", "tagger.h5", "two_outputs.keras"])
    def test_predictions_and_losses_are_equal_d1_d11_d13(self, here_and_there, name):
        here, there = (stories[name] for stories in here_and_there)
        keras.tree.map_structure(np.testing.assert_array_equal, here["predicted"], as_arrays(there))
        assert there["loss"] == pytest.approx(here["loss"], rel=1e-6)

    @pytest.mark.parametrize("name", ["tagger.keras", "two_outputs.keras"])
    def test_training_goes_on_as_if_nothing_had_happened_d1(self, here_and_there, name):
        here, there = (stories[name] for stories in here_and_there)
        assert there["optimizer"] == "Adam"
        assert there["iterations"] == (4 if name == "two_outputs.keras" else 6)
        assert there["first"] == pytest.approx(float(here["first"]), rel=1e-5)
        # The step was the same only if the state of the optimizer came back as well.
        assert there["after"] == pytest.approx(here["after"], rel=1e-5)

    # After .h5 that is the only way: Keras 3 gives no model of that format its optimizer back.
    @pytest.mark.parametrize("name", ["tagger.keras", "tagger.h5"])
    def test_compiled_anew_it_trains_from_where_it_was_d20(self, here_and_there, name):
        _, there = here_and_there
        first, second = there[name]["recompiled"]
        assert first == pytest.approx(there[name]["loss"]["loss"], rel=1e-5)
        assert second < first

    def test_weights_alone_give_a_model_built_anew_the_same_path_d28(self, here_and_there):
        here, there = (stories["tagger.weights.h5"] for stories in here_and_there)
        np.testing.assert_array_equal(here, there)

    def test_a_model_whose_output_is_tag_ids_gives_the_same_d12(self, here_and_there):
        here, there = (stories["int.keras"] for stories in here_and_there)
        np.testing.assert_array_equal(here, there)


def as_arrays(there):
    """What was predicted, as the arrays that JSON turned into lists."""
    predicted = there["predicted"]
    if isinstance(predicted, dict):
        return {name: np.array(values, "float32") for name, values in predicted.items()}
    return np.array(predicted, "float32")


class TestTwoOutputs:
    @toys.accuracy_leaves_out_padding
    def test_each_has_its_loss_and_accuracy_with_labels_by_name_d13_d15(self):
        words, tags = toys.sentences()
        model = two_outputs()
        labels = {"tags": tags, "kind": words[:, 0] % 2}
        facts = model.evaluate(words, labels, verbose=0, return_dict=True)
        assert facts["loss"] == pytest.approx(facts["tags_loss"] + facts["kind_loss"], rel=1e-5)
        outputs = model(words)["tags"]
        assert facts["tags_loss"] == pytest.approx(float(CRFLoss()(tags, outputs)), rel=1e-5)
        right = np.argmax(outputs, -1)[words > 0] == tags[words > 0]
        assert facts["tags_accuracy"] == pytest.approx(right.mean(), abs=1e-6)


class TestConfigs:
    def test_of_the_first_release_load_d11(self):
        layer = CRFLayer.from_config(
            {
                "name": "crf",
                "trainable": True,
                "dtype": "float32",
                "num_tags": 2,
                "output_mode": "int",
                "use_kernel": True,
                "use_boundary": False,
                "tag_names": ["O", "X"],
                "pad_tag": -1,
                "lr_multiplier": 2.0,
                "kernel_initializer": "zeros",
                "bias_initializer": "zeros",
                "transitions_initializer": "zeros",
                "boundary_initializer": "zeros",
                "kernel_regularizer": None,
                "bias_regularizer": None,
                "transitions_regularizer": "l2",
                "boundary_regularizer": None,
                "kernel_constraint": None,
                "bias_constraint": None,
                "transitions_constraint": None,
                "boundary_constraint": None,
            }
        )
        outputs = layer(np.zeros([1, 2, 3], "float32"), mask=[[True, False]])
        np.testing.assert_array_equal(outputs, [[0, -1]])
        assert CRFLoss.from_config({"name": "nll", "reduction": "sum"}).reduction == "sum"


class TestWeightsUnderAnotherLrMultiplier:
    """What is stored is independent of it."""

    @pytest.mark.parametrize("use_boundary", [True, False])
    @pytest.mark.parametrize(("stored", "loaded"), [(1.0, 20.0), (20.0, 1.0), (3.0, 0.5)])
    def test_give_the_same_scores(self, tmp_path, stored, loaded, use_boundary):
        words, tags = toys.sentences()
        options = {"use_boundary": use_boundary, "boundary_initializer": "random_normal"}
        saved = toys.tagger(lr_multiplier=stored, **options)
        saved.save_weights(tmp_path / "tagger.weights.h5")
        other = toys.tagger(lr_multiplier=loaded, **options)
        other.load_weights(tmp_path / "tagger.weights.h5")
        losses = [float(CRFLoss()(tags, model(words))) for model in (saved, other)]
        assert losses[1] == pytest.approx(losses[0], rel=1e-5)

    def test_that_a_file_of_version_0_1_holds_are_taken_as_they_are(self, tmp_path):
        path = tmp_path / "tagger.weights.h5"
        saved = toys.tagger(lr_multiplier=4.0)
        saved.save_weights(path)
        with h5py.File(path, "r+") as file:
            names = []
            file.visit(names.append)
            (added,) = (name for name in names if name.endswith("lr_multiplier"))
            del file[added]
        other = toys.tagger(lr_multiplier=2.0)
        other.load_weights(path)
        for mine, theirs in zip(other.get_weights(), saved.get_weights(), strict=True):
            np.testing.assert_array_equal(mine, theirs)


OF_VERSION_0_1 = pathlib.Path(__file__).parent / "data" / "version_0_1"


class TestFilesOfVersion01:
    """A trained tagger under BIO with lr_multiplier=4, in three formats, and what it answered."""

    expected = json.loads((OF_VERSION_0_1 / "expected.json").read_text())
    words, tags = np.array(expected["words"], "int32"), np.array(expected["tags"], "int32")

    @pytest.mark.parametrize("name", ["tagger.keras", "tagger.h5"])
    def test_load_compiled_and_give_the_same(self, name):
        model = keras.models.load_model(OF_VERSION_0_1 / name)
        evaluated = model.evaluate(self.words, self.tags, verbose=0, return_dict=True)
        assert evaluated == pytest.approx(self.expected["evaluated"], rel=1e-5)
        outputs = model(self.words)
        np.testing.assert_array_equal(np.argmax(outputs, -1), self.expected["predicted"])
        log_partition = distribution_of(outputs).log_partition()
        np.testing.assert_allclose(log_partition, self.expected["log_partition"], rtol=1e-6)

    def test_an_export_tags_the_same(self, tmp_path):
        shutil.unpack_archive(OF_VERSION_0_1 / "export.zip", tmp_path)
        tagger = tf.saved_model.load(tmp_path).signatures["serving_default"]
        lengths = tf.constant((self.words > 0).sum(axis=1), tf.int32)
        answers = tagger(words=tf.constant(self.words), lengths=lengths)
        np.testing.assert_array_equal(answers["tag_ids"], self.expected["predicted"])
