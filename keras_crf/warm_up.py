"""Warm-up requests of TensorFlow Serving, which it runs before it serves a version.

A TFRecord file of PredictionLog messages. Few of their fields are needed, so they are encoded here
and need no package: all are strings or messages, and of these the wire format has

    the number of the field * 8 + 2, the size, the content
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf

from keras_crf.tensor_like import TensorLike

MOST_REQUESTS = 1000  # a server refuses a version with more


def write_warm_up(
    directory: str | os.PathLike, requests: Iterable[Mapping[str, TensorLike]], serve: Callable
) -> None:
    """Writes requests to `serving_default` into an export, for TensorFlow Serving to begin with.

    The first requests are slow: graphs are optimised and memory is found then. A server that finds
    `assets.extra/tf_serving_warmup_requests` has that behind it before it takes others. It refuses
    a version whose warm-up fails, so each request is run here first.

    Args:
        directory: the export.
        requests: at most 1000 dicts of input name to array.
        serve: the `tf.function` behind `serving_default`, of a dict of tensors.

    Raises:
        ValueError: no request or too many, or one that the export does not take, by its number.
    """
    requests = list(requests)
    if not 1 <= len(requests) <= MOST_REQUESTS:
        raise ValueError(
            f"a warm-up has 1 to {MOST_REQUESTS} requests, each a dict of input name to array; "
            f"got {len(requests)}."
        )
    logs = [_prediction_log(_tried(serve, *numbered)) for numbered in enumerate(requests)]
    extra = os.path.join(directory, "assets.extra")
    tf.io.gfile.makedirs(extra)
    with tf.io.TFRecordWriter(os.path.join(extra, "tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log)


def _tried(serve, number, request):
    """The request as tensors, which the function has taken and answered."""
    (specs,) = serve.input_signature
    if not isinstance(request, Mapping) or set(request) != set(specs):
        has = list(request) if isinstance(request, Mapping) else f"no names: {request!r}"
        raise ValueError(
            f"warm-up request {number} has the inputs {has}; the export takes {sorted(specs)}."
        )
    try:
        tensors = {name: _as_tensor(request[name], spec.dtype) for name, spec in specs.items()}
        serve(tensors)
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(f"warm-up request {number} fails: {error}") from error
    return tensors


def _as_tensor(value, dtype):
    """The value in the dtype of its input, if it stays what it is."""
    if dtype == tf.string:
        return tf.convert_to_tensor(value, dtype)
    given = np.asarray(value)
    changed = given.astype(dtype.as_numpy_dtype)
    if not dtype.is_floating and (given.dtype.kind == "f" or (given != changed).any()):
        raise ValueError(f"{given.dtype} does not fit {dtype.name}: {value!r}")
    return tf.convert_to_tensor(changed)


def _prediction_log(inputs):
    """A PredictionLog in bytes: a request to `serving_default`, as the server reads it."""
    model = _field(3, b"serving_default")  # ModelSpec.signature_name
    request = _field(1, model)  # PredictRequest.model_spec
    for name, value in sorted(inputs.items()):
        tensor = tf.make_tensor_proto(value).SerializeToString()
        # PredictRequest.inputs: each entry of a map is a message of its key and its value.
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))  # PredictionLog.predict_log, PredictLog.request


def _field(number, content):
    return _as_varint(number * 8 + 2) + _as_varint(len(content)) + content


def _as_varint(value):
    """Seven bits a byte, the lowest first; all but the last byte have the eighth bit set."""
    low_to_high = []
    while value > 127:
        low_to_high.append(value % 128 + 128)
        value //= 128
    return bytes([*low_to_high, value])
