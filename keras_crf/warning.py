"""Warnings at the line of the user's code that they are about."""

import contextlib
import functools
import inspect
import os
import warnings

import keras
import tensorflow as tf

# The files whose lines are none of the user's.
LIBRARIES = (
    *(os.path.dirname(file) + os.sep for file in (keras.__file__, tf.__file__, __file__)),
    contextlib.__file__,
    functools.__file__,
)


def warn_user(message):
    """Warns, at the innermost line that is neither of this library, of Keras nor of TensorFlow."""
    warnings.warn(message, stacklevel=_level_of_user())


def _level_of_user():
    """The `stacklevel` for a call of `warnings.warn` in the function that calls this one."""
    frame, level = inspect.currentframe().f_back, 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(LIBRARIES):
        frame, level = frame.f_back, level + 1
    return level
