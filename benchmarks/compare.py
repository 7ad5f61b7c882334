"""keras_crf against its peers, side by side in one run: `make bench`.

    python benchmarks/compare.py [--directory build/bench] [--rounds 9] [--shapes 0 1 2 3 4]

Each library runs in a process, and a virtual environment, of its own; they take turns, so that
whatever else the machine does falls on all of them. A turn is a few calls in a row, as in training,
and the first does not count: it finds the caches full of what others left there. First all have to
give the same numbers. Ends non-zero when a ratio of medians is below its floor.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
SHAPES = [(32, 64, 9), (32, 128, 20), (64, 256, 9), (16, 128, 64), (32, 128, 128)]
ENVIRONMENTS = {
    "tfa": ["tensorflow==2.15.1", "tensorflow-addons==0.23.0", "numpy<2"],
    "torch": ["torch==2.13.0", "pytorch-crf==0.7.2", "torch-struct==0.5", "numpy"],
}
ENVIRONMENT_OF = {"tfa": "tfa", "pytorch-crf": "torch", "torch-struct": "torch"}
# Takes seconds at the larger shapes, and no floor asks for it: fewer rounds do.
SLOW = {"torch-struct": 3}
# Ends for want of memory (24 GB) at the last shape.
TOO_LARGE = {"torch-struct": [4]}

# How many times faster than a peer ours has to be, and what we want, by shape:
# (task, ours, peer) -> (floors, aims).
WANTED = {
    ("loss", "ours", "tfa"): ([1.8, 1.8, 1.8, 4, 7], [4, 4, 4, 8, 12]),
    ("loss", "ours-jit", "tfa"): ([5, 5, 5, 12, 14], [15, 15, 15, 25, 25]),
    ("decode", "ours", "tfa"): ([1.1, 1.1, 1.1, 1.2, 1.5], [3, 3, 3, 3, 3]),
    ("decode", "ours-jit", "tfa"): ([8, 8, 8, 6, 5], [20, 20, 20, 12, 12]),
    ("loss", "ours", "pytorch-crf"): ([7, 7, 7, 7, 7], [15, 15, 15, 15, 15]),
    ("loss", "ours-jit", "pytorch-crf"): ([18, 18, 18, 18, 18], [40, 40, 40, 40, 40]),
    ("decode", "ours", "pytorch-crf"): ([1.4, 1.4, 1.4, 1.4, 1.4], [5, 5, 5, 5, 5]),
    ("decode", "ours-jit", "pytorch-crf"): ([5, 5, 5, 5, 5], [30, 30, 30, 30, 30]),
    ("loss", "ours-jit", "C"): (
        [1 / 9, 1 / 9, 1 / 9, 1 / 2.8, 1 / 2.8],
        [1 / 3, 1 / 3, 1 / 3, 1, 1],
    ),
}


class Worker:
    """A library in a process of its own."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def milliseconds(self, task, index):
        print(task, index, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.process.args} ended at {task!r} of problem {index}.")
        return float(answer)

    def turn(self, task, index, calls=5):
        """The median of a few calls in a row, after one that finds its memory again."""
        times = [self.milliseconds(task, index) for _ in range(calls + 1)]
        return statistics.median(times[1:])

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def write_problem(path, batch, steps, number_of_tags):
    rng = np.random.default_rng(0)
    lengths = rng.integers(steps // 2, steps + 1, batch).astype(np.int32)
    lengths[0] = steps
    with open(path, "wb") as file:
        np.array([batch, steps, number_of_tags], np.int32).tofile(file)
        lengths.tofile(file)
        rng.integers(0, number_of_tags, (batch, steps)).astype(np.int32).tofile(file)
        rng.normal(size=(batch, steps, number_of_tags)).astype(np.float32).tofile(file)
        (rng.normal(size=(number_of_tags,) * 2) / 2).astype(np.float32).tofile(file)


def python_of(environment, directory):
    """The interpreter of a peer's virtual environment, made on first use."""
    python = directory / environment / "bin" / "python"
    installed = directory / environment / "installed"
    if not installed.exists():
        print(f"installing {', '.join(ENVIRONMENTS[environment])}", flush=True)
        base = "python3.11"  # the newest that TensorFlow 2.15 knows
        subprocess.run([base, "-m", "venv", directory / environment], check=True)
        packages = ENVIRONMENTS[environment]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        installed.touch()
    return python


def start_workers(directory, problems):
    reference = directory / "reference"
    source = HERE / "reference.c"
    subprocess.run(["cc", "-O3", "-pthread", source, "-o", reference, "-lm"], check=True)
    commands = {"C": [reference, problems]}
    for name in ("ours", "ours-jit", "tfa", "pytorch-crf", "torch-struct"):
        environment = ENVIRONMENT_OF.get(name)
        python = python_of(environment, directory) if environment else sys.executable
        commands[name] = [python, HERE / "peers.py", name, problems]
    return {name: Worker(command) for name, command in commands.items()}


def results_of(name, problems, index, shape):
    """(loss, gradient for potentials, gradient for transitions) that a worker found."""
    if name != "C":
        found = np.load(problems / f"{index}.{name}.npz")
        return [found["loss"], found["arr_0"], found["arr_1"]]
    batch, steps, number_of_tags = shape
    numbers = np.fromfile(problems / f"{index}.c", np.float32)
    sizes = np.cumsum([1, batch * steps * number_of_tags, number_of_tags**2])
    loss, potentials, transitions, _ = np.split(numbers, sizes)
    square = transitions.reshape(number_of_tags, number_of_tags)
    return [loss[0], potentials.reshape(shape), square]


def check_equal(workers, problems, index, shape):
    """Refuses to measure libraries that do not agree."""
    for worker in workers.values():
        worker.milliseconds("check", index)
    wanted = results_of("C", problems, index, shape)
    for name in workers:
        for value, right in zip(results_of(name, problems, index, shape), wanted, strict=True):
            np.testing.assert_allclose(value, right, rtol=2e-4, atol=2e-3, err_msg=name)
    decoded = [np.load(problems / f"{index}.{name}.npz")["tags"] for name in workers if name != "C"]
    for tags in decoded[1:]:
        np.testing.assert_array_equal(tags, decoded[0])


def measure(workers, index, rounds):
    """Median milliseconds by task and name, the workers taking turns."""
    times = {(task, name): [] for task in ("loss", "decode") for name in workers}
    for number in range(rounds + 2):
        for (task, name), taken in times.items():
            if name in SLOW and len(taken) == SLOW[name]:
                continue
            milliseconds = workers[name].turn(task, index, 1 if name in SLOW else 5)
            if number >= 2:  # the first two warm up
                taken.append(milliseconds)
    return {key: statistics.median(taken) for key, taken in times.items()}


def print_times(medians, shape, names):
    for task in ("loss", "decode"):
        row = "  ".join(f"{name} {medians[task, name]:8.2f}" for name in names)
        print(f"{shape!s:15} {task:6}  {row}", flush=True)


def print_ratios(medians, positions):
    """The ratios beside floor and aim; returns whether each floor is met."""
    met = True
    print("\ntimes as fast as the peer (floor, aim)")
    for (task, mine, peer), (floors, aims) in WANTED.items():
        for position in positions:
            ratio = medians[position][task, peer] / medians[position][task, mine]
            floor, aim = floors[position], aims[position]
            verdict = "below its floor" if ratio < floor else "aim" if ratio >= aim else ""
            met &= ratio >= floor
            shape = str(SHAPES[position])
            row = f"{task:6} {mine:8} / {peer:12} {shape:15} {ratio:7.2f}"
            print(f"{row}  ({floor:.2f}, {aim:.2f})  {verdict}")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--shapes", type=int, nargs="+", default=list(range(len(SHAPES))))
    options = parser.parse_args()
    problems = options.directory / "problems"
    problems.mkdir(parents=True, exist_ok=True)
    workers = start_workers(options.directory, problems)
    medians = {}
    print("milliseconds, medians of", options.rounds)
    for index in options.shapes:
        write_problem(problems / f"{index}.bin", *SHAPES[index])
        able = {
            name: worker for name, worker in workers.items() if index not in TOO_LARGE.get(name, [])
        }
        check_equal(able, problems, index, SHAPES[index])
        medians[index] = measure(able, index, options.rounds)
        print_times(medians[index], SHAPES[index], able)
    for worker in workers.values():
        worker.stop()
    return 0 if print_ratios(medians, options.shapes) else 1


if __name__ == "__main__":
    sys.exit(main())
