"""What the functions of this library take where their docstrings speak of tensors."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

TensorLike: TypeAlias = (
    tf.Tensor | tf.RaggedTensor | tf.Variable | np.ndarray | Sequence | float | bool
)
