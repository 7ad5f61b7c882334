"""How often functions of a distribution are traced when they are called eagerly."""

import collections
import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_array_equal

from keras_crf import LinearChainCRF, graphs, likelihood

THREADS = 8


def distribution(rows=2, steps=5, tags=3, dtype="float32", mask=None):
    random = np.random.default_rng([rows, steps, tags])
    potentials = random.normal(size=[rows, steps, tags]).astype(dtype)
    return LinearChainCRF(potentials, np.zeros([tags, tags]), mask=mask)


def counting(jit_compile=None):
    """A cached graph of log_partition, times a number; and how often each number was traced."""
    traced = collections.Counter()

    def log_partition(chain, steps, times=1):
        traced[times] += 1
        return times * likelihood.log_partition(chain)

    return graphs._cached_graphs(log_partition, jit_compile), traced


def asked(cached, crf, **options):
    return cached(crf._chain, crf._steps, **options).numpy()


@pytest.mark.parametrize("jit_compile", [None, pytest.param(True, marks=pytest.mark.slow)])
def test_one_graph_serves_all_numbers_of_rows_steps_and_tags(jit_compile):
    cached, traced = counting(jit_compile)
    for rows, steps, tags in [(2, 5, 3), (3, 5, 3), (3, 6, 3), (3, 6, 4), (1, 1, 1), (0, 0, 2)]:
        crf = distribution(rows, steps, tags)
        np.testing.assert_allclose(asked(cached, crf), crf.log_partition(), rtol=1e-6)
    assert traced == {1: 1}


def test_other_dtypes_ranks_and_options_have_graphs_of_their_own():
    cached, traced = counting()
    full, holes = distribution(), distribution(mask=[[1, 0, 1, 1, 0]] * 2)
    for _ in range(2):
        asked(cached, full)
        assert asked(cached, distribution(dtype="float64")).dtype == np.float64
        asked(cached, holes)
    assert traced == {1: 3}
    for _ in range(2):
        assert_array_equal(asked(cached, full, times=2), 2 * asked(cached, full))
    assert traced == {1: 3, 2: 1}


def test_many_threads_trace_a_graph_once():
    cached, traced = counting()
    begin = threading.Barrier(THREADS)

    def ask(number):
        crf = distribution(steps=number)
        begin.wait()
        return asked(cached, crf), crf.log_partition()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        for answer, expected in threads.map(ask, range(1, THREADS + 1)):
            assert_array_equal(answer, expected)
    assert traced == {1: 1}


def test_a_graph_traced_in_another_graph_belongs_to_neither():
    """A compiled function is called in graphs as well: what it keeps must outlive them."""
    cached, traced = counting(jit_compile=True)
    crf = distribution()

    def outer(potentials):
        return cached(crf._chain._replace(potentials=potentials), crf._steps)

    for _ in range(2):
        result = tf.function(outer, autograph=False)(crf._chain.potentials)
        np.testing.assert_allclose(result, crf.log_partition(), rtol=1e-6)
    assert traced == {1: 1}


def test_functions_that_are_to_run_eagerly_do():
    cached, traced = counting()
    tf.config.run_functions_eagerly(True)
    try:
        for times in (1, 2):
            asked(cached, distribution())
            assert traced == {1: times}
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture
def warnings(caplog):
    """What TensorFlow logs of functions that are traced too often."""
    logger = tf.get_logger()
    logger.addHandler(caplog.handler)
    yield lambda: [text for text in caplog.messages if "triggered tf.function retracing" in text]
    logger.removeHandler(caplog.handler)


def test_the_warning_that_is_looked_for_can_be_found(warnings):
    function = tf.function(lambda number: number, autograph=False)
    for number in range(6):
        function(number)
    assert warnings()


def ask_all(crf):
    tags = crf.argmax().tags
    crf.log_prob(tags)
    crf.tagging()
    return crf.marginals()


ONE_BY_ONE = [(2, 5, 3), (3, 5, 3), (3, 6, 3), (3, 6, 4), *((2, 4, tags) for tags in range(2, 13))]


@pytest.mark.parametrize(
    "use",
    [
        lambda: [ask_all(distribution(*sizes)) for sizes in ONE_BY_ONE],
        lambda: [ask_all(distribution(*sizes, "float64")) for sizes in ONE_BY_ONE],
        lambda: [distribution().sample(n) for n in range(1, 12)],
        pytest.param(
            lambda: [distribution().top_k(k) for k in range(1, 8)], marks=pytest.mark.slow
        ),
    ],
    ids=["float32", "float64", "n", "k"],
)
def test_no_warning_of_retracing_for_other_sizes(use, warnings):
    use()
    assert warnings() == []


def test_no_warning_of_retracing_in_many_threads(warnings):
    begin = threading.Barrier(THREADS)

    def ask(number):
        begin.wait()
        for steps in (number, number + 1):
            crf = distribution(steps=steps, mask=np.arange(2 * steps).reshape(2, -1) % 3 > 0)
            crf.backward_messages()

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(ask, range(1, THREADS + 1)))
    assert warnings() == []
