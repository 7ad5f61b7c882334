"""Warm-up requests of TensorFlow Serving, which it runs before it serves a version.

A TFRecord file of PredictionLog messages. Few of their fields are needed, so they are encoded here
and need no package: all are strings or messages, and of these the wire format has

    the number of the field * 8 + 2, the size, the content
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from keras_crf.tensor_like import TensorLike

MOST_REQUESTS = 1000  # a server refuses a version with more


def write_warm_up(
    directory: str | os.PathLike,
    requests: Iterable[Mapping[str, TensorLike]],
    signatures: Mapping[str, tf.types.experimental.PolymorphicFunction],
) -> None:
    """Writes requests into an export, which TensorFlow Serving runs before it serves the version.

    The first requests to a signature are slow: its graph is optimised then, and memory is
    allocated. So each request is written for every signature that takes the same inputs. A server
    refuses a version whose warm-up fails, so each request is run here first.

    Args:
        directory: the export.
        requests: dicts of input name to array.
        signatures: by name, the `tf.function` of each signature, of a dict of tensors.

    Raises:
        ValueError: no request, or more than 1000 in all signatures; or one that no signature
            takes, or that one of them fails at, by its number.
    """
    requests = list(requests)
    inputs = {name: serve.input_signature[0] for name, serve in signatures.items()}
    calls = [
        (number, name)
        for number, request in enumerate(requests)
        for name in _takers(inputs, number, request)
    ]
    if not 1 <= len(calls) <= MOST_REQUESTS:
        raise ValueError(
            f"a warm-up has 1 to {MOST_REQUESTS} requests, and each counts once for every "
            f"signature that takes its inputs; got {len(calls)}, of {len(requests)} in warm_up."
        )
    logs = [
        _prediction_log(
            name, _tried(signatures[name], f"{number} fails at {name}", requests[number])
        )
        for number, name in calls
    ]
    extra = os.path.join(directory, "assets.extra")
    tf.io.gfile.makedirs(extra)
    with tf.io.TFRecordWriter(os.path.join(extra, "tf_serving_warmup_requests")) as writer:
        for log in logs:
            writer.write(log)


def _takers(inputs, number, request):
    """The names of the signatures that take the inputs of this request."""
    names = set(request) if isinstance(request, Mapping) else None
    takers = [name for name, specs in inputs.items() if set(specs) == names]
    if not takers:
        has = f"no names: {request!r}" if names is None else list(request)
        taken = " or ".join(sorted({str(sorted(specs)) for specs in inputs.values()}))
        raise ValueError(
            f"warm-up request {number} has the inputs {has}; the signatures take {taken}."
        )
    return takers


def _tried(serve, failure, request):
    """The request as tensors, which the function has taken and answered."""
    (specs,) = serve.input_signature
    try:
        tensors = {name: _as_tensor(request[name], spec.dtype) for name, spec in specs.items()}
        serve(tensors)
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(f"warm-up request {failure}: {error}") from error
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


def _prediction_log(signature_name, inputs):
    """A PredictionLog in bytes: a request to a signature, as the server reads it."""
    model = _field(3, signature_name.encode())  # ModelSpec.signature_name
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
