"""keras_crf runs on Keras 3 with TensorFlow, says so where it does not, and needs nothing else."""

import ast
import sys

import pytest

import toys

SAYS_WHY_NOT = """
try:
    import keras_crf
except ImportError as error:
    print(error)
"""

SAYS_WHY_NOT_WITH_ANOTHER_KERAS = (
    """
import sys, types

sys.modules["keras"] = types.SimpleNamespace(__version__=sys.argv[1])
"""
    + SAYS_WHY_NOT
)


class TestImport:
    @pytest.mark.parametrize("backend", ["jax", "torch"])
    def test_on_another_backend_is_refused_with_the_way_out_d16(self, backend):
        message = toys.run_python(SAYS_WHY_NOT, KERAS_BACKEND=backend)
        assert "needs Keras 3.10 or newer on TensorFlow. Set KERAS_BACKEND=tensorflow" in message
        assert "before Keras is imported" in message
        assert backend in message

    @pytest.mark.parametrize("version", ["2.15.0", "3.9.2"])
    def test_with_an_older_keras_is_refused_d16(self, version):
        message = toys.run_python(SAYS_WHY_NOT_WITH_ANOTHER_KERAS, version)
        assert "needs Keras 3.10 or newer on TensorFlow" in message
        assert f"got Keras {version}" in message


def imported_names(path):
    """Every module that a source file imports, with its dots."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


SOURCES = sorted((toys.ROOT / "keras_crf").glob("*.py"))


class TestSources:
    @pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
    def test_import_tensorflow_keras_and_numpy_alone_and_nothing_private_d16_d26(self, path):
        names = set(imported_names(path))
        roots = {name.split(".")[0] for name in names}
        extra = {"matplotlib"} if path.name == "drawing.py" else set()
        needed = {"tensorflow", "keras", "numpy", "keras_crf"} | extra
        assert roots <= needed | sys.stdlib_module_names
        assert not [name for name in names if name.startswith(("keras.src", "tensorflow.python"))]
