"""write_warm_up: the requests that TensorFlow Serving runs before it serves a version."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_crf.warm_up import write_warm_up

REQUESTS = [
    {"words": [["Ort", "zu", "são"]], "lengths": [3]},
    {"words": np.array([["w1"] * 40, ["北京"] * 40]), "lengths": np.array([40, 7])},
]


INPUTS = {
    "words": tf.TensorSpec([None, None], tf.string),
    "lengths": tf.TensorSpec([None], tf.int32),
}


@tf.function(input_signature=[INPUTS])
def serve(inputs):
    """A stand-in for what an export serves."""
    tf.debugging.assert_less_equal(
        inputs["lengths"], tf.shape(inputs["words"])[1], "lengths must lie in 0..T"
    )
    return inputs["words"]


def records(directory):
    path = pathlib.Path(directory, "assets.extra", "tf_serving_warmup_requests")
    return [record.numpy() for record in tf.data.TFRecordDataset(str(path))]


def fields(message):
    """The fields of a message, all strings or messages: pairs of a number and a content."""
    found, place = [], 0

    def varint():
        nonlocal place
        value, shift = 0, 0
        while True:
            byte = message[place]
            value |= (byte & 127) << shift
            place, shift = place + 1, shift + 7
            if byte < 128:
                return value

    while place < len(message):
        key, size = varint(), varint()
        assert key % 8 == 2
        found.append((key // 8, message[place : place + size]))
        place += size
    return found


def test_each_request_is_a_predict_log_with_the_inputs_in_the_dtypes_of_the_signature(tmp_path):
    write_warm_up(tmp_path, REQUESTS, serve)
    for record, request in zip(records(tmp_path), REQUESTS, strict=True):
        ((log_type, predict_log),) = fields(record)
        ((number, predict_request),) = fields(predict_log)
        assert (log_type, number) == (6, 1)
        model, *entries = fields(predict_request)
        assert model == (1, b"\x1a\x0fserving_default")  # field 3, 15 bytes
        inputs = {}
        for number, entry in entries:
            (one, name), (two, tensor) = fields(entry)
            assert (number, one, two) == (2, 1, 2)
            proto = type(tf.make_tensor_proto(0)).FromString(tensor)
            inputs[name.decode()] = tf.make_ndarray(proto)
        assert {name: value.dtype for name, value in inputs.items()} == {
            "words": np.dtype(object),
            "lengths": np.dtype("int32"),
        }
        np.testing.assert_array_equal(
            np.char.decode(inputs["words"].astype(bytes)), request["words"]
        )
        np.testing.assert_array_equal(inputs["lengths"], request["lengths"])


def test_it_is_what_the_messages_of_tensorflow_serving_say(tmp_path):
    prediction_log_pb2 = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2",
        reason="the messages are in the package tensorflow-serving-api",
    )
    write_warm_up(tmp_path, REQUESTS, serve)
    for record, request in zip(records(tmp_path), REQUESTS, strict=True):
        expected = prediction_log_pb2.PredictionLog()
        message = expected.predict_log.request
        message.model_spec.signature_name = "serving_default"
        words = tf.make_tensor_proto(request["words"])
        message.inputs["words"].CopyFrom(words)
        message.inputs["lengths"].CopyFrom(tf.make_tensor_proto(request["lengths"], tf.int32))
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log == expected
        assert log.SerializeToString(deterministic=True) == record


def test_what_was_written_before_is_replaced(tmp_path):
    write_warm_up(tmp_path, REQUESTS, serve)
    write_warm_up(tmp_path, REQUESTS[:1], serve)
    assert len(records(tmp_path)) == 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"words": [["zu"]]}, r"request 1 has the inputs \['words'\]; .*\['lengths', 'words'\]"),
        ({"words": [[3]], "lengths": [1]}, "request 1 fails: .*string"),
        ({"words": ["zu"], "lengths": [1]}, "request 1 fails: .*shape"),
        ({"words": [["zu"], ["w1", "w2"]], "lengths": [1, 2]}, "request 1 fails: .*"),
        ({"words": [["zu"]], "lengths": [2]}, "request 1 fails: .*lengths must lie in"),
    ],
    ids=["missing input", "dtype", "rank", "ragged", "length above T"],
)
def test_a_request_that_would_fail_on_the_server_is_refused_and_nothing_written(
    tmp_path, request_, message
):
    write_warm_up(tmp_path, REQUESTS, serve)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        write_warm_up(tmp_path, [REQUESTS[0], request_], serve)
    assert len(records(tmp_path)) == 2


@pytest.mark.parametrize("number", [0, 1001])
def test_the_number_of_requests_is_what_a_server_takes(tmp_path, number):
    with pytest.raises(ValueError, match=f"1 to 1000 requests.*got {number}"):
        write_warm_up(tmp_path, REQUESTS[:1] * number, serve)


def test_an_export_has_those_that_it_was_asked_for(text_export):
    (log,) = records(text_export.directory)
    ((_, predict_log),) = fields(log)
    ((_, request),) = fields(predict_log)
    inputs = [dict(fields(content)) for number, content in fields(request) if number == 2]
    assert [entry[1] for entry in inputs] == [b"lengths", b"words"]
    assert "Köln".encode() in inputs[1][2]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (3, "request 0 has the inputs no names: 3"),
        ({1: [[b"a"]], "lengths": [1]}, "request 0 has the inputs .1, 'lengths'"),
        ({"words": [[b"a"]], "lengths": np.array([2**40])}, "int64 does not fit int32"),
        ({"words": [[b"a"]], "lengths": [1.0]}, "float64 does not fit int32"),
    ],
)
def test_what_is_no_request_or_does_not_fit_is_refused(tmp_path, request_, words):
    with pytest.raises(ValueError, match=words):
        write_warm_up(tmp_path, [request_], serve)
