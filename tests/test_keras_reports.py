"""Checks from public reports about CRF layers in Keras models.

Their ids (a24, d7, ...) stand in the names of the tests: here, and in the tests of the modules
where the same is asked for another reason.
"""

import io

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, distribution_of


def bilstm_crf(num_tags=3, **options):
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(20, 4, mask_zero=True),
            keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True)),
            keras.layers.Dense(5),
            CRFLayer(num_tags, **options),
        ]
    )
    model.compile(keras.optimizers.Adam(0.1), loss=CRFLoss())
    model.optimizer.build(model.trainable_variables)  # else Keras traces the first step twice
    return model


class TestMasking:
    def test_a15_junk_behind_a_bidirectional_lstm_changes_nothing_and_the_loss_stays_above_0(self):
        words, tags = toys.sentences()
        model = bilstm_crf()
        before = float(CRFLoss()(tags, model(words)))
        vectors = model.layers[0].embeddings
        vectors.assign(np.where(np.arange(20)[:, np.newaxis] == 0, 1e4, vectors))
        assert float(CRFLoss()(tags, model(words))) == before
        losses = model.fit(words, tags, batch_size=6, epochs=200, verbose=0).history["loss"]
        assert min(losses) >= 0
        assert losses[-1] < losses[0] / 10

    @toys.accuracy_leaves_out_padding
    @pytest.mark.parametrize("mask_zero", [True, False])
    def test_a24_d9_validation_accuracy_is_that_of_the_steps_that_are_kept(self, mask_zero):
        words, tags = toys.sentences()
        kept = (words > 0) | (not mask_zero)
        tags = np.maximum(tags, 0)
        embedding = keras.layers.Embedding(20, 4, mask_zero=mask_zero)
        model = keras.Sequential([embedding, CRFLayer(3)])
        model.compile("sgd", loss=CRFLoss(), metrics=["accuracy"], run_eagerly=True)
        history = model.fit(words, tags, validation_data=(words, tags), verbose=0).history
        outputs = model(words)
        right = (np.argmax(outputs, -1) == tags)[kept]
        np.testing.assert_array_equal(distribution_of(outputs).mask, kept)
        assert history["val_accuracy"] == [pytest.approx(right.mean(), abs=1e-6)]

    def test_c2_masking_with_holes_and_empty_rows_trains_without_nan(self):
        features = np.random.default_rng(0).normal(size=[4, 6, 3]).astype("float32")
        features[0] = 0
        features[1, 2:4] = 0
        features[2, 3:] = 0
        tags = np.random.default_rng(1).integers(0, 3, [4, 6])
        model = keras.Sequential([keras.layers.Masking(0.0), CRFLayer(3)])
        model.compile(keras.optimizers.Adam(0.1), loss=CRFLoss(), run_eagerly=True)
        losses = [toys.loss_of_step(model, features, tags) for _ in range(50)]
        assert np.all(np.isfinite(losses))
        assert losses[-1] < losses[0]
        assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())


class TestShapes:
    def test_b4_batches_of_other_lengths_train_one_model_as_they_would_a_new_one(self):
        model = toys.tagger(optimizer=keras.optimizers.SGD(0.1))
        for steps in (7, 3, 1, 12):
            words, tags = toys.sentences(lengths=(steps, 1), steps=steps)
            fresh = toys.tagger(optimizer=keras.optimizers.SGD(0.1))
            fresh.set_weights(model.get_weights())
            loss, fresh_loss = (toys.loss_of_step(m, words, tags) for m in (model, fresh))
            assert loss == pytest.approx(fresh_loss, rel=1e-6)

    @pytest.mark.parametrize("labels", ["int32", "int64", "float32"])
    @pytest.mark.parametrize("last_axis", [False, True])
    def test_b5_labels_of_every_dtype_and_rank_go_through_fit(self, labels, last_axis):
        y = toys.LABELS.astype(labels)
        y = y[..., np.newaxis] if last_axis else y
        fitted = toys.x1_model().fit([toys.POTENTIALS, toys.LENGTHS], y, verbose=0)
        assert fitted.history["loss"] == [pytest.approx(1.164717, abs=1e-5)]

    def test_b5_i13_one_hot_labels_go_through_fit(self):
        inputs = [toys.POTENTIALS, toys.LENGTHS]
        fitted = toys.x1_model().fit(inputs, np.eye(2)[toys.LABELS], verbose=0)
        assert fitted.history["loss"] == [pytest.approx(1.164717, abs=1e-5)]

    def test_b8_labels_longer_than_the_outputs_are_refused_in_fit_with_both_shapes(self):
        words, _ = toys.sentences()
        with pytest.raises(ValueError, match=r"y_true of the shape \(6, 7\).*\(6, 5, 3\)"):
            toys.tagger().fit(words, np.zeros([6, 7], int), verbose=0)

    def test_b15_a_batch_of_no_rows_or_no_steps_has_no_loss_and_no_tags(self):
        layer = toys.layer_with(toys.TRANSITIONS, output_mode="int")

        @tf.function(input_signature=[tf.TensorSpec([None, None, 2])])
        def tagged(potentials):
            outputs = layer(potentials)
            return (
                outputs,
                CRFLoss(reduction="none")(tf.zeros_like(outputs), outputs),
                CRFLoss()(tf.zeros_like(outputs), outputs),
            )

        tags, losses, mean = tagged(np.zeros([0, 5, 2], "float32"))
        assert (tags.shape, losses.shape, float(mean)) == ((0, 5), (0,), 0.0)
        tags, losses, mean = tagged(np.zeros([3, 0, 2], "float32"))
        assert (tags.shape, losses.numpy().tolist(), float(mean)) == ((3, 0), [0, 0, 0], 0.0)


class TestNumerics:
    def test_c4_large_potentials_have_a_loss_that_is_right_and_never_below_0(self):
        layer = toys.layer_with(toys.TRANSITIONS)
        row = toys.POTENTIALS[1:] + 1e4
        assert float(CRFLoss()(toys.LABELS[1:], layer(row))) == pytest.approx(2.016171, abs=5e-3)
        losses = CRFLoss(reduction="none")([[0, 0, 1]], layer(toys.POTENTIALS[1:] * 1e3))
        assert np.isfinite(losses[0])
        assert losses[0] >= 0

    def test_c6_rows_repeated_give_the_same_loss_in_evaluate(self):
        inputs = [np.repeat(array, 8, axis=0) for array in (toys.POTENTIALS, toys.LENGTHS)]
        labels = np.repeat(toys.LABELS, 8, axis=0)
        model = toys.x1_model()
        for batch_size in (16, 5, 1):
            loss = model.evaluate(inputs, labels, batch_size=batch_size, verbose=0)
            assert loss == pytest.approx(1.164717, abs=1e-5)

    def test_c11_no_alarm_of_check_numerics_in_an_epoch_on_random_data(self):
        tf.debugging.enable_check_numerics()
        try:
            model = toys.tagger(run_eagerly=False)  # eagerly, graphs from before would be run
            for steps in (1, 7, 50):
                words, tags = toys.sentences(lengths=(steps, 1, 0), steps=steps)
                assert np.isfinite(model.train_on_batch(words, tags))
            model.get_layer("crf").bias.assign([np.nan] * 3)
            with pytest.raises(tf.errors.InvalidArgumentError, match="check_numerics"):
                model.train_on_batch(words, tags)
        finally:
            tf.debugging.disable_check_numerics()


class TestIntegration:
    def test_a23_int_tags_on_kept_steps_are_tags_and_padding_cannot_be_mistaken(self):
        words, _ = toys.sentences()
        predicted = toys.tagger(output_mode="int", pad_tag=-1).predict(words, verbose=0)
        np.testing.assert_array_equal(predicted == -1, words == 0)
        assert set(np.unique(predicted)) <= {-1, 0, 1, 2}

    def test_d8_the_names_of_loss_and_metrics_do_not_collide(self):
        model = toys.tagger(metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)])
        reported = model.evaluate(*toys.sentences(), verbose=0, return_dict=True)
        assert set(reported) == {"loss", "accuracy", "sparse_top_k_categorical_accuracy"}

    def test_d14_sequential_takes_the_layer_behind_dense_without_its_own_kernel(self):
        words, tags = toys.sentences()
        model = keras.Sequential(
            [
                keras.layers.Embedding(20, 4, mask_zero=True),
                keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True)),
                keras.layers.Dense(3),
                CRFLayer(3, use_kernel=False, use_boundary=False),
            ]
        )
        model.compile("adam", loss=CRFLoss(), run_eagerly=True)
        assert np.isfinite(model.train_on_batch(words, tags))
        assert model.predict_on_batch(words).shape == (6, 5, 3)
        assert [weight.name for weight in model.layers[-1].weights] == ["transitions"]

    def test_d18_the_summary_counts_the_weights_of_the_layer(self):
        model = keras.Sequential([keras.Input((None, 7)), CRFLayer(7, use_kernel=False)])
        text = io.StringIO()
        model.summary(print_fn=lambda line: text.write(line + "\n"))
        assert "Trainable params: 63" in text.getvalue()
        model.layers[0].trainable = False
        text = io.StringIO()
        model.summary(print_fn=lambda line: text.write(line + "\n"))
        assert "Non-trainable params: 63" in text.getvalue()
