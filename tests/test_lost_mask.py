"""A model whose mask does not reach the CRF is told so when it is built, and no other model is."""

import re
import warnings

import keras
import numpy as np
import pytest

import toys
from keras_crf import CRFLayer, distribution_of

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
    "RNN": lambda x: ForgetfulLSTM(4, return_sequences=True, name="loser")(masked(x)),
    "Bidirectional": lambda x: ForgetfulBidirectional(lstm(), name="loser")(masked(x)),
    "TimeDistributed": lambda x: ForgetfulTimeDistributed(layers.Dense(4), name="loser")(masked(x)),
}


def head(features):
    return keras.Sequential([keras.Input((None, 4)), layers.Dense(4)])(features)


def residual(features):
    for _ in range(30):  # 2^30 ways
        features = layers.Add()([features, layers.Dense(4)(features)])
    return features


NOT_LOSING = {
    "a mask that arrives": lambda x: layers.Dense(4)(layers.Bidirectional(lstm())(masked(x))),
    "no mask at all": lambda x: convolved(unmasked(x)),
    "masking again": lambda x: layers.Masking()(convolved(masked(x))),
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


@pytest.mark.parametrize("forgetful", ["RNN", "Bidirectional", "TimeDistributed"])
def test_the_way_out_works_where_keras_stops_handing_masks_on(forgetful):
    inputs = words()
    model = keras.Model(inputs, CRFLayer(3)(LOSING[forgetful](inputs), mask=inputs != 0))
    ids, _ = toys.sentences()
    np.testing.assert_array_equal(distribution_of(model(ids)).mask, ids > 0)
