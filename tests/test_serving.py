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


def tagged(predict):
    return client.tag(functools.partial(predict, "tagger"), SENTENCES)


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

    @pytest.mark.parametrize(
        ("model", "inputs", "message"),
        [
            ("absent", {"words": [["zu"]], "lengths": [1]}, "Servable not found.*absent"),
            ("tagger", {"words": [["zu"]]}, r"inputs must be \['lengths', 'words'\]"),
            ("tagger", {"words": [[3]], "lengths": [1]}, "string"),
            ("tagger", {"words": [["zu"]], "lengths": ["one"]}, "int32"),
            ("tagger", {"words": [["zu"]], "lengths": [9]}, "lengths must lie in"),
        ],
        ids=["model", "missing input", "dtype of words", "dtype of lengths", "length above T"],
    )
    def test_a_wrong_request_is_an_error_and_the_server_goes_on(
        self, predict, model, inputs, message
    ):
        code = "(404|400|NOT_FOUND|INVALID_ARGUMENT)"
        with pytest.raises(client.ServerError, match=f"(?s){code}.*{message}"):
            predict(model, inputs)
        assert len(tagged(predict)) == 3

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
            grpc_client.predict("127.0.0.1:9", "tagger", {})

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
