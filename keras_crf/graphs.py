"""Functions of tensors as graphs that are traced once in the life of a process.

TensorFlow traces a function into each graph that calls it, and it keeps the graph of each
`tf.custom_gradient` until the process ends. A model that is gone would leave its graph behind. So
what a distribution computes is traced into a graph of its own, once for each signature. Everything
else calls that graph: eager code, and the graphs of models, in which the call is one node that
TensorFlow inlines when the graph runs. The signature leaves the time axis open, and the batch axis
where it can.
"""

import contextlib
import contextvars
import functools

import tensorflow as tf

_has_gradients = contextvars.ContextVar("has_gradients", default=True)


@contextlib.contextmanager
def without_gradients():
    """Graphs that are made in this context have no `custom_gradient`: it cannot be exported."""
    token = _has_gradients.set(False)
    try:
        yield
    finally:
        _has_gradients.reset(token)


def custom_gradient(function):
    """`tf.custom_gradient`, but for the graphs that are made `without_gradients`.

    Within `as_graph` alone: TensorFlow keeps the graph for the life of the process.
    """
    differentiable = tf.custom_gradient(function)

    @functools.wraps(function)
    def call(*tensors):
        return differentiable(*tensors) if _has_gradients.get() else function(*tensors)[0]

    return call


def as_graph(function):
    """Makes a function of nested tensors one that is traced once for each signature.

    Arguments that are no tensors are part of the signature: they must be hashable.
    """
    return _traced_once(function, jit_compile=None)


def as_graph_or_compiled(function):
    """The same for a function of `(chain, packing, *[B, T] tensors or chains)`, compiled on demand.

    Its results are [rows] or [B, T, ...]. What it takes by keyword has no axis of time.

    With `jit_compile=True`, XLA compiles this function alone, whatever graph it is called in. XLA
    compiles once for each shape. To limit the number of shapes, the number of steps is rounded up
    to the next bucket, and the added steps are cut off the results.
    """
    plain = as_graph(function)
    compiled = _traced_once(function, jit_compile=True)

    @functools.wraps(function)
    def call(chain, packing, *others, jit_compile=False, **options):
        if not jit_compile:
            results = plain(chain, packing, *others, **options)
            return with_axes(results, packing.mask.shape)
        steps = packing.mask.shape[1] or tf.shape(packing.mask)[1]
        size = bucket(steps)
        chain = chain.padded(size)
        others = [
            pad(other, size) if tf.is_tensor(other) else other.padded(size) for other in others
        ]
        results = compiled(chain, packing.padded(size), *others, **options)
        results = tf.nest.map_structure(
            lambda result: result if result.shape.rank == 1 else result[:, :steps], results
        )
        return with_axes(results, packing.mask.shape)

    return call


def _traced_once(function, jit_compile):
    @functools.wraps(function)
    def call(*arguments, **options):
        if not tf.compat.v1.executing_eagerly_outside_functions():
            return function(*arguments, **options)  # a graph of TensorFlow 1 calls no other graph
        given = (arguments, tuple(sorted(options.items())))
        signature = tf.nest.map_structure(_open, given)
        tensors = [leaf for leaf in tf.nest.flatten(given) if tf.is_tensor(leaf)]
        return _graph(function, signature, jit_compile, _has_gradients.get())(*tensors)

    return call


@functools.cache
def _graph(function, signature, jit_compile, has_gradients):
    """The function of the tensors of a signature, as a graph that belongs to no other graph."""
    specs = [leaf for leaf in tf.nest.flatten(signature) if _is_spec(leaf)]

    def of_tensors(*tensors):
        remaining = iter(tensors)
        arguments, options = tf.nest.map_structure(
            lambda leaf: next(remaining) if _is_spec(leaf) else leaf, signature
        )
        return function(*arguments, **dict(options))

    with tf.init_scope():
        graph = tf.function(of_tensors, autograph=False, jit_compile=jit_compile)
        return graph.get_concrete_function(*specs)


def _is_spec(leaf):
    return isinstance(leaf, tf.TensorSpec)


def _open(leaf):
    """What the signature has for an argument: for a tensor its `tf.TensorSpec`, without B and T.

    Scores of tags, float [K] and [K, K], keep their shape, and others their axes behind [B, T].
    A graph in which B is known keeps it: LiteRT needs the size of what a loop collects.
    """
    if not tf.is_tensor(leaf):
        return leaf
    shape = leaf.shape
    if shape.rank > 2 or (shape.rank and not leaf.dtype.is_floating):
        batch = None if tf.executing_eagerly() else shape[0]
        shape = [batch, None, *shape[2:]][: shape.rank]
    return tf.TensorSpec(shape, leaf.dtype)


def with_axes(results, axes):
    """The results, [rows] or [B, T, ...], with their axes [B, T] as far as these are known."""
    for result in tf.nest.flatten(results):
        if tf.is_tensor(result) and result.shape.rank > 1:
            result.set_shape(axes.concatenate(result.shape[2:]))
    return results


def bucket(steps):
    """The next of 8, 12, 16, 24, 32, 48, ... : at most half of the steps are added beyond 8."""
    sizes = [8 * 2**power * part // 2 for power in range(24) for part in (2, 3)]
    if isinstance(steps, int):
        return next(size for size in sizes if size >= steps)
    return tf.reduce_min(tf.where(tf.constant(sizes) >= steps, sizes, sizes[-1]))


def pad(values, steps):
    """Values [B, T, ...] with zeros added at the end, to [B, steps, ...]."""
    added = steps - tf.shape(values)[1]
    padded = tf.pad(values, [[0, 0], [0, added]] + [[0, 0]] * (values.shape.rank - 2))
    padded.set_shape([values.shape[0], tf.get_static_value(steps), *values.shape[2:]])
    return padded
