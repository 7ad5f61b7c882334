"""How the functions of a distribution run: as part of a graph, as a cached graph, or under XLA."""

import functools

import tensorflow as tf

from keras_crf.packing import pad


def as_graph(function):
    """Makes a function of tensors one that, called eagerly, runs as a cached graph."""
    cached = _graph_for_each_rank(function)

    @functools.wraps(function)
    def call(*arguments, **options):
        run = cached if tf.executing_eagerly() else function
        return run(*arguments, **options)

    return call


def as_graph_or_compiled(function):
    """The same for a function of `(chain, packing, *[B, T] tensors or chains)`, compiled on demand.

    Its results are [rows] or [B, T, ...]. What it takes by keyword has no axis of time.

    With `jit_compile=True`, XLA compiles this function alone, whatever graph it is called in. XLA
    compiles once for each shape: so that few are met, steps are added up to the next bucket, and
    taken off the results again.
    """
    plain = as_graph(function)
    compiled = _graph_for_each_rank(function, jit_compile=True)

    @functools.wraps(function)
    def call(chain, packing, *others, jit_compile=False, **options):
        if not jit_compile:
            return plain(chain, packing, *others, **options)
        steps = packing.mask.shape[1] or tf.shape(packing.mask)[1]
        size = bucket(steps)
        chain = chain.padded(size)
        others = [
            pad(other, size) if tf.is_tensor(other) else other.padded(size) for other in others
        ]
        results = compiled(chain, packing.padded(size), *others, **options)
        return tf.nest.map_structure(
            lambda result: result if result.shape.rank == 1 else result[:, :steps], results
        )

    return call


def _graph_for_each_rank(function, jit_compile=None):
    """A cached graph for each set of ranks: one for all would come to know no rank at all."""

    @functools.cache
    def graph(_):
        return tf.function(
            function, autograph=False, reduce_retracing=True, jit_compile=jit_compile
        )

    def call(*arguments, **options):
        tensors = filter(tf.is_tensor, tf.nest.flatten(arguments))
        return graph(tuple(tensor.shape.rank for tensor in tensors))(*arguments, **options)

    return call


def bucket(steps):
    """The next of 8, 12, 16, 24, 32, 48, ... : few sizes, none much larger than what it holds."""
    sizes = [8 * 2**power * part // 2 for power in range(24) for part in (2, 3)]
    if isinstance(steps, int):
        return next(size for size in sizes if size >= steps)
    return tf.reduce_min(tf.where(tf.constant(sizes) >= steps, sizes, sizes[-1]))
