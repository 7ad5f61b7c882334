"""What came out when the library was attacked, and must not come back."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose

from keras_crf import CRFLayer, CRFLoss, LinearChainCRF, export_tagger

POTENTIALS = np.zeros([4, 5, 2], np.float32)
TRANSITIONS = np.zeros([2, 2], np.float32)


@tf.function(input_signature=[tf.TensorSpec([None] * 3), tf.TensorSpec([None] * 2, tf.int32)])
def log_prob(potentials, tags):
    return LinearChainCRF(potentials, TRANSITIONS).log_prob(tags)


@tf.function(input_signature=[tf.TensorSpec([None] * 3), tf.TensorSpec([None] * 2, tf.int32)])
def log_partition_of_mask(potentials, mask):
    return LinearChainCRF(potentials, TRANSITIONS, mask=mask).log_partition()


@tf.function(input_signature=[tf.TensorSpec([None] * 3), tf.TensorSpec([None], tf.int32)])
def log_partition_of_lengths(potentials, lengths):
    return LinearChainCRF(potentials, TRANSITIONS, lengths=lengths).log_partition()


@pytest.mark.parametrize(
    ("function", "name", "shape"),
    [
        (log_prob, "tags", [1, 5]),
        (log_prob, "tags", [4, 1]),
        (log_partition_of_mask, "mask", [1, 5]),
        (log_partition_of_mask, "mask", [4, 1]),
        (log_partition_of_lengths, "lengths", [1]),
    ],
)
def test_an_axis_of_one_is_not_spread_over_rows_or_steps_of_unknown_shape(function, name, shape):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must have the batch"):
        function(POTENTIALS, np.ones(shape, np.int32))


def test_nan_features_on_a_dropped_step_leave_every_gradient_finite():
    features = np.ones([2, 4, 5], np.float32)
    features[:, 2] = np.nan
    mask = np.array([[1, 1, 0, 1]] * 2)
    layer = CRFLayer(3)
    with tf.GradientTape() as tape:
        loss = CRFLoss()(np.zeros([2, 4], int), layer(features, mask=mask))
    gradients = tape.gradient(loss, [weight.value for weight in layer.trainable_weights])
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert np.abs(gradients[0]).max() > 0


def test_labels_may_come_as_rank_two_and_then_as_rank_three():
    model = keras.Sequential([keras.layers.Embedding(20, 8, mask_zero=True), CRFLayer(3)])
    model.compile("adam", loss=CRFLoss())
    words = np.arange(1, 13).reshape(3, 4)
    tags, weights = words % 3, np.array([1.0, 2.0, 0.0])
    losses = [
        model.evaluate(words, labels, sample_weight=sample_weight, verbose=0)
        for labels in (tags, tags[..., None])
        for sample_weight in (weights, weights[:, None])
    ]
    assert_allclose(losses, losses[0], rtol=1e-6)


@pytest.mark.slow
def test_what_stands_behind_the_length_does_not_matter_where_time_is_fixed(tmp_path):
    words = keras.Input((6,), dtype="int32", name="words")
    features = keras.layers.Embedding(20, 8, mask_zero=True)(words)
    features = keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))(features)
    export_tagger(keras.Model(words, CRFLayer(3)(features)), tmp_path / "1")
    tagger = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    answers = [
        tagger(words=tf.constant([[3, 4, 5, other, other, other]]), lengths=tf.constant([3]))
        for other in (0, 5, 11)
    ]
    for answer in answers[1:]:
        assert_allclose(answer["log_prob"], answers[0]["log_prob"], rtol=1e-6)
        assert_allclose(answer["tag_ids"], answers[0]["tag_ids"])


def test_a_model_with_two_outputs_is_told_to_choose(tmp_path):
    words = keras.Input((None,), dtype="int32", name="words")
    features = keras.layers.Embedding(20, 8, mask_zero=True)(words)
    model = keras.Model(words, {"one": CRFLayer(3)(features), "two": CRFLayer(2)(features)})
    with pytest.raises(ValueError, match="takes a model with one output"):
        export_tagger(model, tmp_path / "1")


def test_components_that_nearly_tie_after_hundreds_of_steps_keep_their_digits():
    rng = np.random.default_rng(0)
    potentials = rng.normal(size=[2, 300, 6]).astype(np.float32)
    potentials[:, 150:, 3:] -= 60
    potentials[:, :150, 3:] += 59.9
    transitions = np.full([6, 6], -np.inf, np.float32)
    transitions[:3, :3] = rng.normal(size=[3, 3])
    transitions[3:, 3:] = rng.normal(size=[3, 3])
    tags = np.stack([rng.integers(0, 3, 300), rng.integers(3, 6, 300)])
    single, double = (
        LinearChainCRF(potentials.astype(dtype), transitions.astype(dtype)).log_prob(tags).numpy()
        for dtype in (np.float32, np.float64)
    )
    assert np.all(np.abs(single - double) <= 1e-5 * (1 + np.abs(double)))


@tf.function(jit_compile=True)
def narrowed_after_rules(lengths):
    rules = np.ones([2, 2], bool), np.ones(2, bool), np.ones(2, bool)
    crf = LinearChainCRF(POTENTIALS, TRANSITIONS, lengths=lengths).constrained(rules)
    return crf.narrowed(lengths=tf.zeros_like(lengths)).log_partition()


def test_lengths_that_were_wrong_stay_so_where_rows_are_narrowed_under_xla():
    log_partition = narrowed_after_rules(tf.constant([99, 2, 3, 0]))
    assert np.isnan(log_partition).tolist() == [True, False, False, False]
