"""A model whose mask does not reach the CRF is told so when it is built, and no other model is."""

import pathlib
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, distribution_of

layers = keras.layers


def words():
    return keras.Input((None,), dtype="int32", name="words")


def masked(inputs):
    return layers.Embedding(20, 4, mask_zero=True)(inputs)


def unmasked(inputs):
    return layers.Embedding(20, 4)(inputs)


def lstm():
    return layers.LSTM(4, return_sequences=True)


def of_lost_masks(caught):
    return [str(w.message) for w in caught if "The mask is lost" in str(w.message)]


def warned(make, **call):
    """What is said of a lost mask while a model of features made from words is built."""
    inputs = words()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CRFLayer(3, output_mode="potentials", name="crf")(make(inputs), **call)
    return of_lost_masks(caught)


class OfTwo(layers.Layer):
    """Takes the mask, and says that there is none behind it."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def compute_mask(self, inputs, previous_mask):
        return None

    def call(self, inputs, mask=None):
        return inputs


class ForgetfulLSTM(layers.LSTM):
    def compute_mask(self, inputs, mask):
        return None


class ForgetfulBidirectional(layers.Bidirectional):
    def compute_mask(self, inputs, mask):
        return None


class ForgetfulTimeDistributed(layers.TimeDistributed):
    def compute_mask(self, inputs, mask):
        return None


def convolved(features):
    return layers.Conv1D(4, 3, padding="same", name="loser")(features)


def encoder_that_convolves(inputs):
    ids = words()
    return keras.Model(ids, layers.Dense(4)(convolved(masked(ids))))(inputs)


def called_on_features(make):
    """An inner model of features, which brings no mask of its own."""
    features = keras.Input((None, 4))
    return keras.Model(features, make(features))


def doubled(features):
    return layers.Add(name="loser")([features, layers.Lambda(lambda x: x)(features)])


LOSING = {
    "convolution": lambda x: convolved(masked(x)),
    "convolution, then layers": lambda x: layers.Dense(4)(lstm()(convolved(lstm()(masked(x))))),
    "merging with a tensor without mask": lambda x: layers.Add(name="loser")(
        [masked(x), unmasked(x)]
    ),
    "concatenating with a tensor without mask": lambda x: lstm()(
        layers.Concatenate(name="loser")([unmasked(x), masked(x)])
    ),
    "inner model": encoder_that_convolves,
    "inner model that gets the mask": lambda x: called_on_features(convolved)(masked(x)),
    "inner model that merges": lambda x: called_on_features(doubled)(masked(x)),
    "inner model of an inner model": lambda x: layers.Dense(4)(
        called_on_features(lambda y: called_on_features(convolved)(layers.Dense(4)(y)))(
            head(masked(x))
        )
    ),
    "inner Sequential model": lambda x: keras.Sequential(
        [keras.Input((None, 4)), layers.Conv1D(4, 1, name="loser"), lstm()]
    )(masked(x)),
    "masking again": lambda x: layers.Masking()(convolved(masked(x))),
    "masking again behind others": lambda x: lstm()(
        layers.Masking()(layers.Dropout(0.1)(layers.Dense(4)(convolved(masked(x)))))
    ),
    "masking again what has the mask": lambda x: layers.Masking(name="loser")(lstm()(masked(x))),
    "masking again in an inner model": lambda x: called_on_features(
        lambda y: layers.Masking(name="loser")(layers.Dense(4)(y))
    )(masked(x)),
    "RNN": lambda x: ForgetfulLSTM(4, return_sequences=True, name="loser")(masked(x)),
    "Bidirectional": lambda x: ForgetfulBidirectional(lstm(), name="loser")(masked(x)),
    "TimeDistributed": lambda x: ForgetfulTimeDistributed(layers.Dense(4), name="loser")(masked(x)),
}


def zero_on_padding(inputs):
    return keras.ops.expand_dims(keras.ops.cast(inputs != 0, "float32"), -1)


def head(features):
    return keras.Sequential([keras.Input((None, 4)), layers.Dense(4)])(features)


def residual(features):
    for _ in range(30):  # 2^30 ways
        features = layers.Add()([features, layers.Dense(4)(features)])
    return features


NOT_LOSING = {
    "a mask that arrives": lambda x: layers.Dense(4)(layers.Bidirectional(lstm())(masked(x))),
    "no mask at all": lambda x: convolved(unmasked(x)),
    "masking again what is 0 on padding": lambda x: layers.Masking()(
        layers.Multiply()([convolved(masked(x)), zero_on_padding(x)])
    ),
    "masking again an RNN that gives 0 on padding": lambda x: layers.Masking()(
        layers.LSTM(4, return_sequences=True, zero_output_for_mask=True)(masked(x))
    ),
    "masking again what may be 0": lambda x: layers.Masking()(keras.ops.relu(masked(x))),
    "masking again behind Concatenate": lambda x: layers.Masking()(
        layers.Concatenate()([masked(x), unmasked(x)])
    ),
    "a mask that no step is left of": lambda x: layers.RepeatVector(3)(layers.LSTM(4)(masked(x))),
    "attention whose query has none": lambda x: layers.Attention()([unmasked(x), masked(x)]),
    "heads whose query has none": lambda x: layers.MultiHeadAttention(2, 2)(unmasked(x), masked(x)),
    "a layer that says so itself": lambda x: layers.Dense(4)(OfTwo()(masked(x))),
    "a model within": lambda x: head(masked(x)),
    "merging what has masks": lambda x: layers.Add()([masked(x), masked(x)]),
    "concatenated in time": lambda x: layers.Concatenate(axis=1)([unmasked(x), masked(x)]),
    "a model within a model within": lambda x: called_on_features(head)(head(masked(x))),
    "an inner model that makes its own mask": lambda x: called_on_features(
        lambda y: lstm()(layers.Masking()(y))
    )(unmasked(x)),
    "an inner model of the last state": lambda x: called_on_features(
        lambda y: layers.RepeatVector(3)(layers.LSTM(4)(y))
    )(masked(x)),
    "many ways": lambda x: residual(unmasked(x)),
    "many ways with a mask": lambda x: residual(masked(x)),
}


class TestWarns:
    @pytest.mark.parametrize("how", LOSING)
    def test_once_and_names_the_layer_that_lost_it_c5_d21(self, how):
        (message,) = warned(LOSING[how])
        assert re.search(
            r"The mask is lost at \w+ 'loser', before it reaches CRFLayer 'crf'", message
        )
        assert "CRFLayer(...)(features, mask=words != 0), or lengths=[...]" in message

    def test_of_operations_that_are_no_layers(self):
        (message,) = warned(lambda x: keras.ops.relu(masked(x)))
        assert "The mask is lost at Relu 'relu" in message

    def test_in_a_sequential_model_once_however_it_is_used(self):
        losing = [
            layers.Embedding(20, 4, mask_zero=True),
            layers.Conv1D(4, 1, name="loser"),
            CRFLayer(3),
        ]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = keras.Sequential(losing)
            for _ in range(2):
                model(np.ones([2, 3], "int32"))
        assert len(of_lost_masks(caught)) == 1


class TestIsSilent:
    @pytest.mark.parametrize("how", NOT_LOSING)
    def test_of(self, how):
        assert warned(NOT_LOSING[how]) == []

    @pytest.mark.parametrize("how", LOSING)
    def test_where_a_mask_or_lengths_are_given(self, how):
        mask, lengths = keras.Input((None,), dtype="bool"), keras.Input((), dtype="int32")
        assert warned(LOSING[how], lengths=lengths) == []
        assert warned(LOSING[how], mask=mask) == []


def characters():
    return keras.Input((None, 6), dtype="int32", name="characters")


def pooled(features):
    """[B, T, D] of the characters of each word, [B, T, C, D]."""
    return layers.Lambda(lambda x: tf.reduce_max(x, axis=2), name="loser")(features)


class TestOfCharacters:
    def test_is_warned_with_the_mask_that_they_give(self):
        with pytest.warns(UserWarning, match="The mask is lost at Lambda 'loser'") as caught:
            CRFLayer(3)(layers.Dense(4)(pooled(masked(characters()))))
        (message,) = of_lost_masks(caught)
        assert "mask=keras.ops.any(characters != 0, axis=2)" in message

    def test_the_mask_that_the_warning_names_is_right(self):
        inputs = characters()
        mask = keras.ops.any(inputs != 0, axis=2)
        model = keras.Model(inputs, CRFLayer(3)(pooled(masked(inputs)), mask=mask))
        ids = np.array([[[3, 4, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0], [0] * 6]])
        np.testing.assert_array_equal(distribution_of(model(ids)).mask, [[True, True, False]])

    def test_is_warned_where_the_mask_of_characters_rides_on_words(self):
        features = layers.TimeDistributed(layers.LSTM(4))(masked(characters()))
        assert len(features._keras_mask.shape) == 3
        (warning,) = said(lambda: CRFLayer(3)(convolved(features)))
        assert "The mask is lost at Conv1D 'loser'" in str(warning.message)
        assert "characters != 0" in str(warning.message)


class Subclassed(keras.Model):
    """A model of the layers between ids and CRF, which Keras keeps no history of."""

    def __init__(self, make, vocabulary=20):
        super().__init__()
        self.embedding = layers.Embedding(vocabulary, 4, mask_zero=True)
        self.unmasked = layers.Embedding(vocabulary, 4)
        self.between = make()
        self.crf = CRFLayer(3, name="crf")

    def call(self, ids, training=None):
        return self.crf(self.features(ids))  # the line of the warning

    def features(self, ids):
        return self.between(self.embedding(ids))


class Doubling(Subclassed):
    def features(self, ids):
        features = self.between(self.embedding(ids))
        return features + features


class OfCharacters(Subclassed):
    def features(self, ids):
        return self.between(tf.reduce_max(self.embedding(ids), axis=2))


class Attending(Subclassed):
    def features(self, ids):
        return self.between([self.unmasked(ids), self.embedding(ids)])


class GivingMask(Subclassed):
    def call(self, ids, training=None):
        return self.crf(self.features(ids), mask=ids != 0)


class OfUnmasked(Subclassed):
    def features(self, ids):
        return self.between(self.unmasked(ids))


def convolution():
    return layers.Conv1D(4, 3, padding="same", name="loser")


def behind_convolution(*others):
    return keras.Sequential([convolution(), *others])


def encoder():
    features = keras.Input((None, 4))
    attended = layers.MultiHeadAttention(2, 2)(features, features)
    hidden = layers.LayerNormalization()(attended)
    return keras.Model(features, layers.Dense(4)(layers.Dropout(0.5)(convolution()(hidden))))


LOSING_IN_GRAPHS = {
    "convolution": lambda: Subclassed(convolution),
    "convolution, then layers": lambda: Subclassed(
        lambda: behind_convolution(
            layers.Dropout(0.5),
            layers.BatchNormalization(),
            layers.LayerNormalization(),
            layers.Dense(4, activation="relu"),
            layers.Bidirectional(lstm()),
            layers.GRU(4, return_sequences=True),
        )
    ),
    "encoder": lambda: Subclassed(encoder),
    "operations": lambda: Doubling(lambda: layers.Dense(4)),
    "characters": lambda: OfCharacters(lambda: layers.Dense(4)),
}
NOT_LOSING_IN_GRAPHS = {
    "a mask that arrives": lambda: Subclassed(lambda: layers.Bidirectional(lstm())),
    "a mask that is given": lambda: GivingMask(convolution),
    "no mask at all": lambda: OfUnmasked(convolution),
    "a mask that no step is left of": lambda: Subclassed(
        lambda: keras.Sequential([layers.LSTM(4), layers.RepeatVector(5)])
    ),
    "attention whose query has none": lambda: Attending(layers.Attention),
    "adding a tensor without mask": lambda: Attending(layers.Add),
}


def said(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [w for w in caught if "The mask is lost" in str(w.message)]


def features_to_tags(features, make):
    return keras.Model(features, CRFLayer(3)(make(features)))


def traced(model):
    """What is said while a model is traced in training, once and then again."""
    ids, _ = toys.sentences()
    if isinstance(model, OfCharacters):
        ids = np.repeat(ids[..., np.newaxis], 3, axis=2)
    return [said(lambda: tf.function(model)(ids, training=True)) for _ in range(2)]


class TestSubclassedModels:
    @pytest.mark.parametrize("how", LOSING_IN_GRAPHS)
    def test_are_warned_once_when_they_are_first_traced(self, how):
        (warning,), again = traced(LOSING_IN_GRAPHS[how]())
        message = str(warning.message)
        name = re.search(r"lost at \w+ '(\S+)', before it reaches CRFLayer 'crf'", message)[1]
        assert {"operations": "add", "characters": "Max"}.get(how, "loser") in name
        assert ("keras.ops.any(characters != 0, axis=2)" in message) == (how == "characters")
        assert again == []

    @pytest.mark.parametrize("how", NOT_LOSING_IN_GRAPHS)
    def test_are_not_warned_of(self, how):
        assert traced(NOT_LOSING_IN_GRAPHS[how]()) == [[], []]

    @pytest.mark.parametrize("run_eagerly", [True, pytest.param(False, marks=pytest.mark.slow)])
    def test_are_warned_by_fit(self, run_eagerly):
        ids, tags = toys.sentences()
        model = LOSING_IN_GRAPHS["convolution"]()
        model.compile("sgd", loss=CRFLoss(ignore_index=-100), run_eagerly=run_eagerly)
        assert len(said(lambda: model.fit(ids, tags, verbose=0))) == 1
        assert said(lambda: model.evaluate(ids, tags, verbose=0)) == []

    def test_are_warned_by_predict_alone_and_within_a_functional_model(self):
        ids, _ = toys.sentences()
        model = LOSING_IN_GRAPHS["convolution"]()
        assert len(said(lambda: model.predict(ids, verbose=0))) == 1
        outer = words()
        assert len(said(lambda: LOSING_IN_GRAPHS["convolution"]()(outer))) == 1

    def test_that_lose_it_within_a_functional_model_are_told_when_it_runs(self):
        class Encoder(keras.Model):
            def __init__(self):
                super().__init__()
                self.convolution = convolution()

            def call(self, features):
                return self.convolution(features)

        inputs = words()
        model = keras.Model(inputs, CRFLayer(3)(Encoder()(masked(inputs))))
        ids, _ = toys.sentences()
        (warning,) = said(lambda: model.predict(ids, verbose=0))
        assert "loser" in str(warning.message)

    def test_so_is_a_functional_model_that_gets_its_mask_from_outside(self):
        features = keras.Input((None, 4))
        assert said(lambda: features_to_tags(features, convolved)) == []
        inner, inputs = features_to_tags(features, convolved), words()
        model = keras.Model(inputs, inner(masked(inputs)))
        ids, _ = toys.sentences()
        (warning,) = said(lambda: model.predict(ids, verbose=0))
        assert "loser" in str(warning.message)
        keeping = keras.Model(inputs, features_to_tags(features, layers.Dense(4))(masked(inputs)))
        assert said(lambda: keeping.predict(ids, verbose=0)) == []

    def test_are_checked_eagerly_by_the_mask_of_the_distribution(self):
        ids, _ = toys.sentences()
        losing, keeping = (
            make["convolution" if make is LOSING_IN_GRAPHS else "a mask that arrives"]()
            for make in (LOSING_IN_GRAPHS, NOT_LOSING_IN_GRAPHS)
        )
        assert np.all(distribution_of(losing(ids)).mask)
        np.testing.assert_array_equal(distribution_of(keeping(ids)).mask, ids != 0)


def number_of_line(words):
    """The number of the line of this file that ends with these words."""
    lines = pathlib.Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(words))


class TestPointsAt:
    def test_the_line_that_calls_the_layer(self):
        features = convolved(masked(words()))
        (warning,) = said(lambda: CRFLayer(3)(features))  # the line of a functional model
        assert warning.filename == __file__
        assert warning.lineno == number_of_line("# the line of a functional model")

    def test_the_line_that_builds_a_sequential_model(self):
        model = keras.Sequential([layers.Embedding(20, 4, mask_zero=True), convolution()])
        model.add(CRFLayer(3))
        (warning,) = said(lambda: model.build((None, 5)))  # the line of a Sequential model
        assert warning.filename == __file__
        assert warning.lineno == number_of_line("# the line of a Sequential model")

    def test_the_line_of_a_subclassed_model_that_calls_the_layer(self):
        ids, _ = toys.sentences()
        (warning,) = said(lambda: LOSING_IN_GRAPHS["convolution"]().predict(ids, verbose=0))
        assert warning.filename == __file__
        assert warning.lineno == number_of_line("# the line of the warning")


@pytest.mark.parametrize("forgetful", ["RNN", "Bidirectional", "TimeDistributed"])
def test_the_way_out_works_where_keras_stops_handing_masks_on(forgetful):
    inputs = words()
    model = keras.Model(inputs, CRFLayer(3)(LOSING[forgetful](inputs), mask=inputs != 0))
    ids, _ = toys.sentences()
    np.testing.assert_array_equal(distribution_of(model(ids)).mask, ids > 0)
