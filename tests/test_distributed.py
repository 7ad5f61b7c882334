"""Many devices: two logical CPUs of this machine, or two processes, do what one device does."""

import inspect
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from numpy.testing import assert_allclose, assert_array_equal

import distributed
import many_devices
import toys
from keras_crf import CRFLayer, CRFLoss
from regimes import nodes_within

ONE = tf.distribute.get_strategy()
MANY_DEVICES = [sys.executable, many_devices.__file__]
MINUTES = 60
DOCS = pathlib.Path(toys.ROOT, "docs", "distributed.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(import.*?)```\n\n```text\n(.*?)```", DOCS, re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def _environment():
    """What processes need to find this library, and not that of another checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", toys.PYTHON_PATH)
        patch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
        yield


def on_two_cpus(directory, *jobs):
    command = [*MANY_DEVICES, "mirrored", directory, *jobs]
    subprocess.run(command, check=True, timeout=5 * MINUTES)
    (results,) = many_devices.results(directory)
    return results


def assert_same(results, expected):
    tf.nest.assert_same_structure(results, expected)
    for left, right in zip(tf.nest.flatten(results), tf.nest.flatten(expected), strict=True):
        assert_allclose(left, right, rtol=1e-6, atol=1e-6)


def as_one_device(job):
    return many_devices.do(ONE, job)


def as_keras_scales(number, batch_size):
    """One epoch on two devices, in words: each gives half of the mean over the rows it has.

    The loss that is reported is the mean over all rows.
    """
    model = many_devices.tagger(ONE)
    words, tags = many_devices.rows(number)
    losses = np.zeros(number)
    for first in range(0, number, batch_size):
        parts = np.array_split(np.arange(first, first + batch_size), 2)
        parts = [rows[rows < number] for rows in parts]
        with tf.GradientTape() as tape:
            means = [CRFLoss()(tags[rows], model(words[rows])) for rows in parts]
            loss = sum(means) / 2
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        for rows, mean in zip(parts, means, strict=True):
            losses[rows] = mean
    return {"weights": model.get_weights(), "loss": losses.mean()}


def test_a_step_on_two_devices_is_one_on_one_device_h1(tmp_path):
    job = "fit:4:4"
    assert_same(on_two_cpus(tmp_path, job)[job], as_one_device(job))


@pytest.mark.slow
class TestTwoDevicesInUnevenBatches:
    JOBS = ("fit:5:4", "fit_made_outside:5:5", "loop:6:5")
    COUNTS = ("evaluate:9:4", "count:9:4")

    @pytest.fixture(scope="class")
    def two(self, tmp_path_factory):
        directory = tmp_path_factory.mktemp("uneven")
        return on_two_cpus(directory, *self.JOBS, *self.COUNTS, "decode:5:5", "decode:1:4")

    def test_fit_gives_each_device_half_of_the_mean_and_0_without_rows_h5(self, two):
        assert_same(two["fit:5:4"], as_keras_scales(5, 4))

    def test_a_model_made_outside_fits_where_the_first_batch_is_uneven_h5(self, two):
        job = "fit_made_outside:5:5"
        assert_same(two[job], {**as_one_device(job), **as_keras_scales(5, 5)})

    def test_a_loop_in_strategy_run_is_one_device_exactly_h3(self, two):
        assert_same(two["loop:6:5"], as_one_device("loop:6:5"))

    @pytest.mark.parametrize("job", COUNTS)
    def test_metrics_count_as_on_one_device(self, two, job):
        assert all(0 < two[job][key] < 1 for key in ("of_X", "sequence_accuracy"))
        assert_same(two[job], as_one_device(job))

    @pytest.mark.parametrize(("job", "rows"), [("decode:5:5", [3, 2]), ("decode:1:4", [1, 0])])
    def test_decoded_tags_are_gathered_by_one_concat_h4(self, two, job, rows):
        parts = two[job]["parts"]
        assert [part.shape for part in parts] == [(number, 5) for number in rows]
        assert all(part.dtype == "int32" for part in parts)
        (expected,) = as_one_device(job)["parts"]
        assert_array_equal(tf.concat(parts, axis=0), expected)
        assert_array_equal(two[job]["gathered"], expected)
        assert_array_equal(two[job]["predicted"], expected)


@pytest.mark.slow
class TestTwoProcesses:
    JOBS = ("loop:9:4", "fit_made_outside:8:4", "count:9:4")

    @pytest.fixture(scope="class")
    def workers(self, tmp_path_factory):
        directory = tmp_path_factory.mktemp("workers")
        command = [*MANY_DEVICES, "multiworker", directory, *self.JOBS]
        distributed.run_workers(command, seconds=8 * MINUTES)
        return many_devices.results(directory)

    def test_all_end_alike(self, workers):
        one, two = map(tf.nest.flatten, workers)
        for left, right in zip(one, two, strict=True):
            assert_array_equal(left, right)

    @pytest.mark.parametrize("job", JOBS)
    def test_do_what_one_process_does(self, workers, job):
        assert_same(workers[0][job], as_one_device(job))


@pytest.mark.slow
def test_workers_train_weights_that_a_parameter_server_keeps():
    script = "import many_devices; print(*many_devices.losses_of_parameter_server())"
    first, *_, last = map(float, toys.run_python(script).split())
    assert 0 < last < first / 5


class TestRunWorkers:
    SCRIPT = """
import json, os, sys, time
config = json.loads(os.environ["TF_CONFIG"])
assert all(address.startswith("127.0.0.1:") for address in config["cluster"]["worker"])
os.write(1, f"{os.getpid()}\\n".encode())  # at once, so that two processes cannot mix their lines
"""

    def run(self, rest, seconds=30):
        distributed.run_workers([sys.executable, "-c", self.SCRIPT + rest], seconds=seconds)

    def assert_none_is_left(self, capfd):
        processes = capfd.readouterr().out.split()
        assert len(processes) == 2
        for process in processes:
            with pytest.raises(ProcessLookupError):
                os.kill(int(process), 0)

    def test_waits_for_all(self, capfd):
        self.run("time.sleep(config['task']['index'])")
        self.assert_none_is_left(capfd)

    def test_ends_the_others_when_one_fails(self, capfd):
        with pytest.raises(RuntimeError, match=r"as 2 workers within 30 s ended with \[None, 3\]"):
            self.run("time.sleep(1), config['task']['index'] and sys.exit(3), time.sleep(60)")
        self.assert_none_is_left(capfd)

    def test_ends_all_when_the_time_is_up(self, capfd):
        with pytest.raises(RuntimeError, match=r"within 3 s ended with \[None, None\]"):
            self.run("time.sleep(60)", seconds=3)
        self.assert_none_is_left(capfd)


BATCH, STEPS, WIDTH, TAGS = 4, 6, 8, 3


class TestGraphOfTheLoss:
    """What TPUs, and XLA anywhere, ask of a graph."""

    @pytest.fixture(scope="class")
    def step(self):
        layer = CRFLayer(TAGS)
        layer.build((BATCH, STEPS, WIDTH))

        def loss_and_gradients(features, tags, mask):
            with tf.GradientTape() as tape:
                loss = CRFLoss()(tags, layer(features, mask=mask))
            return loss, tape.gradient(loss, layer.trainable_variables)

        return tf.function(loss_and_gradients, autograph=False, jit_compile=True)

    @pytest.fixture(scope="class")
    def batch(self):
        steps = [BATCH, STEPS]
        return tf.ones([*steps, WIDTH]), tf.zeros(steps, tf.int32), tf.ones(steps, tf.bool)

    def test_no_op_calls_python_or_works_on_strings_h2(self, step, batch):
        nodes = nodes_within(step.get_concrete_function(*batch).graph)
        strings = tf.string.as_datatype_enum
        of_strings = {
            node.op
            for node in nodes
            if any(attribute.type == strings for attribute in node.attr.values())
        }
        assert of_strings == {"Const"}  # the words of errors
        assert not [node.op for node in nodes if "PyFunc" in node.op or "String" in node.op]

    def test_each_shape_is_known_and_nothing_goes_to_the_host_h2(self, step, batch):
        program = step.experimental_get_compiler_ir(*batch)(stage="hlo")
        assert f"f32[{BATCH},{STEPS},{WIDTH}]" in program
        assert "[<=" not in program  # how XLA writes an axis that is known only when it runs
        for of_the_host in ("infeed", "outfeed", "custom-call", "send", "recv"):
            assert not re.search(rf"\b{of_the_host}\(", program)


class TestDocs:
    def test_show_the_step_of_the_example(self):
        assert inspect.getsource(distributed.make_training_step) in DOCS

    @pytest.mark.slow
    def test_the_program_for_one_machine_prints_what_stands_behind_it(self):
        (program, output), _ = PROGRAMS
        assert toys.run_python(program) == output

    @pytest.mark.slow
    def test_each_of_two_workers_prints_what_stands_behind_their_program(self, capfd):
        _, (program, output) = PROGRAMS
        distributed.run_workers([sys.executable, "-c", program], seconds=5 * MINUTES)
        printed = capfd.readouterr().out.splitlines()
        assert sorted(printed) == sorted(output.splitlines() * 2)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "processes"), [("mirrored", 1), ("multiworker", 2)])
def test_the_example_runs(strategy, processes):
    command = [sys.executable, distributed.__file__, "--strategy", strategy, "--epochs", "1"]
    run = subprocess.run(command, check=True, capture_output=True, text=True, timeout=5 * MINUTES)
    found = re.findall(r"2 devices, F1 of the dev entities: 0\.\d{4}", run.stdout)
    assert len(found) == processes
    assert len(set(found)) == 1
