"""What savedmodel_demo/ has for TensorFlow Serving, against servers of a few lines."""

import functools
import json
import re
import subprocess
import sys
import urllib.request

import numpy as np
import pytest

import client
import exports
import grpc_client
import loopback
import rest_client
import toys

DEMO = toys.ROOT / "savedmodel_demo"
SENTENCES = [["Ort", "zu", "w3", "são", "unseen"], ["北京"], ["w9", "Ort", "w1"]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return exports.Exported(tmp_path_factory.mktemp("tagger") / "1")


@pytest.fixture(scope="module", autouse=True)
def _no_proxy():
    """No proxy stands between the clients and this machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("no_proxy", "NO_PROXY"):
            patch.setenv(name, "127.0.0.1")
        yield


@pytest.fixture(scope="module")
def rest_server(exported):
    with loopback.rest({"tagger": exported.loaded}) as address:
        yield address


@pytest.fixture(scope="module")
def grpc_server(exported):
    pytest.importorskip(
        "tensorflow_serving.apis", reason="the messages are in the package tensorflow-serving-api"
    )
    with loopback.grpc({"tagger": exported.loaded}) as address:
        yield address


@pytest.fixture(params=[rest_client, grpc_client], ids=["rest", "grpc"])
def predict(request):
    """A client's function of a model's name and inputs, at its server."""
    address = request.getfixturevalue(request.param.__name__.replace("client", "server"))
    return functools.partial(request.param.predict, address)


@pytest.fixture(params=[rest_client, grpc_client], ids=["rest", "grpc"])
def send(request):
    """The same for one request, which nothing checks."""
    address = request.getfixturevalue(request.param.__name__.replace("client", "server"))
    return functools.partial(request.param._send, address)


def tagged(predict):
    return client.tag(functools.partial(predict, "tagger"), SENTENCES)


class TestWhatIsNotSent:
    """Requests that would fail others, or the server, are refused by both clients."""

    @pytest.mark.parametrize(
        ("words", "lengths", "message"),
        [
            ([["zu"]], [[1]], r"lengths must have rank 1; got the shape \(1, 1\)"),
            ([["zu"]], 1, r"lengths must have rank 1; got the shape \(\)"),
            (["zu", "w3"], [1, 1], r"words must have rank 2; got the shape \(2,\)"),
            ([[["zu"]]], [1], r"words must have rank 2; got the shape \(1, 1, 1\)"),
            ([["zu"]], [1, 1], r"lengths must have the shape \(1,\), as many .* got \(2,\)"),
            ([["zu"], ["w3"]], [1], r"lengths must have the shape \(2,\), as many .* got \(1,\)"),
            ([], [], r"words must not be empty; got the shape \(0,\)"),
            (np.zeros([0, 3], "U"), [], r"words must not be empty; got the shape \(0,\)"),
            ([[]], [0], r"words must not be empty; got the shape \(1, 0\)"),
            ([["zu"], ["w3", "w4"]], [1, 2], r"words must be padded .* \[\(1,\), \(2,\)\]"),
            ([["zu"], ["w3"]], [1, [1]], r"lengths must be padded .* \[\(\), \(1,\)\]"),
            ([["zu", 3]], [2], "words must be strings; got 3 in row 0"),
            ([["zu"], ["w3"]], [1, 1.0], "lengths must be whole numbers; got 1.0 in row 1"),
            ([["zu"]], np.array([1.0]), "lengths must be whole numbers; got 1.0 in row 0"),
            ([["zu"]], [True], "lengths must be whole numbers; got True in row 0"),
            ([["zu"]], ["1"], "lengths must be whole numbers; got '1' in row 0"),
            ([["zu"], ["w3"]], [1, 2], r"lengths must lie in 1\.\.1; got 2 in row 1"),
            ([["zu"]], [0], r"lengths must lie in 1\.\.1; got 0 in row 0"),
            ([["zu"]], [-1], r"lengths must lie in 1\.\.1; got -1 in row 0"),
        ],
    )
    @pytest.mark.parametrize("module", [rest_client, grpc_client])
    def test_is_named_and_leaves_the_server_alone(self, module, words, lengths, message):
        with pytest.raises(ValueError, match=message):  # and not that nobody is at the address
            module.predict("http://127.0.0.1:9", "tagger", {"words": words, "lengths": lengths})

    @pytest.mark.parametrize("inputs", [{"words": [["zu"]]}, {"words": [["zu"]], "length": [1]}])
    def test_other_inputs(self, inputs):
        message = r"inputs must be \['lengths', 'words'\]; got \['(length', ')?words'\]"
        with pytest.raises(ValueError, match=message):
            client.checked(inputs)

    def test_a_bad_row_among_many_keeps_all_from_being_sent(self):
        sent = []
        with pytest.raises(ValueError, match="got 2 in row 99"):
            client.ask(sent.append, {"words": [["zu"]] * 100, "lengths": [1] * 99 + [2]})
        assert sent == []

    def test_bytes_are_text(self):
        words = np.array([[b"zu", "são".encode()]], object)
        assert client.checked({"words": words, "lengths": [2]})["words"] == [["zu", "são"]]


class TestClients:
    def test_answers_are_cut_to_each_sentence_and_are_those_of_the_sentence_alone_f1(
        self, predict, exported
    ):
        answers = tagged(predict)
        assert [len(rows) for rows in answers] == [5, 1, 3]
        for tokens, rows in zip(SENTENCES, answers, strict=True):
            tags, confidences = exported.alone(tokens)
            assert [row[:2] for row in rows] == list(zip(tokens, tags, strict=True))
            np.testing.assert_allclose([row[2] for row in rows], confidences, atol=1e-6)

    def test_the_server_had_merged_the_request_with_a_longer_one(self, predict):
        outputs = predict("tagger", {"words": [["zu", "w3"]], "lengths": [2]})
        assert sorted(outputs) == ["confidence", "log_prob", "tag_ids", "tags"]
        assert len(outputs["tags"][0]) == 2 + loopback.MORE_STEPS
        assert outputs["tags"][0][2:] == [""] * loopback.MORE_STEPS

    def test_a_model_that_is_not_there_is_an_error_and_the_server_goes_on(self, predict):
        with pytest.raises(client.ServerError, match=r"(404|NOT_FOUND), Servable not .*absent"):
            predict("absent", {"words": [["zu"]], "lengths": [1]})
        assert len(tagged(predict)) == 3

    def test_an_error_of_the_graph_is_one_line(self, send):
        with pytest.raises(client.ServerError) as raised:
            send("tagger", {"words": [["zu"]], "lengths": [9]})
        assert re.search(r"(400|INVALID_ARGUMENT), .*lengths must lie in", str(raised.value))
        assert "\n" not in str(raised.value)

    def test_more_rows_than_a_server_takes_are_sent_in_several_requests(self, predict, send):
        words = [["zu", "w3"], ["são", ""], ["Ort", "w9"]] * 50
        inputs = {"words": words, "lengths": [2, 1, 2] * 50}
        with pytest.raises(client.ServerError, match="Task size 150 is larger"):
            send("tagger", inputs)
        outputs = predict("tagger", inputs)
        assert [len(value) for value in outputs.values()] == [150] * 4
        for row, tags in enumerate(outputs["tags"]):
            assert tags == outputs["tags"][row % 3]
        assert len({tuple(tags) for tags in outputs["tags"]}) == 3

    def test_arrays_of_any_whole_numbers_are_sent_in_the_dtypes_of_the_export(self, predict):
        words = [["zu", "w3"], ["são", ""]]
        expected = predict("tagger", {"words": words, "lengths": [2, 1]})
        for dtype in ("int64", "int32", "uint8"):
            inputs = {"words": np.array(words, object), "lengths": np.array([2, 1], dtype)}
            assert predict("tagger", inputs) == expected

    @pytest.mark.parametrize(
        ("module", "address"), [(rest_client, "http://127.0.0.1:9"), (grpc_client, "127.0.0.1:9")]
    )
    def test_no_server_is_an_error_with_its_address(self, module, address):
        if module is grpc_client:
            pytest.importorskip("tensorflow_serving.apis")
        with pytest.raises(client.ServerError, match=r"127\.0\.0\.1:9"):
            module.predict(address, "tagger", {"words": [["zu"]], "lengths": [1]})

    def test_a_sentence_without_tokens_is_not_sent(self):
        with pytest.raises(ValueError, match="sentence 1 has no tokens"):
            client.pad([["zu"], []])

    def test_the_grpc_client_names_the_package_that_it_needs(self, monkeypatch):
        for name in ("tensorflow_serving", "tensorflow_serving.apis"):
            monkeypatch.setitem(sys.modules, name, None)
        message = "tensorflow_serving.* is not installed: pip install .*tensorflow-serving-api"
        with pytest.raises(client.ServerError, match=message):
            grpc_client.predict("127.0.0.1:9", "tagger", {"words": [["zu"]], "lengths": [1]})

    def test_the_script_prints_a_line_for_each_token(self, rest_server):
        command = [sys.executable, DEMO / "rest_client.py", "--server", rest_server]
        run = subprocess.run(
            [*command, "Ort zu", "são"], capture_output=True, text=True, timeout=60
        )
        lines = [line.split() for line in run.stdout.splitlines()]
        assert [line[0] for line in lines if line] == ["Ort", "zu", "são"]
        assert all(
            line[1] in exports.TAG_NAMES and 0 < float(line[2]) <= 1 for line in lines if line
        )
        run = subprocess.run(
            [*command, "--model", "absent"], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 1
        assert re.match(r"rest_client.py: http.*absent:predict: 404, Servable not", run.stderr)


def test_rows_of_one_length_come_back_as_rows_f6(rest_server, exported):
    """The "instances" of a curl line."""
    rows = [{"words": ["zu", "w3"], "lengths": 2}, {"words": ["são", ""], "lengths": 1}]
    body = json.dumps({"instances": rows}).encode()
    with urllib.request.urlopen(f"{rest_server}/v1/models/tagger:predict", body) as response:
        predictions = json.load(response)["predictions"]
    assert predictions[0]["tags"][:2] == exported.alone(["zu", "w3"])[0]
    assert predictions[1]["tags"][:1] == exported.alone(["são"])[0]


def parsed(name, module, message):
    """A file of savedmodel_demo/ as the message of TensorFlow Serving that it is."""
    module = pytest.importorskip(
        f"tensorflow_serving.{module}", reason="in the package tensorflow-serving-api"
    )
    text_format = pytest.importorskip("google.protobuf.text_format")
    return text_format.Parse((DEMO / name).read_text(), getattr(module, message)())


class TestConfiguration:
    def test_requests_of_different_lengths_are_merged_f2(self):
        """The fields of BatchingParameters; no package has this message."""
        text = re.sub("#.*", "", (DEMO / "batching_parameters.txt").read_text(encoding="utf-8"))
        numbers = dict(re.findall(r"(\w+) { value: (\d+) }", text))
        rest = re.sub(r"\w+ { value: \d+ }", "", text).split()
        assert rest == ["pad_variable_length_inputs:", "true"]
        assert numbers.keys() == {
            "max_batch_size",
            "batch_timeout_micros",
            "max_enqueued_batches",
            "num_batch_threads",
        }
        assert all(int(number) > 0 for number in numbers.values())
        assert int(numbers["max_batch_size"]) == client.MOST_ROWS == loopback.MOST_ROWS

    def test_the_server_knows_the_model_by_the_name_that_the_clients_ask_for(self):
        config = parsed("models.config", "config.model_server_config_pb2", "ModelServerConfig")
        (model,) = config.model_config_list.config
        assert (model.name, model.base_path) == ("tagger", "/models/tagger")
        assert model.model_version_policy.latest.num_versions == 2

    @pytest.mark.parametrize("service", ["cpu", "gpu"])
    def test_docker_gives_the_server_the_files_that_its_command_names(self, service):
        yaml = pytest.importorskip("yaml")
        compose = yaml.safe_load((DEMO / "docker-compose.yml").read_text())
        server = compose["services"][service]
        assert server["profiles"] == [service]
        mounted = dict(volume.split(":")[:2] for volume in server["volumes"])
        files = {target for source, target in mounted.items() if (DEMO / source).is_file()}
        named = {part.split("=")[1] for part in server["command"] if "/config/" in part}
        assert named == files
        assert mounted["../build/tagger"] == "/models/tagger"
