"""Which feature works with which versions: `python tests/compatibility.py` in each environment.

It runs the tests of each feature and keeps what pytest says of them in build/compatibility, in a
file named after the versions of Python, TensorFlow and Keras. From all such files it writes the
table of docs/compatibility.md, between its markers. `make compatibility` does so for the versions
that noxfile.py lists.
"""

import pathlib
import platform
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "build" / "compatibility"
DOCUMENT = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->"

MASKS_ON_THEIR_WAY = "test_layer.py::TestMasksOnTheirWayIn"
FRESH_PROCESS = "test_saving.py::TestInAFreshProcessWithoutCustomObjects"

# The tests of each feature by the beginnings of their ids.
FEATURES = {
    "`compile`, `fit`, `evaluate`, `predict`": [
        "test_models.py::TestEveryKindOfModel::test_fits",
        "test_models.py::TestLossOfFit",
    ],
    "output modes": ["test_layer.py::TestOutputModes"],
    "mask or lengths given": [
        f"{MASKS_ON_THEIR_WAY}::test_is_an_input",
        f"{MASKS_ON_THEIR_WAY}::test_the_mask_that_is_given",
        f"{MASKS_ON_THEIR_WAY}::test_lengths_narrow",
    ],
    "mask riding through `RNN`, `Bidirectional`, `TimeDistributed`": [
        f"{MASKS_ON_THEIR_WAY}::test_rides_"
    ],
    "warning where a mask is lost": [
        "test_lost_mask.py::TestWarns",
        "test_lost_mask.py::test_the_way_out",
    ],
    "models in models": ["test_models.py::TestModelsInModels"],
    '`metrics=["accuracy"]` without padding': ["test_models.py::TestAccuracy"],
    "`SpanF1`, `TagAccuracy`, `SequenceAccuracy`": [
        "test_metrics.py::TestInModels::test_fits_in_a_graph",
        "test_metrics.py::TestInModels::test_a_saved_model",
    ],
    "`sample_weight`": ["test_loss.py::TestSampleWeight"],
    "partial labels, tag weights": [
        "test_loss.py::TestPartialLabels",
        "test_loss.py::TestTagWeights",
    ],
    "`scheme`": [
        "test_rules.py::TestWhatComesOut::test_is_legal_in_each_output_mode",
        "test_rules.py::TestWhatComesOut::test_is_legal_from_an_export",
        "test_rules.py::TestOnItsWay::test_the_scheme_comes_back_from_a_file",
    ],
    "saved and loaded as `.keras`": [
        f"{FRESH_PROCESS}::test_predictions_and_losses_are_equal_d1_d11_d13[tagger.keras]",
        f"{FRESH_PROCESS}::test_training_goes_on",
    ],
    "saved and loaded as `.h5`": [
        f"{FRESH_PROCESS}::test_predictions_and_losses_are_equal_d1_d11_d13[tagger.h5]",
        f"{FRESH_PROCESS}::test_compiled_anew_it_trains_from_where_it_was_d20[tagger.h5]",
    ],
    "export, served without the library": ["test_export.py::TestWithoutKeras"],
    "`compile(jit_compile=True)`": ["test_models.py::TestGraph::test_jit_compile"],
    "`CRFLayer(jit_compile=True)`": [
        "test_jit_compile.py::test_training_gives",
        "test_jit_compile.py::test_the_training_graph",
    ],
    "mixed precision": ["test_models.py::TestPrecision"],
    "`MirroredStrategy`": ["test_distributed.py::test_a_step_on_two_devices"],
    "functions of `tf.contrib.crf`": [
        "test_crf.py::test_the_gradient",
        "test_crf.py::test_keras_rnn",
        "test_crf.py::test_every_function_takes",
    ],
    "ragged tensors": ["test_public_reports.py::test_b12"],
    "the README": ["test_readme.py::test_each_block"],
}


def main():
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{environment()}.xml"
    status = run_tests(path)
    write_table([read(path) for path in sorted(RESULTS.glob("*.xml"), key=in_order)])
    return status


def environment():
    import keras
    import tensorflow as tf

    return f"{platform.python_version()} {tf.__version__} {keras.__version__}"


def in_order(path):
    """Files by TensorFlow, then Keras, then Python, oldest first."""
    python, tensorflow, keras = (tuple(map(int, v.split("."))) for v in path.stem.split())
    return tensorflow, keras, python


def run_tests(path):
    import pytest

    files = sorted(
        {f"tests/{test.split('::')[0]}" for tests in FEATURES.values() for test in tests}
    )
    options = [
        "-n",
        "0",
        "--durations=10",
        "-o",
        "junit_family=xunit1",
        f"--junit-xml={path}",
        f"--rootdir={ROOT}",
    ]
    return pytest.main([*files, *options], plugins=[OnlyTheirTests()])


class OnlyTheirTests:
    """Of what pytest collected, leaves the tests of some feature."""

    def pytest_collection_modifyitems(self, items):
        beginnings = tuple(f"tests/{test}" for tests in FEATURES.values() for test in tests)
        items[:] = [item for item in items if item.nodeid.startswith(beginnings)]


def read(path):
    """(versions, {id of a test: "passed", "failed" or the reason why it was skipped})."""
    return path.stem.split(), dict(map(outcome, ElementTree.parse(path).iter("testcase")))


def outcome(case):
    module, *classes = case.get("classname").removeprefix("tests.").split(".")
    test = "::".join([f"{module}.py", *classes, case.get("name")])
    skipped = case.find("skipped")
    if skipped is not None:
        return test, skipped.get("message")
    return test, "passed" if case.find("failure") is case.find("error") is None else "failed"


def cell(beginnings, outcomes):
    """One field of the table."""
    found = [what for test, what in outcomes.items() if test.startswith(tuple(beginnings))]
    passed, failed = found.count("passed"), found.count("failed")
    if failed:
        return f"{passed} of {passed + failed} tests"
    if passed < len(found):
        return "in part" if passed else "no"
    return "yes" if found else "not run"


def write_table(results):
    headings = ["", *("<br>".join(versions) for versions, _ in results)]
    rows = [headings, ["---"] * len(headings)]
    rows += [
        [feature, *(cell(beginnings, outcomes) for _, outcomes in results)]
        for feature, beginnings in FEATURES.items()
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    table = "\n".join([*lines, "", *sorted(set(notes(results))), ""])
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


def notes(results):
    """Why tests were skipped."""
    for _, outcomes in results:
        for what in set(outcomes.values()) - {"passed", "failed"}:
            yield f"- {what}."


if __name__ == "__main__":
    sys.exit(main())
