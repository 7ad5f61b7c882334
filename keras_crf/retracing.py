"""Functions that Keras has compiled for models, made anew after a change in one of their layers."""

import gc

import keras


def trace_again(layer):
    """Lets all models that the layer is in trace their functions again before they next run.

    `fit`, `evaluate` and `predict` keep what a layer did when they were traced. A layer does not
    know its models, and so they are looked for among the objects that are alive. A layer without
    weights has not been traced.
    """
    if not layer.built:
        return
    weights = set(map(id, layer.weights))
    for value in gc.get_objects():
        if issubclass(type(value), keras.Model):  # isinstance would run code of other classes
            _trace_again(value, weights)


def _trace_again(model, weights):
    """Makes those functions of a model anew that it has, if it has any of these weights."""
    made = [
        name
        for name in ("train", "test", "predict")
        if getattr(model, f"{name}_function", None) is not None
    ]
    if made and not weights.isdisjoint(map(id, model.weights)):
        for name in made:
            getattr(model, f"make_{name}_function")(force=True)
