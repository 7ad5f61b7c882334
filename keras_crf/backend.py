"""Refuses to be imported where Keras is too old, or does not run on TensorFlow."""

import os

# 3.0 to 3.3 hand arrays of whole numbers, such as lengths, to layers as float32; 3.4 and 3.5 do not
# know the options by which `export_tagger` writes; 3.6 to 3.9 report losses or metrics under a
# distribution strategy that are wrong.
OLDEST = (3, 10)
WAY_OUT = (
    "keras_crf needs Keras 3.10 or newer on TensorFlow. Set KERAS_BACKEND=tensorflow (or "
    '"backend" in ~/.keras/keras.json) before Keras is imported; got '
)

try:
    import keras
except ImportError as error:
    raise ImportError(f"{WAY_OUT}KERAS_BACKEND={os.environ.get('KERAS_BACKEND')}.") from error

if tuple(map(int, keras.__version__.split(".")[:2])) < OLDEST:
    raise ImportError(f"{WAY_OUT}Keras {keras.__version__}.")
if keras.config.backend() != "tensorflow":
    raise ImportError(f"{WAY_OUT}the backend {keras.config.backend()}.")
