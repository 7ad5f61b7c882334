"""The public names, their docstrings, and the examples in these."""

import doctest
import importlib
import inspect
import pkgutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_crf

MODULES = [module.name for module in pkgutil.iter_modules(keras_crf.__path__)]
PUBLIC_MODULES = {"convert", "crf", "plot", "tags"}
PUBLIC_NAMES = PUBLIC_MODULES | {
    "CRFLayer",
    "CRFLoss",
    "LinearChainCRF",
    "SequenceAccuracy",
    "SpanF1",
    "TagAccuracy",
    "crf_loss",
    "distribution_of",
    "export_tagger",
}
CONTRIB_NAMES = {
    "CrfDecodeBackwardRnnCell",
    "CrfDecodeForwardRnnCell",
    "CrfForwardRnnCell",
    "crf_binary_score",
    "crf_constrained_decode",
    "crf_decode",
    "crf_decode_backward",
    "crf_decode_forward",
    "crf_filtered_inputs",
    "crf_forward",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_multitag_sequence_score",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
}
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public_names(module):
    return {name for name in vars(module) if not name.startswith("_")}


def defined_in(module):
    """The public functions and classes that the module defines, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }


def examples(module):
    """A doctest for each docstring, with the names that a reader has imported."""
    names = {"np": np, "tf": tf, "keras": keras, **vars(keras_crf), **vars(keras_crf.crf)}
    return doctest.DocTestFinder().find(module, globs=names | vars(module))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name, tmp_path):
    module = importlib.import_module(f"keras_crf.{name}")
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    report = []
    for example in examples(module):
        example.globs["directory"] = str(tmp_path)
        runner.run(example, out=report.append)
    assert not report, "".join(report)


def test_the_package_holds_its_public_names_and_its_modules_only():
    assert public_names(keras_crf) - set(MODULES) == PUBLIC_NAMES - PUBLIC_MODULES
    assert public_names(keras_crf) >= PUBLIC_NAMES


def test_crf_holds_the_names_of_contrib_and_tfa():
    assert {name for name in public_names(keras_crf.crf) if "rf_" in name or "Rnn" in name} == (
        CONTRIB_NAMES - {"viterbi_decode"}
    )
    assert callable(keras_crf.crf.viterbi_decode)


def own_methods(value):
    """The public methods and properties that a class does not take over from a base."""
    inherited = {name for base in value.__mro__[1:] for name in vars(base)}
    return {
        name: method
        for name, method in vars(value).items()
        if not name.startswith("_") and name not in inherited
        if inspect.isfunction(method) or isinstance(method, property)
    }


@pytest.mark.parametrize("name", MODULES)
def test_whatever_is_public_has_a_docstring(name):
    module = importlib.import_module(f"keras_crf.{name}")
    assert module.__doc__
    for public, value in defined_in(module).items():
        assert value.__doc__, public
        for method, function in own_methods(value).items() if inspect.isclass(value) else ():
            assert function.__doc__, f"{public}.{method}"


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES - PUBLIC_MODULES))
def test_each_public_name_is_shown_in_an_example(name):
    value = getattr(keras_crf, name)
    assert ">>> " in value.__doc__, name


def public_functions():
    """The functions and methods that users call, by name."""
    values = {name: getattr(keras_crf, name) for name in PUBLIC_NAMES - PUBLIC_MODULES}
    for module in PUBLIC_MODULES:
        values |= vars(getattr(keras_crf, module))
    for name, value in values.items():
        members = inspect.getmembers(value, inspect.isfunction) if inspect.isclass(value) else []
        functions = {name: value} | {f"{name}.{method}": function for method, function in members}
        for public, function in functions.items():
            private = public.split(".")[-1].startswith("_") and not public.endswith(".__init__")
            if inspect.isfunction(function) and is_ours(function) and not private:
                yield public, inspect.unwrap(function)


def is_ours(function):
    inner = ("keras_crf.scan", "keras_crf.tensor_like")
    module = inspect.unwrap(function).__module__
    return module.startswith("keras_crf.") and module not in inner


@pytest.mark.parametrize("name", sorted(dict(public_functions())))
def test_each_public_function_says_its_types(name):
    signature = inspect.signature(dict(public_functions())[name])
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    assert all(p.annotation is not p.empty for p in parameters), signature
    assert signature.return_annotation is not signature.empty, signature
