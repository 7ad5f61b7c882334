"""CRFLoss: its numbers, reductions, weights, gradient, and what it refuses."""

import functools
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, crf_loss, distribution_of, label_checks

LN2 = np.log(2)
RUNS = {
    "eager": lambda function: function,
    "graph": tf.function,
    "compiled": functools.partial(tf.function, jit_compile=True),
}


def x1_outputs(**options):
    return toys.layer_with(toys.TRANSITIONS, **options)(toys.POTENTIALS, lengths=toys.LENGTHS)


def golden_outputs(mask=None, *, start=None, end=None):
    """The case of AllenNLP's and tfa's tests, with 5 tags."""
    potentials = [
        [[0, 0, 0.5, 0.5, 0.2], [0, 0, 0.3, 0.3, 0.1], [0, 0, 0.9, 10, 1]],
        [[0, 0, 0.2, 0.5, 0.2], [0, 0, 3, 0.3, 0.1], [0, 0, 0.9, 1, 1]],
    ]
    transitions = [
        [0.1, 0.2, 0.3, 0.4, 0.5],
        [0.8, 0.3, 0.1, 0.7, 0.9],
        [-0.3, 2.1, -5.6, 3.4, 4],
        [0.2, 0.4, 0.6, -0.3, -0.4],
        [1, 1, 1, 1, 1],
    ]
    layer = toys.layer_with(transitions, start=start, end=end)
    return layer(tf.constant(potentials), mask=mask)


GOLDEN_TAGS = np.array([[2, 3, 4], [3, 2, 2]])
GOLDEN_ENDS = {"start": [0.1, 0.2, 0.3, 0.4, 0.6], "end": [-0.1, -0.2, 0.3, -0.4, -0.4]}


class TestValue:
    @pytest.mark.parametrize("mode", ["one_hot", "int", "marginals", "potentials"])
    def test_is_the_mean_negative_log_likelihood_in_every_output_mode(self, mode):
        loss = CRFLoss()(toys.LABELS, x1_outputs(output_mode=mode))
        assert float(loss) == pytest.approx(1.164717, abs=1e-5)

    @pytest.mark.parametrize(
        ("mask", "losses"),
        [
            (None, [11.9094426, 10.6692051]),
            ([[1, 1, 1], [1, 1, 0]], [11.9094426, 1.4701313]),
        ],
    )
    def test_is_that_of_allennlp(self, mask, losses):
        outputs = golden_outputs(mask, **GOLDEN_ENDS)
        np.testing.assert_allclose(
            CRFLoss(reduction="none")(GOLDEN_TAGS, outputs), losses, rtol=1e-6
        )

    @pytest.mark.parametrize("ends", [{}, {"start": [1.0] * 5, "end": [1.0] * 5}])
    def test_is_that_of_the_layer_of_tensorflow_addons(self, ends):
        loss = CRFLoss()(GOLDEN_TAGS, golden_outputs(**ends))
        assert float(loss) == pytest.approx(11.5845031, rel=1e-6)

    def test_holes_in_the_mask_join_the_steps_around_them(self):
        potentials = tf.constant([[[0, 0.5], [3, -3], [0, 0.25]]])
        outputs = toys.layer_with(toys.TRANSITIONS)(potentials, mask=[[1, 0, 1]])
        assert float(CRFLoss()([[1, -100, 1]], outputs)) == pytest.approx(0.916117, abs=1e-5)

    @pytest.mark.parametrize("lengths", [[4, 1, 2, 3], [4, 1, 2], [3]])
    @pytest.mark.parametrize("how", ["riding", "lengths"])
    def test_of_evaluate_is_a_mean_over_rows_where_batch_and_time_are_equal_or_not_d7(
        self, how, lengths
    ):
        words = (np.arange(4) < np.array(lengths)[:, np.newaxis]).astype("int32")
        ids, lengths_in = keras.Input((4,), dtype="int32"), keras.Input((), dtype="int32")
        layer = toys.layer_with(np.zeros([2, 2]))
        embedding = keras.layers.Embedding(
            2, 2, mask_zero=how == "riding", embeddings_initializer="zeros"
        )
        if how == "riding":
            model, inputs = keras.Model(ids, layer(embedding(ids))), words
        else:
            outputs = layer(embedding(ids), lengths=lengths_in)
            model, inputs = keras.Model([ids, lengths_in], outputs), [words, np.array(lengths)]
        model.compile(loss=CRFLoss(), run_eagerly=True)
        loss = model.evaluate(inputs, np.ones_like(words), verbose=0)
        assert float(loss) == pytest.approx(np.mean(lengths) * LN2, abs=1e-5)

    def test_a_row_without_kept_steps_counts_in_the_mean_with_loss_0_c2(self):
        outputs = toys.layer_with(toys.TRANSITIONS)(toys.POTENTIALS, lengths=[0, 3])
        assert float(CRFLoss()(toys.LABELS, outputs)) == pytest.approx(2.016171 / 2, abs=1e-5)


class TestReduction:
    @pytest.mark.parametrize(
        ("reduction", "expected"),
        [
            ("sum_over_batch_size", 1.164717),
            ("sum", 2.329433),
            ("none", [0.313262, 2.016171]),
            ("mean_per_token", 2.329433 / 4),
        ],
    )
    def test_has_the_denominator_it_says_c6(self, reduction, expected):
        loss = CRFLoss(reduction=reduction)(toys.LABELS, x1_outputs())
        np.testing.assert_allclose(loss, expected, atol=1e-5)

    def test_by_default_the_size_of_the_batch_does_not_change_the_loss_c6(self):
        potentials, lengths, labels = (
            np.repeat(array, 8, axis=0) for array in (toys.POTENTIALS, toys.LENGTHS, toys.LABELS)
        )
        outputs = toys.layer_with(toys.TRANSITIONS)(potentials, lengths=lengths)
        assert float(CRFLoss()(labels, outputs)) == pytest.approx(1.164717, abs=1e-5)

    @pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "mean_per_token"])
    def test_of_a_batch_without_kept_steps_is_0(self, reduction):
        outputs = toys.layer_with(toys.TRANSITIONS)(toys.POTENTIALS, lengths=[0, 0])
        assert CRFLoss(reduction=reduction)(toys.LABELS, outputs) == 0

    @pytest.mark.parametrize("reduction", ["mean", "average", 3])
    def test_is_known(self, reduction):
        with pytest.raises(ValueError, match=rf"reduction must be one of .*, got {reduction!r}"):
            CRFLoss(reduction=reduction)

    def test_comes_back_from_the_config_without_custom_objects(self):
        loss = CRFLoss(reduction="mean_per_token", name="nll")
        config = json.loads(json.dumps(keras.saving.serialize_keras_object(loss)))
        copy = keras.saving.deserialize_keras_object(config)
        assert isinstance(copy, CRFLoss)
        assert (copy.reduction, copy.name) == ("mean_per_token", "nll")


class TestSampleWeight:
    @pytest.mark.parametrize("weights", [[0, 1], [[0], [1]], [0.0, 1.0], [False, True]])
    def test_weighs_rows_d5_d6(self, weights):
        loss = CRFLoss()(toys.LABELS, x1_outputs(), sample_weight=np.array(weights))
        assert float(loss) == pytest.approx(1.008086, abs=1e-5)

    @pytest.mark.parametrize("shape", [(2,), (2, 1)])
    def test_weighs_rows_in_evaluate_and_in_fit_d5(self, shape):
        model = toys.x1_model()
        weights = np.array([0.0, 1.0]).reshape(shape)
        inputs = [toys.POTENTIALS, toys.LENGTHS]
        expected = pytest.approx(1.008086, abs=1e-5)
        loss = model.evaluate(inputs, toys.LABELS, sample_weight=weights, verbose=0)
        assert loss == expected
        fitted = model.fit(inputs, toys.LABELS, sample_weight=weights, verbose=0)
        assert fitted.history["loss"] == [expected]

    @pytest.mark.parametrize(
        ("reduction", "expected"),
        [("sum", 4.345604), ("none", [0.313262, 4.032342]), ("mean_per_token", 4.345604 / 4)],
    )
    def test_goes_into_every_reduction(self, reduction, expected):
        loss = CRFLoss(reduction=reduction)(toys.LABELS, x1_outputs(), sample_weight=[1.0, 2.0])
        np.testing.assert_allclose(loss, expected, atol=1e-5)

    @pytest.mark.parametrize("steps", [2, 3])
    def test_per_step_weighs_the_terms_also_where_batch_and_time_are_equal_d6(self, steps):
        outputs = toys.layer_with(toys.TRANSITIONS)(toys.POTENTIALS[:, :steps])
        labels = toys.LABELS[:, :steps]
        weights = np.arange(2 * steps).reshape(2, steps)
        terms = -distribution_of(outputs).token_log_prob(labels).numpy()
        loss = CRFLoss(reduction="none")(labels, outputs, sample_weight=weights)
        np.testing.assert_allclose(loss, (weights * terms).sum(axis=1), rtol=1e-6)

    def test_per_step_of_ones_is_none_and_what_lies_on_dropped_steps_is_not_read(self):
        weights = np.array([[1, np.nan, np.nan], [1, 1, 1]])
        loss = CRFLoss(reduction="none")(toys.LABELS, x1_outputs(), sample_weight=weights)
        np.testing.assert_allclose(loss, toys.LOSSES, atol=1e-5)

    def test_of_0_leaves_out_what_is_forbidden(self):
        potentials = toys.POTENTIALS.copy()
        potentials[1, 1, 0] = -np.inf
        outputs = toys.layer_with(toys.TRANSITIONS)(potentials, lengths=toys.LENGTHS)
        loss = CRFLoss(reduction="none")
        np.testing.assert_allclose(
            loss(toys.LABELS, outputs, sample_weight=[1, 0]), [0.313262, 0], atol=1e-5
        )
        steps = loss(toys.LABELS, outputs, sample_weight=[[1, 1, 1], [1, 0, 1]])
        assert np.isfinite(steps).all()

    @pytest.mark.parametrize("run", RUNS)
    @pytest.mark.parametrize("rules", [{}, {"tag_names": ["O", "B-X"], "scheme": "BIO"}])
    def test_of_0_excuses_a_label_that_is_no_tag_as_in_the_metrics(self, run, rules):
        layer = toys.layer_with(toys.TRANSITIONS, **rules)

        @RUNS[run]
        def losses(labels, weights):
            outputs = layer(toys.POTENTIALS, lengths=toys.LENGTHS)
            return CRFLoss(reduction="none")(labels, outputs, sample_weight=weights)

        weights = np.array([[1, 1, 1], [2, 0, 1]], "float32")
        unknown = np.array([[0, 1, 1], [1, -1, 1]])
        terms = distribution_of(x1_outputs(**rules)).token_log_prob(unknown, ignore_index=-1)
        expected = -(weights * terms.numpy() * toys.MASK).sum(axis=1)
        for wrong in (-1, 2, -100):
            labels = np.where(unknown < 0, wrong, unknown)
            np.testing.assert_allclose(losses(labels, weights), expected, atol=1e-5)
        rows = np.array([[1.0], [0]], "float32")
        np.testing.assert_allclose(losses(unknown, rows), [toys.LOSSES[0], 0], atol=1e-5)

    def test_of_0_lets_a_step_have_any_tag_with_an_ignore_index_too(self):
        weights = np.array([[1, 1, 1], [1, 0, 1]])
        terms = distribution_of(x1_outputs()).token_log_prob([[0, 1, 1], [-7, -7, 1]], -7).numpy()
        loss = CRFLoss(ignore_index=-7, reduction="none")
        given = loss([[0, 1, 1], [-7, -1, 1]], x1_outputs(), sample_weight=weights)
        np.testing.assert_allclose(given, -(weights * terms).sum(axis=1), atol=1e-5)

    def test_of_0_excuses_what_is_no_label_at_all_and_an_empty_set(self):
        loss, weights = CRFLoss(reduction="none"), np.array([[1, 1, 1], [1, 0, 1]])
        expected = loss([[0, 1, 1], [1, -1, 1]], x1_outputs(), sample_weight=weights)
        for nothing in (np.nan, 0.5):
            labels = np.array([[0, 1, 1], [1, nothing, 1]])
            given = loss(labels, x1_outputs(), sample_weight=weights)
            np.testing.assert_allclose(given, expected, atol=1e-6)
        sets = np.eye(2)[toys.LABELS]
        sets[1, 1] = 0
        given = loss(sets, x1_outputs(), sample_weight=weights)
        np.testing.assert_allclose(given, expected, atol=1e-6)

    def test_of_0_leaves_a_label_that_is_a_tag_to_those_behind_it(self):
        weights = np.array([[1, 1, 1], [1, 0, 1]])
        terms = distribution_of(x1_outputs()).token_log_prob(toys.LABELS).numpy()
        for dtype in ("int64", "float32"):
            labels = toys.LABELS.astype(dtype)
            loss = CRFLoss(reduction="none")(labels, x1_outputs(), sample_weight=weights)
            np.testing.assert_allclose(loss, -(weights * terms).sum(axis=1), atol=1e-6)

    def test_above_0_excuses_nothing(self):
        labels, weights = [[0, 1, 1], [1, -1, 1]], [[1, 1, 1], [1, 0.5, 0]]
        with pytest.raises(ValueError, match="got the tag -1 at row 1, step 1"):
            CRFLoss()(labels, x1_outputs(), sample_weight=weights)

    def test_of_0_excuses_in_the_gradient_too(self):
        layer = toys.layer_with(toys.TRANSITIONS)
        gradients = []
        for label, loss in ((-1, CRFLoss()), (-5, CRFLoss(ignore_index=-5))):
            with tf.GradientTape() as tape:
                outputs = layer(toys.POTENTIALS, lengths=toys.LENGTHS)
                value = loss([[0, 1, 1], [1, label, 1]], outputs, [[1, 1, 1], [1, 0, 1]])
            gradients.append(tape.gradient(value, layer.transitions.value))
        np.testing.assert_allclose(*gradients, atol=1e-6)

    def test_per_step_goes_into_fit(self):
        model = toys.x1_model()
        inputs = [toys.POTENTIALS, toys.LENGTHS]
        weights = np.array([[1.0, 0, 0], [0, 0, 0]])
        fitted = model.fit(inputs, toys.LABELS, sample_weight=weights, verbose=0)
        assert fitted.history["loss"] == [pytest.approx(0.313262 / 2, abs=1e-5)]

    def test_of_another_batch_is_refused(self):
        with pytest.raises(ValueError, match=r"one number a row.*\(3,\).*\(2, 3, 2\)"):
            CRFLoss()(toys.LABELS, x1_outputs(), sample_weight=np.ones(3))


class TestLabels:
    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float32", "float64"])
    @pytest.mark.parametrize("last_axis", [False, True])
    def test_of_every_dtype_and_of_both_ranks_agree_b5(self, dtype, last_axis):
        labels = toys.LABELS.astype(dtype)
        labels = labels[..., np.newaxis] if last_axis else labels
        np.testing.assert_allclose(
            CRFLoss(reduction="none")(labels, x1_outputs()), toys.LOSSES, atol=1e-5
        )

    @pytest.mark.parametrize("padding", [-100, 99, -1])
    @pytest.mark.parametrize("dtype", ["int32", "float32"])
    def test_on_padding_are_not_read_a2(self, padding, dtype):
        labels = np.where(toys.MASK, toys.LABELS, padding).astype(dtype)
        np.testing.assert_allclose(
            CRFLoss(reduction="none")(labels, x1_outputs()), toys.LOSSES, atol=1e-5
        )

    def test_that_are_no_number_on_padding_are_not_read(self):
        labels = np.where(toys.MASK, toys.LABELS, np.nan)
        np.testing.assert_allclose(
            CRFLoss(reduction="none")(labels, x1_outputs()), toys.LOSSES, atol=1e-5
        )

    @pytest.mark.parametrize("wrong", [2, -1, -100])
    def test_out_of_range_are_named_with_row_and_step_b9(self, wrong):
        labels = toys.LABELS.copy()
        labels[1, 2] = wrong
        message = rf"must lie in 0\.\.1 on kept steps; got the tag {wrong} at row 1, step 2"
        with pytest.raises(ValueError, match=message):
            CRFLoss()(labels, x1_outputs())

    def test_out_of_range_are_named_in_fit_b9(self):
        words, tags = toys.sentences()
        tags[3, 1] = -100
        message = re.escape(
            "assertion failed: [tags must lie in 0..2 on kept steps; got the tag <value> at row "
            f"<row>, step <step>. {label_checks.OUT_OF_RANGE} value, row, step:] [-100 3 1]\n"
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            toys.tagger(run_eagerly=False).fit(words, tags, shuffle=False, verbose=0)

    def test_out_of_range_are_told_of_the_mask_and_of_ignore_index(self):
        message = r"step 2\. Ids of tags begin at 0, .* A step .*a mask that .*ignore_index=…"
        with pytest.raises(ValueError, match=message):
            CRFLoss()([[0, 1, 1], [1, 0, -100]], x1_outputs())
        weighted = CRFLoss(ignore_index=-1, tag_weights=[1, 2])
        with pytest.raises(ValueError, match=r"got the tag -100 .*mask=… or lengths=…; or ignore"):
            weighted([[0, 1, 1], [1, 0, -100]], x1_outputs())

    def test_that_are_no_whole_numbers_are_one_line_in_a_graph(self):
        layer = toys.layer_with(toys.TRANSITIONS)

        @tf.function
        def loss(labels):
            return CRFLoss()(labels, layer(toys.POTENTIALS))

        message = r"\[y_true must hold whole numbers; got <value> at row <row>, step <step>\. "
        with pytest.raises(tf.errors.InvalidArgumentError, match=message + r".*:\] \[0\.5 1 2\]"):
            loss(tf.constant([[0, 1, 1], [1, 0, 0.5]]))

    def test_that_are_no_whole_numbers_are_named(self):
        labels = toys.LABELS + np.array([[0, 0, 0], [0, 0.5, 0]])
        with pytest.raises(ValueError, match=r"whole numbers; got 0\.5 at row 1, step 1"):
            CRFLoss()(labels, x1_outputs())

    def test_out_of_range_make_their_row_nan_under_jit(self):
        layer = toys.layer_with(toys.TRANSITIONS)

        @tf.function(jit_compile=True)
        def losses(labels):
            return CRFLoss(reduction="none")(labels, layer(toys.POTENTIALS, lengths=toys.LENGTHS))

        np.testing.assert_allclose(losses(toys.LABELS), toys.LOSSES, atol=1e-5)
        wrong = losses([[0, 1, 1], [1, 2, 1]])
        assert float(wrong[0]) == pytest.approx(toys.LOSSES[0], abs=1e-5)
        assert np.isnan(wrong[1])

    @pytest.mark.parametrize("shape", [(2, 5), (2, 2), (3, 3)])
    def test_of_other_steps_than_the_outputs_are_refused_b8(self, shape):
        message = rf"y_true must have the batch and time axes.*\({shape[0]}, {shape[1]}\).*2, 3, 2"
        with pytest.raises(ValueError, match=message):
            CRFLoss()(np.zeros(shape, int), x1_outputs())

    @pytest.mark.parametrize("shape", [(2,), (2, 3, 1, 1)])
    def test_of_another_rank_are_refused(self, shape):
        with pytest.raises(ValueError, match=rf"y_true must have rank 2.*got rank {len(shape)}"):
            CRFLoss()(np.zeros(shape, int), x1_outputs())

    def test_that_are_ragged_are_refused_with_the_way_out_b12(self):
        ragged = tf.ragged.constant([[0], [1, 0, 1]])
        message = (
            r"y_true must be a dense tensor.*y_true\.to_tensor\(shape=\[None, T\]\) .*mask_zero"
        )
        with pytest.raises(ValueError, match=message) as raised:
            CRFLoss()(ragged, x1_outputs())
        assert "lengths" not in str(raised.value)  # which a loss does not take
        with pytest.raises(ValueError, match=message):
            toys.tagger(2).fit(np.ones([2, 3], int), ragged, verbose=0)
        with pytest.raises(
            ValueError, match=r"sample_weight must be a dense .*outputs tells padding"
        ):
            CRFLoss()(toys.LABELS, x1_outputs(), tf.ragged.constant([[1.0], [1.0, 0, 1]]))


class TestGradient:
    def test_is_marginals_less_the_one_hot_of_the_labels_c8(self):
        layer = toys.layer_with(toys.TRANSITIONS)
        potentials = tf.constant(toys.POTENTIALS)
        with tf.GradientTape() as tape:
            tape.watch(potentials)
            loss = CRFLoss(reduction="sum")(toys.LABELS, layer(potentials, lengths=toys.LENGTHS))
        gold = np.eye(2)[toys.LABELS] * toys.MASK[..., np.newaxis]
        gradient = tape.gradient(loss, potentials).numpy()
        np.testing.assert_allclose(gradient, toys.MARGINALS - gold, atol=1e-6)
        np.testing.assert_array_equal(gradient[0, 1:], np.zeros([2, 2]))

    def test_is_small_but_there_on_a_row_that_fits_well_c8(self):
        layer = toys.layer_with(np.zeros([2, 2]))
        potentials = tf.constant([[[10.0, 0.0], [0.0, 10.0]]])
        with tf.GradientTape() as tape:
            tape.watch(potentials)
            loss = CRFLoss()([[0, 1]], layer(potentials))
        rest = 1 / (1 + np.exp(10))
        expected = [[[-rest, rest], [rest, -rest]]]
        assert float(loss) == pytest.approx(2 * np.log1p(np.exp(-10)), rel=1e-4)
        gradient = tape.gradient(loss, potentials)
        np.testing.assert_allclose(gradient, expected, atol=1e-7)  # 1 - p in float32
        assert np.all(gradient != 0)

    def test_in_the_output_mode_marginals_is_that_of_the_loss_alone(self):
        gradients = []
        for mode in ("one_hot", "marginals"):
            layer = toys.layer_with(toys.TRANSITIONS, output_mode=mode)
            with tf.GradientTape() as tape:
                loss = CRFLoss()(toys.LABELS, layer(toys.POTENTIALS, lengths=toys.LENGTHS))
            gradients.append(tape.gradient(loss, layer.transitions.value))
        np.testing.assert_array_equal(*gradients)


class TestOutputsWithoutADistribution:
    MESSAGE = r"carries no LinearChainCRF.*let the CRFLayer be the last layer of this output.*"

    def test_a_layer_behind_the_crf_is_named_as_the_cause(self):
        outputs = keras.layers.Dropout(0.5)(x1_outputs())
        outputs = keras.layers.Dense(2)(outputs)
        with pytest.raises(ValueError, match=r"EagerTensor of shape \(2, 3, 2\) " + self.MESSAGE):
            CRFLoss()(toys.LABELS, outputs)

    def test_a_layer_behind_the_crf_is_named_in_fit(self):
        model = keras.Sequential(
            [keras.layers.Embedding(20, 4), CRFLayer(3), keras.layers.Dropout(0.1)]
        )
        model.compile(loss=CRFLoss())
        with pytest.raises(ValueError, match=self.MESSAGE):
            model.fit(*toys.sentences(), verbose=0)

    def test_an_array_is_refused(self):
        with pytest.raises(ValueError, match=r"ndarray of shape \(2, 3, 2\) " + self.MESSAGE):
            CRFLoss()(toys.LABELS, x1_outputs().numpy())

    def test_a_tensor_that_left_its_tf_function_is_refused(self):
        layer = toys.layer_with(toys.TRANSITIONS, output_mode="potentials")
        outputs = tf.function(layer)(tf.constant(toys.POTENTIALS))
        with pytest.raises(ValueError, match=r"within the tf\.function that made it"):
            CRFLoss()(toys.LABELS, outputs)
        with pytest.raises(ValueError, match=r"within the tf\.function that made it"):
            distribution_of(outputs)


class TestPartialLabels:
    @pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
    def test_one_hot_labels_are_tags(self, dtype):
        one_hot = np.eye(2)[toys.LABELS].astype(dtype)
        np.testing.assert_allclose(
            CRFLoss(reduction="none")(one_hot, x1_outputs()), toys.LOSSES, atol=1e-5
        )

    def test_a_set_of_all_tags_is_an_ignored_step(self):
        labels = np.array([[0, 1, 1], [1, -7, 1]])
        sets = np.eye(2)[np.where(labels < 0, 0, labels)]
        sets[1, 1] = 1
        ignoring = CRFLoss(ignore_index=-7, reduction="none")(labels, x1_outputs())
        outputs = x1_outputs()
        np.testing.assert_allclose(ignoring, CRFLoss(reduction="none")(sets, outputs), rtol=1e-6)
        paths = [np.array([[0, 0, 0], [1, tag, 1]]) for tag in (0, 1)]
        by_hand = sum(np.exp(distribution_of(outputs).log_prob(path)[1]) for path in paths)
        assert float(ignoring[1]) == pytest.approx(-np.log(by_hand), abs=1e-5)

    def test_rows_of_which_nothing_is_known_have_loss_0_and_no_gradient(self):
        layer = toys.layer_with(toys.TRANSITIONS)
        with tf.GradientTape() as tape:
            loss = CRFLoss(ignore_index=-1)(
                np.full((2, 3), -1), layer(tf.constant(toys.POTENTIALS))
            )
        assert float(loss) == 0
        np.testing.assert_array_equal(tape.gradient(loss, layer.transitions), np.zeros([2, 2]))

    def test_other_labels_that_are_no_tags_are_refused(self):
        with pytest.raises(ValueError, match=r"tags must lie in 0\.\.1.*got the tag -2"):
            CRFLoss(ignore_index=-1)([[0, 0, 0], [-1, -2, 0]], x1_outputs())

    def test_a_float_that_is_no_whole_number_is_not_taken_for_one_to_ignore(self):
        with pytest.raises(ValueError, match=r"y_true must hold whole numbers; got 0\.5"):
            CRFLoss(ignore_index=-1)([[0.5, 0, 0], [-1, -1, 0]], x1_outputs())


class TestTagWeights:
    def test_weigh_the_terms_by_their_true_tag(self):
        outputs = x1_outputs()
        terms = -distribution_of(outputs).token_log_prob(toys.LABELS).numpy()
        weights = np.array([1.0, 3.0])
        loss = CRFLoss(tag_weights=weights, reduction="none")(toys.LABELS, outputs)
        np.testing.assert_allclose(loss, (weights[toys.LABELS] * terms).sum(axis=1), rtol=1e-6)
        one_hot = CRFLoss(tag_weights=weights, reduction="none")(np.eye(2)[toys.LABELS], outputs)
        np.testing.assert_allclose(one_hot, loss, rtol=1e-6)

    def test_multiply_sample_weight(self):
        outputs, halves = x1_outputs(), np.full((2, 3), 0.5)
        loss = CRFLoss(tag_weights=[2, 2])(toys.LABELS, outputs, sample_weight=halves)
        assert float(loss) == pytest.approx(1.164717, abs=1e-5)

    def test_must_be_one_a_tag(self):
        with pytest.raises(ValueError, match=r"tag_weights must be 2 numbers, one a tag; got 3"):
            CRFLoss(tag_weights=[1, 2, 3])(toys.LABELS, x1_outputs())


class TestCrfLoss:
    """The function, with which Keras' own mask, weights and mean are right."""

    @pytest.mark.parametrize("words", [[[1, 1, 0], [1, 0, 0], [1, 1, 1]], [[1, 1, 0], [1, 0, 0]]])
    @pytest.mark.parametrize("run_eagerly", [True, False])
    def test_in_compile_is_the_mean_per_kept_token(self, words, run_eagerly):
        words = np.array(words)
        model = keras.Sequential([keras.layers.Embedding(2, 2, mask_zero=True), CRFLayer(2)])
        model.compile("sgd", loss=crf_loss, run_eagerly=run_eagerly)
        loss = model.evaluate(words, np.ones_like(words), verbose=0)
        by_hand = -distribution_of(model(words)).log_prob(np.ones_like(words)).numpy()
        assert loss == pytest.approx(by_hand.sum() / words.sum(), rel=1e-5)

    def test_in_compile_takes_weights_of_steps(self):
        words, weights = np.ones([2, 2], int), np.array([[1.0, 0], [0, 0]])
        model = keras.Sequential([keras.layers.Embedding(2, 2, mask_zero=True), CRFLayer(2)])
        model.compile("sgd", loss=crf_loss, run_eagerly=True)
        loss = model.evaluate(words, words, sample_weight=weights, verbose=0)
        terms = -distribution_of(model(words)).token_log_prob(words).numpy()
        assert loss == pytest.approx(terms[0, 0] / 4, rel=1e-5)

    def test_is_saved_with_the_model(self, tmp_path):
        model = toys.x1_model()
        model.compile("sgd", loss=crf_loss, run_eagerly=True)
        inputs = [toys.POTENTIALS, toys.LENGTHS]
        loss = model.evaluate(inputs, toys.LABELS, verbose=0)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert loaded.evaluate(inputs, toys.LABELS, verbose=0) == pytest.approx(loss)

    def test_of_partial_labels_is_0_where_nothing_is_known(self):
        sets = np.ones([2, 3, 2])
        np.testing.assert_array_equal(crf_loss(sets, x1_outputs()), np.zeros([2, 3]))
