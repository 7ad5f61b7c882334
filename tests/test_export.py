"""export_tagger and model.export: SavedModels that tag without Keras and without this library."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, distribution_of, export_tagger
from regimes import nodes_within

LOADS_WITHOUT_KERAS = """
import json
import sys

sys.modules["keras"] = None  # from now on, importing them fails
sys.modules["keras_crf"] = None

import numpy as np
import tensorflow as tf

directory = sys.argv[1]
inputs = {name: tf.constant(value) for name, value in np.load(f"{directory}/inputs.npz").items()}
words = inputs["words"]
tagger, plain = (tf.saved_model.load(f"{directory}/{name}") for name in ("tagger", "plain"))
served = tagger.signatures["serving_default"](**inputs)
served["tags"] = np.char.decode(served["tags"].numpy().astype(bytes), "utf-8")
print(json.dumps({name: np.array(value).tolist() for name, value in served.items()}))
print(json.dumps(plain.serve(words).numpy().tolist()))
"""

TAG_NAMES = ["O", "B-Ort", "I-Ört"]


def embedding(size, **options):
    """With vectors so large that different words have different paths."""
    vectors = keras.initializers.RandomNormal(stddev=2)
    return keras.layers.Embedding(size, 3, embeddings_initializer=vectors, **options)


def words_and_characters():
    """A model with two inputs that have a time axis, with the tag names in its CRFLayer."""
    words = keras.Input((None,), dtype="int32", name="words")
    characters = keras.Input((None, 4), dtype="int32", name="characters")
    by_word = embedding(20, mask_zero=True)(words)
    by_character = keras.ops.max(embedding(9)(characters), axis=2)
    features = keras.layers.Concatenate()([by_word, by_character])
    outputs = CRFLayer(3, tag_names=TAG_NAMES)(features)
    return keras.Model([words, characters], outputs)


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = embedding(20)
        self.crf = CRFLayer(3, output_mode="marginals")

    def call(self, words):
        return self.crf(self.embedding(words))


class Exported:
    """A model, its export, and a batch with rows of every length, the empty one too."""

    LENGTHS = np.array([5, 1, 3, 0], "int32")

    def __init__(self, directory):
        keras.utils.set_random_seed(7)
        self.model = words_and_characters()
        words, _ = toys.sentences(self.LENGTHS)
        characters = np.random.default_rng(1).integers(1, 9, [4, 5, 4]).astype("int32")
        self.inputs = {"words": words, "characters": characters}
        export_tagger(self.model, directory)
        self.loaded = tf.saved_model.load(directory)
        self.signatures = self.loaded.signatures

    def served(self, signature="serving_default", **changed):
        """The outputs of a signature, in NumPy."""
        inputs = {**self.inputs, "lengths": self.LENGTHS, **changed}
        given = {name: tf.constant(value) for name, value in inputs.items() if value is not None}
        return {name: v.numpy() for name, v in self.signatures[signature](**given).items()}

    def distribution(self):
        return distribution_of(self.model(self.inputs)).narrowed(lengths=self.LENGTHS)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return Exported(str(tmp_path_factory.mktemp("exported") / "1"))


def by_name(specs):
    return {name: (spec.dtype.name, spec.shape.as_list()) for name, spec in specs.items()}


class TestSignatures:
    WORDS = {"words": ("int32", [None, None]), "characters": ("int32", [None, None, 4])}
    LENGTHS = {"lengths": ("int32", [None])}
    TAGGED = {
        "tag_ids": ("int32", [None, None]),
        "tags": ("string", [None, None]),
        "confidence": ("float32", [None, None]),
        "log_prob": ("float32", [None]),
    }

    @pytest.mark.parametrize(
        ("name", "inputs", "outputs"),
        [
            ("serving_default", WORDS | LENGTHS, TAGGED),
            ("unpadded", WORDS, TAGGED),
            ("marginals", WORDS | LENGTHS, TAGGED | {"marginals": ("float32", [None, None, 3])}),
        ],
    )
    def test_have_the_documented_names_dtypes_and_free_axes_f5(
        self, exported, name, inputs, outputs
    ):
        signature = exported.signatures[name]
        assert by_name(signature.structured_input_signature[1]) == inputs
        assert by_name(signature.structured_outputs) == outputs

    def test_hold_no_reverse_sequence_and_nothing_that_must_be_compiled_f11(self, exported):
        for signature in exported.signatures.values():
            functions = signature.graph.as_graph_def().library.function
            operations = {node.op for node in nodes_within(signature.graph)}
            assert operations & {"While", "StatelessWhile"}
            assert "ReverseSequence" not in operations
            assert not any(function.attr["_XlaMustCompile"].b for function in functions)


class TestServed:
    def test_tags_are_those_of_the_model_and_empty_behind_the_lengths_f4(self, exported):
        path = np.argmax(exported.model.predict(exported.inputs, verbose=0), axis=-1)
        kept = np.arange(5) < exported.LENGTHS[:, np.newaxis]
        served = exported.served()
        assert len(np.unique(path[kept])) > 1
        np.testing.assert_array_equal(served["tag_ids"], np.where(kept, path, 0))
        names = [[name.decode() for name in row] for row in served["tags"]]
        np.testing.assert_array_equal(names, np.where(kept, np.array(TAG_NAMES)[path], ""))

    def test_confidence_is_the_marginal_of_the_tag_and_log_prob_that_of_the_path_e5(self, exported):
        served, distribution = exported.served("marginals"), exported.distribution()
        marginals = distribution.marginals().numpy()
        np.testing.assert_allclose(served["marginals"], marginals, atol=1e-6)
        picked = np.take_along_axis(marginals, served["tag_ids"][..., np.newaxis], -1)[..., 0]
        np.testing.assert_allclose(served["confidence"], picked, atol=1e-6)
        np.testing.assert_allclose(
            served["log_prob"], distribution.log_prob(served["tag_ids"]), atol=1e-5
        )

    def test_an_empty_row_is_sure_of_nothing_a4(self, exported):
        served = exported.served()
        assert served["log_prob"][3] == 0
        assert not served["tag_ids"][3].any()
        assert not served["confidence"][3].any()
        assert not any(served["tags"][3])

    def test_each_row_is_served_alone_as_in_the_batch(self, exported):
        together = exported.served()
        for row, length in enumerate(exported.LENGTHS):
            cut = {name: value[row : row + 1, :length] for name, value in exported.inputs.items()}
            alone = exported.served(**cut, lengths=exported.LENGTHS[row : row + 1])
            np.testing.assert_array_equal(alone["tag_ids"][0], together["tag_ids"][row, :length])
            np.testing.assert_allclose(alone["log_prob"][0], together["log_prob"][row], atol=1e-5)

    def test_what_stands_behind_a_rows_length_does_not_matter_f1(self, exported):
        expected = exported.served("marginals")
        kept = np.arange(5) < exported.LENGTHS[:, np.newaxis]
        for filler in (lambda value: value.flat[0], lambda value: 8):
            filled = {
                name: np.where(kept[(..., *[None] * (value.ndim - 2))], value, filler(value))
                for name, value in exported.inputs.items()
            }
            served = exported.served("marginals", **filled)
            for name, value in expected.items():
                np.testing.assert_array_equal(served[name], value)

    def test_unpadded_is_serving_default_with_full_lengths_f7(self, exported):
        rows = {name: np.maximum(value, 1) for name, value in exported.inputs.items()}
        full = exported.served(**rows, lengths=np.full(4, 5, "int32"))
        unpadded = exported.served("unpadded", **rows, lengths=None)
        for name, value in full.items():
            np.testing.assert_array_equal(unpadded[name], value)

    @pytest.mark.parametrize(("rows", "steps"), [(1, 1), (1, 3), (3, 12), (2, 200), (64, 2)])
    def test_any_batch_and_any_number_of_steps_are_served_f6_f8(self, exported, rows, steps):
        random = np.random.default_rng(steps)
        inputs = {
            "words": random.integers(1, 20, [rows, steps]).astype("int32"),
            "characters": random.integers(1, 9, [rows, steps, 4]).astype("int32"),
        }
        served = exported.served(**inputs, lengths=np.full(rows, steps, "int32"))
        expected = distribution_of(exported.model(inputs)).argmax().tags
        np.testing.assert_array_equal(served["tag_ids"], expected)

    @pytest.mark.parametrize("length", [6, -1])
    def test_a_length_that_does_not_fit_is_an_error(self, exported, length):
        lengths = np.array([5, length, 3, 0], "int32")
        with pytest.raises(tf.errors.InvalidArgumentError, match="lengths must lie in"):
            exported.served(lengths=lengths)


@pytest.fixture(scope="module")
def without_keras(tmp_path_factory):
    """Exports of a subclassed model, what it says itself, and what a process without Keras says."""
    directory = tmp_path_factory.mktemp("without_keras")
    keras.utils.set_random_seed(7)
    model = Subclassed()
    words, _ = toys.sentences()
    distribution = distribution_of(model(words)).narrowed(lengths=[5, 1, 3, 5, 2, 4])
    np.savez(directory / "inputs.npz", words=words, lengths=np.array([5, 1, 3, 5, 2, 4], "int32"))
    signature = {"words": tf.TensorSpec([None, None], tf.int32)}
    export_tagger(model, directory / "tagger", TAG_NAMES, input_signature=signature)
    plain = toys.tagger(output_mode="int", pad_tag=-1)
    plain.export(str(directory / "plain"), verbose=False)
    lines = toys.run_python(LOADS_WITHOUT_KERAS, directory).splitlines()
    return distribution, plain.predict(words, verbose=0), *map(json.loads, lines[-2:])


class TestWithoutKeras:
    def test_a_subclassed_model_is_exported_by_its_input_signature_f3(self, without_keras):
        distribution, _, served, _ = without_keras
        tags = distribution.argmax().tags.numpy()
        np.testing.assert_array_equal(served["tag_ids"], tags)
        log_prob = distribution.log_prob(tags)
        np.testing.assert_allclose(served["log_prob"], log_prob, atol=1e-5)

    def test_tag_names_are_those_of_the_argument(self, without_keras):
        distribution, _, served, _ = without_keras
        names = np.where(distribution.mask, np.array(TAG_NAMES)[distribution.argmax().tags], "")
        np.testing.assert_array_equal(served["tags"], names)

    def test_model_export_serves_what_predict_gives_f3(self, without_keras):
        _, predicted, _, served = without_keras
        np.testing.assert_array_equal(served, predicted)
        assert np.any(predicted == -1)


class TestBadInput:
    def test_a_subclassed_model_needs_an_input_signature(self, tmp_path):
        message = r"inputs of Subclassed .* are not known\. Pass input_signature=.*tf\.TensorSpec"
        with pytest.raises(ValueError, match=message):
            export_tagger(Subclassed(), tmp_path)

    def test_the_output_carries_a_distribution(self, tmp_path):
        model = keras.Sequential([keras.Input((None, 4)), CRFLayer(3), keras.layers.Dense(3)])
        with pytest.raises(ValueError, match=r"carries no LinearChainCRF.*CRFLayer be the last"):
            export_tagger(model, tmp_path)

    @pytest.mark.parametrize("tag_names", [["O"], ["O", "X", "X"]])
    def test_tag_names_are_one_a_tag_and_all_different(self, tmp_path, tag_names):
        with pytest.raises(ValueError, match="tag_names must be 3 different names"):
            export_tagger(toys.tagger(), tmp_path, tag_names)
