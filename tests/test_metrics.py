"""The metrics: against seqeval and NumPy, and at work in Keras models."""

import json
import pathlib
import random

import keras
import numpy as np
import pytest
import seqeval.metrics
import seqeval.scheme
import tensorflow as tf

import columns
import toys
from keras_crf import (
    CRFLayer,
    CRFLoss,
    LinearChainCRF,
    SequenceAccuracy,
    SpanF1,
    TagAccuracy,
    distribution_of,
    tags,
)
from spelling import LIKE_IOBES, SCHEMES, names_of

TYPES = ("X", "Y", "geo-loc")
MODES = ["one_hot", "int", "marginals", "potentials"]
AVERAGES = ["micro", "macro", "weighted"]
DATA = pathlib.Path(__file__).parents[2] / "shared" / "data"
NAMES = ["O", "B-X", "I-X"]
NO_WARNINGS = pytest.mark.filterwarnings("ignore::UserWarning")


def corrupted(sequence, names, generator, share=0.2):
    return [generator.choice(names) if generator.random() < share else tag for tag in sequence]


def random_pairs(scheme, count):
    """True and predicted sequences, both with breaks, that share many of their spans."""
    generator, names = random.Random(scheme), names_of(scheme, TYPES)
    for _ in range(count):
        weights = [3, *(generator.choice((1, 5)) for _ in names[1:])]
        gold = generator.choices(names, weights, k=generator.randrange(12))
        yield gold, corrupted(gold, names, generator)


def as_arrays(sequences, names, padding=0):
    """Ids [B, T], with the padding behind each sequence, and the mask."""
    steps = max(map(len, sequences), default=0)
    ids = np.full([len(sequences), steps], padding)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = [names.index(tag) for tag in sequence]
    lengths = np.array([*map(len, sequences)], int)
    return ids, np.arange(steps) < lengths[:, np.newaxis]


def masked(outputs, mask):
    if mask is not None:
        outputs = tf.identity(outputs)
        outputs._keras_mask = tf.convert_to_tensor(mask)
    return outputs


def value_of(metric, gold, predicted, mask=None, sample_weight=None):
    metric.reset_state()
    metric.update_state(gold, masked(predicted, mask), sample_weight)
    return float(metric.result())


def seqeval_f1(pairs, scheme, average, strict):
    gold, predicted = ([*side] for side in zip(*pairs, strict=True))
    if scheme == "BMES" or (not strict and scheme in LIKE_IOBES):
        table, scheme = LIKE_IOBES[scheme], "IOBES"
        gold, predicted = (
            [[tag[0].translate(table) + tag[1:] for tag in tags_] for tags_ in side]
            for side in (gold, predicted)
        )
    how = {"mode": "strict", "scheme": getattr(seqeval.scheme, scheme)} if strict else {}
    return seqeval.metrics.f1_score(gold, predicted, average=average, zero_division=0, **how)


def assert_equal_to_seqeval(pairs, names, scheme, strict, averages=AVERAGES):
    (gold, mask), (predicted, _) = (as_arrays(side, names) for side in zip(*pairs, strict=True))
    for average in averages:
        metric = SpanF1(names, scheme, average, strict)
        expected = seqeval_f1(pairs, scheme, average, strict)
        assert value_of(metric, gold, predicted, mask) == pytest.approx(expected, abs=1e-6)
    metric = SpanF1(names, scheme, None, strict)
    metric.update_state(gold, masked(predicted, mask))
    of_types = {key.removeprefix("span_f1_"): float(f1) for key, f1 in metric.result().items()}
    seen = np.array(metric.predicted) + np.array(metric.gold) > 0
    names_seen = sorted(np.array(list(of_types))[seen])
    expected = seqeval_f1(pairs, scheme, None, strict)
    np.testing.assert_allclose([of_types[type_] for type_ in names_seen], expected, atol=1e-6)


@NO_WARNINGS
class TestSpanF1IsThatOfSeqeval:
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_on_random_sequences(self, scheme, strict):
        pairs = list(random_pairs(scheme, 1000))
        assert_equal_to_seqeval(pairs, names_of(scheme, TYPES), scheme, strict)

    @pytest.mark.slow
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_on_ten_thousand_random_sequences(self, scheme, strict):
        pairs = list(random_pairs(scheme, 10_000))
        assert_equal_to_seqeval(pairs, names_of(scheme, TYPES), scheme, strict)

    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("scheme", SCHEMES)
    def test_on_each_short_sequence_by_itself(self, scheme, strict):
        """Each row has the counts of `tags_to_spans`: sums over rows would hide what cancels."""
        names = names_of(scheme, TYPES)
        metric = SpanF1(names, scheme, strict=strict)
        for gold, predicted in random_pairs(scheme, 60):
            spans = [
                set(tags.tags_to_spans(side, scheme, strict=strict)) for side in (gold, predicted)
            ]
            ids = [[[names.index(tag) for tag in side]] for side in (gold, predicted)]
            metric.reset_state()
            metric.update_state(np.array(ids[0], int), np.array(ids[1], int))
            for count, expected in (
                (metric.gold, spans[0]),
                (metric.predicted, spans[1]),
                (metric.true_positives, spans[0] & spans[1]),
            ):
                assert np.sum(count) == len(expected), (gold, predicted)

    @pytest.mark.skipif(not DATA.exists(), reason="the real corpora are not here")
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("corpus", ["lener_br", "wnut17"])
    def test_on_the_corrupted_tags_of_a_real_test_split(self, corpus, strict):
        gold = [tags_ for _, tags_ in columns.read_columns(DATA / corpus / "test.tsv")]
        names = sorted({tag for sequence in gold for tag in sequence})
        generator = random.Random(corpus)
        pairs = [(tags_, corrupted(tags_, names, generator, 0.05)) for tags_ in gold]
        assert_equal_to_seqeval(pairs, names, "IOB2", strict)
        assert 0.2 < seqeval_f1(pairs, "IOB2", "micro", strict) < 0.95


class TestSpanF1:
    def test_entity_and_token_score_differ_i5(self):
        gold, predicted = [[1, 2, 0]], np.array([[1, 0, 0]])
        assert value_of(SpanF1(NAMES), gold, predicted) == 0
        assert value_of(TagAccuracy(), gold, predicted) == pytest.approx(2 / 3)

    @pytest.mark.parametrize("average", AVERAGES)
    def test_is_0_where_there_are_no_spans(self, average):
        metric = SpanF1(NAMES, average=average)
        assert float(metric.result()) == 0
        assert value_of(metric, [[0, 0]], np.array([[0, 0]])) == 0
        assert value_of(metric, [[1, 0]], np.array([[0, 0]])) == 0
        assert value_of(metric, [[0, 0]], np.array([[1, 0]])) == 0

    def test_a_type_without_spans_is_0_by_itself_and_not_in_the_mean(self):
        names = ["O", "B-X", "B-Y", "B-Z"]
        gold, predicted = [[1, 2, 0]], np.array([[1, 0, 0]])
        assert value_of(SpanF1(names, average="macro"), gold, predicted) == 0.5
        metric = SpanF1(names, average=None, name="f1")
        metric.update_state(gold, predicted)
        of_types = {key: float(f1) for key, f1 in metric.result().items()}
        assert of_types == {"f1_X": 1, "f1_Y": 0, "f1_Z": 0}

    def test_names_may_have_no_types_or_the_prefix_last(self):
        gold, predicted = [[0, 1, 2, 2]], np.array([[0, 1, 2, 1]])
        bare = SpanF1(["B", "I", "O"], average=None)
        bare.update_state(gold, predicted)
        assert {key: float(f1) for key, f1 in bare.result().items()} == {
            "span_f1": pytest.approx(2 / 3)
        }
        last = SpanF1(["X_B", "X_I", "O"], separator="_", prefix_first=False)
        assert value_of(last, gold, predicted) == pytest.approx(2 / 3)
        assert value_of(SpanF1(["O"]), [[0]], np.array([[0]])) == 0

    def test_knows_the_scheme_from_the_names(self):
        assert SpanF1(["O", "S-X", "B-X", "E-X"]).get_config()["scheme"] == "IOBES"
        assert SpanF1(NAMES, "bio").get_config()["scheme"] == "IOB2"

    def test_counts_unused_tags_as_o(self):
        names = ["PAD", "O", "B-X", "I-X", "[CLS]"]
        gold, predicted = [[4, 2, 3, 0, 2, 3]], np.array([[1, 2, 3, 1, 2, 0]])
        for strict in (False, True):
            metric = SpanF1(names, strict=strict, unused_tags=("PAD", "[CLS]"))
            as_o = np.array([1, 1, 2, 3, 1])
            expected = value_of(
                SpanF1(names[1:4], strict=strict), as_o[gold] - 1, as_o[predicted] - 1
            )
            assert value_of(metric, gold, predicted) == expected == 0.5
            again = SpanF1.from_config(json.loads(json.dumps(metric.get_config())))
            assert value_of(again, gold, predicted) == expected
        assert SpanF1(names, average=None, unused_tags=["PAD", "[CLS]"]).types == ("X",)
        with pytest.raises(ValueError, match="go into unused_tags"):
            SpanF1(names)
        with pytest.raises(ValueError, match=r"must be among tag_names.*got \['CLS'\]"):
            SpanF1(names, unused_tags=["PAD", "CLS"])


class TestStreaming:
    @pytest.mark.parametrize("average", AVERAGES)
    def test_uneven_batches_give_what_all_at_once_gives(self, average):
        names = names_of("IOB2", TYPES)
        pairs = list(random_pairs("IOB2", 101))
        (gold, mask), (predicted, _) = (as_arrays(side, names) for side in zip(*pairs, strict=True))
        metrics = [SpanF1(names, average=average), TagAccuracy(), SequenceAccuracy()]
        for metric in metrics:
            whole = value_of(metric, gold, predicted, mask)
            metric.reset_state()
            assert float(metric.result()) == 0
            for batch in np.split(np.arange(101), [1, 1, 30, 97]):  # one of them empty
                metric.update_state(gold[batch], masked(predicted[batch], mask[batch]))
            assert float(metric.result()) == whole
            assert whole > 0

    @pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
    def test_batches_of_nothing_count_nothing(self, shape):
        for metric in (SpanF1(NAMES), TagAccuracy(), SequenceAccuracy()):
            assert value_of(metric, np.zeros(shape, int), np.zeros(shape, int)) == 0
            assert value_of(metric, np.zeros(shape, int), np.zeros([*shape, 3])) == 0


class TestDroppedSteps:
    GOLD = np.array([[1, 2, 0, 1], [0, 1, 2, 2], [1, 1, 1, 1]])
    PREDICTED = np.array([[1, 0, 2, 1], [2, 1, 0, 2], [0, 0, 0, 0]])
    MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)
    # Row 0 is B O B and predicted as B I B, row 1 is B I and B O.
    F1, TAGS, SEQUENCES = 2 / 6, 3 / 5, 0 / 2

    def assert_right(self, *arguments, ignore_index=None, **options):
        metrics = (SpanF1(NAMES, ignore_index=ignore_index), TagAccuracy(ignore_index))
        for metric, value in zip(metrics, (self.F1, self.TAGS), strict=True):
            assert value_of(metric, *arguments, **options) == pytest.approx(value)
        assert value_of(SequenceAccuracy(ignore_index), *arguments, **options) == self.SEQUENCES

    def test_are_skipped_where_the_mask_says_so(self):
        self.assert_right(self.GOLD, self.PREDICTED, self.MASK)
        self.assert_right(np.where(self.MASK, self.GOLD, 99), self.PREDICTED, self.MASK)
        self.assert_right(self.GOLD, np.where(self.MASK, self.PREDICTED, -5), self.MASK)

    def test_are_skipped_where_the_label_is_to_be_ignored(self):
        for ignore_index in (-100, 2**40):
            gold = np.where(self.MASK, self.GOLD, ignore_index)
            self.assert_right(gold, self.PREDICTED, ignore_index=ignore_index)
        gold = np.where(self.MASK, self.GOLD, 255).astype("uint8")
        self.assert_right(gold, self.PREDICTED, ignore_index=255)

    def test_are_skipped_where_the_weight_is_0(self):
        weights = self.MASK * np.array([[0.5], [3.0], [1.0]])
        self.assert_right(self.GOLD, self.PREDICTED, sample_weight=weights)
        self.assert_right(
            self.GOLD, self.PREDICTED, self.MASK | (self.GOLD == 7), sample_weight=self.MASK
        )

    @pytest.mark.parametrize("shape", [[3], [3, 1]])
    def test_rows_of_weight_0_are_left_out(self, shape):
        weights = np.reshape([1, 2, 0], shape)
        mask = self.MASK | [[False], [False], [True]]
        self.assert_right(self.GOLD, self.PREDICTED, mask, sample_weight=weights)

    def test_rows_without_kept_steps_are_no_right_sequences(self):
        ids, mask = np.array([[1, 2], [0, 0], [1, 1]]), np.array([[1, 1], [1, 1], [0, 0]], bool)
        assert value_of(SequenceAccuracy(), ids, np.array([[1, 2], [1, 0], [1, 1]]), mask) == 0.5

    def test_spans_across_holes_are_those_of_the_steps_that_are_left(self):
        generator = np.random.default_rng(5)
        gold, predicted = generator.integers(0, 5, [2, 200, 9])
        predicted = np.where(generator.random([200, 9]) < 0.6, gold, predicted)
        mask = generator.random([200, 9]) < 0.7
        names = ["O", "B-X", "I-X", "B-Y", "I-Y"]
        pairs = [
            ([names[i] for i in row[kept]], [names[i] for i in other[kept]])
            for row, other, kept in zip(gold, predicted, mask, strict=True)
        ]
        for strict in (False, True):
            expected = seqeval_f1(pairs, "IOB2", "micro", strict)
            value = value_of(SpanF1(names, strict=strict), gold, predicted, mask)
            assert value == pytest.approx(expected, abs=1e-6)


class TestLabels:
    GOLD = np.array([[1, 2, 0, 1], [0, 1, 2, 2]])
    PREDICTED = np.array([[1, 2, 0, 0], [0, 1, 2, 2]])

    @pytest.mark.parametrize(
        "form",
        [
            lambda ids: ids,
            lambda ids: ids[..., np.newaxis],
            lambda ids: ids.astype("uint8"),
            lambda ids: ids.astype("float32"),
            lambda ids: ids.astype("int32").tolist(),
            lambda ids: np.eye(3)[ids],
            lambda ids: np.eye(3, dtype=bool)[ids],
        ],
    )
    def test_may_be_ids_of_any_dtype_or_one_hot(self, form):
        assert value_of(SpanF1(NAMES), form(self.GOLD), self.PREDICTED) == pytest.approx(4 / 5)
        assert value_of(TagAccuracy(), form(self.GOLD), self.PREDICTED) == 7 / 8
        assert value_of(SequenceAccuracy(), form(self.GOLD), np.eye(3)[self.PREDICTED]) == 0.5

    def test_of_unknown_shape_are_taken_for_ids(self):
        metric = SpanF1(NAMES)

        @tf.function(
            input_signature=[tf.TensorSpec(None, tf.int64), tf.TensorSpec([None, None, 3])]
        )
        def update(gold, outputs):
            metric.update_state(gold, outputs)

        update(self.GOLD, np.eye(3, dtype="float32")[self.PREDICTED])
        assert float(metric.result()) == pytest.approx(4 / 5)

    @pytest.mark.parametrize(
        ("gold", "predicted", "weight", "words"),
        [
            (
                [[0, 3]],
                [[0, 0]],
                None,
                r"y_true must lie in 0..2 .*ignore_index; got the tag 3 at r",
            ),
            ([[0, -1]], [[0, 0]], None, "got the tag -1 at row 0, step 1"),
            (
                [[0, 0.5]],
                [[0, 0]],
                None,
                "y_true must hold whole numbers; got 0.5 at row 0, step 1",
            ),
            ([[0, 0]], [[0, 3]], None, "y_pred must lie in 0..2 on kept steps; got the tag 3"),
            ([[0, 0, 0]], [[0, 0]], None, r"y_true must have the batch and time axes of y_pred"),
            ([[[0, 1]]], [[0]], None, r"one-hot, \[batch, time, 3\]; got the shape \(1, 1, 2\)"),
            ([[0]], [0], None, r"y_pred must be tag ids.*got the shape \(1,\)"),
            ([[0]], [[[0.0, 1.0]]], None, r"a tag for each of the 3 tag_names; got 2 tags"),
            ([[0, 0]], [[0, 0]], [1.0, 1.0], "sample_weight must have the batch and time axes"),
            ([[0, 0]], [[0, 0]], [[1.0] * 3], "sample_weight must have the batch and time axes"),
        ],
    )
    def test_what_does_not_fit_is_refused_in_words(self, gold, predicted, weight, words):
        with pytest.raises(ValueError, match=words):
            SpanF1(NAMES).update_state(gold, tf.constant(predicted), weight)

    def test_a_negative_label_is_refused_where_the_number_of_tags_is_not_known(self):
        with pytest.raises(ValueError, match=r"y_true must lie in 0\.\. on kept steps"):
            TagAccuracy().update_state([[-100]], tf.constant([[0]]))

    def test_a_label_that_is_no_tag_gives_nan_under_xla_until_the_reset(self):
        for metric in (SpanF1(NAMES), SpanF1(NAMES, average="macro"), TagAccuracy()):
            update = tf.function(metric.update_state, jit_compile=True)
            update(tf.constant([[1, 7]]), tf.one_hot([[1, 1]], 3))
            assert np.isnan(metric.result())
            metric.reset_state()
            update(tf.constant([[1, 1]]), tf.one_hot([[1, 1]], 3))
            assert float(metric.result()) == 1

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"average": "samples"}, r"average must be one of \('micro',.*got 'samples'"),
            ({"scheme": "IOB3"}, "scheme must be one of"),
            ({"scheme": "IOE2"}, "names that are not of IOE2"),
            ({"tag_names": []}, "got none"),
        ],
    )
    def test_what_makes_no_metric_is_refused(self, arguments, words):
        with pytest.raises(ValueError, match=words):
            SpanF1(**{"tag_names": NAMES, **arguments})


def metrics_of(names=NAMES):
    return [
        SpanF1(names, "IOB2"),
        SpanF1(names, "IOB2", "macro", strict=True, name="strict_f1"),
        SpanF1(names, "IOB2", None, name="of"),
        TagAccuracy(),
        SequenceAccuracy(),
    ]


def few_metrics():
    """Fewer, where they are traced or compiled, which takes seconds."""
    return [SpanF1(NAMES, "IOB2", "macro", True, name="strict_f1"), SequenceAccuracy()]


KEYS = {"span_f1", "strict_f1", "of_X", "tag_accuracy", "sequence_accuracy", "loss"}
FEW_KEYS = {"strict_f1", "sequence_accuracy", "loss"}


def expected_of(model, words, gold):
    """The metrics of the best path of the whole, by seqeval and NumPy."""
    best, kept = distribution_of(model(words)).argmax().tags.numpy(), words > 0
    pairs = [
        ([NAMES[i] for i in row[keep]], [NAMES[i] for i in other[keep]])
        for row, other, keep in zip(gold, best, kept, strict=True)
    ]
    right = (gold == best) | ~kept
    lenient = seqeval_f1(pairs, "IOB2", "micro", False)
    return {
        "span_f1": lenient,
        "of_X": lenient,
        "strict_f1": seqeval_f1(pairs, "IOB2", "macro", True),
        "tag_accuracy": right[kept].mean(),
        "sequence_accuracy": right.all(axis=1)[kept.any(axis=1)].mean(),
    }


def random_model(optimizer="sgd", **options):
    """A tagger whose best path is not the best tag of each step, and now and then right."""
    model = toys.tagger(optimizer=optimizer, metrics=metrics_of(), **options)
    generator = np.random.default_rng(3)
    model.set_weights([generator.normal(size=weight.shape) * 2 for weight in model.weights])
    return model


@pytest.fixture(scope="module")
def labelled():
    """Words, and labels that are the best path of `random_model` but for some."""
    generator = np.random.default_rng(8)
    words, _ = toys.sentences(lengths=(6, 1, 3, 5, 2, 4, 0, 6, 6), steps=6)
    gold = distribution_of(random_model()(words)).argmax().tags.numpy()
    wrong = generator.integers(0, 3, gold.shape)
    gold = np.where(generator.random(gold.shape) < 0.3, wrong, gold)
    return words, np.where(words > 0, gold, -100)


def evaluated(model, words, gold):
    return model.evaluate(words, gold, batch_size=4, verbose=0, return_dict=True)


def assert_as_expected(values, model, words, gold, keys=KEYS):
    assert set(values) == keys
    expected = expected_of(model, words, gold)
    for key in keys - {"loss"}:
        assert values[key] == pytest.approx(expected[key], abs=1e-6), key
        assert 0 < values[key] < 1


@NO_WARNINGS
class TestInModels:
    @pytest.mark.parametrize("mode", MODES)
    def test_every_output_mode_has_the_values_of_the_best_path(self, labelled, mode):
        model = random_model(output_mode=mode)
        assert_as_expected(evaluated(model, *labelled), model, *labelled)

    @pytest.mark.parametrize("mode", MODES)
    def test_the_best_path_counts_and_not_the_best_tag_of_each_step_d8(self, mode):
        layer = toys.layer_with([[0, -2], [0, 0]], output_mode=mode)
        outputs = layer(tf.constant([[[0.1, 0], [0.1, 0], [0, 1]]]))
        assert value_of(SequenceAccuracy(), [[1, 1, 1]], outputs) == 1
        if mode == "potentials":
            assert value_of(TagAccuracy(), [[1, 1, 1]], outputs.numpy()) == pytest.approx(1 / 3)

    @pytest.mark.parametrize(
        ("mode", "jit_compile"),
        [
            ("one_hot", False),
            pytest.param("potentials", False, marks=pytest.mark.slow),
            pytest.param("int", True, marks=pytest.mark.slow),
            pytest.param("marginals", True, marks=pytest.mark.slow),
        ],
    )
    def test_fits_in_a_graph(self, labelled, mode, jit_compile):
        words, gold = labelled
        model = random_model(output_mode=mode)
        sgd = keras.optimizers.SGD(0.0)
        model.compile(sgd, CRFLoss(), metrics=few_metrics(), jit_compile=jit_compile)
        model.optimizer.build(model.trainable_variables)
        some = (words[:8], gold[:8])
        history = model.fit(*some, batch_size=4, validation_data=some, verbose=0).history
        values = {key: value[-1] for key, value in history.items()}
        assert_as_expected({key: values[key] for key in FEW_KEYS}, model, *some, FEW_KEYS)
        assert {f"val_{key}": values[key] for key in FEW_KEYS - {"loss"}}.items() <= values.items()
        assert len(values) == 2 * len(FEW_KEYS)

    def test_evaluates_under_xla(self, labelled):
        words, gold = labelled
        model = random_model(output_mode="potentials")
        model.compile("sgd", CRFLoss(), metrics=few_metrics(), jit_compile=True)
        values = evaluated(model, words[:8], gold[:8])
        assert_as_expected(values, model, words[:8], gold[:8], FEW_KEYS)

    @pytest.mark.parametrize("mode", MODES)
    def test_viterbi_runs_once_for_all_metrics_and_not_at_all_on_its_own_path(
        self, monkeypatch, mode
    ):
        runs, argmax = [], LinearChainCRF.argmax
        monkeypatch.setattr(LinearChainCRF, "argmax", lambda crf: runs.append(0) or argmax(crf))
        layer, metrics = CRFLayer(3, output_mode=mode), metrics_of()
        layer.build([None, None, 5])
        runs_of_layer = []

        @tf.function(autograph=False)
        def update(features, gold):
            outputs = layer(features)
            runs_of_layer.append(len(runs))
            for metric in metrics:
                metric.update_state(gold, outputs)

        update.get_concrete_function(tf.TensorSpec([2, 4, 5]), tf.TensorSpec([2, 4], tf.int64))
        by_layer = 1 if mode in ("one_hot", "int") else 0
        assert (runs_of_layer, len(runs)) == ([by_layer], 1)

    def test_a_path_found_in_a_graph_is_not_used_outside_it(self):
        outputs = CRFLayer(3, output_mode="marginals")(tf.random.normal([2, 4, 5]))
        gold, metric = tf.zeros([2, 4], tf.int32), TagAccuracy()
        tf.function(lambda: metric.update_state(gold, outputs))()
        inside = float(metric.result())
        assert value_of(metric, gold, outputs) == inside

    def test_a_softmax_model_needs_no_crf(self, labelled):
        words, gold = labelled
        embedding = keras.layers.Embedding(20, 4, mask_zero=True)
        model = keras.Sequential([embedding, keras.layers.Dense(3, activation="softmax")])
        model(words)
        model.set_weights(
            [w + np.random.default_rng(1).normal(size=w.shape) for w in model.get_weights()]
        )
        best = model(words).numpy().argmax(-1)
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=metrics_of())
        model.run_eagerly = True
        values = evaluated(model, words, np.maximum(gold, 0))
        kept = words > 0
        assert values["tag_accuracy"] == pytest.approx((gold == best)[kept].mean())
        assert values["span_f1"] == pytest.approx(
            value_of(SpanF1(NAMES), np.where(kept, gold, 0), best, kept)
        )

    def test_weighted_metrics_leave_out_rows_of_weight_0(self, labelled):
        words, gold = labelled
        model = random_model()
        model.compile("sgd", CRFLoss(), weighted_metrics=metrics_of(), run_eagerly=True)
        weights = np.array([1, 1, 0, 2, 1, 0, 1, 0, 1])
        values = model.evaluate(
            words, gold, sample_weight=weights, batch_size=4, verbose=0, return_dict=True
        )
        assert_as_expected(values, model, words[weights > 0], gold[weights > 0])

    @pytest.mark.parametrize(
        "policy", ["mixed_float16", pytest.param("float64", marks=pytest.mark.slow)]
    )
    def test_every_policy_counts_alike(self, labelled, policy):
        keras.config.set_dtype_policy(policy)
        model = random_model()
        assert_as_expected(evaluated(model, *labelled), model, *labelled)

    def test_a_saved_model_has_its_metrics_and_their_values_again(self, labelled, tmp_path):
        model = random_model(output_mode="marginals")
        before = evaluated(model, *labelled)
        model.save(tmp_path / "tagger.keras")
        loaded = keras.models.load_model(tmp_path / "tagger.keras")
        loaded.run_eagerly = True
        assert evaluated(loaded, *labelled) == pytest.approx(before, abs=1e-6)
        assert_as_expected(evaluated(loaded, *labelled), loaded, *labelled)

    @pytest.mark.parametrize("metric", metrics_of(), ids=lambda metric: metric.name)
    def test_configs_make_the_same_metric_again(self, metric):
        config = keras.metrics.serialize(metric)
        again = keras.metrics.deserialize(config)
        assert type(again) is type(metric)
        assert again.get_config() == metric.get_config()
        assert keras.metrics.serialize(again) == config


@pytest.mark.parametrize(
    ("metric", "callback"),
    [
        (SpanF1(["O", "B-X", "I-X"]), keras.callbacks.EarlyStopping("val_span_f1")),
        (TagAccuracy(), keras.callbacks.ReduceLROnPlateau("val_tag_accuracy")),
        (
            SequenceAccuracy(),
            keras.callbacks.ModelCheckpoint(
                "best.keras", monitor="val_sequence_accuracy", save_best_only=True
            ),
        ),
    ],
)
def test_callbacks_know_that_more_is_better(metric, callback, tmp_path):
    words, labels = toys.sentences()
    model = toys.tagger(metrics=[metric])
    if isinstance(callback, keras.callbacks.ModelCheckpoint):
        callback.filepath = str(tmp_path / callback.filepath)
    data = (words, np.maximum(labels, 0))
    model.fit(*data, validation_data=data, epochs=2, callbacks=[callback], verbose=0)
    assert callback.monitor_op(1.0, 0.0)
    assert not callback.monitor_op(0.0, 1.0)
