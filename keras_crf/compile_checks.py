"""Arguments of `compile` and `fit` that do not go with a `CRFLayer`, refused by name."""

import warnings

import keras
import tensorflow as tf

from keras_crf.callers import RUNNING, TRAINING, argument_of_model
from keras_crf.warning import warn_user

OWN_LOSSES = ("crf_loss", "CRFLoss", "crfloss", "CrfLoss")
# Metrics of Keras for which the last axis of an output holds classes.
OF_CLASSES = (
    "accuracy",
    "acc",
    "categorical_accuracy",
    "sparse_categorical_accuracy",
    "top_k_categorical_accuracy",
    "sparse_top_k_categorical_accuracy",
    "CategoricalAccuracy",
    "SparseCategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "SparseTopKCategoricalAccuracy",
)


def check_compiled(layer, is_decoded):
    """Refuses losses and metrics that cannot work on the output of the layer, if Keras runs it.

    `is_decoded` says that the output is the best path. In subclassed models, and in models within
    models, it is not known which output the layer makes: a warning is all that is safe there.
    """
    model = argument_of_model(RUNNING)
    if model is None:
        return
    losses = getattr(model, "loss", None)
    _check_name(losses)
    name = _output_name(layer, model)
    loss = _alone(losses if name is None else _of_output(losses, name, model))
    trains = argument_of_model(TRAINING) is model and layer.trainable
    if trains and is_decoded and _is_of_keras(loss):
        _refuse_loss(loss, layer, is_certain=name is not None)
    if name is not None and layer.output_mode == "int":
        _check_metrics(name, model)


def _refuse_loss(loss, layer, is_certain):
    message = (
        f"loss={_shown(loss)} cannot train {type(layer).__name__} {layer.name!r}: in the "
        f"output mode {layer.output_mode!r} it gives the best path, which has no gradient. "
        "Compile with loss=keras_crf.CRFLoss()."
    )
    if is_certain:
        raise ValueError(message)
    warn_user(message)


def refuse_class_weight():
    """Refuses `class_weight` in `fit`, which Keras is about to make weights of rows of."""
    weights = argument_of_model(TRAINING, "class_weight")
    if weights:
        listed = [weights.get(tag, 1.0) for tag in range(max(weights) + 1)]
        raise ValueError(
            f"class_weight={weights} has no meaning for tag ids [batch, time]: Keras takes one "
            "class from each row, the number of the step with the largest id, and weighs the row "
            f"by it. Weigh tags by loss=keras_crf.CRFLoss(tag_weights={listed}), one number per "
            "tag."
        )


def _check_name(losses):
    wrong = [loss for loss in keras.tree.flatten(losses) if loss in OWN_LOSSES]
    if wrong:
        raise ValueError(
            f"loss={wrong[0]!r}: Keras knows its own losses by name alone. Compile with the "
            "object, loss=keras_crf.CRFLoss(), or with the function, loss=keras_crf.crf_loss."
        )


def _check_metrics(name, model):
    config = _compiled_with(model)
    for argument in ("metrics", "weighted_metrics"):
        metrics = _of_output(config.get(argument), name, model)
        for metric in metrics if isinstance(metrics, (list, tuple)) else [metrics]:
            known_as = metric.get("class_name") if isinstance(metric, dict) else metric
            if isinstance(known_as, str) and known_as in OF_CLASSES:
                raise ValueError(
                    f"{argument}=[{known_as!r}] takes the output for scores of classes, and "
                    'CRFLayer(output_mode="int") gives tag ids, [batch, time]. Use '
                    f"{argument}=[keras_crf.TagAccuracy()], which is right in every output mode."
                )


def _compiled_with(model):
    """The arguments of `compile` as Keras saves them; none where one of them cannot be saved."""
    with tf.init_scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about lambdas, which are not safe to load
        try:
            return model.get_compile_config() or {}
        except (NotImplementedError, TypeError, ValueError):
            return {}


def _output_name(layer, model):
    """The name of the output of a functional or Sequential model that the layer makes, or None."""
    try:
        made = layer.output
    except (AttributeError, ValueError):  # called eagerly alone, or more than once
        return None
    outputs = keras.tree.flatten(getattr(model, "outputs", None))
    names = getattr(model, "output_names", None) or [layer.name] * len(outputs)
    return next((name for name, out in zip(names, outputs, strict=False) if out is made), None)


def _of_output(given, name, model):
    """What was given to `compile` for one output, of one, a list or a dict of them."""
    if isinstance(given, dict) and "class_name" not in given:
        return given.get(name)
    names = getattr(model, "output_names", None) or [name]
    if isinstance(given, (list, tuple)) and len(names) > 1 and len(given) == len(names):
        return given[names.index(name)]
    return given


def _alone(given):
    """The one of a list of one."""
    return given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given


def _is_of_keras(loss):
    if isinstance(loss, str):
        return True
    module = getattr(loss, "__module__", None) or ""
    return loss is not None and module.split(".")[0] == "keras"


def _shown(loss):
    if isinstance(loss, str):
        return repr(loss)
    return getattr(loss, "__name__", None) or f"{type(loss).__name__}()"
