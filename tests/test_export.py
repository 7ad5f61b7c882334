"""export_tagger and model.export: SavedModels that tag without Keras and without this library."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

import toys
from keras_crf import CRFLayer, distribution_of, export_tagger, tags
from regimes import must_compile, nodes_within

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

KILLED_HALF_WAY = """
import os
import signal
import sys

import keras
import tensorflow as tf

import keras_crf

tf.io.gfile.rename = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
words = keras.Input((None,), dtype="int32", name="words")
features = keras.layers.Embedding(20, 4)(words)
keras_crf.export_tagger(keras.Model(words, keras_crf.CRFLayer(3)(features)), sys.argv[1])
"""

TAG_NAMES = ["O", "B-Ort", "I-Ört"]
LOWEST = np.finfo("float32").min  # what stands for -inf, and for NaN


def embedding(size, **options):
    """With vectors so large that different words have different paths."""
    vectors = keras.initializers.RandomNormal(stddev=2)
    return keras.layers.Embedding(size, 3, embeddings_initializer=vectors, **options)


def words_and_characters():
    """A model with two inputs that have a time axis, with the tag names in its CRFLayer."""
    words = keras.Input((None,), dtype="int32", name="words")
    characters = keras.Input((None, 4), dtype="int32", name="characters")
    by_word = embedding(20)(words)
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
        export_tagger(self.model, directory, top_k=3)
        self.directory = directory
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
    PATHS = {
        "tag_ids": ("int32", [None, 3, None]),
        "tags": ("string", [None, 3, None]),
        "score": ("float32", [None, 3]),
        "log_prob": ("float32", [None, 3]),
        "valid": ("bool", [None, 3]),
    }

    @pytest.mark.parametrize(
        ("name", "inputs", "outputs"),
        [
            ("serving_default", WORDS | LENGTHS, TAGGED),
            ("unpadded", WORDS, TAGGED),
            ("marginals", WORDS | LENGTHS, TAGGED | {"marginals": ("float32", [None, None, 3])}),
            ("top_k", WORDS | LENGTHS, PATHS),
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
            operations = {node.op for node in nodes_within(signature.graph)}
            assert operations & {"While", "StatelessWhile"}
            assert "ReverseSequence" not in operations
            assert not must_compile(signature.graph)

    def test_hold_no_gradients_of_which_loading_would_warn(self, exported):
        for signature in exported.signatures.values():
            nodes = nodes_within(signature.graph)
            assert [node.name for node in nodes if "_gradient_op_type" in node.attr] == []


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

    def test_top_k_gives_the_best_paths_and_how_probable_they_are_e3(self, exported):
        served, distribution = exported.served("top_k"), exported.distribution()
        best = distribution.top_k(3)
        np.testing.assert_array_equal(served["tag_ids"], best.tags)
        np.testing.assert_array_equal(served["valid"], np.isfinite(best.score))
        score = np.where(served["valid"], best.score, LOWEST)
        np.testing.assert_allclose(served["score"], score, rtol=1e-6)
        for rank in range(3):
            expected = distribution.log_prob(served["tag_ids"][:, rank])[:3]  # the 4th row is empty
            np.testing.assert_allclose(served["log_prob"][:3, rank], expected, atol=1e-5)
        first = exported.served()
        np.testing.assert_array_equal(served["tag_ids"][:, 0], first["tag_ids"])
        np.testing.assert_array_equal(served["tags"][:, 0], first["tags"])
        np.testing.assert_allclose(served["log_prob"][:, 0], first["log_prob"], atol=1e-5)

    def test_an_empty_row_has_one_path_and_then_none(self, exported):
        served = exported.served("top_k")
        np.testing.assert_array_equal(served["score"][3], [0, LOWEST, LOWEST])
        np.testing.assert_array_equal(served["log_prob"][3], [0, LOWEST, LOWEST])
        assert served["valid"][3].tolist() == [True, False, False]
        assert not served["tag_ids"][3].any()
        assert np.all(served["tags"][3] == b"")

    @pytest.mark.parametrize("length", [6, -1])
    def test_a_length_that_does_not_fit_is_an_error(self, exported, length):
        lengths = np.array([5, length, 3, 0], "int32")
        with pytest.raises(tf.errors.InvalidArgumentError, match="lengths must lie in"):
            exported.served(lengths=lengths)

    def test_another_dtype_is_an_error_that_names_both(self, exported):
        message = "expected to be an? int32 tensor but is a float tensor"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            exported.served(words=exported.inputs["words"].astype("float32"))

    def test_an_input_that_is_missing_is_an_error_that_names_it(self, exported):
        with pytest.raises(TypeError, match="lengths"):
            exported.served(lengths=None)


# Shapes of words [batch, time], characters [batch, time, 4] and lengths [batch], and what is said.
WRONG_SHAPES = {
    "lengths, too many": ((1, 2), (1, 2, 4), (2,), r"lengths .*\[batch\].*\[2\].*words.*\[1 2\]"),
    "lengths, too few": ((3, 2), (3, 2, 4), (1,), r"lengths .*\[batch\].*\[1\].*words.*\[3 2\]"),
    "lengths, a scalar": ((1, 2), (1, 2, 4), (), r"lengths .*\[batch\].*\[\].*words.*\[1 2\]"),
    "lengths, a matrix": ((1, 2), (1, 2, 4), (1, 1), r"lengths .*\[batch\].*\[1 1\]"),
    "characters, more rows": ((1, 2), (2, 2, 4), (1,), r"characters .*\[2 2 4\].*words.*\[1 2\]"),
    "characters, fewer rows": ((2, 2), (1, 2, 4), (2,), r"characters .*\[1 2 4\].*words.*\[2 2\]"),
    "characters, fewer steps": ((1, 2), (1, 1, 4), (1,), r"characters .*\[1 1 4\].*words.*\[1 2\]"),
    "characters, too many": ((1, 2), (1, 2, 5), (1,), r"characters .*time, 4\].*\[1 2 5\]"),
    "characters, too few": ((1, 2), (1, 2, 1), (1,), r"characters .*time, 4\].*\[1 2 1\]"),
    "characters, a matrix": ((1, 4), (1, 4), (1,), r"characters .*time, 4\].*\[1 4\]"),
    "words, a vector": ((2,), (2, 2, 4), (2,), r"words .*\[batch, time\].*\[2\]"),
    "words, three axes": ((1, 2, 1), (1, 2, 4), (1,), r"words .*\[batch, time\].*\[1 2 1\]"),
}


@pytest.mark.parametrize(
    ("signature", "wrong"),
    [
        (signature, wrong)
        for signature in ("serving_default", "unpadded", "marginals", "top_k")
        for wrong in WRONG_SHAPES
        if not (signature == "unpadded" and wrong.startswith("lengths"))  # it takes none
    ],
)
class TestShapesThatDoNotGoTogether:
    """TensorFlow itself takes them all, and broadcasts."""

    def inputs(self, wrong, signature):
        *shapes, message = WRONG_SHAPES[wrong]
        names = ["words", "characters", "lengths"]
        inputs = {k: np.ones(n, "int32") for k, n in zip(names, shapes, strict=True)}
        if signature == "unpadded":
            del inputs["lengths"]
        name, shapes_in_words = message.split(" ", 1)
        return inputs, rf"assertion failed: \[{name} must have the shape {shapes_in_words}"

    def test_are_an_error_of_one_line_with_the_name_what_came_and_what_was_wanted(
        self, exported, wrong, signature
    ):
        inputs, message = self.inputs(wrong, signature)
        given = {name: tf.constant(value) for name, value in inputs.items()}
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            exported.signatures[signature](**given)
        assert any(re.search(message, line) for line in str(raised.value).splitlines())

    def test_are_the_same_error_in_a_session_by_which_a_server_runs(
        self, session, wrong, signature
    ):
        inputs, message = self.inputs(wrong, signature)
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session(signature, inputs)
        assert re.search(message, str(raised.value).splitlines()[0])


@pytest.fixture(scope="module")
def session(exported):
    """A function that runs a signature as servers do: nothing looks at the shapes of the inputs."""
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], exported.directory)

    def run(signature, inputs):
        definition = loaded.signature_def[signature]
        options = config_pb2.CallableOptions(
            feed=[definition.inputs[name].name for name in inputs],
            fetch=[tensor.name for tensor in definition.outputs.values()],
        )
        return session._make_callable_from_options(options)(*inputs.values())

    yield run
    session.close()


class TestStrictJson:
    """Numbers that JSON has, whatever the model gives."""

    @pytest.fixture(scope="class")
    def signatures(self, tmp_path_factory):
        directory = str(tmp_path_factory.mktemp("scores") / "1")
        scores = keras.Input((None, 3), name="scores")
        layer = CRFLayer(3, use_kernel=False, tag_names=toys.TEXT_TAGS, scheme="BIO")
        export_tagger(keras.Model(scores, layer(scores)), directory, top_k=9)
        return tf.saved_model.load(directory).signatures

    def served(self, signatures, name, scores, lengths):
        inputs = {"scores": tf.constant(scores), "lengths": tf.constant(lengths)}
        if name == "unpadded":
            del inputs["lengths"]
        outputs = {key: v.numpy() for key, v in signatures[name](**inputs).items()}
        numbers = {key: v.tolist() for key, v in outputs.items() if v.dtype != object}
        assert json.loads(json.dumps(numbers, allow_nan=False)).keys() == numbers.keys()
        return outputs

    @pytest.mark.parametrize("name", ["serving_default", "unpadded", "marginals", "top_k"])
    def test_no_signature_gives_infinities_or_nan(self, signatures, name):
        numbers = [0, 1, 80, -90, 1e20, 1e38, -1e38, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan]
        random = np.random.default_rng(0)
        for steps in (1, 2, 7):
            scores = random.choice(np.array(numbers, "float32"), [200, steps, 3])
            lengths = random.integers(0, steps + 1, 200).astype("int32")
            self.served(signatures, name, scores, lengths)

    WITHOUT_ANSWER = {
        "nan": [[0, np.nan, 0], [0, 0, 0]],
        "infinite": [[np.inf, 0, 0], [0, 0, 0]],
        "no tag allowed": [[0, 0, 0], [-np.inf] * 3],
        "no path allowed": [[-np.inf, -np.inf, 0], [0, 0, 0]],  # that begins with an I-
    }

    @pytest.mark.parametrize("kind", WITHOUT_ANSWER)
    def test_a_row_without_an_answer_is_told_by_its_log_prob_and_by_empty_tags(
        self, signatures, kind
    ):
        scores = np.array([self.WITHOUT_ANSWER[kind], [[9, 0, 0], [0, 9, 0]]], "float32")
        for name in ("marginals", "unpadded"):
            served = self.served(signatures, name, scores, [2, 2])
            assert served["log_prob"][0] == LOWEST
            assert served["tags"][0].tolist() == [b"", b""]
            for key in served.keys() - {"log_prob", "tags"}:
                assert not served[key][0].any()
            assert served["tags"][1].tolist() == [b"O", b"B-Ort"]  # the others go on
            assert served["log_prob"][1] > -1
        served = self.served(signatures, "top_k", scores, [2, 2])
        assert not served["valid"][0].any()
        assert (served["score"][0] == LOWEST).all()
        assert (served["log_prob"][0] == LOWEST).all()
        assert (served["tags"][0] == b"").all()
        assert served["valid"][1].tolist() == [True] * 5 + [False] * 4

    def test_fewer_than_k_paths(self, signatures):
        served = self.served(signatures, "top_k", np.zeros([1, 1, 3], "float32"), [1])
        assert served["valid"].tolist() == [[True] * 2 + [False] * 7]
        np.testing.assert_allclose(np.exp(served["log_prob"][0, :2]).sum(), 1, rtol=1e-6)
        assert (served["log_prob"][0, 2:] == LOWEST).all()
        assert served["tags"][0, :, 0].tolist() == [b"O", b"B-Ort"] + [b""] * 7


class TestEachKindOfModel:
    """Beside the functional and the subclassed models above and below."""

    def test_a_sequential_model_of_strings_has_the_same_names_f5(self, text_export):
        signature = text_export.signatures["serving_default"]
        assert by_name(signature.structured_input_signature[1]) == {
            "words": ("string", [None, None]),
            "lengths": ("int32", [None]),
        }
        assert by_name(signature.structured_outputs) == TestSignatures.TAGGED

    def test_the_vocabulary_and_the_rules_of_the_scheme_lie_in_the_graph_f13(self, text_export):
        lengths = [6, 1, 4] * 20
        words = tf.constant(toys.texts(lengths))
        signature = text_export.signatures["serving_default"]
        served = signature(words=words, lengths=tf.constant(lengths))
        kept = tf.sequence_mask(lengths)
        distribution = distribution_of(text_export.model(tf.where(kept, words, "")))
        np.testing.assert_array_equal(served["tag_ids"], distribution.argmax().tags)
        paths = [
            [name.decode() for name in row[:length]]
            for row, length in zip(served["tags"].numpy(), lengths, strict=True)
        ]
        assert {name for path in paths for name in path} == set(toys.TEXT_TAGS)
        assert all(tags.is_legal(path, "BIO") for path in paths)

    @pytest.mark.slow  # the other modes stand above and below
    def test_a_model_whose_output_are_potentials(self, tmp_path):
        model = toys.tagger(output_mode="potentials")
        export_tagger(model, tmp_path / "1")
        signature = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
        words, _ = toys.sentences([5, 5])
        served = signature(words=tf.constant(words), lengths=tf.constant([5, 5]))
        distribution = distribution_of(model(words))
        np.testing.assert_array_equal(served["tag_ids"], distribution.argmax().tags)


class TestTheDirectory:
    @pytest.fixture
    def model(self):
        return toys.tagger()

    def test_a_version_that_is_there_is_not_touched(self, model, tmp_path):
        (tmp_path / "1").mkdir()
        message = r"1 is there already\. Export the next version .* or pass overwrite=True"
        with pytest.raises(FileExistsError, match=message):
            export_tagger(model, tmp_path / "1")
        assert list(tmp_path.rglob("*")) == [tmp_path / "1"]

    @pytest.mark.slow
    def test_overwrite_replaces_all_of_it(self, model, tmp_path):
        (tmp_path / "1").mkdir()
        (tmp_path / "1" / "old").touch()
        export_tagger(model, tmp_path / "1", overwrite=True)
        assert [path.name for path in tmp_path.iterdir()] == ["1"]
        assert not (tmp_path / "1" / "old").exists()
        assert tf.saved_model.contains_saved_model(str(tmp_path / "1"))

    def test_a_server_that_polls_sees_a_whole_version_or_none(self, model, tmp_path):
        seen = set()

        def poll():
            while "1" not in seen:
                seen.update(path.name for path in tmp_path.iterdir())
            loads.append(tf.saved_model.load(str(tmp_path / "1")).signatures["marginals"])

        loads = []
        server = threading.Thread(target=poll, daemon=True)
        server.start()
        export_tagger(model, tmp_path / "1")
        server.join(timeout=60)
        assert len(loads) == 1
        unfinished = seen - {"1"}
        assert unfinished
        assert all(name.startswith(".1.unfinished") for name in unfinished)

    def test_an_export_that_fails_leaves_nothing_behind(self, tmp_path):
        model = keras.Sequential([keras.Input((None, 4)), CRFLayer(3), keras.layers.Dense(3)])
        with pytest.raises(ValueError, match="carries no LinearChainCRF"):
            export_tagger(model, tmp_path / "1")
        assert not list(tmp_path.iterdir())

    @pytest.mark.slow
    def test_a_process_that_is_killed_while_it_writes_leaves_no_version(self, tmp_path):
        command = [sys.executable, "-c", KILLED_HALF_WAY, tmp_path / "1"]
        environment = {**os.environ, "PYTHONPATH": toys.PYTHON_PATH}
        assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
        (leftover,) = tmp_path.iterdir()
        assert not leftover.name.isdigit()
        assert any(leftover.iterdir())
        export_tagger(toys.tagger(), tmp_path / "1")  # and is in nobody's way


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


@pytest.mark.slow
class TestSavedModelCli:
    """The command that comes with TensorFlow, on the same export."""

    def run(self, *arguments):
        return toys.run_python(
            "import sys; sys.modules['keras_crf'] = None\n"
            "from tensorflow.python.tools import saved_model_cli\n"
            "saved_model_cli.main()",
            *arguments,
        )

    def test_shows_the_signature(self, text_export):
        shown = self.run(
            "show",
            "--dir",
            text_export.directory,
            "--tag_set",
            "serve",
            "--signature_def",
            "serving_default",
        )
        for name in ("words", "lengths", "tag_ids", "tags", "confidence", "log_prob"):
            assert f"['{name}'] tensor_info" in shown

    def test_runs_it(self, text_export):
        shown = self.run(
            *["run", "--dir", text_export.directory, "--tag_set", "serve"],
            *["--signature_def", "serving_default", "--input_exprs"],
            "words=[['a', 'flight', 'to', 'York']];lengths=[4]",
        )
        tagger = text_export.signatures["serving_default"]
        words = tf.constant([["a", "flight", "to", "York"]])
        names = tagger(words=words, lengths=tf.constant([4]))["tags"].numpy()
        assert f"Result for output key tags:\n{names}\n" in shown


class TestBadInput:
    def test_a_subclassed_model_needs_an_input_signature(self, tmp_path):
        message = r"inputs of Subclassed .* are not known\. Pass input_signature=.*tf\.TensorSpec"
        with pytest.raises(ValueError, match=message):
            export_tagger(Subclassed(), tmp_path)

    def test_the_output_carries_a_distribution(self, tmp_path):
        model = keras.Sequential([keras.Input((None, 4)), CRFLayer(3), keras.layers.Dense(3)])
        with pytest.raises(ValueError, match=r"carries no LinearChainCRF.*CRFLayer be the last"):
            export_tagger(model, tmp_path / "1")

    @pytest.mark.parametrize("tag_names", [["O"], ["O", "X", "X"]])
    def test_tag_names_are_one_a_tag_and_all_different(self, tmp_path, tag_names):
        with pytest.raises(ValueError, match="tag_names must be 3 different names"):
            export_tagger(toys.tagger(), tmp_path, tag_names)

    @pytest.mark.parametrize("top_k", [0, 2.5, "3"])
    def test_top_k_is_a_number_of_paths(self, tmp_path, top_k):
        with pytest.raises(ValueError, match="top_k must be a whole number of at least 1"):
            export_tagger(toys.tagger(), tmp_path / "1", top_k=top_k)

    @pytest.mark.filterwarnings("error")  # to be done with it
    def test_an_axis_that_a_server_would_fill_up_with_what_it_likes_is_warned_of(self, tmp_path):
        characters = keras.Input((None, None), dtype="int32", name="characters")
        features = keras.ops.max(embedding(9)(characters), axis=2)
        model = keras.Model(characters, CRFLayer(3)(features))
        message = r"Axis 2 of the input 'characters' .* no fixed size"
        with pytest.raises(UserWarning, match=message):
            export_tagger(model, tmp_path / "1")


def two_inputs(names=("words", "capitals"), structure=list, dtype="int32"):
    first, second = (keras.Input((None,), dtype=dtype, name=name) for name in names)
    features = keras.layers.Concatenate()([embedding(20)(first), embedding(20)(second)])
    return keras.Model(structure([first, second]), CRFLayer(3)(features))


class TestOddModels:
    @pytest.mark.slow
    def test_inputs_in_a_nested_structure_are_not_exchanged(self, tmp_path):
        model = two_inputs(structure=lambda two: {"g": {"a": two[0]}, "h": {"b": two[1]}})
        words, capitals = np.array([[3, 4, 5, 6]], "int32"), np.array([[1, 1, 0, 2]], "int32")
        export_tagger(model, tmp_path / "1")
        tagger = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
        served = tagger(
            words=tf.constant(words), capitals=tf.constant(capitals), lengths=tf.constant([4])
        )
        path = model.predict({"g": {"a": words}, "h": {"b": capitals}}, verbose=0).argmax(-1)
        np.testing.assert_array_equal(served["tag_ids"], path)

    @pytest.mark.slow
    def test_an_input_of_the_name_lengths_keeps_its_dtype(self, tmp_path):
        words = keras.Input((None,), dtype="int32", name="words")
        lengths = keras.Input((), dtype="int64", name="lengths")
        lstm = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))
        features = lstm(embedding(20)(words))
        export_tagger(
            keras.Model([words, lengths], CRFLayer(3)(features, lengths=lengths)), tmp_path / "1"
        )
        tagger = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
        log_prob = [
            tagger(words=tf.constant([[3, 4, other]]), lengths=tf.constant([2], tf.int64))
            for other in (0, 9)
        ]
        assert log_prob[0]["log_prob"] == log_prob[1]["log_prob"]

    @pytest.mark.parametrize("name", ["my words", "wörter", "_w", "a$b", "self"])
    def test_input_names_that_no_signature_can_have_are_refused(self, tmp_path, name):
        with pytest.raises(ValueError, match="no signature can have an input of the name"):
            export_tagger(two_inputs((name, "other")), tmp_path / "1")

    def test_another_input_of_the_name_lengths_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match=r"'lengths' must be whole numbers \[batch"):
            export_tagger(two_inputs(("words", "lengths")), tmp_path / "1")

    def test_tag_names_of_a_layer_that_is_not_found_are_counted_too(self, tmp_path):
        class Head(keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.crf = CRFLayer(3)

            def call(self, features):
                return self.crf(features)

        words = keras.Input((None,), dtype="int32", name="words")
        with pytest.raises(ValueError, match="tag_names must be 3 different names"):
            export_tagger(keras.Model(words, Head()(embedding(20)(words))), tmp_path / "1", ["O"])


def test_a_symbolic_link_is_not_written_through(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "saved_model.pb").write_text("kept")
    (tmp_path / "current").symlink_to("7")
    with pytest.raises(FileExistsError, match="current is a symbolic link"):
        export_tagger(toys.tagger(), tmp_path / "current", overwrite=True)
    assert (tmp_path / "7" / "saved_model.pb").read_text() == "kept"
