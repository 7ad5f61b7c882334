"""What memory.py and scaling.py share: problems, tasks, and the memory that a call takes.

Measurements are made in fresh processes; TensorFlow is imported in those alone, since a process
also answers for the memory of the one that started it.
"""

import gc
import json
import os
import pathlib
import resource
import subprocess
import sys

import numpy as np

# Blocks of this size and more go back to the system when they are freed, so that the memory of a
# process is what it has in use.
LARGE_BLOCK = 65536
RETURN_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(LARGE_BLOCK),
    "MALLOC_TRIM_THRESHOLD_": str(LARGE_BLOCK),
}
MEGABYTE = 1e6
MODES = {"graph": None, "jit": True}
TASKS = ("loss + gradients", "decode")
BYTES_OF_A_FLOAT = 4


def make_problem(batch, steps, number_of_tags, size=1.0):
    """(potentials, transitions, tags) with transitions between -size and size."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    potentials = rng.normal(size=(batch, steps, number_of_tags)).astype(np.float32)
    transitions = rng.uniform(-size, size, (number_of_tags,) * 2).astype(np.float32)
    tags = rng.integers(0, number_of_tags, (batch, steps)).astype(np.int32)
    return tuple(tf.constant(values) for values in (potentials, transitions, tags))


def make_tasks(jit_compile):
    """The tasks by name, functions of a problem: traced once, for all shapes."""
    import tensorflow as tf

    import keras_crf

    signature = [
        tf.TensorSpec([None, None, None]),
        tf.TensorSpec([None, None]),
        tf.TensorSpec([None, None], tf.int32),
    ]

    @tf.function(input_signature=signature, jit_compile=jit_compile)
    def loss(potentials, transitions, tags):
        with tf.GradientTape() as tape:
            tape.watch([potentials, transitions])
            log_prob = keras_crf.LinearChainCRF(potentials, transitions).log_prob(tags)
            value = -tf.reduce_sum(log_prob)
        return value, tape.gradient(value, [potentials, transitions])

    @tf.function(input_signature=signature, jit_compile=jit_compile)
    def decode(potentials, transitions, tags):
        return keras_crf.LinearChainCRF(potentials, transitions).argmax()

    return dict(zip(TASKS, (loss, decode), strict=True))


def memory_in_use():
    """Bytes of this process that are in memory."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def peak_memory():
    """The most bytes of this process that were in memory at once."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def extra_memory(call):
    """The bytes that a call takes at its peak, above what was in use before it."""
    gc.collect()
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = memory_in_use()
    call()
    return peak_memory() - before


def memory_of_first_call(task, mode, size, *shape):
    """The extra bytes of the first call with this shape; the runtime has grown to its size before.

    What a call gave back may be kept for the next one, whose memory would not be seen: measure in
    a fresh process.
    """
    call = make_tasks(MODES[mode])[task]
    call(*make_problem(2, 3, 4, size))
    problem = make_problem(*shape, size)
    return extra_memory(lambda: call(*problem)[0].numpy())


def in_fresh_process(script, *arguments, environment=None):
    """What the script, called with these arguments, printed as its last line of JSON."""
    finished = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    if finished.returncode != 0:
        raise RuntimeError(f"{finished.args} ended with {finished.returncode}.")
    return json.loads(finished.stdout.splitlines()[-1])
