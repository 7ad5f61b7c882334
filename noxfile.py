"""The tests with the oldest and the newest Keras on the oldest, a middle and the newest TensorFlow.

    nox                                     # all, for the Pythons that are installed
    nox -s "tests(python='3.11', tensorflow='2.16', keras='oldest')" -- tests/test_layer.py
    nox -s compatibility                    # writes the table of docs/compatibility.md

A Python that is not installed is skipped, by name. The newest Keras is what pip finds for this
TensorFlow and Python: of Python 3.10, for one, the last is Keras 3.12.
"""

import nox

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False

# TensorFlow: the Pythons that it has wheels for, and the oldest Keras that it and keras_crf take.
VERSIONS = {
    "2.16": (["3.10", "3.11", "3.12"], "3.10.0"),
    "2.18": (["3.10", "3.11", "3.12"], "3.10.0"),
    "2.21": (["3.10", "3.11", "3.12", "3.13"], "3.12.0"),
}
ALL = [
    nox.param(python, tensorflow, keras)
    for tensorflow, (pythons, _) in VERSIONS.items()
    for python in pythons
    for keras in ("oldest", "newest")
]


def install(session, tensorflow, keras):
    """This library, with what its tests need, and these versions of what it stands on."""
    oldest = VERSIONS[tensorflow][1]
    wanted = f"keras=={oldest}" if keras == "oldest" else "keras==3.*"
    session.install("--editable", ".[test]", f"tensorflow=={tensorflow}.*", wanted)


@nox.session
@nox.parametrize("python, tensorflow, keras", ALL)
def tests(session, tensorflow, keras):
    """The quick tests, or what stands behind `--`."""
    install(session, tensorflow, keras)
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
@nox.parametrize("python, tensorflow, keras", ALL)
def compatibility(session, tensorflow, keras):
    """The tests of each feature, and the table that says which passed with which versions."""
    install(session, tensorflow, keras)
    # A feature that fails stands in the table as such, and the session goes on.
    session.run("python", "tests/compatibility.py", success_codes=[0, 1])
