"""Time and memory of loss + gradients and of decode, against T, K and B.

    python benchmarks/scaling.py [--plot docs/scaling.png] [--rounds 5]

Each axis is walked alone, the other two at rest. Milliseconds are medians of calls on the same
arguments, without what "jit" takes to compile for each shape; memory is the peak of a first call
above what was in use before it, in a fresh process. The plot needs matplotlib.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np
from measuring import (
    MEGABYTE,
    MODES,
    RETURN_FREED_MEMORY,
    TASKS,
    in_fresh_process,
    make_problem,
    make_tasks,
    memory_of_first_call,
)

AT_REST = {"B": 8, "T": 256, "K": 16}
AXES = {
    "T": (16, 64, 256, 1024, 4096, 16384),
    "K": (4, 16, 64, 256, 1024),
    "B": (1, 8, 64, 512),
}
# Below this, in MB, a figure says more about the runtime than about the call.
LEAST_MEMORY = 0.5


def points():
    """Each (axis, value), with the shape (B, T, K) that it stands for."""
    for axis, values in AXES.items():
        for value in values:
            yield axis, value, tuple({**AT_REST, axis: value}.values())


def milliseconds(call, rounds):
    """The median of some calls."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def measure_times(mode, rounds):
    """[task, axis, value, milliseconds] at all points, in this process."""
    measured = []
    for task, function in make_tasks(MODES[mode]).items():
        for axis, value, shape in points():
            problem = make_problem(*shape)

            def call(function=function, problem=problem):
                function(*problem)[0].numpy()

            call()  # grows or compiles
            measured.append([task, axis, value, milliseconds(call, rounds)])
    return measured


def measure_all(rounds):
    """{(what, mode, task, axis): {value: milliseconds or megabytes}}, from fresh processes."""
    curves = {}
    for mode in MODES:
        times = in_fresh_process(__file__, "--times", mode, "--rounds", rounds)
        for task, axis, value, time_taken in times:
            curves.setdefault(("time", mode, task, axis), {})[value] = time_taken
    for task in TASKS:
        for axis, value, shape in points():
            arguments = ("--memory", TASKS.index(task), *shape)
            extra = in_fresh_process(__file__, *arguments, environment=RETURN_FREED_MEMORY)
            curves.setdefault(("memory", "graph", task, axis), {})[value] = extra / MEGABYTE
    return curves


def print_curves(curves):
    """A Markdown table for each axis."""
    columns = [(what, mode, task) for what, mode, task, axis in curves if axis == "T"]
    for axis, values in AXES.items():
        rest = ", ".join(f"{name} = {value}" for name, value in AT_REST.items() if name != axis)
        units = {"time": "ms", "memory": "MB"}
        heads = [f"{task}, {mode}, {units[what]}" for what, mode, task in columns]
        print(f"\n{rest}\n\n| {axis} | " + " | ".join(heads) + " |")
        print("|---|" + "---|" * len(heads))
        for value in values:
            cells = [f"{curves[(*column, axis)][value]:.1f}" for column in columns]
            print(f"| {value:,} | " + " | ".join(cells) + " |")


def draw(curves, path):
    """A row of panels for time, one for memory; a column for each axis."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        print("\nno plot: it needs matplotlib (pip install matplotlib)")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels = {"time": "milliseconds", "memory": "extra megabytes"}
    figure, panels = plt.subplots(2, 3, figsize=(12, 7), sharey="row", layout="constrained")
    for row, (what, label) in enumerate(labels.items()):
        for panel, axis in zip(panels[row], AXES, strict=True):
            _draw_panel(panel, curves, what, axis)
        panels[row, 0].set_ylabel(label)
        panels[row, 0].set_ylim(bottom=None if what == "time" else LEAST_MEMORY)
        panels[row, 0].legend(frameon=False, fontsize=9)
    figure.suptitle("LinearChainCRF on a CPU: time and extra memory of a call")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"\n{path}")


def _draw_panel(panel, curves, what, axis):
    """The curves of one axis, and a grey line for what would grow in proportion to it."""
    values = AXES[axis]
    for (curve_what, mode, task, curve_axis), curve in curves.items():
        if (curve_what, curve_axis) == (what, axis):
            _draw_curve(panel, mode, task, _readable(what, curve))
    largest = curves[what, "graph", TASKS[0], axis][values[-1]]
    proportional = [largest * value / values[-1] for value in values]
    panel.plot(values, proportional, color="0.75", linewidth=1, zorder=0, label="in proportion")
    rest = ", ".join(f"{name} = {value}" for name, value in AT_REST.items() if name != axis)
    panel.set(xscale="log", yscale="log", xlabel=f"{axis}   ({rest})")
    panel.set_xticks(values, [f"{value:,}" for value in values])
    panel.minorticks_off()
    panel.grid(color="0.93")


def _readable(what, curve):
    """The curve without the figures that are too small to mean anything."""
    least = LEAST_MEMORY if what == "memory" else 0
    return {value: result if result > least else np.nan for value, result in curve.items()}


def _draw_curve(panel, mode, task, curve):
    """One task in one colour, dashed where it is compiled."""
    panel.plot(
        list(curve),
        list(curve.values()),
        linestyle="--" if mode == "jit" else "-",
        color={TASKS[0]: "tab:blue", TASKS[1]: "tab:orange"}[task],
        marker="o",
        markersize=4,
        label=f"{task}, jit_compile" if mode == "jit" else task,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("docs/scaling.png"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--memory", nargs=4, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.times:
        print(json.dumps(measure_times(options.times, options.rounds)))
        return
    if options.memory:
        task, *shape = options.memory
        print(json.dumps(memory_of_first_call(TASKS[task], "graph", 1.0, *shape)))
        return
    curves = measure_all(options.rounds)
    print_curves(curves)
    draw(curves, options.plot)


if __name__ == "__main__":
    sys.exit(main())
