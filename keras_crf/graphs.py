"""How the functions of a distribution run: as part of a graph, as a cached graph, or under XLA."""

import functools

import tensorflow as tf

from keras_crf.packing import pad


def as_graph(function):
    """Makes a function of tensors one that, called eagerly, runs as a cached graph."""
    cached = _by_rank(function)

    @functools.wraps(function)
    def call(*arguments):
        return cached(*arguments) if tf.executing_eagerly() else function(*arguments)

    return call


def _by_rank(function, **options):
    """`function` as a tf.function for each set of ranks it is called with.

    One alone would, rather than trace again, forget the ranks that it has seen to differ.
    """

    @functools.cache
    def of_ranks(ranks):
        return tf.function(function, autograph=False, reduce_retracing=True, **options)

    def call(*arguments):
        tensors = (value for value in tf.nest.flatten(arguments) if tf.is_tensor(value))
        return of_ranks(tuple(tensor.shape.rank for tensor in tensors))(*arguments)

    return call


def as_graph_or_compiled(function):
    """The same for a function of `(chain, packing, *[B, T] tensors)`, which can also be compiled.

    With `jit_compile=True`, XLA compiles this function alone, whatever graph it is called in. XLA
    compiles once for each shape: so that few are met, steps are added up to the next bucket, and
    taken off the results again.
    """
    plain = as_graph(function)
    compiled = _by_rank(function, jit_compile=True)

    @functools.wraps(function)
    def call(chain, packing, *others, jit_compile=False):
        if not jit_compile:
            return plain(chain, packing, *others)
        steps = packing.mask.shape[1] or tf.shape(packing.mask)[1]
        size = bucket(steps)
        chain = chain.padded(size)
        results = compiled(chain, packing.padded(size), *(pad(other, size) for other in others))
        return tf.nest.map_structure(
            lambda result: result if result.shape.rank == 1 else result[:, :steps], results
        )

    return call


def bucket(steps):
    """The next of 8, 12, 16, 24, 32, 48, ... : few sizes, none much larger than what it holds."""
    sizes = [8 * 2**power * part // 2 for power in range(24) for part in (2, 3)]
    if isinstance(steps, int):
        return next(size for size in sizes if size >= steps)
    return tf.reduce_min(tf.where(tf.constant(sizes) >= steps, sizes, sizes[-1]))
