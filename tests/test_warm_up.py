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


SIGNATURES = {"serving_default": serve}


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
    write_warm_up(tmp_path, REQUESTS, SIGNATURES)
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
    write_warm_up(tmp_path, REQUESTS, SIGNATURES)
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
    write_warm_up(tmp_path, REQUESTS, SIGNATURES)
    write_warm_up(tmp_path, REQUESTS[:1], SIGNATURES)
    assert len(records(tmp_path)) == 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"words": [["zu"]]}, r"request 1 has the inputs \['words'\]; .*\['lengths', 'words'\]"),
        ({"words": [[3]], "lengths": [1]}, "request 1 fails at serving_default: .*string"),
        ({"words": ["zu"], "lengths": [1]}, "request 1 fails at serving_default: .*shape"),
        ({"words": [["zu"], ["a", "b"]], "lengths": [1, 2]}, "request 1 fails at serving_default"),
        ({"words": [["zu"]], "lengths": [2]}, "request 1 fails .*lengths must lie in"),
    ],
    ids=["missing input", "dtype", "rank", "ragged", "length above T"],
)
def test_a_request_that_would_fail_on_the_server_is_refused_and_nothing_written(
    tmp_path, request_, message
):
    write_warm_up(tmp_path, REQUESTS, SIGNATURES)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        write_warm_up(tmp_path, [REQUESTS[0], request_], SIGNATURES)
    assert len(records(tmp_path)) == 2


@tf.function(input_signature=[{"words": INPUTS["words"]}])
def serve_unpadded(inputs):
    return inputs["words"]


def requests_by_signature(directory):
    """(name of the signature, inputs by name) of each request, in order."""
    found = []
    for record in records(directory):
        ((_, predict_log),) = fields(record)
        ((_, request),) = fields(predict_log)
        (_, model), *entries = fields(request)
        ((_, signature),) = fields(model)
        inputs = dict(dict(fields(content)).values() for _, content in entries)
        found.append((signature.decode(), inputs))
    return found


def test_each_request_is_written_for_every_signature_that_takes_its_inputs(tmp_path):
    signatures = {"serving_default": serve, "unpadded": serve_unpadded, "top_k": serve}
    full = {"words": [["zu"]]}
    write_warm_up(tmp_path, [*REQUESTS, full], signatures)
    written = requests_by_signature(tmp_path)
    assert [name for name, _ in written] == ["serving_default", "top_k"] * 2 + ["unpadded"]
    (_, first), (_, again), *_, (_, last) = written
    assert first == again
    assert first.keys() == {b"lengths", b"words"}
    assert last.keys() == {b"words"}


def test_a_request_that_no_signature_takes_is_refused_with_what_they_take(tmp_path):
    signatures = {"serving_default": serve, "unpadded": serve_unpadded}
    message = (
        r"request 0 has the inputs \['tokens'\]; the signatures take "
        r"\['lengths', 'words'\] or \['words'\]\."
    )
    with pytest.raises(ValueError, match=message):
        write_warm_up(tmp_path, [{"tokens": [["zu"]]}], signatures)


@pytest.mark.parametrize(
    ("number", "signatures", "written"),
    [(0, ["marginals"], 0), (1001, ["marginals"], 1001), (334, ["marginals", "top_k", "x"], 1002)],
)
def test_the_number_of_requests_in_all_is_what_a_server_takes(
    tmp_path, number, signatures, written
):
    with pytest.raises(ValueError, match=f"1 to 1000 requests.* got {written}, of {number} in"):
        write_warm_up(tmp_path, REQUESTS[:1] * number, dict.fromkeys(signatures, serve))
    assert not list(tmp_path.iterdir())


def test_an_export_has_those_that_it_was_asked_for(text_export):
    """One request with lengths, for each signature that takes them."""
    written = requests_by_signature(text_export.directory)
    assert [name for name, _ in written] == ["serving_default", "marginals", "top_k"]
    for _, inputs in written:
        assert inputs.keys() == {b"lengths", b"words"}
        assert "Köln".encode() in inputs[b"words"]


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
        write_warm_up(tmp_path, [request_], SIGNATURES)
