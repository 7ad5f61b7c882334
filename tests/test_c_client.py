"""savedmodel_demo/c_client: an export tags text in a program without Python."""

import shutil
import subprocess
import sys

import keras
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, export_tagger

CLIENT = toys.ROOT / "savedmodel_demo" / "c_client"
SENTENCE = ["a", "flight", "from", "Köln", "to", "New", "York"]
NO_TAGGER, SOME_FAILED = 3, 1

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is built on Linux"),
    pytest.mark.skipif(not (shutil.which("cc") and shutil.which("make")), reason="no C compiler"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    build = tmp_path_factory.mktemp("build")
    variables = [f"PYTHON={sys.executable}", f"BUILD={build}", "CFLAGS=-O2 -Wall -Wextra -Werror"]
    subprocess.run(["make", "-s", "-C", CLIENT, *variables], check=True)
    return build / "tag"


@pytest.fixture
def exported(text_export):
    return text_export.directory


def run(program, *arguments, text=""):
    """(what it printed, what it complained of, how it ended), with no way to find Python."""
    finished = subprocess.run(
        [program, *map(str, arguments)], input=text, capture_output=True, text=True, env={}
    )
    lines = finished.stderr.splitlines()  # TensorFlow's log among them
    return (
        finished.stdout,
        [line for line in lines if line.startswith("tag: ")],
        finished.returncode,
    )


def expected_lines(directory, tokens):
    """What the program is to print, by the export in Python."""
    tagger = tf.saved_model.load(directory).signatures["serving_default"]
    outputs = tagger(words=tf.constant([tokens]), lengths=tf.constant([len(tokens)]))
    names = [name.decode() for name in outputs["tags"][0].numpy()]
    rows = zip(tokens, names, outputs["confidence"][0].numpy(), strict=True)
    return "".join(f"{token}\t{name}\t{confidence:.4f}\n" for token, name, confidence in rows)


def test_tags_and_confidences_are_those_of_the_export(program, exported):
    printed, complaints, code = run(program, exported, *SENTENCE)
    assert printed == expected_lines(exported, SENTENCE) + "\n"
    assert (complaints, code) == ([], 0)


def test_no_python_is_linked_to_it(program):
    printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    libraries = [line.split()[0] for line in printed.splitlines()]
    assert "libtensorflow_cc.so.2" in libraries
    assert not any("python" in library for library in libraries)


def test_it_goes_on_after_a_line_that_cannot_be_tagged(program, exported):
    lines = ["to Köln", "9\tto New York", "many\tto New York", "-1\ta", "", "2\tto New York", "a"]
    printed, complaints, code = run(program, exported, text="\n".join(lines))
    sentences = printed.removesuffix("\n\n").split("\n\n")
    tokens = [[line.split("\t")[0] for line in block.splitlines()] for block in sentences]
    assert tokens == [["to", "Köln"], ["to", "New"], ["a"]]
    assert sentences[0] + "\n" == expected_lines(exported, ["to", "Köln"])
    too_long, no_number, negative = complaints
    must = "tag: the number before a tab must lie in"
    assert too_long == f"{must} 1..3, the tokens of the line; got 9"
    assert no_number == "tag: before a tab stands how many tokens to tag, got many"
    assert negative == f"{must} 1..1, the tokens of the line; got -1"
    assert code == SOME_FAILED


def test_a_directory_that_is_not_there(program, tmp_path):
    printed, (complaint,), code = run(program, tmp_path / "nowhere", "a")
    assert printed == ""
    assert complaint.startswith(f"tag: {tmp_path}/nowhere: Could not find SavedModel")
    assert code == NO_TAGGER


def test_an_export_that_is_broken(program, exported, tmp_path):
    broken = shutil.copytree(exported, tmp_path / "1")
    (broken / "saved_model.pb").write_bytes(b"not a protocol buffer")
    _, (complaint,), code = run(program, broken, "a")
    assert complaint.startswith(f"tag: {broken}: ")
    assert code == NO_TAGGER


def test_an_export_that_takes_ids(program, tmp_path):
    export_tagger(toys.tagger(), tmp_path / "1", tag_names=["O", "B-X", "I-X"])
    _, (complaint,), code = run(program, tmp_path / "1", "a")
    wanted = "words has dtype 3 of the C API's TF_DataType, this program wants 7 (strings)"
    assert wanted in complaint
    assert code == NO_TAGGER


def test_an_export_that_takes_characters(program, tmp_path):
    characters = keras.Input((None, 4), dtype="string", name="words")
    ids = keras.layers.StringLookup(vocabulary=["a"])(characters)
    features = keras.ops.max(keras.layers.Embedding(2, 4)(ids), axis=2)
    crf = CRFLayer(3, tag_names=toys.TEXT_TAGS)
    export_tagger(keras.Model(characters, crf(features)), tmp_path / "1")
    _, (complaint,), code = run(program, tmp_path / "1", "a")
    assert complaint.endswith("words has rank 3, this program wants 2")
    assert code == NO_TAGGER


def test_an_export_without_tag_names(program, tmp_path):
    export_tagger(toys.tagger(), tmp_path / "1")
    _, (complaint,), code = run(program, tmp_path / "1", "a")
    assert complaint.endswith("the export has no output named tags")
    assert code == NO_TAGGER


def test_without_arguments_it_says_how_it_is_used(program):
    assert run(program) == ("", ["tag: wants arguments, DIRECTORY [TOKEN ...]"], 2)
