"""What is served and trained can run on a GPU, and does where there is one.

Where there is none, TensorFlow's registry still says which ops have a kernel for it: the wheels for
Linux are built for both.
"""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import toys
from keras_crf import CRFLayer, CRFLoss, distribution_of, export_tagger
from regimes import functions_of, must_compile, nodes_within

# Ops that have no kernel for a GPU, and why each belongs on the host.
ON_THE_HOST = {
    "LookupTableFindV2": "words are looked up in a table of strings",
    "Equal": "of strings: which words are padding",
    "SelectV2": "of strings: what stands behind a row's length, among words and among tags",
    "GatherV2": "of strings: the names of tags",
    "Const": "of strings: the words of error messages",
}
if tf.__version__.startswith("2.16."):
    ON_THE_HOST["Shape"] = "of strings"

LOOPS = {"While", "StatelessWhile"}


@functools.cache
def kernels_of(operation):
    return kernels.get_registered_kernels_for_op(operation).kernel


needs_a_build_for_gpus = pytest.mark.skipif(
    not any(kernel.device_type == "GPU" for kernel in kernels_of("MatMul")),
    reason="this build of TensorFlow holds no kernels for GPUs",
)


def types_of(attribute):
    return set(attribute.list.type) or {attribute.type}


def runs_on_gpu(node):
    """Whether a kernel for GPUs is registered for the op, and the types, of a node."""
    return any(
        kernel.device_type in ("GPU", "DEFAULT")
        and all(
            types_of(node.attr[constraint.name]) <= set(constraint.allowed_values.list.type)
            for constraint in kernel.constraint
        )
        for kernel in kernels_of(node.op)
    )


def handles_strings(node):
    return any(tf.string.as_datatype_enum in types_of(value) for value in node.attr.values())


def functions_called(node):
    """The names of the functions that a node calls: branches, loop bodies, and plain calls."""
    for value in node.attr.values():
        yield from (function.name for function in [value.func, *value.list.func] if function.name)


def nodes_in_loops(graph):
    """The nodes of all loop bodies and conditions, and of what is called there."""
    functions = {f.signature.name: f.node_def for f in functions_of(graph.as_graph_def())}
    waiting = [
        name for node in nodes_within(graph) if node.op in LOOPS for name in functions_called(node)
    ]
    seen = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            for node in functions[name]:
                yield node
                waiting += functions_called(node)


@pytest.fixture(scope="module")
def export_graphs(text_export):
    return [signature.graph for signature in text_export.signatures.values()]


@pytest.fixture(scope="module")
def train_step():
    """The graph of a step: the loss of a BiLSTM-CRF, its gradients, and the optimizer."""
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(20, 4, mask_zero=True),
            keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True)),
            CRFLayer(3),
        ]
    )
    loss, optimizer = CRFLoss(), keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(words, tags):
        with tf.GradientTape() as tape:
            value = loss(tags, model(words, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return value

    some = tf.TensorSpec([None, None], tf.int32)
    return step.get_concrete_function(some, some).graph


def host_only(nodes):
    return {node.op for node in nodes if not runs_on_gpu(node)}


@needs_a_build_for_gpus
class TestTheRegistry:
    def test_knows_of_ops_that_run_on_the_host_alone(self):
        """What the tests below look for can be found."""
        nodes = [tf.compat.v1.NodeDef(op=op) for op in ("StringLower", "LookupTableFindV2")]
        assert host_only(nodes) == {"StringLower", "LookupTableFindV2"}
        assert runs_on_gpu(tf.compat.v1.NodeDef(op="NoOp"))

    def test_each_op_of_an_export_has_a_kernel_for_gpus_or_a_reason(self, export_graphs):
        nodes = [node for graph in export_graphs for node in nodes_within(graph)]
        found = [node for node in nodes if not runs_on_gpu(node)]
        assert {node.op for node in found} == set(ON_THE_HOST)
        assert all(handles_strings(node) for node in found)

    def test_no_op_in_a_loop_of_an_export_is_on_the_host_alone_g2(self, export_graphs):
        for graph in export_graphs:
            nodes = list(nodes_in_loops(graph))
            assert {"MatMul", "ArgMax"} & {node.op for node in nodes}
            assert host_only(nodes) == set()

    def test_each_op_of_a_train_step_has_a_kernel_for_gpus_g2(self, train_step):
        found = [node for node in nodes_within(train_step) if not runs_on_gpu(node)]
        assert {node.op for node in found} == {"Const"}
        assert all(handles_strings(node) for node in found)  # of error messages
        assert host_only(nodes_in_loops(train_step)) == set()
        assert "MatMul" in {node.op for node in nodes_in_loops(train_step)}


class TestNothingThatAServerRefuses:
    FORBIDDEN = {"ReverseSequence", "PyFunc", "EagerPyFunc", "PyFuncStateless", "XlaLaunch"}

    def test_in_an_export_f11(self, export_graphs):
        for graph in export_graphs:
            assert not self.FORBIDDEN & {node.op for node in nodes_within(graph)}
            assert not must_compile(graph)

    def test_in_a_train_step_f11(self, train_step):
        assert not self.FORBIDDEN & {node.op for node in nodes_within(train_step)}
        assert not must_compile(train_step)


@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="there is no GPU")
class TestOnAGpu:
    """The main job, with what Keras and TensorFlow choose by themselves."""

    WORDS, TAGS = toys.sentences()

    @pytest.fixture(scope="class")
    def model(self):
        model = keras.Sequential(
            [
                keras.Input((None,), dtype="int32", name="words"),
                keras.layers.Embedding(20, 8, mask_zero=True),
                # cuDNN knows no rows that are all padding, nor holes.
                keras.layers.Bidirectional(keras.layers.LSTM(8, return_sequences=True)),
                CRFLayer(3),
            ]
        )
        model.compile("adam", loss=CRFLoss(), metrics=["accuracy"])
        model.fit(self.WORDS, np.maximum(self.TAGS, 0), epochs=2, verbose=0)
        return model

    def test_it_trains_f16(self, model):
        assert all("GPU" in weight.value.device for weight in model.trainable_weights)
        assert all(np.isfinite(weight).all() for weight in model.get_weights())

    def test_it_predicts_what_a_cpu_computes_of_its_potentials(self, model):
        on_gpu = distribution_of(model(self.WORDS))
        with tf.device("CPU"):
            on_cpu = on_gpu.narrowed()
            marginals = on_cpu.marginals()
        np.testing.assert_allclose(on_gpu.marginals(), marginals, atol=1e-5)

    def test_it_is_exported_and_served(self, model, tmp_path):
        export_tagger(model, tmp_path / "1")
        tagger = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
        lengths = (self.WORDS != 0).sum(1).astype("int32")
        served = tagger(words=tf.constant(self.WORDS), lengths=tf.constant(lengths))
        path = model.predict(self.WORDS, verbose=0).argmax(-1)
        np.testing.assert_array_equal(served["tag_ids"], path)
