"""Wrong values: an error at once where code runs eagerly, and when the graph runs otherwise."""

import string

import numpy as np
import tensorflow as tf


def refuse_unless(right, message, shown, axes=("row", "step"), names=None):
    """Raises `message` where TensorFlow can, about the first place that is not `right`.

    Args:
        right: bool tensor over rows, [B], or rows and steps, [B, T].
        message: what is wrong, with {value} where the value goes, or {name} for each of `shown`.
        shown: tensor of the shape of `right` that holds the values; or several, by name.
        axes: the words for a place along the axes.
        names: what the values stand for, if they are ids. (Under XLA there are no strings, so that
            a graph gives the ids, and the names of all beside.)
    """
    shown = shown if isinstance(shown, dict) else {"value": shown}
    axes = axes[: right.shape.rank]
    message += " at " + ", ".join(f"{axis} {{{axis}}}" for axis in axes) + "."
    if tf.executing_eagerly():
        wrong = np.argwhere(~right.numpy())
        if len(wrong):
            place = tuple(wrong[0])
            values = {name: tensor.numpy()[place] for name, tensor in shown.items()}
            if names is not None:
                values = {name: names[value] for name, value in values.items()}
            raise ValueError(message.format(**values, **dict(zip(axes, place, strict=True))))
    else:
        data = _assertion_data(right, message, shown, axes)
        if names is not None:
            data.append("Tags: " + ", ".join(f"{tag} {name}" for tag, name in enumerate(names)))
        tf.debugging.Assert(tf.reduce_all(right), data)


def earliest(broken):
    """Where the first place that is broken is, of the shape of `broken`."""
    places = _numbered(broken)
    return tf.equal(places, tf.reduce_min(tf.where(broken, places, tf.size(broken))))


def _numbered(values):
    """The number of each place of a tensor, row by row."""
    return tf.reshape(tf.range(tf.size(values)), tf.shape(values))


def _assertion_data(right, message, shown, axes):
    """The words of the message as strings, and between them the tensors they speak of."""
    steps = tf.maximum(tf.shape(right)[-1], 1) if right.shape.rank == 2 else 1
    is_first = earliest(~right)

    def at_first(values):
        return tf.reduce_sum(tf.where(is_first, values, tf.zeros_like(values)))

    first = at_first(_numbered(right))
    tensors = dict(zip(axes, (first // steps, first % steps), strict=False))
    tensors |= {name: at_first(values) for name, values in shown.items()}
    parsed = string.Formatter().parse(message)
    return [part for words, name, *_ in parsed for part in (words, tensors.get(name, ""))]
