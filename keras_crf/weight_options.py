"""The initializers, regularizers and constraints of the weights of a `CRFLayer`."""

import keras

GROUPS = ("kernel", "bias", "transitions", "boundary")
KINDS = {
    "initializer": keras.initializers,
    "regularizer": keras.regularizers,
    "constraint": keras.constraints,
}


def set_on(layer, arguments):
    """Sets `kernel_initializer` and the others on a layer, from its arguments by name."""
    for name, of_kind in _each():
        setattr(layer, name, of_kind.get(arguments[name]))


def config(layer):
    """Those of a layer by the names of its arguments, as `from_config` takes them."""
    return {name: of_kind.serialize(getattr(layer, name)) for name, of_kind in _each()}


def _each():
    """Pairs of the name of an argument and the module of Keras that reads and writes it."""
    return [(f"{group}_{kind}", KINDS[kind]) for group in GROUPS for kind in KINDS]
