"""What `compile` and `fit` are given that does not go with a CRFLayer: refused by name."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import (
    CRFLayer,
    CRFLoss,
    SpanF1,
    TagAccuracy,
    compile_checks,
    crf_loss,
    distribution_of,
)
from keras_crf.callers import reported_name

WORDS, LABELS = toys.sentences()
LABELS = np.maximum(LABELS, 0)
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]


def tagger(**options):
    """A tagger that is not compiled yet."""
    return toys.tagger(**options)


class TestLosses:
    @pytest.mark.parametrize("mode", ["one_hot", "int"])
    @pytest.mark.parametrize(
        ("loss", "shown"),
        [
            ("sparse_categorical_crossentropy", "'sparse_categorical_crossentropy'"),
            (keras.losses.SparseCategoricalCrossentropy(), r"SparseCategoricalCrossentropy\(\)"),
            (keras.losses.categorical_crossentropy, "categorical_crossentropy"),
            (["mse"], "'mse'"),
        ],
    )
    def test_of_keras_are_refused_on_a_best_path(self, mode, loss, shown):
        model = tagger(output_mode=mode)
        model.compile("adam", loss=loss)
        message = (
            rf"loss={shown} cannot train CRFLayer 'crf': in the output mode '{mode}' it gives the "
            r"best path, which has no gradient\. Compile with loss=keras_crf\.CRFLoss\(\)"
        )
        with pytest.raises(ValueError, match=message):
            model.fit(WORDS, LABELS, verbose=0)
        with pytest.raises(ValueError, match=message):
            model.train_on_batch(WORDS, LABELS)

    @pytest.mark.parametrize(
        "make", [toys.Subclassed, lambda: keras.Sequential([tagger()])], ids=["class", "nested"]
    )
    def test_of_keras_are_warned_of_where_the_output_of_the_layer_is_not_known(self, make):
        model = make()
        model.compile("adam", loss="sparse_categorical_crossentropy", run_eagerly=True)
        message = r"loss='sparse_categorical_crossentropy' cannot train CRFLayer .*CRFLoss\(\)"
        with (
            pytest.warns(UserWarning, match=message) as caught,
            pytest.raises(ValueError, match="No gradients provided"),
        ):
            model.fit(WORDS, LABELS, verbose=0)
        told = [warning for warning in caught if "cannot train" in str(warning.message)]
        assert {warning.filename for warning in told} <= {__file__, toys.__file__}

    @pytest.mark.parametrize("form", [list, dict])
    def test_of_keras_are_refused_on_the_output_that_is_the_layers(self, form):
        words = keras.Input((None,), dtype="int32")
        features = keras.layers.Embedding(20, 4, mask_zero=True)(words)
        intent = keras.layers.Dense(2, activation="softmax", name="intent")(features[:, 0])
        model = keras.Model(words, [intent, CRFLayer(3, name="slots")(features)])
        of_intent, own = "sparse_categorical_crossentropy", CRFLoss()
        names = ["intent", "slots"]

        def compiled(*losses):
            losses = dict(zip(names, losses, strict=True)) if form is dict else list(losses)
            model.compile("adam", loss=losses, run_eagerly=True)
            return model

        labels = [LABELS[:, 0] % 2, LABELS]
        assert np.isfinite(compiled(of_intent, own).fit(WORDS, labels, verbose=0).history["loss"])
        with pytest.raises(ValueError, match="loss='mse' cannot train CRFLayer 'slots'"):
            compiled(of_intent, "mse").fit(WORDS, labels, verbose=0)

    def test_of_keras_may_read_marginals_and_a_path_that_is_not_trained(self):
        model = tagger(output_mode="marginals")
        model.compile("adam", loss="sparse_categorical_crossentropy", run_eagerly=True)
        assert np.isfinite(model.fit(WORDS, LABELS, verbose=0).history["loss"])
        model = tagger()
        model.compile("adam", loss="sparse_categorical_crossentropy", run_eagerly=True)
        assert np.isfinite(model.evaluate(WORDS, LABELS, verbose=0))

    def test_of_ones_own_are_left_alone(self):
        def loss(y_true, y_pred):
            return -distribution_of(y_pred).log_prob(tf.cast(y_true, tf.int32))

        model = tagger()
        model.compile("adam", loss=loss, run_eagerly=True)
        lengths = np.full([6, 5], 1)  # no padding, since Keras would multiply [B] by the mask
        assert np.isfinite(model.fit(lengths, LABELS, verbose=0, batch_size=5).history["loss"][0])

    def test_behind_which_the_layer_is_not_the_last_are_left_alone(self):
        words = keras.Input((None,), dtype="int32")
        features = keras.layers.Embedding(20, 4)(words)
        tags = CRFLayer(3, trainable=True)(features)
        model = keras.Model(words, keras.layers.Dense(3, activation="softmax")(tags))
        model.compile("adam", loss="sparse_categorical_crossentropy", run_eagerly=True)
        with pytest.warns(UserWarning, match="Gradients do not exist"):
            model.fit(WORDS, LABELS, verbose=0)

    @pytest.mark.parametrize("name", ["crf_loss", "CRFLoss"])
    @pytest.mark.parametrize("subclassed", [False, True])
    def test_by_the_name_of_ours_are_told_to_be_the_object(self, name, subclassed):
        model = toys.Subclassed() if subclassed else tagger()
        model.compile("adam", loss=name)
        message = rf"loss='{name}': Keras .* loss=keras_crf\.CRFLoss\(\), or .*keras_crf\.crf_loss"
        with pytest.raises(ValueError, match=message):
            model.fit(WORDS, LABELS, verbose=0)


class TestMetrics:
    @pytest.mark.parametrize(
        ("metric", "shown"),
        [
            ("accuracy", "accuracy"),
            (keras.metrics.SparseCategoricalAccuracy(), "SparseCategoricalAccuracy"),
        ],
    )
    @pytest.mark.parametrize("argument", ["metrics", "weighted_metrics"])
    def test_of_classes_are_refused_on_tag_ids(self, metric, shown, argument):
        model = tagger(output_mode="int")
        model.compile("adam", loss=CRFLoss(), **{argument: [metric]})
        message = (
            rf"{argument}=\['{shown}'\] takes the output for scores .*\[batch, time\]\. Use "
            rf"{argument}=\[keras_crf\.TagAccuracy\(\)\]"
        )
        with pytest.raises(ValueError, match=message):
            model.fit(WORDS, LABELS, verbose=0)
        with pytest.raises(ValueError, match=message):
            model.evaluate(WORDS, LABELS, verbose=0)

    def test_of_ids_are_left_alone(self):
        metrics = [TagAccuracy(), keras.metrics.Accuracy(name="equal")]
        model = tagger(output_mode="int", metrics=metrics)
        values = model.evaluate(np.maximum(WORDS, 1), LABELS, verbose=0, return_dict=True)
        assert values["equal"] == pytest.approx(values["tag_accuracy"])

    def test_that_cannot_be_saved_are_left_alone(self):
        class Unsaved(keras.metrics.Mean):
            def get_config(self):
                raise NotImplementedError

            def update_state(self, y_true, y_pred, sample_weight=None):
                super().update_state(1.0)

        model = tagger(output_mode="int", metrics=[Unsaved(name="one")])
        assert model.evaluate(WORDS, LABELS, verbose=0, return_dict=True)["one"] == 1


class TestClassWeight:
    WEIGHTS = {0: 1.0, 2: 50.0}
    MESSAGE = (
        r"class_weight=\{0: 1\.0, 2: 50\.0\} has no meaning for tag ids \[batch, time\].* Weigh "
        r"tags by loss=keras_crf\.CRFLoss\(tag_weights=\[1\.0, 1\.0, 50\.0\]\)"
    )

    @pytest.mark.parametrize("loss", [CRFLoss(), crf_loss])
    @pytest.mark.parametrize("run_eagerly", [False, True])
    def test_is_refused(self, loss, run_eagerly):
        model = tagger()
        model.compile("adam", loss=loss, run_eagerly=run_eagerly)
        with pytest.raises(ValueError, match=self.MESSAGE):
            model.fit(WORDS, LABELS, class_weight=self.WEIGHTS, verbose=0)
        with pytest.raises(ValueError, match=self.MESSAGE):
            model.train_on_batch(WORDS, LABELS, class_weight=self.WEIGHTS)

    def test_is_refused_where_the_rows_are_a_dataset(self):
        labels = np.minimum(LABELS[:, :3], 2)
        data = tf.data.Dataset.from_tensor_slices((WORDS[:, :3], labels)).batch(2)
        with pytest.raises(ValueError, match=self.MESSAGE):
            tagger().fit(data, class_weight=self.WEIGHTS, verbose=0)

    def test_of_one_hot_labels_in_a_dataset_weighs_each_step_by_its_tag(self):
        words = np.maximum(WORDS, 1)
        data = tf.data.Dataset.from_tensor_slices((words, np.eye(3)[LABELS])).batch(6)
        model = tagger(optimizer=keras.optimizers.SGD(0.0))
        loss = model.fit(data, class_weight=self.WEIGHTS, verbose=0).history["loss"][0]
        by_tag = CRFLoss(tag_weights=[1, 1, 50])(LABELS, model(words))
        assert loss == pytest.approx(float(by_tag), rel=1e-5)

    def test_is_no_matter_of_sample_weight(self):
        fitted = tagger().fit(WORDS, LABELS, sample_weight=np.ones(6), verbose=0)
        assert np.isfinite(fitted.history["loss"][0])


class TestEntriesByType:
    """`SpanF1(average=None)` where two metrics have one name."""

    def value(self, model, head, gold):
        metric = SpanF1(NAMES, average=None)
        metric.update_state(gold, model(WORDS)[head])
        return {name: float(value) for name, value in metric.result().items()}

    @pytest.mark.parametrize("run_eagerly", [False, True])
    def test_of_two_heads_are_told_apart(self, run_eagerly):
        keras.utils.set_random_seed(1)
        words = keras.Input((None,), dtype="int32")
        features = keras.layers.Embedding(20, 4, mask_zero=True)(words)
        model = keras.Model(words, [CRFLayer(4, name=name)(features) for name in "ab"])
        gold = [distribution_of(outputs).argmax().tags.numpy() for outputs in model(WORDS)]
        gold[0], gold[1][:4] = gold[0][::-1].copy(), gold[1][3::-1].copy()
        metrics = [[SpanF1(NAMES, average=None)], [SpanF1(NAMES, average=None)]]
        model.compile(
            keras.optimizers.SGD(0.0), CRFLoss(), metrics=metrics, run_eagerly=run_eagerly
        )
        data = {"x": WORDS, "y": gold, "verbose": 0}
        expected = {
            f"{head}_{name}": value
            for number, head in enumerate("ab")
            for name, value in self.value(model, number, gold[number]).items()
        }
        assert expected["a_span_f1_PER"] != expected["b_span_f1_PER"]
        fitted = model.fit(**data, validation_data=(WORDS, gold)).history
        evaluated = model.evaluate(**data, return_dict=True)
        for name, value in expected.items():
            assert evaluated[name] == pytest.approx(value)
            assert fitted[name] == [pytest.approx(value)]
            assert fitted["val_" + name] == [pytest.approx(value)]
        assert {name for name in evaluated if "span_f1" in name} == set(expected)

    def test_of_metrics_and_weighted_metrics_are_told_apart(self):
        keras.utils.set_random_seed(1)
        model, of_types = tagger(num_tags=4), functools.partial(SpanF1, NAMES, average=None)
        gold = distribution_of(model(WORDS)).argmax().tags.numpy()
        gold[:3] = gold[2::-1]
        metrics = {"metrics": [of_types(), of_types()], "weighted_metrics": [of_types()]}
        model.compile("sgd", CRFLoss(), **metrics, run_eagerly=True)
        weights = np.array([0, 0, 0, 1, 1, 1])
        values = model.evaluate(WORDS, gold, sample_weight=weights, verbose=0, return_dict=True)
        whole = of_types()
        whole.update_state(gold, model(WORDS))
        for type_, value in whole.result().items():
            type_ = type_.removeprefix("span_f1_")
            assert values[f"span_f1_{type_}"] == values[f"span_f1_1_{type_}"]
            assert values[f"span_f1_{type_}"] == pytest.approx(float(value))
        seen = [values[f"weighted_span_f1_{type_}"] for type_ in ("PER", "LOC")]
        assert set(seen) <= {0, 1}  # the rows that weigh are tagged as their labels say
        assert 1 in seen

    def test_have_the_name_of_the_metric_where_nobody_reports_it(self):
        assert reported_name(SpanF1(NAMES, name="mine")) == "mine"


def test_names_of_losses_are_those_of_the_library():
    assert {CRFLoss.__name__, CRFLoss().name, crf_loss.__name__} <= set(compile_checks.OWN_LOSSES)
