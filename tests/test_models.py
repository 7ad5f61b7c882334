"""CRFLayer and CRFLoss at work in Keras models: compile, fit, evaluate, predict."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, LinearChainCRF, crf, distribution_of, export_tagger

eagerly_and_slowly_as_a_graph = pytest.mark.parametrize(
    "run_eagerly", [True, pytest.param(False, marks=pytest.mark.slow)]
)


def functional():
    words = keras.Input((None,), dtype="int32", name="words")
    features = keras.layers.Embedding(20, 4, mask_zero=True)(words)
    return keras.Model(words, CRFLayer(3, name="tags")(features))


def sequential():
    return keras.Sequential([keras.layers.Embedding(20, 4, mask_zero=True), CRFLayer(3)])


def mean_loss(model, words, tags):
    """The mean of -log p over the rows, from the distribution that the output carries."""
    distribution = distribution_of(model(words))
    return -np.mean(distribution.log_prob(np.maximum(tags, 0)))


class TestEveryKindOfModel:
    @pytest.mark.parametrize(
        ("make", "run_eagerly"),
        [
            (sequential, False),
            (functional, True),
            (toys.Subclassed, True),
            pytest.param(functional, False, marks=pytest.mark.slow),
            pytest.param(toys.Subclassed, False, marks=pytest.mark.slow),
        ],
    )
    def test_fits_evaluates_and_predicts_d3_d4(self, make, run_eagerly):
        words, tags = toys.sentences()
        model = make()
        model.compile(
            keras.optimizers.Adam(0.3),
            loss=CRFLoss(),
            metrics=["accuracy"],
            run_eagerly=run_eagerly,
        )
        model(words)
        model.optimizer.build(model.trainable_variables)  # else Keras traces the first step twice
        history = model.fit(
            words, tags, batch_size=3, epochs=7, validation_data=(words, tags), verbose=0
        ).history
        assert set(history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
        assert history["loss"][-1] < history["loss"][0] / 2
        predicted = model.predict(words, batch_size=4, verbose=0)
        assert np.all((predicted.argmax(-1) == tags)[words > 0])
        assert predicted.shape == (6, 5, 3)
        np.testing.assert_array_equal(predicted.sum(-1), words > 0)
        np.testing.assert_array_equal(
            predicted.argmax(-1), distribution_of(model(words)).argmax().tags
        )

    @pytest.mark.parametrize("make", [sequential, functional, toys.Subclassed])
    def test_trains_tests_and_predicts_on_single_batches(self, make):
        words, tags = toys.sentences()
        model = make()
        model.compile("sgd", loss=CRFLoss(), metrics=["accuracy"], run_eagerly=True)
        first = model.train_on_batch(words, tags, return_dict=True)
        model.reset_metrics()
        tested = model.test_on_batch(words, tags, return_dict=True)
        assert tested["loss"] == pytest.approx(mean_loss(model, words, tags), rel=1e-5)
        assert tested["loss"] < first["loss"]
        np.testing.assert_array_equal(
            model.predict_on_batch(words), model.predict(words, verbose=0)
        )

    @pytest.mark.slow
    def test_trained_batch_by_batch_is_trained_as_by_fit_d27(self):
        words, tags = toys.sentences()
        by_fit, by_hand = (toys.tagger(run_eagerly=False) for _ in range(2))
        by_hand.set_weights(by_fit.get_weights())
        by_fit.fit(words, tags, batch_size=3, epochs=3, shuffle=False, verbose=0)
        for _ in range(3):
            for batch in (slice(0, 3), slice(3, 6)):
                by_hand.train_on_batch(words[batch], tags[batch])
        for left, right in zip(by_fit.weights, by_hand.weights, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-6)

    def test_a_named_output_takes_arrays_and_datasets_d15(self):
        words, tags = toys.sentences()
        model = functional()
        model.compile(loss={"tags": CRFLoss()}, run_eagerly=True)
        expected = pytest.approx(mean_loss(model, words, tags), rel=1e-5)
        assert model.evaluate(words, tags, verbose=0) == expected
        dataset = tf.data.Dataset.from_tensor_slices((words, tags)).batch(6)
        assert model.evaluate(dataset, verbose=0) == expected


class TestLossOfFit:
    @eagerly_and_slowly_as_a_graph
    def test_at_learning_rate_0_is_that_of_evaluate_and_of_the_distribution_d19(self, run_eagerly):
        words, tags = toys.sentences()
        model = toys.tagger(optimizer=keras.optimizers.SGD(0.0), run_eagerly=run_eagerly)
        history = model.fit(words, tags, validation_data=(words, tags), verbose=0).history
        expected = pytest.approx(mean_loss(model, words, tags), rel=1e-5)
        assert history["loss"] == [expected]
        assert history["val_loss"] == [expected]
        assert model.evaluate(words, tags, verbose=0) == expected

    def test_of_batches_of_uneven_size_is_the_mean_over_all_rows(self):
        words, tags = toys.sentences()
        model = toys.tagger()
        assert model.evaluate(words, tags, batch_size=4, verbose=0) == pytest.approx(
            mean_loss(model, words, tags), rel=1e-5
        )

    def test_falls_and_is_never_below_zero_a1_c7(self):
        words, tags = toys.sentences(lengths=(5, 1, 3, 4))
        model = toys.tagger(optimizer=keras.optimizers.Adam(0.5))
        losses = [toys.loss_of_step(model, words, tags) for _ in range(40)]
        per_row = CRFLoss(reduction="none")(tags, model(words))
        assert losses[-1] < 0.05
        assert min(losses) >= 0
        assert np.min(per_row) >= 0


def accuracy_by_hand(crf_layer, features, mask, tags):
    """The share of kept steps that Viterbi, run on each row's kept steps alone, gets right."""
    kernel, bias, transitions, start, end = crf_layer.get_weights()
    right = []
    for row_features, row_mask, row_tags in zip(features, mask, tags, strict=True):
        if row_mask.any():
            potentials = row_features[row_mask] @ kernel + bias
            potentials[0] += start
            potentials[-1] += end
            best, _ = crf.viterbi_decode(potentials, transitions)
            right.extend(np.equal(best, row_tags[row_mask]))
    return np.mean(right)


class TestAccuracy:
    """`metrics=["accuracy"]` is the accuracy of the best path over the kept steps."""

    FEATURES = np.random.default_rng(3).normal(size=[8, 6, 4]).astype("float32")
    TAGS = np.random.default_rng(4).integers(0, 3, [8, 6])
    LENGTHS = np.array([6, 1, 0, 3, 5, 6, 2, 4], "int32")
    KEPT = np.arange(6) < LENGTHS[:, np.newaxis]

    @staticmethod
    def large_scores():
        return {
            "kernel_initializer": keras.initializers.RandomNormal(stddev=1),
            "transitions_initializer": keras.initializers.RandomNormal(stddev=2),
            "boundary_initializer": keras.initializers.RandomNormal(stddev=2),
        }

    @toys.accuracy_leaves_out_padding
    @pytest.mark.parametrize("how", ["riding", "mask", "lengths", "none"])
    def test_is_that_of_viterbi_on_the_kept_steps_d2_d9(self, how):
        layer = CRFLayer(3, **self.large_scores())
        features = keras.Input((None, 4))
        if how == "riding":
            outputs = layer(keras.layers.Masking()(features))
            model, inputs = keras.Model(features, outputs), self.FEATURES * self.KEPT[..., None]
        elif how == "mask":
            mask = keras.Input((None,), dtype="int32")
            model = keras.Model([features, mask], layer(features, mask=mask))
            inputs = [self.FEATURES, self.KEPT.astype("int32")]
        elif how == "lengths":
            lengths = keras.Input((), dtype="int32")
            model = keras.Model([features, lengths], layer(features, lengths=lengths))
            inputs = [self.FEATURES, self.LENGTHS]
        else:
            model, inputs = keras.Model(features, layer(features)), self.FEATURES
        model.compile(loss=CRFLoss(), metrics=["accuracy"], run_eagerly=True)
        kept = np.ones_like(self.KEPT) if how == "none" else self.KEPT
        reported = model.evaluate(inputs, self.TAGS, batch_size=3, verbose=0, return_dict=True)
        expected = accuracy_by_hand(layer, self.FEATURES, kept, self.TAGS)
        assert reported["accuracy"] == pytest.approx(expected, abs=1e-6)

    def test_is_that_of_the_best_path_and_not_of_the_best_tag_of_each_step_d8(self):
        outputs = toys.layer_with([[0, -2], [0, 0]])
        model = keras.Sequential([keras.Input((None, 2)), outputs])
        model.compile(loss=CRFLoss(), metrics=["accuracy"], run_eagerly=True)
        potentials = np.array([[[0.1, 0], [0.1, 0], [0, 1]]])
        reported = model.evaluate(potentials, np.array([[1, 1, 1]]), verbose=0, return_dict=True)
        assert reported == {"accuracy": 1.0, "loss": pytest.approx(1.009139, abs=1e-5)}

    @toys.accuracy_leaves_out_padding
    def test_leaves_out_padding_right_or_wrong_d2(self):
        layer = toys.layer_with([[0, 0], [0, 0]])
        potentials, lengths = keras.Input((None, 2)), keras.Input((), dtype="int32")
        model = keras.Model([potentials, lengths], layer(potentials, lengths=lengths))
        model.compile(loss=CRFLoss(), metrics=["accuracy"], run_eagerly=True)
        says_1 = [np.tile([0.0, 1.0], [2, 4, 1]), np.array([1, 4])]
        only_padding_wrong = np.array([[1, 0, 0, 0], [1, 1, 1, 1]])
        right = model.evaluate(says_1, only_padding_wrong, verbose=0, return_dict=True)
        wrong = model.evaluate(says_1, 1 - only_padding_wrong, verbose=0, return_dict=True)
        assert (right["accuracy"], wrong["accuracy"]) == (1.0, 0.0)


class TestGraph:
    def test_thirty_lengths_trace_the_train_step_twice_and_each_has_its_loss_b4_g5(self):
        traces = []

        class Counted(keras.Sequential):
            def train_step(self, data):
                traces.append(data)
                return super().train_step(data)

        ids = keras.Input((None,), dtype="int32")
        model = Counted([ids, keras.layers.Embedding(20, 4, mask_zero=True), CRFLayer(3)])
        model.compile(keras.optimizers.SGD(0.0), loss=CRFLoss())
        model.optimizer.build(model.trainable_variables)  # else Keras traces the first step twice
        for steps in np.random.default_rng(5).permutation(30) + 1:
            words, tags = toys.sentences(lengths=(steps, 1), steps=steps, seed=steps)
            loss = toys.loss_of_step(model, words, tags)
            assert loss == pytest.approx(mean_loss(model, words, tags), rel=1e-5)
        assert len(traces) <= 2

    def test_a_train_step_without_metrics_runs_no_viterbi(self, monkeypatch):
        runs, argmax = [], LinearChainCRF.argmax

        def count(tags):
            runs.append(tags.shape)
            return tags

        def counted(distribution):
            path = argmax(distribution)
            assert "Stateful" not in path.tags.op.type  # such a call would stay in the graph
            # Not stateful: left out of the graph, as Viterbi itself is, where nothing needs it.
            tags = tf.numpy_function(count, [path.tags], path.tags.dtype, stateful=False)
            return path._replace(tags=tf.ensure_shape(tags, path.tags.shape))

        monkeypatch.setattr(LinearChainCRF, "argmax", counted)
        words, tags = toys.sentences()
        model = toys.tagger(run_eagerly=False)
        model.fit(words, tags, batch_size=3, verbose=0)
        assert runs == []
        model.predict(words, batch_size=3, verbose=0)
        assert runs == [(3, 5), (3, 5)]

    @pytest.mark.parametrize(
        "compiled_part", ["model", pytest.param("layer", marks=pytest.mark.slow)]
    )
    def test_jit_compile_trains_as_without_it_f15_f16(self, compiled_part):
        words, tags = toys.sentences()
        plain = toys.tagger(optimizer="sgd")
        compiled = toys.tagger(jit_compile=compiled_part == "layer")
        compiled.set_weights(plain.get_weights())
        compiled.compile("sgd", loss=CRFLoss(), jit_compile=compiled_part == "model")
        compiled.optimizer.build(compiled.trainable_variables)
        assert all(layer.supports_jit for layer in compiled.layers)
        for _ in range(3):
            expected = toys.loss_of_step(plain, words, tags)
            assert toys.loss_of_step(compiled, words, tags) == pytest.approx(expected, rel=1e-4)
        for left, right in zip(plain.weights, compiled.weights, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-4)

    @pytest.mark.slow
    def test_jit_compile_evaluates_and_predicts_as_without_it(self):
        words, tags = toys.sentences()
        model = toys.tagger(metrics=["accuracy"])
        expected = model.evaluate(words, tags, verbose=0)
        path = model.predict(words, verbose=0)
        model.compile("sgd", loss=CRFLoss(), metrics=["accuracy"], jit_compile=True)
        assert model.evaluate(words, tags, verbose=0) == pytest.approx(expected, rel=1e-4)
        np.testing.assert_array_equal(model.predict(words, verbose=0), path)

    @pytest.mark.slow
    def test_several_steps_per_execution_train_as_one(self):
        words, tags = toys.sentences()
        one, two = (toys.tagger(optimizer="sgd", run_eagerly=False) for _ in range(2))
        two.set_weights(one.get_weights())
        two.compile("sgd", loss=CRFLoss(), steps_per_execution=2)
        for model in (one, two):
            model.fit(words, tags, batch_size=3, epochs=2, shuffle=False, verbose=0)
        for left, right in zip(one.weights, two.weights, strict=True):
            np.testing.assert_allclose(left, right, atol=1e-6)


class TestPrecision:
    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
    @eagerly_and_slowly_as_a_graph
    def test_every_policy_fits_evaluates_and_predicts_c1(self, policy, run_eagerly):
        keras.config.set_dtype_policy(policy)
        words, tags = toys.sentences()
        model = toys.tagger(metrics=["accuracy"], run_eagerly=run_eagerly)
        before = model.get_weights()
        model.fit(words, tags, batch_size=3, verbose=0)
        outputs = model(words)
        wide = "float64" if policy == "float64" else "float32"
        assert all(np.any(old != new) for old, new in zip(before, model.get_weights(), strict=True))
        assert CRFLoss()(tags, outputs).dtype == wide
        assert outputs.dtype == wide
        assert model.evaluate(words, tags, verbose=0)[0] == pytest.approx(
            mean_loss(model, words, tags), rel=1e-5
        )
        np.testing.assert_array_equal(
            model.predict(words, verbose=0).argmax(-1), distribution_of(outputs).argmax().tags
        )

    @pytest.mark.parametrize(
        ("dtype", "policy", "tolerance"),
        [
            ("float16", "mixed_float16", 2e-3),
            ("bfloat16", "mixed_bfloat16", 2e-3),
            ("float64", "float64", 1e-6),
        ],
    )
    def test_x1_has_its_losses_in_every_dtype_c1(self, dtype, policy, tolerance):
        layer = toys.layer_with(toys.TRANSITIONS, dtype=policy, output_mode="int")
        outputs = layer(tf.cast(toys.POTENTIALS, dtype), lengths=toys.LENGTHS)
        losses = CRFLoss(reduction="none")(toys.LABELS, outputs)
        np.testing.assert_allclose(losses, toys.LOSSES, atol=tolerance)
        assert losses.dtype == ("float64" if dtype == "float64" else "float32")
        np.testing.assert_array_equal(outputs, toys.BEST)
        assert outputs.dtype == "int32"


class TestModelsInModels:
    @pytest.mark.parametrize("inner", ["Sequential", "Model"])
    @eagerly_and_slowly_as_a_graph
    def test_a_crf_in_an_inner_model_sees_the_mask_made_outside_d21(self, inner, run_eagerly):
        words, tags = toys.sentences()
        features = keras.Input((None, 4))
        layer = CRFLayer(3)
        if inner == "Sequential":
            head = keras.Sequential([features, layer])
        else:
            head = keras.Model(features, layer(features))
        embedding = keras.layers.Embedding(20, 4, mask_zero=True)
        nested = keras.Sequential([embedding, head])
        flat = keras.Sequential([embedding, layer])
        for model in (nested, flat):
            model.compile("sgd", loss=CRFLoss(), metrics=["accuracy"], run_eagerly=run_eagerly)
        expected = flat.evaluate(words, tags, verbose=0)
        assert nested.evaluate(words, tags, verbose=0) == pytest.approx(expected, rel=1e-6)
        assert toys.loss_of_step(nested, words, tags) == pytest.approx(expected[0], rel=1e-5)

    @pytest.mark.parametrize("inner", ["Sequential", "Model"])
    def test_an_encoder_in_an_inner_model_hands_its_mask_on_c5(self, inner):
        words, tags = toys.sentences()
        embedding = keras.layers.Embedding(20, 4, mask_zero=True)
        lstm = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True))
        ids = keras.Input((None,), dtype="int32")
        if inner == "Sequential":
            encoder = keras.Sequential([ids, embedding, lstm])
        else:
            encoder = keras.Model(ids, lstm(embedding(ids)))
        outputs = keras.Sequential([encoder, CRFLayer(3)])(words)
        np.testing.assert_array_equal(distribution_of(outputs).mask, words > 0)

    def test_a_clone_has_a_crf_of_its_own_d4(self):
        words, tags = toys.sentences()
        model = toys.tagger(metrics=["accuracy"], lr_multiplier=2.0)
        clone = keras.models.clone_model(model)
        clone.compile("sgd", loss=CRFLoss(), metrics=["accuracy"], run_eagerly=True)
        clone.set_weights(model.get_weights())
        before = model.evaluate(words, tags, verbose=0)
        assert clone.evaluate(words, tags, verbose=0) == pytest.approx(before, rel=1e-6)
        clone.fit(words, tags, epochs=3, verbose=0)
        assert clone.evaluate(words, tags, verbose=0)[0] < before[0]
        assert model.evaluate(words, tags, verbose=0) == before

    def test_time_distributed_is_refused_d23(self):
        with pytest.raises(ValueError, match="features must have rank 3"):
            keras.layers.TimeDistributed(CRFLayer(3))(keras.Input((5, 4)))


class TestASchemeSetLater:
    """`layer.scheme = …` holds in what runs from then on, compiled by Keras before or not."""

    NAMES = ["O", "B-X", "I-X"]
    SCORES = np.array([[[0, 0, 9], [0, 0, 9], [9, 0, 8], [0, 0, 9]]], "float32")
    FREE = np.array([[2, 2, 0, 2]])
    LEGAL = np.array([[1, 2, 2, 2]])

    def layer(self):
        return CRFLayer(
            tag_names=self.NAMES,
            use_kernel=False,
            transitions_initializer="zeros",
            output_mode="int",
            name="crf",
        )

    def model(self, layer, compiled=True):
        model = keras.Sequential([keras.Input((None, 3)), layer])
        if compiled:
            model.compile(keras.optimizers.SGD(0.0), loss=CRFLoss())
            model.optimizer.build(model.trainable_variables)
        return model

    @pytest.mark.parametrize("compiled", [True, False])
    def test_is_kept_by_predict(self, compiled):
        layer = self.layer()
        model = self.model(layer, compiled)
        np.testing.assert_array_equal(model.predict(self.SCORES, verbose=0), self.FREE)
        layer.scheme = "BIO"
        np.testing.assert_array_equal(model.predict(self.SCORES, verbose=0), self.LEGAL)
        layer.scheme = None
        np.testing.assert_array_equal(model.predict(self.SCORES, verbose=0), self.FREE)

    def test_is_kept_by_fit_and_evaluate_and_so_is_illegal_gold(self):
        layer = self.layer()
        model = self.model(layer)
        steps = (
            lambda labels: model.fit(self.SCORES, labels, verbose=0).history["loss"][0],
            lambda labels: model.evaluate(self.SCORES, labels, verbose=0),
        )
        free = [step(self.LEGAL) for step in steps]
        layer.scheme = "BIO"
        expected = -float(layer.distribution(self.SCORES).log_prob(self.LEGAL)[0])
        assert [step(self.LEGAL) for step in steps] == [pytest.approx(expected, rel=1e-5)] * 2
        assert free[0] > expected + 1
        for step in steps:
            with pytest.raises(tf.errors.InvalidArgumentError, match="break the rules of BIO"):
                step(self.FREE)
        layer.illegal_gold = "allow"
        for step in steps:
            assert np.isfinite(step(self.FREE))

    def test_is_kept_within_fit_when_a_callback_sets_it(self):
        layer = self.layer()
        model = self.model(layer)
        setting = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: setattr(layer, "scheme", "BIO")
        )
        losses = model.fit(
            self.SCORES, self.LEGAL, epochs=2, callbacks=[setting], verbose=0
        ).history["loss"]
        assert losses[0] > losses[1] + 1

    def test_is_kept_by_all_models_that_hold_the_layer_and_no_other_is_traced_again(self):
        layer = self.layer()
        inner = self.model(layer, compiled=False)

        class Outer(keras.Model):
            def __init__(self):
                super().__init__()
                self.inner = inner

            def call(self, scores):
                return self.inner(scores)

        models = [inner, Outer()]
        other = self.model(self.layer(), compiled=False)
        for model in [*models, other]:
            model.predict(self.SCORES, verbose=0)
        before = other.predict_function
        layer.scheme = "BIO"
        for model in models:
            np.testing.assert_array_equal(model.predict(self.SCORES, verbose=0), self.LEGAL)
        assert other.predict_function is before

    def test_is_kept_by_files_and_exports_made_after_it(self, tmp_path):
        layer = self.layer()
        model = self.model(layer, compiled=False)
        model.predict(self.SCORES, verbose=0)
        model.export(tmp_path / "free", verbose=False)
        layer.scheme = "BIO"
        model.save(tmp_path / "tagger.keras")
        model.export(tmp_path / "export", verbose=False)
        export_tagger(model, tmp_path / "1")
        free, exported = (tf.saved_model.load(tmp_path / name) for name in ("free", "export"))
        np.testing.assert_array_equal(free.serve(self.SCORES), self.FREE)
        np.testing.assert_array_equal(exported.serve(self.SCORES), self.LEGAL)
        tagger = tf.saved_model.load(tmp_path / "1")
        (name,) = (tensor.name for tensor in model.inputs)
        answer = tagger.signatures["unpadded"](**{name: tf.constant(self.SCORES)})
        np.testing.assert_array_equal(answer["tag_ids"], self.LEGAL)
        loaded = keras.models.load_model(tmp_path / "tagger.keras")
        np.testing.assert_array_equal(loaded(self.SCORES), self.LEGAL)


class TestBatchesOfAnySize:
    @eagerly_and_slowly_as_a_graph
    def test_one_row_one_step_and_a_last_batch_of_one_b1_b3_b11(self, run_eagerly):
        model = toys.tagger(run_eagerly=run_eagerly)
        for lengths in [(1,), (4,), (4, 2, 1, 3, 4)]:
            words, tags = toys.sentences(lengths=lengths, steps=max(lengths))
            whole = model.predict(words, verbose=0)
            np.testing.assert_array_equal(model.predict(words, batch_size=4, verbose=0), whole)
            assert whole.shape == (*words.shape, 3)
            assert np.isfinite(model.train_on_batch(words, tags))

    def test_no_rows_give_no_tags_b15(self):
        words = np.zeros([0, 5], "int32")
        model = toys.tagger()
        assert model.predict_on_batch(words).shape == (0, 5, 3)
        assert CRFLoss(reduction="none")(words, model(words)).shape == (0,)
        assert CRFLoss()(words, model(words)) == 0

    def test_one_tag_has_loss_0_and_no_choice_b14(self):
        outputs = CRFLayer(1, output_mode="int")(tf.random.normal([2, 3, 4]))
        np.testing.assert_array_equal(
            CRFLoss(reduction="none")(np.zeros([2, 3], int), outputs), [0, 0]
        )
        np.testing.assert_array_equal(outputs, np.zeros([2, 3]))

    def test_tags_never_leave_those_of_the_user_b2(self):
        for steps in range(1, 6):
            outputs = CRFLayer(3, output_mode="int")(tf.random.normal([200, steps, 4]) * 9)
            assert set(np.unique(outputs)) <= {0, 1, 2}
