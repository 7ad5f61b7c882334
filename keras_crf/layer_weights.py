"""The weights of a `CRFLayer`: their options, and the scores that `lr_multiplier` makes of them.

    transitions = lr_multiplier * the variable, and so are start and end

so that a step of size s on a variable moves the score by lr_multiplier * s.
"""

import keras
import numpy as np
import tensorflow as tf

MULTIPLIER = "lr_multiplier"  # the key in files, beside the weights; files of version 0.1 lack it
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


def add(layer, name, shape, group):
    """Adds a weight with the initializer, regularizer and constraint of its group.

    Those that go into the recurrences keep their full precision under a mixed policy.
    """
    initializer = getattr(layer, f"{group}_initializer")
    scale = layer.lr_multiplier if group in ("transitions", "boundary") else 1
    return layer.add_weight(
        name=name,
        shape=shape,
        initializer=lambda shape, dtype: initializer(shape, dtype=dtype) / scale,
        regularizer=getattr(layer, f"{group}_regularizer"),
        constraint=getattr(layer, f"{group}_constraint"),
        autocast=group in ("kernel", "bias"),
    )


def scores(layer):
    """Transitions, start and end as scores; None for the boundary of a layer without."""
    boundary = (layer.start, layer.end) if layer.use_boundary else (None, None)
    return [_multiplied(weight, layer.lr_multiplier) for weight in (layer.transitions, *boundary)]


def _multiplied(weight, multiplier):
    """multiplier * weight, with the gradient of a factor of 1.

    Optimizers that scale the gradient away would make the same step for any other gradient.
    """
    if weight is None or multiplier == 1:
        return weight
    weight = tf.convert_to_tensor(weight)
    return weight + tf.stop_gradient((multiplier - 1) * weight)


def save_multiplier(layer, store):
    """Writes the `lr_multiplier` that the variables were divided by into a store of Keras."""
    store[MULTIPLIER] = np.asarray(layer.lr_multiplier, "float64")


def loaded(layer, store):
    """The weights in a store of Keras, and the `lr_multiplier` that they were divided by."""
    weights = dict(store)
    return weights, float(np.asarray(weights.pop(MULTIPLIER, layer.lr_multiplier)))


def rescale(layer, multiplier):
    """Makes variables that were divided by `multiplier` hold the same scores in this layer."""
    if multiplier == layer.lr_multiplier:
        return
    boundary = (layer.start, layer.end) if layer.use_boundary else ()
    for weight in (layer.transitions, *boundary):
        weight.assign(weight * (multiplier / layer.lr_multiplier))
