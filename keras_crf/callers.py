"""What Keras is doing while it calls the library: its own running functions tell.

Keras gives a layer, a loss or a metric tensors alone. Which model is trained, how it was compiled,
and under which name a metric is reported, is known to the functions of Keras that are running.
Where one of them is not found, nothing is known of these, and nothing is refused.
"""

import inspect

import keras

TRAINING = ("fit", "train_on_batch")
RUNNING = (*TRAINING, "evaluate", "test_on_batch")


def running(*names):
    """The variables of each running function that has one of the names, the innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name in names:
            yield frame.f_locals
        frame = frame.f_back


def argument_of_model(methods, argument="self"):
    """An argument of the method of a Keras model that is running, one of `methods`; or None."""
    for variables in running(*methods):
        if isinstance(variables.get("self"), keras.Model):
            return variables.get(argument)
    return None


def reported_name(metric):
    """The name under which Keras is about to report a metric, or the metric's own.

    With several outputs the name begins with that of the output; of two metrics of one name the
    second is reported as "weighted_…" or with a number behind it.
    """
    for variables in running("result"):
        if variables.get("m") is metric and isinstance(variables.get("name"), str):
            return variables["name"]
    return metric.name
