"""What is said about versions agrees wherever it stands, and the table is made of tests."""

import re

import pytest

import compatibility
import toys
from keras_crf import backend


def text_of(name):
    return (toys.ROOT / name).read_text(encoding="utf-8")


class TestBounds:
    def test_of_keras_are_one_in_setup_import_readme_and_the_oldest_that_is_tested(self):
        oldest = ".".join(map(str, backend.OLDEST))
        assert f'"keras>={oldest}"' in text_of("setup.py")
        assert f"`keras>={oldest}`" in text_of("README.md")
        assert f'"{oldest}.0")' in text_of("noxfile.py")
        assert f"needs Keras {oldest} or newer" in backend.WAY_OUT

    def test_of_python_are_those_that_are_tested(self):
        listed = set(re.findall(r'"(3\.1\d)"', text_of("noxfile.py")))
        named = set(re.findall(r"Python :: (3\.\d+)", text_of("setup.py")))
        assert listed == named
        assert 'python_requires=">=3.10"' in text_of("setup.py")


class TestTable:
    @pytest.mark.parametrize("feature", compatibility.FEATURES)
    def test_each_feature_has_tests(self, feature):
        for beginning in compatibility.FEATURES[feature]:
            file, *names = beginning.split("[")[0].split("::")
            source = text_of(f"tests/{file}")
            assert all(re.search(rf"(class|def) {name}", source) for name in names)

    @pytest.mark.parametrize(
        ("outcomes", "says"),
        [
            (["passed", "passed"], "yes"),
            (["passed", "failed"], "1 of 2 tests"),
            (["passed", "Keras is too old"], "in part"),
            (["Keras is too old"], "no"),
            ([], "not run"),
        ],
    )
    def test_a_field_says_how_many_passed(self, outcomes, says):
        by_test = {f"test_a.py::test_{i}": what for i, what in enumerate(outcomes)}
        assert compatibility.cell(["test_a.py"], by_test | {"test_b.py::test": "failed"}) == says
