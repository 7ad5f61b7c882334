"""Trains a CRF tagger on many devices, by the strategies of TensorFlow.

    python examples/distributed.py --strategy mirrored       the GPUs of this machine, or two CPUs
    python examples/distributed.py --strategy multiworker    two processes on this machine

Where TF_CONFIG is set, as on the machines of a cluster, `multiworker` is the worker that it names.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import keras_crf
from corpus import generate_corpus

SIZES = {"train": 960, "dev": 200}


def mirrored_strategy():
    """All GPUs of this machine; where there are none, two logical CPUs."""
    if tf.config.list_physical_devices("GPU"):
        return tf.distribute.MirroredStrategy()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def as_ids(sentences, vocabulary, tag_names):
    """Words, from 1 on, and tags of sentences `(tokens, tags)`: two int32 [B, T], padded with 0."""
    word_ids = {word: number for number, word in enumerate(vocabulary, 2)}  # 1 is all others
    longest = max(len(tokens) for tokens, _ in sentences)
    words, tags = np.zeros([2, len(sentences), longest], "int32")
    for row, (tokens, names) in enumerate(sentences):
        words[row, : len(tokens)] = [word_ids.get(token.lower(), 1) for token in tokens]
        tags[row, : len(tokens)] = [tag_names.index(name) for name in names]
    return words, tags


def load_data():
    """(words, tags) to train on, (words, tags) to try it on, how many word ids, names of tags."""
    corpus = generate_corpus(SIZES)
    vocabulary = sorted({token.lower() for tokens, _ in corpus["train"] for token in tokens})
    tag_names = sorted({name for _, names in corpus["train"] for name in names})
    train, dev = (as_ids(corpus[part], vocabulary, tag_names) for part in ("train", "dev"))
    return train, dev, len(vocabulary) + 2, tag_names


def build_tagger(vocabulary_size, tag_names):
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32", name="words"),
            keras.layers.Embedding(vocabulary_size, 64, mask_zero=True),
            keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True)),
            keras_crf.CRFLayer(len(tag_names), tag_names=tag_names, scheme="BIO"),
        ]
    )


def make_batches(words, tags, batch_size):
    """Batches whose rows are shared out, so that each device sees rows of its own."""
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy.DATA
    options.experimental_distribute.auto_shard_policy = policy
    rows = tf.data.Dataset.from_tensor_slices((words, tags))
    return rows.batch(batch_size).with_options(options)


def make_training_step(model, optimizer, strategy, batches):
    """A function from a distributed batch to its loss, the mean over the rows on all devices."""
    sum_over_rows = keras_crf.CRFLoss(reduction="sum")

    def on_each_device(words, tags):
        replica = tf.distribute.get_replica_context()
        rows = replica.all_reduce("SUM", tf.cast(tf.shape(words)[0], tf.float32))
        with tf.GradientTape() as tape:
            loss = sum_over_rows(tags, model(words, training=True)) / rows
        gradients = tape.gradient(loss, model.trainable_variables)
        # The optimizer adds the gradients of all devices up.
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function(input_signature=[batches.element_spec])
    def step(batch):
        return strategy.reduce("SUM", strategy.run(on_each_device, args=batch), axis=None)

    return step


def train_in_a_loop(model, optimizer, strategy, batches, epochs):
    """Trains under any strategy, exactly as one device would; returns the losses of the steps."""
    batches = strategy.experimental_distribute_dataset(batches)
    step = make_training_step(model, optimizer, strategy, batches)
    losses = []
    for epoch in range(epochs):
        losses.append([float(step(batch)) for batch in batches])
        print(f"epoch {epoch + 1}: loss {np.mean(losses[-1]):.4f}", flush=True)
    return losses


def train(strategy, epochs):
    train_rows, (words, tags), vocabulary_size, tag_names = load_data()
    batches = make_batches(*train_rows, batch_size=32)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        model = build_tagger(vocabulary_size, tag_names)
        optimizer = keras.optimizers.Adam(0.01)
        model.compile(optimizer, keras_crf.CRFLoss())
        optimizer.build(model.trainable_variables)
    if isinstance(strategy, tf.distribute.MirroredStrategy):
        model.fit(batches, epochs=epochs, shuffle=False, verbose=2)
    else:  # Keras' fit stumbles over several workers: docs/distributed.md
        train_in_a_loop(model, optimizer, strategy, batches, epochs)
    found = keras_crf.SpanF1(tag_names)
    found.update_state(tags, model(words))
    print(f"{strategy.num_replicas_in_sync} devices, F1 of the dev entities: {found.result():.4f}")


def cluster_on_this_machine(workers):
    """The TF_CONFIG of each of some workers, with ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
    addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in sockets]
    for server in sockets:
        server.close()
    for index in range(workers):
        task = {"type": "worker", "index": index}
        yield json.dumps({"cluster": {"worker": addresses}, "task": task})


def run_workers(command, workers=2, seconds=600):
    """Runs a command as each worker; none is left when one fails, or the time is up."""
    running, until = [], time.monotonic() + seconds
    try:
        for config in cluster_on_this_machine(workers):
            running.append(subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config}))
        while None in (codes := [worker.poll() for worker in running]):
            if any(codes) or time.monotonic() > until:
                break
            time.sleep(0.1)
    finally:
        for worker in running:
            worker.kill()
            worker.wait()
    if any(codes) or None in codes:
        raise RuntimeError(f"{command} as {workers} workers within {seconds} s ended with {codes}")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--strategy", choices=["mirrored", "multiworker"], default="mirrored")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args(arguments)
    if options.strategy == "mirrored":
        train(mirrored_strategy(), options.epochs)
    elif "TF_CONFIG" in os.environ:
        train(tf.distribute.MultiWorkerMirroredStrategy(), options.epochs)
    else:
        arguments = ["--strategy", "multiworker", "--epochs", str(options.epochs)]
        run_workers([sys.executable, __file__, *arguments])


if __name__ == "__main__":
    main()
