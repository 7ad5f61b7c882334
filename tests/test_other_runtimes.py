"""LiteRT and ONNX: what docs/other-runtimes.md says works gives the tags of the model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_crf import CRFLayer

ROWS = 1000
NAMES = ["O", "B-X", "I-X", "B-Y", "I-Y"]
TAGS = len(NAMES)
STEPS = (1, 3, 8, 16, 40)
MODES = ("int", "one_hot", "marginals", "potentials")

OWN_RULES = ~np.tri(TAGS, k=-2, dtype=bool), np.arange(TAGS) < 4, np.arange(TAGS) > 0
SCHEME = {"tag_names": NAMES, "scheme": "BIO"}
OPTIONS = {
    "scheme": SCHEME,
    "own rules": {"scheme": OWN_RULES},
    "no boundary": {"use_boundary": False},
    "no kernel": {"use_kernel": False},
    "pad_tag": {"pad_tag": -1},
    "lengths": {"given": ("lengths",)},
    "mask": {"given": ("mask",)},
    "lr_multiplier and jit_compile": {"lr_multiplier": 5.0, "jit_compile": True},
    "all": {**SCHEME, "use_kernel": False, "pad_tag": 7, "given": ("mask", "lengths")},
}
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
every_mode = pytest.mark.parametrize("output_mode", MODES)

to_litert = pytest.mark.skipif(
    "litert" not in keras.Model.export.__doc__, reason="this Keras does not export to LiteRT"
)


def of_words(steps, output_mode="int", lstm=False, given=(), **options):
    """Ids, of which 0 is dropped wherever it stands; `given` to the CRF are a mask or lengths."""
    keras.utils.set_random_seed(7)
    words = keras.Input((steps,), dtype="int32", name="words")
    inputs = {
        "mask": keras.Input((steps,), dtype="bool", name="mask"),
        "lengths": keras.Input((), dtype="int32", name="lengths"),
    }
    vectors = keras.initializers.RandomNormal(stddev=2)  # so that words have different tags
    embedding = keras.layers.Embedding(
        30, TAGS, mask_zero="mask" not in given, embeddings_initializer=vectors
    )
    features = embedding(words)
    if lstm:
        features = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(features)
    options = {"boundary_initializer": "random_normal", **options}
    layer = CRFLayer(TAGS, output_mode=output_mode, **options)
    inputs = {name: inputs[name] for name in given}
    return keras.Model([words, *inputs.values()], layer(features, **inputs))


def of_potentials(steps, output_mode="int"):
    """Scores and lengths."""
    potentials = keras.Input((steps, TAGS), name="potentials")
    lengths = keras.Input((), dtype="int32", name="lengths")
    layer = CRFLayer(
        TAGS, use_kernel=False, output_mode=output_mode, transitions_initializer="random_normal"
    )
    return keras.Model([potentials, lengths], layer(potentials, lengths=lengths))


def random_inputs(model, steps):
    """1,000 rows for each input of the model, by name; a fifth of the steps are dropped."""
    rng = np.random.default_rng(steps)
    words = rng.integers(1, 30, [ROWS, steps]) * (rng.random([ROWS, steps]) < 0.8)
    everything = {
        "words": words.astype("int32"),
        "mask": rng.random([ROWS, steps]) < 0.8,
        "potentials": rng.normal(size=[ROWS, steps, TAGS]).astype("float32"),
        "lengths": rng.integers(0, steps + 1, ROWS).astype("int32"),
    }
    return {tensor.name: everything[tensor.name] for tensor in model.inputs}


def signature(model, batch):
    """What `export` takes: the inputs of the model with this size of the batch."""
    specs = [
        tf.TensorSpec([batch, *tensor.shape[1:]], tensor.dtype, name=tensor.name)
        for tensor in model.inputs
    ]
    return specs if len(specs) == 1 else [specs]


def assert_gives_what_the_model_gives(run, model, steps):
    inputs = random_inputs(model, steps)
    given = list(inputs.values()) if len(inputs) > 1 else inputs["words"]
    expected = model.predict(given, batch_size=ROWS, verbose=0)
    result = run(inputs)
    if result.dtype == np.int32:
        assert len(np.unique(result)) >= 3  # so that equality says something
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, atol=1e-6)


@to_litert
class TestLiteRT:
    """Of builtin ops alone, with a size of the batch that is known."""

    def converted(self, model, batch, path):
        """A function from inputs to the output, by the interpreter."""
        builtins = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
        model.export(
            str(path),
            format="litert",
            input_signature=signature(model, batch),
            target_spec=builtins,
            verbose=False,
        )
        interpreter = tf.lite.Interpreter(str(path))

        def run(inputs):
            runner = interpreter.get_signature_runner()
            batches = (
                runner(**{name: value[first : first + batch] for name, value in inputs.items()})
                for first in range(0, ROWS, batch)
            )
            return np.concatenate([output.copy() for (output,) in map(dict.values, batches)])

        return run

    def test_tags_are_equal_where_steps_are_unknown_f10(self, tmp_path):
        model = of_words(None)
        run = self.converted(model, 1, tmp_path / "tagger.tflite")
        for steps in STEPS:
            assert_gives_what_the_model_gives(run, model, steps)

    @pytest.mark.slow
    @pytest.mark.parametrize(("batch", "steps"), [(1, 16), (1, None), (50, None)])
    @pytest.mark.parametrize(
        "make",
        [
            of_words,
            of_potentials,
            lambda steps: of_words(steps, lstm=True),
            lambda steps: of_words(steps, "one_hot"),
            lambda steps: of_words(steps, "marginals"),
            lambda steps: of_words(steps, "potentials"),
        ],
        ids=["words", "potentials and lengths", "LSTM", "one_hot", "marginals", "potentials"],
    )
    def test_every_kind_of_model_and_output_is_equal_f9_f10(self, tmp_path, make, batch, steps):
        model = make(steps)
        run = self.converted(model, batch, tmp_path / "tagger.tflite")
        for number in STEPS if steps is None else (steps,):
            assert_gives_what_the_model_gives(run, model, number)

    def test_under_a_scheme_only_builtin_ops_are_needed(self, tmp_path):
        model = of_words(None, **SCHEME)
        run = self.converted(model, 1, tmp_path / "tagger.tflite")
        assert_gives_what_the_model_gives(run, model, 8)

    @pytest.mark.slow
    @every_mode
    @every_option
    def test_every_option_in_every_output_mode_is_equal(self, tmp_path, options, output_mode):
        model = of_words(None, output_mode, **options)
        run = self.converted(model, 50, tmp_path / "tagger.tflite")
        for steps in STEPS:
            assert_gives_what_the_model_gives(run, model, steps)

    @pytest.mark.slow
    @every_mode
    def test_a_scheme_and_an_lstm_are_equal(self, tmp_path, output_mode):
        model = of_words(None, output_mode, lstm=True, **SCHEME)
        run = self.converted(model, 1, tmp_path / "tagger.tflite")
        for steps in STEPS:
            assert_gives_what_the_model_gives(run, model, steps)


@pytest.mark.slow
class TestONNX:
    """Of any batch and number of steps."""

    def converted(self, model, path):
        """A function from inputs to the output, by ONNX Runtime."""
        pytest.importorskip("tf2onnx", reason="converts to ONNX")
        onnxruntime = pytest.importorskip("onnxruntime", reason="runs ONNX")
        model.export(
            str(path), format="onnx", input_signature=signature(model, None), verbose=False
        )
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return lambda inputs: session.run(None, inputs)[0]

    @pytest.mark.parametrize(
        "make",
        [
            lambda: of_words(None),
            lambda: of_potentials(None),
            lambda: of_words(None, lstm=True),
            lambda: of_words(None, "one_hot"),
            lambda: of_words(None, "marginals"),
            lambda: of_words(None, "potentials"),
        ],
        ids=["words", "potentials and lengths", "LSTM", "one_hot", "marginals", "potentials"],
    )
    def test_every_kind_of_model_and_output_is_equal_f9(self, tmp_path, make):
        model = make()
        run = self.converted(model, tmp_path / "tagger.onnx")
        for steps in STEPS:
            assert_gives_what_the_model_gives(run, model, steps)

    @every_mode
    @every_option
    def test_every_option_in_every_output_mode_is_equal(self, tmp_path, options, output_mode):
        model = of_words(None, output_mode, **options)
        run = self.converted(model, tmp_path / "tagger.onnx")
        for steps in STEPS:
            assert_gives_what_the_model_gives(run, model, steps)

    @every_mode
    def test_a_scheme_and_an_lstm_are_equal(self, tmp_path, output_mode):
        model = of_words(None, output_mode, lstm=True, **SCHEME)
        run = self.converted(model, tmp_path / "tagger.onnx")
        for steps in STEPS:
            assert_gives_what_the_model_gives(run, model, steps)
