"""One body, run in each of the ways TensorFlow can run it."""

import functools
import operator

import numpy as np
import pytest
import tensorflow as tf

from keras_crf import LinearChainCRF

REGIMES = ("eager", "graph", "xla")
DTYPES = ("float32", "float64")

every_way = pytest.mark.parametrize(  # in graphs and under XLA each traces for seconds
    ("regime", "dtype"),
    [
        ("eager", "float32"),
        ("eager", "float64"),
        ("graph", "float64"),
        ("xla", "float32"),
        pytest.param("graph", "float32", marks=pytest.mark.slow),
        pytest.param("xla", "float64", marks=pytest.mark.slow),
    ],
)

in_a_graph = pytest.mark.parametrize(  # for bodies that take half a minute to trace
    "regime",
    ["graph", *(pytest.param(other, marks=pytest.mark.slow) for other in ("eager", "xla"))],
)


def run(regime, function, *arrays):
    """`function(*tensors)`, its result in NumPy.

    "graph" is a `tf.function` that knows no axis of its arguments; "xla" compiles for the shapes it
    gets. Each is traced once for each set of dtypes and ranks, so name `function` at module level.
    """
    tensors = [tf.convert_to_tensor(array) for array in arrays]
    specs = tuple(tf.TensorSpec([None] * len(tensor.shape), tensor.dtype) for tensor in tensors)
    compiled = function if regime == "eager" else _compiled(regime, function, specs)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), compiled(*tensors))


@functools.cache
def _compiled(regime, function, specs):
    if regime == "xla":
        return tf.function(function, jit_compile=True, autograph=False)
    return tf.function(function, input_signature=specs, autograph=False)


def answers(potentials, transitions, start, end, mask, tags, weights):
    """All that a distribution says, and the gradients of its sums weighted by row, as a dict."""
    scores = [potentials, transitions, start, end]

    def distribution():
        return LinearChainCRF(potentials, transitions, start=start, end=end, mask=mask)

    def gradient(question):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            answer = question(distribution())
        return tape.gradient(answer, scores, weights)

    crf = distribution()
    best = crf.argmax()
    return {
        "score": crf.score(tags),
        "log_partition": crf.log_partition(),
        "log_prob": crf.log_prob(tags),
        "marginals": crf.marginals(),
        "edge_marginals": crf.edge_marginals(),
        "forward_messages": crf.forward_messages(),
        "backward_messages": crf.backward_messages(),
        "contributions": crf.contributions(tags),
        "best_tags": best.tags,
        "best_score": best.score,
        "partition_gradient": gradient(lambda crf: crf.log_partition()),
        "log_prob_gradient": gradient(lambda crf: crf.log_prob(tags)),
    }


def ask(regime, dtype, scores, tags, weights=None):
    """`answers` about a batch of `oracle.Scores`, computed in `dtype`."""
    weights = np.ones(len(scores.mask)) if weights is None else weights
    floats = [np.asarray(array, dtype) for array in (*scores[:4], weights)]
    return run(regime, answers, *floats[:4], scores.mask, tags.astype(np.int32), floats[4])


functions_of = operator.attrgetter("library.function")  # of a graph's definition: all that it calls


def nodes_within(graph):
    """The ops of a graph, and of the branches and loop bodies in it."""
    definition = graph.as_graph_def(add_shapes=True)
    bodies = [body.node_def for body in functions_of(definition)]
    return [node for nodes in [definition.node, *bodies] for node in nodes]


def must_compile(graph):
    """The names of the functions of a graph that XLA has to compile, which servers refuse."""
    functions = functions_of(graph.as_graph_def())
    return [body.signature.name for body in functions if body.attr["_XlaMustCompile"].b]
