"""Branches of a graph."""

import tensorflow as tf


def seldom(function):
    """A branch for `tf.cond` that is hardly ever taken, as one node of the graph.

    TensorFlow writes branches out into the graph around them, and goes through each node of those
    that are not taken as well. (LiteRT and ONNX have no such node: this is for log_prob and
    `tagging`, which are in no file of theirs.)
    """
    if tf.executing_eagerly():  # where a branch is called, or not
        return function
    return tf.function(function, autograph=False, experimental_attributes={"_noinline": True})
