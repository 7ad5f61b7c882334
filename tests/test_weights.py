"""Weights on their way into a layer: what goes where, and what is refused."""

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_crf import CRFLayer
from keras_crf.weights import Weights

ROOT = pathlib.Path(__file__).parents[1]


def refused(weights, layer, kind, *words):
    with pytest.raises(kind) as error:
        weights.assign_to(layer)
    for word in words:
        assert word in str(error.value)


class TestAssignTo:
    WEIGHTS = Weights(None, None, np.arange(9.0).reshape(3, 3), np.arange(3.0), np.ones(3))
    WITH_KERNEL = WEIGHTS._replace(kernel=np.ones([5, 3]), bias=np.ones(3))

    def layer(self, width=3, num_tags=3, **options):
        layer = CRFLayer(num_tags, **options)
        layer.build((None, None, width))
        return layer

    def test_zeros_for_ends_do_without_boundaries(self):
        layer = self.layer(use_kernel=False, use_boundary=False)
        zeros = np.zeros(3)
        self.WEIGHTS._replace(start=zeros, end=zeros).assign_to(layer)
        np.testing.assert_allclose(layer.transitions, self.WEIGHTS.transitions, rtol=1e-6)

    def test_zeros_for_ends_are_assigned_where_there_are_boundaries(self):
        layer = self.layer(use_kernel=False, boundary_initializer="ones")
        self.WEIGHTS._replace(start=np.zeros(3), end=np.zeros(3)).assign_to(layer)
        np.testing.assert_array_equal([layer.start.numpy(), layer.end.numpy()], np.zeros([2, 3]))

    @pytest.mark.parametrize(
        ("weights", "options", "words"),
        [
            (WEIGHTS, {}, ("the layer projects its features", "use_kernel=False) behind")),
            (WITH_KERNEL._replace(bias=None), {"width": 5}, ("no kernel or no bias",)),
            (WITH_KERNEL, {"use_kernel": False}, ("the layer has use_kernel=False", "CRFLayer(3)")),
            (
                WEIGHTS,
                {"use_kernel": False, "use_boundary": False},
                ("start and end scores other than 0", "CRFLayer(3, use_boundary=True)"),
            ),
            (
                WEIGHTS,
                {"use_kernel": False, "num_tags": 4, "width": 4},
                ("transitions of the layer has the shape (4, 4)", "weights of the shape (3, 3)"),
            ),
            (
                WITH_KERNEL,
                {"width": 8},
                ("kernel of the layer has the shape (8, 3)", "weights of the shape (5, 3)"),
            ),
            (
                WEIGHTS._replace(end=np.array([0, -np.inf, 0])),
                {"use_kernel": False},
                ("end holds scores that are not finite", "np.maximum(end, -1e4)"),
            ),
        ],
    )
    def test_a_layer_that_they_do_not_fit_stays_as_it_was(self, weights, options, words):
        layer = self.layer(**options)
        before = layer.get_weights()
        refused(weights, layer, ValueError, *words)
        for array, expected in zip(layer.get_weights(), before, strict=True):
            np.testing.assert_array_equal(array, expected)

    def test_a_layer_that_is_not_built(self):
        words = ("the layer has no weights yet", "layer.build([None, None, D])")
        refused(self.WEIGHTS, CRFLayer(3), ValueError, *words)

    def test_another_layer(self):
        words = ("to a CRFLayer, got a Dense",)
        refused(self.WEIGHTS, keras.layers.Dense(3), TypeError, *words)


def test_neither_tensorflow_nor_keras_is_needed():
    code = (
        "import sys, types; package = types.ModuleType('keras_crf');"
        "package.__path__ = ['keras_crf']; sys.modules['keras_crf'] = package;"
        "import keras_crf.convert; print(sorted({'keras', 'tensorflow', 'torch'} & {*sys.modules}))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr
