"""The option `jit_compile`: XLA for the distribution alone, in a graph that is not compiled."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose

from keras_crf import CRFLayer, CRFLoss, LinearChainCRF, export_tagger, graphs
from regimes import must_compile

TAGS = 3


def draw_rows(steps):
    rng = np.random.default_rng(steps)
    potentials = rng.normal(size=[2, steps, TAGS]).astype("float32")
    return potentials, rng.integers(0, TAGS, [2, steps]), rng.random([2, steps]) < 0.7


@tf.function(
    input_signature=[
        tf.TensorSpec([None, None, TAGS]),
        tf.TensorSpec([None, None], tf.int64),
        tf.TensorSpec([None, None], tf.bool),
    ]
)
def answers(potentials, tags, mask):
    """What plain and compiled distributions say, side by side."""
    transitions = tf.reshape(tf.range(9.0), [TAGS, TAGS]) / 5
    both = []
    for jit_compile in (False, True):
        with tf.GradientTape() as tape:
            tape.watch(potentials)
            crf = LinearChainCRF(potentials, transitions, mask=mask, jit_compile=jit_compile)
            log_prob = crf.log_prob(tags)
        gradient = tape.gradient(log_prob, potentials)
        both.append([log_prob, gradient, crf.marginals(), crf.edge_marginals(), *crf.argmax()])
    return both


@pytest.mark.parametrize("steps", [1, 5, 8])
def test_answers_are_those_of_the_plain_distribution(steps):
    for plain, compiled in zip(*answers(*draw_rows(steps)), strict=True):
        assert plain.shape == compiled.shape
        assert_allclose(compiled, plain, rtol=1e-5, atol=1e-6)


def test_a_hundred_numbers_of_steps_meet_ten_sizes_at_most():
    sizes = [graphs.bucket(steps) for steps in range(1, 101)]
    assert len(set(sizes)) <= 10
    assert all(steps <= size <= max(8, 1.5 * steps) for steps, size in enumerate(sizes, 1))
    assert sizes == [int(graphs.bucket(tf.constant(steps))) for steps in range(1, 101)]


def model_with(jit_compile):
    keras.utils.set_random_seed(1)
    words = keras.Input((None,), dtype="int32", name="words")
    features = keras.layers.Embedding(20, 8, mask_zero=True)(words)
    model = keras.Model(words, CRFLayer(TAGS, jit_compile=jit_compile)(features))
    model.compile("sgd", loss=CRFLoss())
    return model


@pytest.fixture(scope="module")
def compiled_model():
    return model_with(jit_compile=True)


WORDS = np.array([[3, 5, 7, 0], [4, 9, 2, 11]])


def test_training_gives_the_weights_of_training_without_it(compiled_model):
    plain_model = model_with(jit_compile=False)
    for model in (plain_model, compiled_model):
        model.train_on_batch(WORDS, WORDS % TAGS)
    for plain, compiled in zip(plain_model.weights, compiled_model.weights, strict=True):
        assert_allclose(compiled, plain, rtol=1e-5, atol=1e-6)


def test_a_label_out_of_range_is_still_an_error(compiled_model):
    with pytest.raises(tf.errors.InvalidArgumentError, match="tags must lie in"):
        compiled_model.train_on_batch(WORDS, np.full_like(WORDS, TAGS))


def test_an_export_holds_no_function_that_must_be_compiled(compiled_model, tmp_path):
    export_tagger(compiled_model, tmp_path / "1")
    tagger = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    assert must_compile(tagger.graph) == []
    tagged = tagger(words=tf.constant(WORDS, tf.int32), lengths=tf.constant([3, 4]))
    assert_allclose(tagged["tag_ids"], compiled_model.predict(WORDS, verbose=0).argmax(-1))


def test_the_training_graph_does_hold_one():
    """What the test above looks for can be found."""
    rows = draw_rows(5)
    graph = answers.get_concrete_function(*map(tf.constant, rows)).graph
    assert must_compile(graph)
