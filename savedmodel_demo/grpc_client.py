"""Tags sentences with a TensorFlow Serving server, by gRPC.

pip install tensorflow-serving-api
python savedmodel_demo/grpc_client.py "book a flight to Paris" "order two green tea"
"""

import numpy as np

import client


def predict(server, model, inputs, seconds=10):
    """The outputs for `words` [B, T] and `lengths` [B], as a dict of lists of B rows.

    Raises:
        ValueError: inputs that are not sent, since a server cannot take them.
        client.ServerError: what the server says, or that there is none.
    """
    return client.ask(lambda part: _send(server, model, part, seconds), inputs)


def _send(server, model, inputs, seconds=10):
    """One request: inputs, a dict of nested lists, to outputs as such a dict."""
    grpc, predict_pb2, prediction_service_pb2_grpc = _packages()
    import tensorflow as tf

    dtypes = {"words": tf.string, "lengths": tf.int32}
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = "serving_default"
    for name, value in inputs.items():
        # Named, since a server fails the whole batch for an int64.
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value, dtypes[name]))
    with grpc.insecure_channel(server) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            answer = stub.Predict(request, timeout=seconds)
        except grpc.RpcError as error:
            words = f"{error.code().name}, {error.details()}"
            raise client.ServerError(f"{model} at {server}: {words}") from None
    return {name: _as_list(tf.make_ndarray(value)) for name, value in answer.outputs.items()}


def _as_list(array):
    """Nested lists, with text for bytes."""
    return (np.char.decode(array.astype(bytes)) if array.dtype == object else array).tolist()


def _packages():
    try:
        import grpc
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError as error:
        raise client.ServerError(
            f"{error.name} is not installed: pip install tensorflow-serving-api"
        ) from None
    return grpc, predict_pb2, prediction_service_pb2_grpc


if __name__ == "__main__":
    client.main(__doc__, predict, "localhost:8500")
