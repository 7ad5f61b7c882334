"""The inputs of an export's signatures: which there are, and the shapes a request must bring."""

import re
import warnings

import tensorflow as tf


def specs_of(model, input_signature):
    """The model's inputs as a dict of name to `tf.TensorSpec`."""
    specs = _given_or_known(model, input_signature)
    wrong = [name for name in specs if not re.fullmatch(r"[A-Za-z0-9.][\w.\-]*", name, re.ASCII)]
    if wrong or "self" in specs:
        raise ValueError(
            f"no signature can have an input of the name {(wrong or ['self'])[0]!r}: letters, "
            "digits and _ . - can stand in it. Name it anew, keras.Input(..., name=...)."
        )
    lengths = specs.get("lengths")
    if lengths is not None and not (lengths.dtype.is_integer and lengths.shape.rank == 1):
        raise ValueError(
            "an input of the name 'lengths' must be whole numbers [batch], how long the rows are; "
            f"got {lengths.dtype.name} {lengths.shape}. Give it another name."
        )
    return specs


def _given_or_known(model, input_signature):
    if input_signature is not None:
        return {name: _named(spec, name) for name, spec in dict(input_signature).items()}
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"The inputs of {type(model).__name__} {model.name!r} are not known. Pass "
            "input_signature={name: tf.TensorSpec([None, None], dtype), ...}."
        )
    return {tensor.name: _named(tensor, tensor.name) for tensor in model.inputs}


def _named(spec, name):
    return tf.TensorSpec(spec.shape, spec.dtype, name=name)


def warn_of_free_axes(specs):
    """Says of which inputs a server that merges requests spoils what lies within the lengths."""
    for name, spec in specs.items():
        free = [axis for axis in range(2, len(spec.shape)) if spec.shape[axis] is None]
        if free:
            warnings.warn(
                f"Axis {free[0]} of the input {name!r} {tuple(spec.shape)} has no fixed size. A "
                "server that merges requests of different sizes fills it up with the tensor's "
                "first element, and the model cannot know what was filled up: fix the size, or "
                "do not let the server merge requests.",
                stacklevel=3,
            )


def checked(inputs, specs):
    """The inputs of a request, each of its rank and sizes, with the same rows and steps in all.

    TensorFlow runs a loaded graph on tensors of any shape: nothing holds them to the signature, and
    an axis of 1 is broadcast. So the graph itself compares the shapes, and raises INVALID_ARGUMENT
    before anything else in it runs.

    Args:
        inputs: dict of input name to tensor.
        specs: dict of input name to `tf.TensorSpec`. An axis 0 that is free is that of rows, a free
            axis 1 that of time; the first input with both says how many there are.
    """
    with_time = [name for name, spec in specs.items() if spec.shape.as_list()[1:2] == [None]]
    first = (with_time or [name for name, spec in specs.items() if spec.shape.rank])[0]
    checks = []
    # Shapes lie on the host. Compared there, they cost no transfer where the model is on a GPU.
    with tf.device("CPU:0"):
        shapes = {name: tf.shape(tensor) for name, tensor in inputs.items()}
        rows_and_steps = _filled_up(shapes[first], -2, 2)
        for name in sorted(inputs, key=lambda name: name != first):
            right = _is_right(shapes[name], specs[name].shape.as_list(), rows_and_steps)
            message = [f"{name} must have the shape {_in_words(specs[name])}; got the shape"]
            message += [shapes[name]]
            if name != first:
                message += [f"where {first} has the shape", shapes[first]]
            with tf.control_dependencies(checks[:1]):  # the others are compared with the first
                checks.append(tf.debugging.Assert(right, message, summarize=9))
    with tf.control_dependencies(checks):
        return {name: tf.identity(tensor) for name, tensor in inputs.items()}


def _is_right(shape, sizes, rows_and_steps):
    """Whether a shape has this rank, these sizes, and where they are None the rows and steps."""
    count = len(sizes) + 1
    came = _filled_up(shape, -1, count)  # -1, the size of no axis, behind the last one
    # What each is to be: its size; or the rows and steps; or, of a further axis, what it is.
    choices = tf.concat([[size or 0 for size in sizes], [-1], rows_and_steps, came], axis=0)
    free = [count + axis + (0 if axis < 2 else 2) for axis in range(count)]
    places = [free[i] if size is None else i for i, size in enumerate([*sizes, -1])]
    return tf.reduce_all(tf.equal(came, tf.gather(choices, places)))


def _filled_up(shape, filler, count):
    """The shape as a vector of so many numbers: cut, or filled up."""
    return tf.concat([shape, [filler] * count], axis=0)[:count]


def _in_words(spec):
    axes = spec.shape.as_list()
    for axis, word in zip(range(len(axes)), ("batch", "time"), strict=False):
        axes[axis] = word if axes[axis] is None else axes[axis]
    return f"[{', '.join(map(str, axes))}]"
