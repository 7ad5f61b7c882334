"""The one loop: an RNN cell, driven over time by `tf.while_loop`."""

import tensorflow as tf

# A turn of tf.while_loop costs more than a step of a small chain, so each turn takes several.
STEPS_PER_TURN = 8


def scan(cell, inputs, state, output_dtype, steps_per_turn=STEPS_PER_TURN, output_shape=None):
    """Drives the RNN cell `cell(inputs_t, state, place) -> (output_t, state)` from left to right.

    Args:
        cell: the function of one step; inputs_t is a list of the inputs of the step, and place
            says which of the steps of a turn this is.
        inputs: list of tensors [T, ...].
        state: tensor, or tuple of tensors, that goes into the first step.
        output_dtype: the dtype of the cell's output, or a tuple of them.
        steps_per_turn: how many steps a turn of the loop takes. What T lacks to a multiple of it
            is made up with steps of zeros.
        output_shape: the shape of the cell's output, where a converter cannot find it by itself.

    Returns:
        The outputs [T, ...], and the state after the last step.
    """
    steps = tf.shape(inputs[0])[0]
    turns = tf.maximum((steps + steps_per_turn - 1) // steps_per_turn, 1)
    blocks = [_in_turns(tensor, turns, steps_per_turn) for tensor in inputs]

    def turn(index, state, outputs):
        steps_now = zip(
            *(tf.unstack(block[index], steps_per_turn) for block in blocks), strict=True
        )
        outputs_now = []
        for place, inputs_now in enumerate(steps_now):
            output, state = cell(inputs_now, state, place)
            outputs_now.append(output)
        outputs = tf.nest.map_structure(
            lambda array, *now: array.write(index, tf.stack(now)), outputs, *outputs_now
        )
        return index + 1, state, outputs

    block = None if output_shape is None else [steps_per_turn, *output_shape]
    outputs = tf.nest.map_structure(
        lambda dtype: tf.TensorArray(dtype, size=turns, element_shape=block), output_dtype
    )
    _, state, outputs = tf.while_loop(
        lambda index, *_: index < turns, turn, (0, state, outputs), maximum_iterations=turns
    )
    return tf.nest.map_structure(lambda array: _steps_of(array.stack())[:steps], outputs), state


def _steps_of(blocks):
    """[turns, steps of a turn, ...] -> [turns * steps of a turn, ...]."""
    return tf.reshape(blocks, tf.concat([[-1], tf.shape(blocks)[2:]], 0))


def _in_turns(tensor, turns, steps_per_turn):
    """[T, ...] -> [turns, steps_per_turn, ...]."""
    added = turns * steps_per_turn - tf.shape(tensor)[0]
    padded = tf.pad(tensor, [[0, added]] + [[0, 0]] * (tensor.shape.rank - 1))
    blocks = tf.reshape(padded, tf.concat([[turns, steps_per_turn], tf.shape(padded)[1:]], 0))
    blocks.set_shape([None, steps_per_turn, *tensor.shape[1:]])
    return blocks


def time_first(values):
    """[B, T, ...] -> [T, B, ...], or back."""
    return tf.transpose(values, [1, 0, *range(2, values.shape.rank)])
