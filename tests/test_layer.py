"""CRFLayer by itself: output modes, weights, options, masks on their way in, and bad input."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, distribution_of
from keras_crf.layer_checks import ARGUMENTS_ELSEWHERE

MODES = ("one_hot", "int", "marginals", "potentials")


def x1_outputs(**options):
    layer = toys.layer_with(toys.TRANSITIONS, **options)
    return layer(toys.POTENTIALS, lengths=toys.LENGTHS)


class TestOutputModes:
    def test_one_hot_is_the_best_path_and_zeros_on_padding(self):
        outputs = x1_outputs()
        assert outputs.dtype == tf.float32
        np.testing.assert_array_equal(outputs, np.eye(2)[toys.BEST] * toys.MASK[..., np.newaxis])

    @pytest.mark.parametrize("pad_tag", [0, -1, 7])
    def test_int_is_the_best_path_and_pad_tag_on_padding_a23(self, pad_tag):
        outputs = x1_outputs(output_mode="int", pad_tag=pad_tag)
        assert outputs.dtype == tf.int32
        np.testing.assert_array_equal(outputs, np.where(toys.MASK, toys.BEST, pad_tag))

    def test_marginals_are_the_posterior_and_zeros_on_padding(self):
        np.testing.assert_allclose(x1_outputs(output_mode="marginals"), toys.MARGINALS, atol=1e-6)

    def test_potentials_are_the_scores_and_zeros_on_padding(self):
        expected = toys.POTENTIALS * toys.MASK[..., np.newaxis]
        np.testing.assert_array_equal(x1_outputs(output_mode="potentials"), expected)

    @pytest.mark.parametrize("mode", MODES)
    def test_every_mode_carries_the_distribution_and_the_mask(self, mode):
        outputs = x1_outputs(output_mode=mode)
        distribution = distribution_of(outputs)
        np.testing.assert_allclose(-distribution.log_prob(toys.LABELS), toys.LOSSES, atol=1e-5)
        np.testing.assert_array_equal(outputs._keras_mask, toys.MASK)

    @pytest.mark.parametrize("mode", MODES)
    def test_the_symbolic_output_has_the_shape_and_dtype_of_the_real_one(self, mode):
        layer = CRFLayer(3, output_mode=mode)
        symbolic = layer(keras.Input((None, 4)))
        real = layer(tf.zeros([2, 5, 4]))
        assert symbolic.dtype == real.dtype
        assert symbolic.shape == (None, None, *real.shape[2:])
        assert layer.compute_output_shape((2, 5, 4)) == tuple(real.shape)

    def test_one_call_gives_one_tensor_d14(self):
        assert isinstance(x1_outputs(), tf.Tensor)


class TestDistribution:
    def test_is_the_one_that_the_output_carries(self):
        layer = CRFLayer(3)
        features = keras.random.normal([2, 5, 4])
        for options in ({}, {"mask": [[1, 0, 1, 1, 0]] * 2}, {"lengths": [5, 2]}):
            asked = layer.distribution(features, **options)
            carried = distribution_of(layer(features, **options))
            np.testing.assert_array_equal(asked.mask, carried.mask)
            np.testing.assert_array_equal(asked.log_partition(), carried.log_partition())

    def test_takes_the_mask_that_rides_on_the_features(self):
        features = keras.layers.Embedding(9, 4, mask_zero=True)(np.array([[3, 4, 0]]))
        np.testing.assert_array_equal(
            CRFLayer(2).distribution(features).mask, [[True, True, False]]
        )

    def test_trains_a_layer_in_a_loop_of_ones_own(self):
        layer = CRFLayer(3)
        features = keras.random.normal([4, 5, 6])
        tags = np.random.default_rng(0).integers(0, 3, [4, 5])
        optimizer = keras.optimizers.Adam(0.1)

        def step():
            with tf.GradientTape() as tape:
                loss = -tf.reduce_mean(layer.distribution(features).log_prob(tags))
            weights = layer.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        layer.build(features.shape)
        losses = [float(step()) for _ in range(20)]
        assert losses[-1] < losses[0] / 2

    def test_is_a_graph_of_unknown_batch_and_time_b7_d24(self):
        layer = toys.layer_with(toys.TRANSITIONS)

        @tf.function(input_signature=[tf.TensorSpec([None, None, 2]), tf.TensorSpec([None, None])])
        def loss(potentials, mask):
            return CRFLoss(reduction="none")(toys.LABELS, layer(potentials, mask=mask))

        np.testing.assert_allclose(
            loss(toys.POTENTIALS, toys.MASK.astype("float32")), toys.LOSSES, atol=1e-5
        )


class TestWeights:
    def test_are_named_kernel_bias_transitions_start_end(self):
        layer = CRFLayer(3)
        layer.build((None, None, 4))
        assert {weight.name: weight.shape for weight in layer.weights} == {
            "kernel": (4, 3),
            "bias": (3,),
            "transitions": (3, 3),
            "start": (3,),
            "end": (3,),
        }
        assert layer.transitions is layer.weights[2]

    @pytest.mark.parametrize(
        ("width", "options", "count"),
        [
            (2, {}, 2 * 7 + 7 + 49 + 14),
            (2, {"use_boundary": False}, 2 * 7 + 7 + 49),
            (7, {"use_kernel": False}, 49 + 14),
            (7, {"use_kernel": False, "use_boundary": False}, 49),
        ],
    )
    def test_are_counted_before_and_after_compile_b13_d18(self, width, options, count):
        model = keras.Sequential([keras.Input((None, width)), CRFLayer(7, **options)])
        assert model.count_params() == count
        model.compile("adam", loss=CRFLoss())
        assert model.count_params() == count
        assert sum(w.shape.num_elements() for w in model.trainable_variables) == count

    def test_without_boundaries_start_and_end_score_nothing(self):
        with_zeros = toys.layer_with(toys.TRANSITIONS, start=[0, 0], end=[0, 0])
        losses = CRFLoss(reduction="none")(
            toys.LABELS, with_zeros(toys.POTENTIALS, lengths=toys.LENGTHS)
        )
        np.testing.assert_allclose(losses, toys.LOSSES, atol=1e-5)

    def test_start_and_end_count_at_the_ends_of_each_row(self):
        layer = toys.layer_with(toys.TRANSITIONS, start=[0.5, 0], end=[0, 1])
        outputs = layer(toys.POTENTIALS[1:])
        assert float(CRFLoss()(toys.LABELS[1:], outputs)) == pytest.approx(1.746748, abs=1e-5)
        np.testing.assert_array_equal(tf.argmax(outputs, -1), [[0, 0, 1]])

    def test_freeze_with_trainable_false_d18(self):
        model = toys.tagger()
        model.get_layer("crf").trainable = False
        model.compile("adam", loss=CRFLoss(), run_eagerly=True)
        before = [weight.numpy() for weight in model.get_layer("crf").weights]
        model.fit(*toys.sentences(), epochs=2, verbose=0)
        for old, weight in zip(before, model.get_layer("crf").weights, strict=True):
            np.testing.assert_array_equal(old, weight)

    def test_all_move_in_one_step_d17(self, recwarn):
        model = toys.tagger()
        before = model.get_weights()
        model.fit(*toys.sentences(), verbose=0)
        for old, weight in zip(before, model.weights, strict=True):
            assert not np.array_equal(old, weight), weight.path
        assert not [w for w in recwarn if "radient" in str(w.message)]

    def test_are_in_the_model_once_d22(self):
        model = toys.tagger()
        paths = [weight.path for weight in model.trainable_variables]
        assert len(paths) == len(set(paths)) == 6

    def test_stay_float32_under_a_mixed_policy(self):
        layer = CRFLayer(2, dtype="mixed_float16")
        layer.build((None, None, 2))
        assert {weight.dtype for weight in layer.weights} == {"float32"}


class TestOptions:
    EVERY_OPTION_CHANGED = {
        "num_tags": 4,
        "output_mode": "int",
        "use_kernel": False,
        "use_boundary": False,
        "tag_names": ["O", "B-X", "I-X", "PAD"],
        "scheme": "BIO",
        "unused_tags": ["PAD"],
        "illegal_gold": "allow",
        "pad_tag": -1,
        "lr_multiplier": 10.0,
        "jit_compile": True,
        "kernel_initializer": "ones",
        "bias_initializer": keras.initializers.Constant(0.5),
        "transitions_initializer": keras.initializers.RandomNormal(stddev=0.25, seed=3),
        "boundary_initializer": "ones",
        "kernel_regularizer": "l1",
        "bias_regularizer": "l2",
        "transitions_regularizer": keras.regularizers.L2(0.125),
        "boundary_regularizer": keras.regularizers.L1L2(0.5, 0.25),
        "kernel_constraint": "non_neg",
        "bias_constraint": "max_norm",
        "transitions_constraint": keras.constraints.MinMaxNorm(-1, 2),
        "boundary_constraint": "unit_norm",
        "name": "crf",
        "trainable": False,
        "dtype": "float64",
    }

    def test_every_one_comes_back_from_its_config_d10(self):
        options = dict(self.EVERY_OPTION_CHANGED)
        config = CRFLayer(**options).get_config()
        default = CRFLayer(2).get_config()
        assert set(options) == set(config)
        assert all(config[name] != default[name] for name in options)
        copy = CRFLayer.from_config(json.loads(json.dumps(config)))
        assert copy.get_config() == config
        assert copy.transitions_initializer.stddev == 0.25
        assert copy.transitions_regularizer.l2 == 0.125

    def test_the_layer_is_known_to_keras_without_custom_objects(self):
        layer = CRFLayer(4, pad_tag=-1)
        copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
        assert isinstance(copy, CRFLayer)
        assert copy.get_config() == layer.get_config()

    def test_the_config_of_a_built_layer_holds_no_weights_f14(self):
        layer = CRFLayer(200)
        layer.build((None, None, 8))
        assert len(json.dumps(layer.get_config())) < 5000

    def test_initializers_take_effect(self):
        initial = {"kernel": 1.0, "bias": 2.0, "transitions": 3.0, "boundary": 4.0}
        constants = {
            f"{group}_initializer": keras.initializers.Constant(value)
            for group, value in initial.items()
        }
        layer = CRFLayer(2, **constants)
        layer.build((None, None, 2))
        assert [np.unique(weight).tolist() for weight in layer.get_weights()] == [
            [1.0],
            [2.0],
            [3.0],
            [4.0],
            [4.0],
        ]

    def test_regularizers_take_effect(self):
        # l1 of each group has a place of its own in the sum: 1 kernel, 10 bias, ...
        layer = CRFLayer(
            2,
            kernel_initializer="ones",
            bias_initializer="ones",
            transitions_initializer="ones",
            boundary_initializer="ones",
            kernel_regularizer=keras.regularizers.L1(1.0),
            bias_regularizer=keras.regularizers.L1(10.0),
            transitions_regularizer=keras.regularizers.L1(100.0),
            boundary_regularizer=keras.regularizers.L1(1000.0),
        )
        layer(tf.zeros([1, 1, 3]))
        assert float(sum(layer.losses)) == 1 * 6 + 10 * 2 + 100 * 4 + 1000 * 4

    def test_constraints_take_effect(self):
        model = toys.tagger(
            optimizer=keras.optimizers.SGD(1.0),
            kernel_constraint="non_neg",
            bias_constraint="non_neg",
            transitions_constraint="non_neg",
            boundary_constraint="non_neg",
        )
        model.fit(*toys.sentences(), epochs=3, verbose=0)
        weights = model.get_layer("crf").get_weights()
        assert all((weight >= 0).all() for weight in weights)
        assert all((weight == 0).any() for weight in weights)

    def test_lr_multiplier_does_not_change_what_the_layer_starts_from(self):
        initial = {
            "transitions_initializer": keras.initializers.Constant(0.5),
            "boundary_initializer": keras.initializers.Constant(0.25),
        }
        plain, fast = CRFLayer(2, **initial), CRFLayer(2, lr_multiplier=8, **initial)
        for layer in (plain, fast):
            layer.build((None, None, 2))
            layer.kernel.assign(np.eye(2))
        features = toys.POTENTIALS
        np.testing.assert_array_equal(
            fast.distribution(features).log_partition(),
            plain.distribution(features).log_partition(),
        )

    @pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
    def test_lr_multiplier_moves_transitions_and_boundaries_that_much_more_i10(self, optimizer):
        zeros = {"transitions_initializer": "zeros", "boundary_initializer": "zeros"}
        moved = {}
        for multiplier in (1, 8):
            keras.utils.set_random_seed(2)
            model = toys.tagger(
                optimizer=getattr(keras.optimizers, optimizer)(0.01),
                lr_multiplier=multiplier,
                **zeros,
            )
            layer = model.get_layer("crf")
            before = layer.kernel.numpy()
            model.fit(*toys.sentences(), verbose=0)
            scores = (layer.transitions, layer.start, layer.end)  # stored divided by multiplier
            kernel_moved = layer.kernel.numpy() - before
            moved[multiplier] = [*(multiplier * score.numpy() for score in scores), kernel_moved]
        for once, more in zip(moved[1][:3], moved[8][:3], strict=True):
            np.testing.assert_allclose(more, 8 * once, rtol=1e-4)
        np.testing.assert_allclose(moved[8][3], moved[1][3], rtol=1e-4, atol=1e-9)

    @pytest.mark.parametrize("multiplier", [0, -1.0])
    def test_lr_multiplier_is_above_zero(self, multiplier):
        with pytest.raises(ValueError, match=f"lr_multiplier must be above 0, got {multiplier}"):
            CRFLayer(2, lr_multiplier=multiplier)

    @pytest.mark.parametrize("of_type", [list, tuple, iter, np.array])
    def test_tag_names_are_a_list_as_given(self, of_type):
        layer = CRFLayer(2, tag_names=of_type(["O", "X"]))
        assert layer.tag_names == ["O", "X"]
        assert type(layer.tag_names) is list
        assert {type(name) for name in layer.tag_names} == {str}
        layer.tag_names.append("Y")  # a list of the caller's own
        assert layer.get_config()["tag_names"] == layer.tag_names == ["O", "X"]

    @pytest.mark.parametrize("of_type", [list, tuple, iter])
    def test_tag_names_are_counted_where_the_number_is_left_out(self, of_type):
        layer = CRFLayer(tag_names=of_type(["O", "B-X", "I-X"]))
        assert layer.num_tags == 3
        assert layer.tag_names == ["O", "B-X", "I-X"]
        assert layer(tf.zeros([1, 2, 4])).shape == (1, 2, 3)

    def test_tag_names_may_be_set_and_the_scheme_is_read_anew_from_them(self):
        layer = CRFLayer(tag_names=["O", "B-X", "I-X"], scheme="BIO")
        layer.tag_names = ["B-X", "I-X", "O"]
        np.testing.assert_array_equal(layer.rules.allowed.start, [True, False, True])
        with pytest.raises(ValueError, match="tag_names must be 3 different names"):
            layer.tag_names = ["O"]
        assert layer.tag_names == ["B-X", "I-X", "O"]

    @pytest.mark.parametrize(
        ("tag_names", "message"),
        [
            (["O"], "tag_names must be 2 different names, one a tag; got 1"),
            (["O", "X", "Y"], "tag_names must be 2 different names, one a tag; got 3"),
            (["X", "X"], r"got 2, and more than once \['X'\]"),
        ],
    )
    def test_tag_names_are_one_a_tag_and_all_different(self, tag_names, message):
        with pytest.raises(ValueError, match=message):
            CRFLayer(2, tag_names=tag_names)


def masked_by_embedding(words):
    return keras.layers.Embedding(20, 4, mask_zero=True)(words)


class TestMasksOnTheirWayIn:
    """What the layer keeps, read from the distribution that its output carries."""

    WORDS = np.array([[3, 0, 0, 0], [5, 6, 7, 0], [0, 0, 0, 0]])
    KEPT = WORDS > 0

    def kept(self, outputs):
        return distribution_of(outputs).mask

    def test_rides_on_the_output_of_an_embedding(self):
        outputs = CRFLayer(2)(masked_by_embedding(self.WORDS))
        np.testing.assert_array_equal(self.kept(outputs), self.KEPT)

    def test_rides_on_the_output_of_masking(self):
        features = np.where(self.KEPT[..., np.newaxis], 0.5, 0.0).astype("float32")
        outputs = CRFLayer(2)(keras.layers.Masking()(tf.repeat(features, 3, axis=2)))
        np.testing.assert_array_equal(self.kept(outputs), self.KEPT)

    def test_rides_through_a_bidirectional_lstm_and_dense_a15(self):
        features = masked_by_embedding(self.WORDS)
        lstm = keras.layers.LSTM(3, return_sequences=True)
        features = keras.layers.Dense(2)(keras.layers.Bidirectional(lstm)(features))
        np.testing.assert_array_equal(self.kept(CRFLayer(2)(features)), self.KEPT)

    @pytest.mark.parametrize("through", ["RNN", "Bidirectional", "TimeDistributed"])
    def test_rides_through_the_wrappers_of_keras(self, through):
        layer = {
            "RNN": keras.layers.RNN(keras.layers.LSTMCell(3), return_sequences=True),
            "Bidirectional": keras.layers.Bidirectional(keras.layers.GRU(3, return_sequences=True)),
            "TimeDistributed": keras.layers.TimeDistributed(keras.layers.Dense(3)),
        }[through]
        outputs = CRFLayer(2)(layer(masked_by_embedding(self.WORDS)))
        np.testing.assert_array_equal(self.kept(outputs), self.KEPT)

    def test_lengths_narrow_the_mask_that_rides(self):
        outputs = CRFLayer(2)(masked_by_embedding(self.WORDS), lengths=[4, 2, 3])
        np.testing.assert_array_equal(
            self.kept(outputs), self.KEPT & (np.arange(4) < np.array([[4], [2], [3]]))
        )

    def test_lengths_narrow_the_mask_that_is_given(self):
        outputs = CRFLayer(2)(tf.zeros([1, 3, 4]), mask=[[0, 1, 1]], lengths=[2])
        np.testing.assert_array_equal(self.kept(outputs), [[False, True, False]])

    def test_the_mask_that_is_given_goes_before_the_one_that_rides_a25(self):
        given = np.array([[0, 1, 1, 0]] * 3)
        outputs = CRFLayer(2)(masked_by_embedding(self.WORDS), mask=given)
        np.testing.assert_array_equal(self.kept(outputs), given.astype(bool))
        np.testing.assert_array_equal(outputs._keras_mask, given.astype(bool))

    @pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32"])
    def test_is_an_input_of_a_functional_model_a25(self, dtype):
        potentials = keras.Input((None, 2))
        mask = keras.Input((None,), dtype=dtype)
        layer = toys.layer_with(toys.TRANSITIONS)
        model = keras.Model([potentials, mask], layer(potentials, mask=mask))
        model.compile(loss=CRFLoss(), run_eagerly=True)
        inputs = [toys.POTENTIALS, toys.MASK.astype(dtype)]
        assert model.evaluate(inputs, toys.LABELS, verbose=0) == pytest.approx(1.164717, abs=1e-5)

    def test_a_riding_mask_lengths_and_a_given_mask_give_one_loss_a24(self):
        words, tags = toys.sentences()
        layer, embedding = CRFLayer(3), keras.layers.Embedding(20, 4, mask_zero=True)
        features = embedding(words)
        plain = tf.convert_to_tensor(features.numpy())
        riding, *others = (
            float(CRFLoss()(tags, outputs))
            for outputs in (
                layer(features),
                layer(plain, mask=words > 0),
                layer(plain, lengths=np.count_nonzero(words, axis=1)),
            )
        )
        assert others == [riding, riding]

    def test_a_row_that_is_all_padding_has_no_loss_and_no_gradient(self):
        words = np.array([[0, 0, 0], [4, 5, 6]])
        layer, embedding = CRFLayer(3), keras.layers.Embedding(20, 4, mask_zero=True)
        with tf.GradientTape() as tape:
            features = embedding(words)
            tape.watch(features)
            losses = CRFLoss(reduction="none")([[-100, 99, 0], [0, 1, 2]], layer(features))
        gradient = tape.gradient(losses, features)
        assert losses[0] == 0
        np.testing.assert_array_equal(gradient[0], np.zeros([3, 4]))
        assert np.all(np.any(gradient[1].numpy() != 0, axis=-1))


def tenfold(tensor):
    """Ten times a symbolic tensor, which Keras flags as sparse, as the real one is not."""
    flagged = tensor * 10
    assert flagged.sparse
    return flagged


class TestWhatKerasFlagsAsSparse:
    """A product of a symbolic tensor and a Python number: the real tensor is dense."""

    FEATURES = np.random.default_rng(0).normal(size=[2, 3, 2]).astype("float32")

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("use_kernel", [True, False])
    def test_features_are_taken_as_those_of_rescaling(self, mode, use_kernel):
        features = keras.Input((None, 2))
        layer = CRFLayer(2, output_mode=mode, use_kernel=use_kernel)
        of_product = keras.Model(features, layer(tenfold(features)))
        of_layer = keras.Model(features, layer(keras.layers.Rescaling(10.0)(features)))
        assert of_product.output.dtype == of_layer.output.dtype
        np.testing.assert_array_equal(of_product(self.FEATURES), of_layer(self.FEATURES))

    @pytest.mark.parametrize(
        "behind", [keras.layers.Identity, lambda: keras.layers.Reshape((-1, 2))]
    )
    def test_layers_that_hand_the_flag_on_change_nothing(self, behind):
        features = keras.Input((None, 2))
        layer = CRFLayer(2, output_mode="potentials", use_kernel=False)
        model = keras.Model(features, layer(behind()(tenfold(features))))
        np.testing.assert_array_equal(model(self.FEATURES), self.FEATURES * 10)

    def test_features_keep_the_mask_that_rides_on_them(self):
        features = keras.Input((None, 2))
        flagged = tenfold(features)
        flagged._keras_mask = keras.Input((None,), dtype="bool")
        outputs = CRFLayer(2)(flagged)
        assert outputs._keras_mask is flagged._keras_mask

    def test_a_mask_and_lengths_made_so_are_taken(self):
        features = keras.Input((None, 2))
        tenths = keras.Input((None,))
        halves = keras.Input((), dtype="int32")
        layer = CRFLayer(2, output_mode="int", pad_tag=-1)
        by_mask = keras.Model([features, tenths], layer(features, mask=tenfold(tenths)))
        tagged = by_mask([self.FEATURES, np.array([[0.1, 0, 0.1]] * 2, "float32")])
        np.testing.assert_array_equal(tagged == -1, [[False, True, False]] * 2)
        by_lengths = keras.Model([features, halves], layer(features, lengths=halves * 2))
        tagged = by_lengths([self.FEATURES, np.array([1, 0], "int32")])
        np.testing.assert_array_equal(tagged == -1, [[False, False, True], [True] * 3])

    def test_a_model_of_them_trains_and_loads(self, tmp_path):
        features = keras.Input((None, 2))
        scores = tenfold(keras.layers.Dense(2)(features))
        model = keras.Model(features, CRFLayer(2, use_kernel=False)(scores))
        model.compile("sgd", loss=CRFLoss(), metrics=["accuracy"])
        model.fit(self.FEATURES, np.zeros([2, 3], int), verbose=0)
        model.save(tmp_path / "tagger.keras")
        loaded = keras.models.load_model(tmp_path / "tagger.keras")
        np.testing.assert_array_equal(loaded(self.FEATURES), model(self.FEATURES))


class TestBadInput:
    @pytest.mark.parametrize("num_tags", [0, -1, 2.5, True])
    def test_num_tags_is_a_whole_number_from_1_on_b14(self, num_tags):
        message = f"num_tags must be a whole number of at least 1, .*got {num_tags}"
        with pytest.raises(ValueError, match=message):
            CRFLayer(num_tags)

    def test_num_tags_is_no_list_of_names(self):
        message = (
            r"num_tags must be a whole number; got \['O', 'B-X'\]. Pass the names as "
            r"CRFLayer\(tag_names=\[…\]\), and they are counted."
        )
        with pytest.raises(ValueError, match=message):
            CRFLayer(["O", "B-X"])

    def test_num_tags_or_tag_names_are_given(self):
        message = r"needs the number of tags, CRFLayer\(9\), or .* CRFLayer\(tag_names=\[…\]\)"
        with pytest.raises(ValueError, match=message):
            CRFLayer(output_mode="int")

    @pytest.mark.parametrize("name", ARGUMENTS_ELSEWHERE)
    def test_arguments_of_other_libraries_are_named_with_what_to_do(self, name):
        with pytest.raises(ValueError, match="arguments of other CRF libraries") as caught:
            CRFLayer(9, **{name: 9})
        assert f"{name}: {ARGUMENTS_ELSEWHERE[name]}. See docs/coming-from.md." in str(caught.value)

    def test_units_alone_is_such_an_argument(self):
        with pytest.raises(ValueError, match=r"units: use num_tags\. sparse_target: leave it out"):
            CRFLayer(units=9, sparse_target=True)

    def test_the_page_about_other_libraries_has_all_of_these_arguments(self):
        page = (toys.ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
        rows = [line for line in page.splitlines() if line.startswith("| `")]
        assert all(any(f"`{name}`" in row for row in rows) for name in ARGUMENTS_ELSEWHERE)

    def test_other_unknown_arguments_are_refused_by_keras(self):
        with pytest.raises(ValueError, match=r"Unrecognized keyword arguments.*number"):
            CRFLayer(9, number=9)

    @pytest.mark.parametrize("illegal_gold", ["allow", "ignore"])
    def test_illegal_gold_is_known_also_where_it_is_set_later(self, illegal_gold):
        layer = CRFLayer(2)
        if illegal_gold == "allow":
            layer.illegal_gold = illegal_gold
            assert layer.get_config()["illegal_gold"] == "allow"
        else:
            with pytest.raises(ValueError, match=r"illegal_gold must be one of.*got 'ignore'"):
                layer.illegal_gold = illegal_gold

    def test_output_mode_is_known(self):
        with pytest.raises(ValueError, match=r"output_mode must be one of .*'int'.*, got 'tags'"):
            CRFLayer(2, output_mode="tags")

    @pytest.mark.parametrize("shape", [(4,), (5, 6, 4)])
    @pytest.mark.parametrize("use_kernel", [True, False])
    def test_features_have_rank_3_b10(self, shape, use_kernel):
        message = (
            rf"features must have rank 3, \[batch, time, features\]; got rank {len(shape) + 1}"
        )
        with pytest.raises(ValueError, match=message):
            CRFLayer(4, use_kernel=use_kernel)(keras.Input(shape))

    def test_potentials_are_as_wide_as_there_are_tags_b6(self):
        with pytest.raises(ValueError, match=r"use_kernel=False.*9.*20.*Dense\(9\)"):
            CRFLayer(9, use_kernel=False)(tf.zeros([2, 3, 20]))

    def test_the_width_of_features_is_known(self):
        with pytest.raises(ValueError, match="the last axis of the features must be known"):
            CRFLayer(9)(keras.Input((None, None)))

    def test_features_keep_the_width_that_the_layer_was_built_for(self):
        layer = CRFLayer(2)
        layer(tf.zeros([1, 3, 4]))
        with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 4"):
            layer(tf.zeros([1, 3, 5]))

    @pytest.mark.parametrize("use_kernel", [True, False])
    def test_features_are_floating_point_d17(self, use_kernel):
        layer = CRFLayer(2, use_kernel=use_kernel)
        with pytest.raises(TypeError, match="must be floating point, got int32"):
            layer(tf.zeros([1, 3, 2], tf.int32))
        with pytest.raises(TypeError, match="must be floating point, got int32"):
            layer(keras.Input((None, 2), dtype="int32"))

    def test_features_are_dense_and_the_message_shows_how_b12(self):
        ragged = tf.RaggedTensor.from_row_lengths(toys.POTENTIALS[1], [1, 2])
        with pytest.raises(ValueError, match=r"dense.*Ragged.*to_tensor\(\).*row_lengths\(\)"):
            toys.layer_with(toys.TRANSITIONS)(ragged)

    def test_sparse_features_are_refused_when_they_come(self):
        sparse = tf.sparse.from_dense(toys.POTENTIALS)
        message = r"features must be .*got a SparseTensor. Pass tf.sparse.to_dense\(features\)"
        with pytest.raises(ValueError, match=message):
            toys.layer_with(toys.TRANSITIONS)(sparse)

    def test_ragged_labels_are_refused_with_what_the_loss_takes(self):
        outputs = toys.layer_with(toys.TRANSITIONS)(toys.POTENTIALS, lengths=toys.LENGTHS)
        ragged = tf.RaggedTensor.from_tensor(toys.LABELS, lengths=toys.LENGTHS)
        with pytest.raises(ValueError, match="y_true must be a dense tensor") as caught:
            CRFLoss()(ragged, outputs)
        advice = "Pass y_true.to_tensor(shape=[None, T]) for outputs of T steps."
        assert advice in str(caught.value)
        assert "lengths" not in str(caught.value)  # which the loss does not take
        losses = CRFLoss(reduction="none")(ragged.to_tensor(), outputs)
        np.testing.assert_allclose(losses, toys.LOSSES, atol=1e-5)

    def test_the_recipe_for_ragged_features_gives_the_right_loss_b12(self):
        kept_rows = tf.ragged.boolean_mask(toys.POTENTIALS, toys.MASK)
        outputs = toys.layer_with(toys.TRANSITIONS)(
            kept_rows.to_tensor(), lengths=kept_rows.row_lengths()
        )
        np.testing.assert_allclose(
            CRFLoss(reduction="none")(toys.LABELS, outputs), toys.LOSSES, atol=1e-5
        )

    @pytest.mark.parametrize("shape", [(2, 4), (3, 3), (2, 1)])
    def test_the_mask_has_the_batch_and_time_of_the_features(self, shape):
        message = rf"mask must have the batch and time axes.*{shape[0]}, {shape[1]}.*2, 3, 2"
        with pytest.raises(ValueError, match=message):
            CRFLayer(2)(tf.zeros([2, 3, 2]), mask=np.ones(shape, bool))

    @pytest.mark.parametrize("last", [1, 2])
    def test_the_mask_has_rank_2_a14(self, last):
        with pytest.raises(ValueError, match=r"mask must have rank 2, \[batch, time\]; got rank 3"):
            CRFLayer(2)(tf.zeros([2, 3, 2]), mask=np.ones([2, 3, last], bool))

    def test_the_mask_holds_0_and_1(self):
        message = "mask must hold True and False, or 1 and 0; got 2 at row 1, step 0"
        with pytest.raises(ValueError, match=message):
            CRFLayer(2)(tf.zeros([2, 2, 2]), mask=[[1, 0], [2, 1]])

    @pytest.mark.parametrize(
        ("lengths", "error", "message"),
        [
            ([3, 4], ValueError, r"lengths must lie in 0\.\.3; got 4 at row 1"),
            ([-1, 3], ValueError, r"lengths must lie in 0\.\.3; got -1 at row 0"),
            (3, ValueError, r"lengths must have the shape \[batch\].*got \(\)"),
            ([3, 3, 3], ValueError, r"lengths must have the shape \[batch\].*got \(3,\)"),
            ([1.0, 2.0], TypeError, "lengths must be whole numbers, got float32"),
        ],
    )
    def test_lengths_are_whole_numbers_up_to_the_steps_one_a_row_d29(self, lengths, error, message):
        with pytest.raises(error, match=message):
            CRFLayer(2)(tf.zeros([2, 3, 2]), lengths=lengths)
