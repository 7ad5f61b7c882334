"""What a process keeps of models that are gone: nothing."""

import gc
import subprocess
import sys
import weakref

import keras
import pytest
import tensorflow as tf

import toys
from keras_crf import CRFLayer, CRFLoss, SpanF1

NAMES = ["O", "B-X", "I-X"]


def graphs_of_a_dropped_model(**options):
    """Weak references to the graphs of a model that was trained and is gone."""
    graphs = []

    class Remembering(keras.Sequential):
        def train_step(self, data):
            graphs.append(weakref.ref(tf.compat.v1.get_default_graph()))
            return super().train_step(data)

    words = keras.Input((None,), dtype="int32")
    layer = CRFLayer(3, tag_names=NAMES, **options)
    model = Remembering([words, keras.layers.Embedding(20, 4, mask_zero=True), layer])
    model.compile("adam", loss=CRFLoss(ignore_index=-100), metrics=[SpanF1(NAMES)])
    model.train_on_batch(*toys.sentences())
    del words, layer, model, Remembering
    keras.backend.clear_session()
    gc.collect()
    return graphs


@pytest.mark.parametrize(
    "options",
    [
        {"lr_multiplier": 5.0},
        {"scheme": "BIO", "illegal_gold": "allow", "output_mode": "marginals"},
        pytest.param({"jit_compile": True}, marks=pytest.mark.slow),
    ],
)
def test_a_model_that_is_gone_takes_its_graphs_with_it(options):
    graphs = graphs_of_a_dropped_model(**options)
    assert graphs
    assert [graph() for graph in graphs] == [None] * len(graphs)


@pytest.mark.slow
def test_the_memory_of_a_process_stays_flat_however_many_models_it_makes():
    """For all that is done to models: `benchmarks/many_models.py` fails above 2 MiB a model."""
    script = toys.ROOT / "benchmarks" / "many_models.py"
    finished = subprocess.run([sys.executable, script, "--models", "12"], stdout=subprocess.PIPE)
    assert finished.returncode == 0, finished.stdout.decode()
