"""Refuses to be imported where Keras does not run on TensorFlow."""

import os

WAY_OUT = (
    'keras_crf needs Keras 3 on TensorFlow. Set KERAS_BACKEND=tensorflow (or "backend" in '
    "~/.keras/keras.json) before Keras is imported; got "
)

try:
    import keras
except ImportError as error:
    raise ImportError(f"{WAY_OUT}KERAS_BACKEND={os.environ.get('KERAS_BACKEND')}.") from error

if int(keras.__version__.split(".")[0]) < 3:
    raise ImportError(f"{WAY_OUT}Keras {keras.__version__}.")
if keras.config.backend() != "tensorflow":
    raise ImportError(f"{WAY_OUT}the backend {keras.config.backend()}.")
