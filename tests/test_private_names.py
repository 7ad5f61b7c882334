"""The library uses no private names of Keras or TensorFlow, but for a few, listed with reasons."""

import ast
import re

import toys

# The name, the files that may say it, and why no public name will do.
EXCEPTIONS = {
    "_keras_mask": (
        ["carrying.py"],
        "Keras lets masks ride on tensors and has no public function to read or set one; the layer "
        "must see it outside `call` too, and the metrics of the output's steps need it.",
    ),
    "_keras_history": (
        ["lost_mask.py"],
        "The warning names the layer that lost a mask; what made a symbolic tensor is public "
        "only for models, and there is no model yet. Without the name there is no warning.",
    ),
    "_noinline": (
        ["branches.py"],
        "An attribute of functions in a graph, which a public argument of `tf.function` takes; "
        "without it a graph goes through each op of branches that are hardly ever taken.",
    ),
    "_inbound_nodes": (
        ["lost_mask.py"],
        "The same for what went into that layer: `layer.input` fails for layers called twice.",
    ),
}

# Attributes of our own that tensors carry; Keras and TensorFlow have none of these names.
OURS_ON_TENSORS = {"_keras_crf", "_keras_crf_decoded", "_keras_crf_under_rules", "_keras_crf_best"}
DOCUMENTED = {"_replace", "_fields", "_asdict"}  # of namedtuples, documented in Python

SOURCES = sorted((toys.ROOT / "keras_crf").glob("*.py"))
PRIVATE = re.compile(r"_[A-Za-z]\w*")


def defined_names(tree):
    """What a module names itself: functions, classes, fields, and attributes of `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr if ast.unparse(node.value) == "self" else None


def names_used(tree):
    """Attributes, and strings that are a name, as getattr and setattr take them."""
    in_f_strings = [
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and node not in in_f_strings:
            yield str(node.value)


def private_names_of_others(sources):
    """Each private name that the sources use and do not define, with the files that use it."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    own = {name for tree in trees.values() for name in defined_names(tree)}
    found = {}
    for file, tree in trees.items():
        for name in sorted(set(names_used(tree))):
            if PRIVATE.fullmatch(name) and name not in own | OURS_ON_TENSORS | DOCUMENTED:
                found.setdefault(name, []).append(file)
    return found


def test_private_names_are_those_of_the_table_and_each_has_a_reason_d16():
    sources = {path.name: path.read_text(encoding="utf-8") for path in SOURCES}
    assert private_names_of_others(sources) == {name: at for name, (at, _) in EXCEPTIONS.items()}
    assert all(reason for _, reason in EXCEPTIONS.values())


def test_private_modules_are_not_reached_through_public_ones_d16():
    for path in SOURCES:
        attributes = [
            n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
        ]
        reached = [ast.unparse(node) for node in attributes]
        assert not [
            name for name in reached if re.match(r"keras\.src|(tf|tensorflow)\.python", name)
        ]


def test_a_private_name_is_found_as_an_attribute_and_as_a_string():
    used = {"a.py": "self._mine = x._keras_mask\ngetattr(y, '_flag')", "b.py": "other._mine"}
    assert private_names_of_others(used) == {"_keras_mask": ["a.py"], "_flag": ["a.py"]}
