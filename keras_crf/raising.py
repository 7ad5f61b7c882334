"""Wrong values: an error at once where code runs eagerly, and when the graph runs otherwise."""

import numpy as np
import tensorflow as tf


def refuse_unless(right, message, shown, axes=("row", "step"), names=None, advice=""):
    """Raises `message` where TensorFlow can, about the first place that is not `right`.

    Eagerly the values stand in the message. A graph cannot put them there, since XLA has no op for
    strings: its message names the values, and their numbers follow it in one list.

    Args:
        right: bool tensor over rows, [B], or rows and steps, [B, T].
        message: what is wrong, with {value} where the value goes, or {name} for each of `shown`.
        shown: tensor of the shape of `right` that holds the values; or several, by name.
        axes: the words for a place along the axes.
        names: what the values stand for, if they are ids. A graph gives the ids and this list.
        advice: a sentence on what to do, behind the place.
    """
    shown = shown if isinstance(shown, dict) else {"value": shown}
    axes = axes[: right.shape.rank]
    message += " at " + ", ".join(f"{axis} {{{axis}}}" for axis in axes) + "."
    advice = f" {advice}" if advice else ""
    if tf.executing_eagerly():
        wrong = np.argwhere(~right.numpy())
        if len(wrong):
            place = tuple(wrong[0])
            values = {name: tensor.numpy()[place] for name, tensor in shown.items()}
            if names is not None:
                values = {name: names[value] for name, value in values.items()}
            message = message.format(**values, **dict(zip(axes, place, strict=True)))
            raise ValueError(message + advice)
    else:
        if names is not None:
            advice += f" Tags: {', '.join(f'{tag} {name}' for tag, name in enumerate(names))}."
        _assert(right, message, shown, axes, advice)


def earliest(broken):
    """Where the first place that is broken is, of the shape of `broken`."""
    places = _numbered(broken)
    return tf.equal(places, tf.reduce_min(tf.where(broken, places, tf.size(broken))))


def _numbered(values):
    """The number of each place of a tensor, row by row."""
    return tf.reshape(tf.range(tf.size(values)), tf.shape(values))


def _assert(right, message, shown, axes, advice):
    """Fails when the graph runs, with the message and the numbers that it names, in their order."""
    steps = tf.maximum(tf.shape(right)[-1], 1) if right.shape.rank == 2 else 1
    is_first = earliest(~right)

    def at_first(values):
        return tf.reduce_sum(tf.where(is_first, values, tf.zeros_like(values)))

    first = at_first(_numbered(right))
    numbers = {name: at_first(values) for name, values in shown.items()}
    numbers |= dict(zip(axes, (first // steps, first % steps), strict=False))
    exact = any(number.dtype.is_floating for number in numbers.values())
    dtype = tf.float64 if exact else tf.int64
    listed = tf.stack([tf.cast(number, dtype) for number in numbers.values()])
    words = message.format(**{name: f"<{name}>" for name in numbers}) + advice
    data = [f"{words} {', '.join(numbers)}:", listed]
    tf.debugging.Assert(tf.reduce_all(right), data, summarize=len(numbers))
