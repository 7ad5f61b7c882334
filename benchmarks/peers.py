"""One library under the clock: answers "loss I", "decode I" and "check I" with milliseconds.

    python peers.py NAME DIRECTORY

The protocol is that of `reference.c`: problem I lies in DIRECTORY/I.bin, and after "check" the
results lie in DIRECTORY/I.NAME.npz. Loss means the summed negative log-likelihood with its
gradients for potentials and transitions; a task is over when its results are NumPy arrays.
"""

import sys
import time

import numpy as np

THREADS = 2


def load(directory, index):
    """Problem `index`: a dict of lengths [B], tags [B, T], potentials [B, T, K], transitions."""
    with open(f"{directory}/{index}.bin", "rb") as file:
        batch, steps, number_of_tags = np.fromfile(file, np.int32, 3)
        lengths = np.fromfile(file, np.int32, batch)
        tags = np.fromfile(file, np.int32, batch * steps).reshape(batch, steps)
        potentials = np.fromfile(file, np.float32, batch * steps * number_of_tags)
        transitions = np.fromfile(file, np.float32, number_of_tags**2)
    return {
        "lengths": lengths,
        "tags": tags,
        "potentials": potentials.reshape(batch, steps, number_of_tags),
        "transitions": transitions.reshape(number_of_tags, number_of_tags),
    }


def tensorflow_tasks(negative_log_likelihood, decode, jit_compile=None):
    """Tasks for functions of (potentials, transitions, lengths, tags), in tf.function."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(THREADS)

    @tf.function(jit_compile=jit_compile)
    def loss(potentials, transitions, lengths, tags):
        with tf.GradientTape() as tape:
            tape.watch([potentials, transitions])
            value = tf.reduce_sum(negative_log_likelihood(potentials, transitions, lengths, tags))
        return [value, *tape.gradient(value, [potentials, transitions])]

    best = tf.function(decode, jit_compile=jit_compile)
    names = ("potentials", "transitions", "lengths", "tags")

    def prepare(problem):
        return [tf.constant(problem[name]) for name in names]

    def run_loss(arguments):
        return [value.numpy() for value in loss(*arguments)]

    def run_decode(arguments):
        return [value.numpy() for value in best(*arguments[:3])]

    return prepare, run_loss, run_decode


def ours(jit_compile=None):
    import keras_crf

    def negative_log_likelihood(potentials, transitions, lengths, tags):
        return -keras_crf.LinearChainCRF(potentials, transitions, lengths=lengths).log_prob(tags)

    def decode(potentials, transitions, lengths):
        return keras_crf.LinearChainCRF(potentials, transitions, lengths=lengths).argmax()

    return tensorflow_tasks(negative_log_likelihood, decode, jit_compile)


def tfa():
    import tensorflow_addons

    text = tensorflow_addons.text

    def negative_log_likelihood(potentials, transitions, lengths, tags):
        return -text.crf_log_likelihood(potentials, tags, lengths, transitions)[0]

    def decode(potentials, transitions, lengths):
        return text.crf_decode(potentials, transitions, lengths)

    return tensorflow_tasks(negative_log_likelihood, decode)


def torch_problem(problem):
    import torch

    torch.set_num_threads(THREADS)
    tensors = {name: torch.tensor(value) for name, value in problem.items()}
    steps = torch.arange(tensors["tags"].shape[1])
    tensors["mask"] = steps[None] < tensors["lengths"][:, None]
    tensors["tags"] = tensors["tags"].long()
    tensors["potentials"].requires_grad_()
    return tensors


def pytorch_crf():
    import torch
    import torchcrf

    def prepare(problem):
        tensors = torch_problem(problem)
        crf = torchcrf.CRF(problem["transitions"].shape[0], batch_first=True)
        with torch.no_grad():
            crf.transitions.copy_(tensors["transitions"])
            crf.start_transitions.zero_()
            crf.end_transitions.zero_()
        return crf, tensors

    def loss(arguments):
        crf, tensors = arguments
        value = -crf(tensors["potentials"], tensors["tags"], mask=tensors["mask"], reduction="sum")
        inputs = [tensors["potentials"], crf.transitions]
        gradients = torch.autograd.grad(value, inputs)
        return [result.detach().numpy() for result in (value, *gradients)]

    def decode(arguments):
        crf, tensors = arguments
        with torch.no_grad():
            paths = crf.decode(tensors["potentials"], mask=tensors["mask"])
        tags = np.zeros(tensors["tags"].shape, np.int32)
        for row, path in enumerate(paths):
            tags[row, : len(path)] = path
        return [tags]

    return prepare, loss, decode


def torch_struct():
    import torch
    import torch_struct as library

    def prepare(problem):
        tensors = torch_problem(problem)
        tensors["transitions"].requires_grad_()
        return tensors

    def distribution(tensors):
        # log_potentials[b, t, j, i] scores the edge from tag i at t to tag j at t + 1.
        potentials = tensors["potentials"]
        edges = potentials[:, 1:, :, None] + tensors["transitions"].T
        later = (0, 0, 0, 0, 0, edges.shape[1] - 1)
        first = torch.nn.functional.pad(potentials[:, :1, None, :], later)
        return library.LinearChainCRF(edges + first, lengths=tensors["lengths"].long())

    def loss(tensors):
        tags, inside = tensors["tags"], tensors["mask"]
        picked = tensors["potentials"].gather(2, tags[..., None])[..., 0]
        moves = tensors["transitions"][tags[:, :-1], tags[:, 1:]]
        score = (picked * inside).sum() + (moves * inside[:, 1:]).sum()
        value = distribution(tensors).partition.sum() - score
        inputs = [tensors["potentials"], tensors["transitions"]]
        gradients = torch.autograd.grad(value, inputs)
        return [result.detach().numpy() for result in (value, *gradients)]

    def decode(tensors):
        edges = distribution(tensors).argmax
        later = edges.sum(3).argmax(2)
        tags = torch.cat([edges[:, 0].sum(1).argmax(1)[:, None], later], 1) * tensors["mask"]
        return [tags.detach().numpy().astype(np.int32)]

    return prepare, loss, decode


PEERS = {
    "ours": ours,
    "ours-jit": lambda: ours(jit_compile=True),
    "tfa": tfa,
    "pytorch-crf": pytorch_crf,
    "torch-struct": torch_struct,
}


def main(name, directory):
    prepare, loss, decode = PEERS[name]()
    prepared = {}
    for line in sys.stdin:
        task, index = line.split()
        if index not in prepared:
            prepared[index] = prepare(load(directory, index))
        begin = time.perf_counter()
        if task == "check":
            value, *gradients = loss(prepared[index])
            tags = decode(prepared[index])[0]
            np.savez(f"{directory}/{index}.{name}.npz", *gradients, loss=value, tags=tags)
        else:
            {"loss": loss, "decode": decode}[task](prepared[index])
        print(f"{1e3 * (time.perf_counter() - begin):.4f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
