"""Small taggers on one device or on many. As a program it does what a test wants on many devices.

    python tests/many_devices.py mirrored|multiworker DIRECTORY JOB ...

A job is a function below with its numbers, such as fit:4:4. What came of the jobs goes into
DIRECTORY, one file a process, for `results`. (TensorFlow fixes its devices once, when it starts.)
"""

import json
import os
import pathlib
import pickle
import sys

import keras
import numpy as np
import tensorflow as tf

import distributed
import toys
from keras_crf import CRFLayer, CRFLoss, SequenceAccuracy, SpanF1

LEARNING_RATE = 0.5
LENGTHS = (5, 1, 3, 5, 2, 4, 0, 5, 5)  # of 9 rows


def rows(number):
    return toys.sentences(LENGTHS[:number])


def batches_of(number, batch_size):
    return distributed.make_batches(*rows(number), batch_size)


def metrics():
    return [SpanF1(["O", "B-X", "I-X"], average=None, name="of"), SequenceAccuracy()]


def tagger(strategy, *, metrics=(), **options):
    """A tagger whose weights are the same wherever it is made; on one device it runs eagerly."""
    with strategy.scope():
        model = toys.tagger(
            optimizer=keras.optimizers.SGD(LEARNING_RATE),
            metrics=metrics,
            run_eagerly=strategy.num_replicas_in_sync == 1,
            **options,
        )
    return with_known_weights(model)


def with_known_weights(model):
    generator = np.random.default_rng(3)
    model.set_weights([generator.normal(size=weight.shape) for weight in model.weights])
    return model


def fit(strategy, number, batch_size):
    """One epoch: the weights behind it, and the loss that is reported."""
    return fitted(tagger(strategy), number, batch_size)


def fitted(model, number, batch_size):
    history = model.fit(batches_of(number, batch_size), shuffle=False, verbose=0).history
    return {"weights": model.get_weights(), **{key: values[0] for key, values in history.items()}}


class OfManyWorkers(keras.Sequential):
    """Keras 3.15 takes the mean of what workers report along an axis, which numbers have not."""

    def train_step(self, data):
        return tf.nest.map_structure(lambda value: value[tf.newaxis], super().train_step(data))


def fit_made_outside(strategy, number, batch_size):
    """The same by a model that is made outside the scope, and all else inside."""
    layers = [keras.layers.Embedding(20, 4, mask_zero=True), CRFLayer(3)]
    workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    model = OfManyWorkers(layers) if workers else keras.Sequential(layers)
    with strategy.scope():
        model.build((None, None))
        model.compile(keras.optimizers.SGD(LEARNING_RATE), CRFLoss(), metrics=metrics())
        return fitted(with_known_weights(model), number, batch_size)


def loop(strategy, number, batch_size):
    """The same by the loop of the example: the loss of each step."""
    model = tagger(strategy)
    batches = batches_of(number, batch_size)
    (losses,) = distributed.train_in_a_loop(model, model.optimizer, strategy, batches, epochs=1)
    return {"weights": model.get_weights(), "loss": losses}


def evaluate(strategy, number, batch_size):
    """What metrics say of all batches."""
    with strategy.scope():
        model = tagger(strategy, metrics=metrics(), output_mode="potentials")
    return model.evaluate(batches_of(number, batch_size), verbose=0, return_dict=True)


def count(strategy, number, batch_size):
    """What metrics say that were counted by `strategy.run`."""
    model = tagger(strategy)
    with strategy.scope():
        counting = metrics()

    def on_each_device(words, tags):
        outputs = model(words)
        for metric in counting:
            metric.update_state(tags, outputs)

    @tf.function
    def step(batch):
        strategy.run(on_each_device, args=batch)

    for batch in strategy.experimental_distribute_dataset(batches_of(number, batch_size)):
        step(batch)
    values = {**counting[0].result(), "sequence_accuracy": counting[1].result()}
    return {name: float(value) for name, value in values.items()}


def decode(strategy, number, batch_size):
    """The tags of the first batch: of each device, of all by `gather`, and by `predict`."""
    model = tagger(strategy, output_mode="int", pad_tag=-1)
    batches = batches_of(number, batch_size)
    words, _ = next(iter(strategy.experimental_distribute_dataset(batches)))
    tags = strategy.run(tf.function(model), args=(words,))
    return {
        "parts": [part.numpy() for part in strategy.experimental_local_results(tags)],
        "gathered": strategy.gather(tags, axis=0).numpy(),
        "predicted": model.predict(batches, verbose=0),
    }


def losses_of_parameter_server(rounds=10):
    """The losses of asynchronous steps of two workers and a server of weights, all in here."""
    strategy, servers = start_parameter_server()  # servers end with their last reference
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    model = tagger(strategy)
    assert all("/job:ps/" in variable.value.device for variable in model.trainable_variables)
    step = step_on_a_worker(model, strategy)
    steps = []
    for _ in range(rounds):
        steps += [coordinator.schedule(step, args=(first,)) for first in (0, 4)]
        coordinator.join()
    return [float(step.fetch()) for step in steps]


def start_parameter_server():
    (config, *_) = distributed.cluster_on_this_machine(3)
    *workers, server = json.loads(config)["cluster"]["worker"]
    cluster = tf.train.ClusterSpec({"worker": workers, "ps": [server]})
    threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)  # fewer wait for each other
    servers = [
        tf.distribute.Server(cluster, job_name=job, task_index=index, config=threads)
        for job, index in (("worker", 0), ("worker", 1), ("ps", 0))
    ]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
    return tf.distribute.ParameterServerStrategy(resolver), servers


def step_on_a_worker(model, strategy):
    words, tags = map(tf.constant, rows(8))

    def on_worker(words, tags):
        with tf.GradientTape() as tape:
            loss = CRFLoss()(tags, model(words, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(first):
        batch = (words[first : first + 4], tags[first : first + 4])
        return strategy.run(on_worker, args=batch)

    return step


JOBS = {job.__name__: job for job in (fit, fit_made_outside, loop, evaluate, count, decode)}


def do(strategy, job):
    name, *numbers = job.split(":")
    return JOBS[name](strategy, *map(int, numbers))


def main(name, directory, *jobs):
    mirrored = name == "mirrored"
    strategy = (
        distributed.mirrored_strategy() if mirrored else tf.distribute.MultiWorkerMirroredStrategy()
    )
    assert strategy.num_replicas_in_sync == 2
    results = {job: do(strategy, job) for job in jobs}
    pathlib.Path(directory, str(os.getpid())).write_bytes(pickle.dumps(results))


def results(directory):
    """What the processes wrote, each a dict from job to what came of it."""
    return [pickle.loads(path.read_bytes()) for path in pathlib.Path(directory).iterdir()]


if __name__ == "__main__":
    main(*sys.argv[1:])
