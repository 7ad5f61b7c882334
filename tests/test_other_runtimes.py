"""LiteRT and ONNX: what docs/other-runtimes.md says works gives the tags of the model."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_crf import CRFLayer

ROWS, TAGS = 1000, 5
STEPS = (1, 3, 8, 16, 40)

to_litert = pytest.mark.skipif(
    "litert" not in keras.Model.export.__doc__, reason="this Keras does not export to LiteRT"
)


def of_words(steps, output_mode="int", lstm=False):
    """Ids, of which 0 is dropped wherever it stands."""
    words = keras.Input((steps,), dtype="int32", name="words")
    vectors = keras.initializers.RandomNormal(stddev=2)  # so that words have different tags
    embedding = keras.layers.Embedding(30, 6, mask_zero=True, embeddings_initializer=vectors)
    features = embedding(words)
    if lstm:
        features = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(features)
    return keras.Model(words, CRFLayer(TAGS, output_mode=output_mode)(features))


def of_potentials(steps, output_mode="int"):
    """Scores and lengths."""
    potentials = keras.Input((steps, TAGS), name="potentials")
    lengths = keras.Input((), dtype="int32", name="lengths")
    layer = CRFLayer(
        TAGS, use_kernel=False, output_mode=output_mode, transitions_initializer="random_normal"
    )
    return keras.Model([potentials, lengths], layer(potentials, lengths=lengths))


def random_inputs(model, steps):
    """1,000 rows for each input of the model, by name; a fifth of the words are dropped."""
    rng = np.random.default_rng(steps)
    words = rng.integers(1, 30, [ROWS, steps]) * (rng.random([ROWS, steps]) < 0.8)
    everything = {
        "words": words.astype("int32"),
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
        assert len(np.unique(result)) == TAGS
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
