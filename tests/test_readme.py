"""What the README shows is what happens."""

import contextlib
import io
import os
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_crf
import toys

README = (pathlib.Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
BLOCKS = BLOCK.findall(README)


@contextlib.contextmanager
def working_in(directory):
    before = os.getcwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def printed(code, names):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(code, names)
    return output.getvalue()


@toys.accuracy_leaves_out_padding
def test_each_block_prints_what_stands_behind_it_d25(tmp_path):
    names = {}
    with working_in(tmp_path):
        for code, output in BLOCKS:
            assert printed(code, names) == output


@pytest.mark.slow
def test_each_block_of_the_page_on_serving_does_f12(tmp_path):
    names = {}
    page = toys.ROOT / "docs" / "serving.md"
    with working_in(tmp_path):
        for code, output in BLOCK.findall(page.read_text(encoding="utf-8")):
            assert printed(code, names) == output


def migration_lines():
    """The code in the right column of the migration table."""
    table = README.split("| was | is |")[1].split("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return [code for row in rows for code in re.findall(r"`(.*?)`", row[1]) if "(" in code]


def names_of_the_table():
    rng = np.random.default_rng(0)
    base_model = keras.Sequential([keras.Input((None, 8)), keras.layers.Dense(8)])
    return {
        "keras": keras,
        "keras_crf": keras_crf,
        "tf": tf,
        "inputs": rng.normal(size=[2, 4, 9]).astype("float32"),
        "bitmap": np.ones([2, 4, 9], bool),
        "score": rng.normal(size=[4, 9]),
        "tags": rng.integers(0, 9, [2, 4]),
        "lengths": np.array([4, 2]),
        "mask": np.array([[1, 0, 1, 1], [0, 1, 1, 0]]),
        "transitions": rng.normal(size=[9, 9]).astype("float32"),
        "features": rng.normal(size=[2, 4, 8]).astype("float32"),
        "base_model": base_model,
        "layer": keras_crf.CRFLayer(9),
        "model": keras.Sequential([base_model, keras_crf.CRFLayer(9)]),
    }


def test_the_migration_table_has_lines():
    assert len(migration_lines()) > 20


@pytest.mark.parametrize("line", sorted(set(migration_lines())))
def test_each_line_of_the_migration_table_runs(line):
    exec(line, names_of_the_table())
