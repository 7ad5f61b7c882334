"""Where a mask is lost among the operations of a TensorFlow graph, as a subclassed model makes it.

There the layers of Keras leave no history. What they do leave are the operations of the graph, and
the masks that ride on its tensors.
"""

from keras_crf.carrying import riding_mask

# Operations whose results hold no values of their inputs.
WITHOUT_VALUES = {"Const", "ReadVariableOp", "Shape", "Size", "Rank", "TensorListReserve"}


def loser_in_graph(features):
    """(the operation that takes a tensor with a mask and hands none on, that mask), or None.

    Only features of which each part comes from tensors with masks count: a mask need not be that
    of the features' steps where a part has none, as in attention whose query has no mask. The same
    goes for features that come from tensors without steps, such as the last state of an RNN.
    """
    waiting, seen, lost = [features], set(), None
    while waiting:
        operation = waiting.pop(0).op
        if operation in seen:
            continue
        seen.add(operation)
        sources = [tensor for tensor in operation.inputs if _has_steps(tensor, operation)]
        masks = [riding_mask(source) for source in sources]
        if not sources and _reads_data(operation):
            return None
        for source, mask in zip(sources, masks, strict=True):
            if mask is None:
                waiting.append(source)
            elif lost is None:
                lost = operation, mask
    return lost


def _has_steps(tensor, reader):
    """Whether a tensor that an operation reads can be [B, T, ...]."""
    if tensor.dtype.name == "resource":
        return False
    if tensor.dtype.name == "variant":  # a list of steps, in a loop
        return True
    return tensor.shape.rank is None or tensor.shape.rank > 2 or _is_flattened(tensor, reader)


def _is_flattened(tensor, reader):
    """Whether a tensor is [B * T, ...] in the product of a tensor [B, T, ...] and a kernel."""
    types = (reader.type, tensor.op.type)
    return types in (("Reshape", "MatMul"), ("MatMul", "Reshape"))


def _reads_data(operation):
    """Whether the result of an operation is made of what the model is called on."""
    waiting, seen = [operation], set()
    while waiting:
        operation = waiting.pop()
        if operation in seen or operation.type in WITHOUT_VALUES or "Random" in operation.type:
            continue
        seen.add(operation)
        sources = [x.op for x in operation.inputs if x.dtype.name != "resource"]
        if not sources and operation.outputs[0].dtype.name != "resource":
            return True
        waiting += sources
    return False
