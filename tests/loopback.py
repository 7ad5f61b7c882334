"""Servers of a few lines that speak as TensorFlow Serving does, over the signatures of exports.

They merge each request with one that is longer, as a server that batches may: each input is padded
with that input's first element, and the answer has the length of the longer one.
"""

import contextlib
import http.server
import json
import re
import threading
from concurrent import futures

import numpy as np
import tensorflow as tf

MORE_STEPS = 3
MOST_ROWS = 64


class NoSuchModelError(LookupError):
    """The server has no model of this name."""


def answer(models, name, signature_name, inputs):
    """What a signature gives for tensors, as NumPy arrays."""
    if name not in models:
        raise NoSuchModelError(f"Servable not found for request: Latest({name})")
    serve = models[name].signatures[signature_name or "serving_default"]
    specs = serve.structured_input_signature[1]
    if inputs.keys() != specs.keys():
        raise ValueError(f"inputs must be {sorted(specs)}, got {sorted(inputs)}")
    for key, spec in specs.items():
        if inputs[key].dtype != spec.dtype:
            raise ValueError(f"{key} must be {spec.dtype.name}, got {inputs[key].dtype.name}")
    rows = len(next(iter(inputs.values())))
    if rows > MOST_ROWS:
        raise ValueError(f"Task size {rows} is larger than maximum input batch size {MOST_ROWS}")
    outputs = serve(**{key: merged(tensor.numpy()) for key, tensor in inputs.items()})
    return {key: tensor.numpy() for key, tensor in outputs.items()}


def merged(values):
    """An input as it comes out of a batch with a longer request."""
    if values.ndim < 2:
        return tf.constant(values)
    filler = np.full([len(values), MORE_STEPS, *values.shape[2:]], values.flat[0], values.dtype)
    return tf.constant(np.concatenate([values, filler], axis=1))


@contextlib.contextmanager
def rest(models):
    """A server of models by name, by the predict calls of REST; gives its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            code, body = self.respond(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def respond(self, body):
            try:
                (name,) = re.fullmatch(r"/v1/models/(\w+):predict", self.path).groups()
                return 200, respond_to_json(models, name, json.loads(body))
            except NoSuchModelError as error:
                return 404, {"error": str(error)}
            except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
                return 400, {"error": str(error)}

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def respond_to_json(models, name, request):
    """Rows come back for rows ("instances"), columns for columns ("inputs")."""
    rows = request.get("instances")
    columns = (
        request["inputs"] if rows is None else {key: [r[key] for r in rows] for key in rows[0]}
    )
    inputs = {key: tf.constant(value) for key, value in columns.items()}
    outputs = answer(models, name, request.get("signature_name"), inputs)
    outputs = {key: as_json(array) for key, array in outputs.items()}
    if rows is None:
        return {"outputs": outputs}
    rows = zip(*outputs.values(), strict=True)
    return {"predictions": [dict(zip(outputs, row, strict=True)) for row in rows]}


def as_json(array):
    return (np.char.decode(array.astype(bytes)) if array.dtype == object else array).tolist()


@contextlib.contextmanager
def grpc(models):
    """The same by gRPC, with the messages of the package tensorflow-serving-api."""
    import grpc
    from tensorflow_serving.apis import predict_pb2

    def predict(request, context):
        try:
            inputs = {k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()}
            spec = request.model_spec
            outputs = answer(models, spec.name, spec.signature_name, inputs)
        except NoSuchModelError as error:
            context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse(model_spec=spec)
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response

    method = grpc.unary_unary_rpc_method_handler(
        predict,
        predict_pb2.PredictRequest.FromString,
        predict_pb2.PredictResponse.SerializeToString,
    )
    service = "tensorflow.serving.PredictionService"
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {"Predict": method})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
