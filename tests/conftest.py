"""Every test starts from the same seed, and leaves Keras' policy as it found it."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import random

import keras
import numpy as np
import pytest

import toys


@pytest.fixture(autouse=True)
def _same_seed_and_policy():
    # Keras draws its seeds from `random`. tf.random.set_seed would throw away all compiled kernels.
    random.seed(1)
    np.random.seed(1)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="session")
def text_export(tmp_path_factory):
    """An export from strings to strings, made once: it takes seconds."""
    return toys.TextExport(str(tmp_path_factory.mktemp("text") / "1"))
