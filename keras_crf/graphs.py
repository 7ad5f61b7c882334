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
import threading

import tensorflow as tf

_tracing = threading.RLock()
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
    return _cached_graphs(function)


def as_graph_or_compiled(function):
    """The same for a function of `(chain, packing, *[B, T] tensors or chains)`, compiled on demand.

    Its results are [rows] or [B, T, ...]. What it takes by keyword has no axis of time.

    With `jit_compile=True`, XLA compiles this function alone, whatever graph it is called in. XLA
    compiles once for each shape. To limit the number of shapes, the number of steps is rounded up
    to the next bucket, and the added steps are cut off the results.
    """
    plain = as_graph(function)
    compiled = _cached_graphs(function, jit_compile=True)

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


def _cached_graphs(function, jit_compile=None):
    """The function, as one graph for each signature, which is traced before its first call.

    One thread traces it, and the others wait. (`tf.function` would trace what new sizes and options
    need in each thread that meets them, and would warn that it traces too often.)
    """
    graphs = {}

    @functools.wraps(function)
    def call(*arguments, **options):
        if _must_run_inline():
            return function(*arguments, **options)
        given = (arguments, tuple(sorted(options.items())))
        leaves = tf.nest.flatten(given)
        signature = _has_gradients.get(), *map(_kind, leaves)
        if signature not in graphs:
            with _tracing:
                if signature not in graphs:
                    graphs[signature] = _traced(function, given, jit_compile)
        return graphs[signature](*filter(tf.is_tensor, leaves))

    return call


def _must_run_inline():
    """Where there are no graphs, and in a graph of TensorFlow 1, which calls no others."""
    eagerly = tf.config.functions_run_eagerly() and tf.executing_eagerly()
    return eagerly or not tf.compat.v1.executing_eagerly_outside_functions()


def _traced(function, given, jit_compile):
    """The function of the tensors in `given`, as a graph that belongs to no other graph."""
    leaves = tf.nest.flatten(given)
    constants = [None if tf.is_tensor(leaf) else (leaf,) for leaf in leaves]
    structure = tf.nest.map_structure(lambda _: None, given)  # which holds no tensor

    def of_tensors(*tensors):
        remaining = iter(tensors)
        values = [constant[0] if constant else next(remaining) for constant in constants]
        arguments, options = tf.nest.pack_sequence_as(structure, values)
        return function(*arguments, **dict(options))

    kinds = [_kind(leaf) for leaf in leaves if tf.is_tensor(leaf)]
    specs = [tf.TensorSpec(shape, dtype) for dtype, shape in kinds]
    graph = tf.function(of_tensors, autograph=False, jit_compile=jit_compile)
    with tf.init_scope():
        return graph.get_concrete_function(*specs)


def _kind(leaf):
    """What the signature has for an argument: for a tensor its dtype and shape, else itself.

    Eager code calls a graph that knows no size of any axis, so that one serves all. In a graph the
    result has to be as wide as its potentials: K is kept, in scores of tags, float [K] and [K, K],
    and behind [B, T]. B is kept too, since LiteRT needs the size of what a loop collects.
    """
    if not tf.is_tensor(leaf):
        return leaf
    shape = tuple(leaf.shape)
    if tf.executing_eagerly():
        shape = (None,) * len(shape)
    elif len(shape) > 2 or not leaf.dtype.is_floating:
        shape = (*shape[:1], None, *shape[2:])[: len(shape)]
    return leaf.dtype, shape


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
