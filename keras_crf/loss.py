"""CRFLoss and crf_loss: the negative log-likelihood, for plain `model.compile` and `model.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_crf import checks, label_checks
from keras_crf.asking import broken_unless
from keras_crf.carrying import distribution_of, is_stand_in, under_rules_of
from keras_crf.compile_checks import refuse_class_weight
from keras_crf.tensor_like import TensorLike

NO_TAG = tf.int64.min  # a label of no tag, and no ignore_index
REDUCTIONS = ("sum_over_batch_size", "sum", "none", "mean_per_token")


@keras.saving.register_keras_serializable(package="keras_crf")
class CRFLoss(keras.losses.Loss):
    """The negative log-likelihood of the true tags, in nats.

        loss of a row = -log p(y_true) = log_partition - score(y_true)

    It reads the distribution from the output of the `CRFLayer`, in any of its output modes, with
    the mask that the layer used: what y_true holds on dropped steps is not read. A row without
    kept steps has loss 0, and no gradient.

    Of partly known labels it is the negative log-probability that each tag lies in its allowed set,
    which is 0, without a gradient, for a row of which nothing is known. Where steps have weights,
    by `sample_weight` [B, T] or `tag_weights`, the loss of a row is

        sum_t weight_t * -log p(y_t given the tags before it, and x)

    Args:
        ignore_index: a label; steps that carry it may have any tag.
        tag_weights: K numbers, a weight for the steps of each true tag, for rare tags to count for
            more. Of an allowed set of several tags it is their mean. This takes the place of
            `fit(class_weight=…)`, which Keras turns into weights of rows and which is refused.
        reduction: over the rows of a batch:
            "sum_over_batch_size": the mean over rows, those without kept steps counted;
            "sum": their sum;
            "none": none, [B];
            "mean_per_token": the sum over rows divided by the number of kept steps.
        name: the name of the loss.

    Call it with:
        y_true: tag ids [B, T] or [B, T, 1], in any dtype that holds whole numbers; or allowed sets
            [B, T, K] of 0 and 1, such as one-hot labels.
        y_pred: the output of a `CRFLayer`.
        sample_weight: [B] or [B, 1], a weight for each row; or [B, T], one for each step. Where the
            weight is 0, a label that is no tag, such as -1, lets its step have any tag.

    Raises:
        ValueError: an output that carries no distribution; y_true of another shape; a label that is
            not in 0..K-1 on a kept step, or breaks the rules of the layer's `scheme` (in a graph
            InvalidArgumentError; under XLA the loss is NaN).

    Source: Lafferty, McCallum and Pereira, "Conditional Random Fields", 2001.

    >>> layer = CRFLayer(2, kernel_initializer="zeros", transitions_initializer="zeros")
    >>> print(f"{CRFLoss()([[0, 1, 1]], layer(tf.zeros([1, 3, 8]))):.4f}")  # 3 ln 2
    2.0794
    """

    def __init__(
        self,
        ignore_index: int | None = None,
        tag_weights: Sequence[float] | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "crf_loss",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.ignore_index = checks.whole_number_or_none(ignore_index, "ignore_index")
        self.tag_weights = None if tag_weights is None else [float(x) for x in tag_weights]
        reduction = "none" if reduction is None else reduction
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}.")
        self.reduction = reduction

    def __call__(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None
    ) -> tf.Tensor:
        # Keras would multiply the losses, [B], by the mask that rides on y_pred, [B, T].
        with tf.name_scope(self.name):
            if _rank(sample_weight) == 1:
                refuse_class_weight()
            if is_stand_in(y_pred):
                return self._of_stand_in(y_pred)
            rows, steps = _weights(sample_weight, y_pred)
            losses = self._losses(y_true, y_pred, rows, steps)
            losses = losses if rows is None else _weighted(losses, rows)
            return self._reduced(losses, y_pred)

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> tf.Tensor:
        """The loss of each row, [B]."""
        return self._losses(y_true, y_pred, None, None)

    def _losses(self, y_true, y_pred, rows, steps):
        """The loss of each row, [B], its steps weighted by `steps` [B, T] or None.

        What has weight 0, by the weights of rows or of steps, may carry labels that are no tags.
        """
        distribution = distribution_of(y_pred)
        excused = _excused(rows, steps, distribution.mask)

        def of_labels(labels, ignore_index):
            return self._of_labels(labels, distribution, steps, ignore_index)

        return _under_rules(of_labels, y_true, y_pred, self.ignore_index, excused)

    def _of_labels(self, labels, distribution, step_weights, ignore_index):
        if self.tag_weights is not None:
            of_tags = self._weights_of_tags(labels, distribution)
            step_weights = (
                of_tags if step_weights is None else of_tags * tf.cast(step_weights, of_tags.dtype)
            )
        if step_weights is None:
            return -distribution.log_prob(labels, ignore_index)
        terms = distribution.token_log_prob(labels, ignore_index)
        step_weights = tf.where(distribution.mask, tf.cast(step_weights, terms.dtype), 0)
        return -tf.reduce_sum(_weighted(terms, step_weights), axis=1)

    def _weights_of_tags(self, labels, distribution):
        """The weight of each step's true tag, [B, T]."""
        weights = tf.constant(self.tag_weights, distribution.potentials.dtype)
        checks.number_of_tag_weights(weights, distribution.potentials)
        if labels.shape.rank == 2:
            # What is no tag is refused, or ignored, by log_prob.
            return tf.gather(weights, tf.clip_by_value(labels, 0, len(self.tag_weights) - 1))
        allowed = tf.cast(tf.cast(labels, tf.bool), weights.dtype)
        return tf.math.divide_no_nan(
            tf.linalg.matvec(allowed, weights), tf.reduce_sum(allowed, axis=2)
        )

    def _reduced(self, losses, y_pred):
        if self.reduction == "none":
            return losses
        loss = tf.reduce_sum(losses)
        if self.reduction == "sum":
            return loss
        if self.reduction == "mean_per_token":
            count = tf.reduce_sum(tf.cast(distribution_of(y_pred).mask, loss.dtype))
        else:
            count = tf.cast(tf.size(losses), loss.dtype)
        # Keras' rule for many devices: each gives its part of the mean.
        devices = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.math.divide_no_nan(loss, count) / devices

    def _of_stand_in(self, y_pred):
        return tf.zeros(tf.shape(y_pred)[:1] if self.reduction == "none" else [])

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "ignore_index": self.ignore_index,
            "tag_weights": self.tag_weights,
            "reduction": self.reduction,
        }


@keras.saving.register_keras_serializable(package="keras_crf")
def crf_loss(y_true: TensorLike, y_pred: TensorLike) -> tf.Tensor:
    """The negative log-likelihood of each tag given those before it, in nats: [B, T].

        loss_t = -log p(y_t given the tags before it, and x)        sum_t loss_t = -log p(y_true)

    For `compile(loss=crf_loss)`, where Keras itself applies masks, `sample_weight` [B, T] and the
    mean: over the steps that the mask of the output keeps. `CRFLoss` has the mean over rows. Keras
    does not show it the weights, so that labels must be tags where their weight is 0, too.

    Args:
        y_true: tag ids [B, T] or [B, T, 1], or allowed sets [B, T, K], as for `CRFLoss`.
        y_pred: the output of a `CRFLayer`.

    Returns:
        float [B, T], 0 on dropped steps.

    Raises:
        ValueError: as `CRFLoss`.

    >>> layer = CRFLayer(2, kernel_initializer="zeros", transitions_initializer="zeros")
    >>> crf_loss([[0, 1, 1]], layer(tf.zeros([1, 3, 8]))).numpy()
    array([[0.6931472, 0.6931472, 0.6931472]], dtype=float32)
    """
    if _rank(y_true) == 2:  # of which Keras makes weights of rows
        refuse_class_weight()
    if is_stand_in(y_pred):
        return tf.zeros(tf.shape(y_pred)[:2])
    return -_under_rules(distribution_of(y_pred).token_log_prob, y_true, y_pred)


def _rank(value):
    """How many axes a tensor or an array has; None where that is not known."""
    shape = getattr(value, "shape", None)
    return shape.rank if isinstance(shape, tf.TensorShape) else shape and len(shape)


def _weighted(values, weights):
    """values * weights, with 0 for what has weight 0, were it -inf."""
    return tf.math.multiply_no_nan(values, tf.cast(weights, values.dtype))


def _under_rules(ask, y_true, y_pred, ignore_index=None, excused=None):
    """`ask(labels, ignore_index)`, [B, ...], of labels that keep the scheme of the layer, if any.

    Where nothing can be raised, NaN for the rows whose labels do not. A label that is no tag, on a
    step [B, T] that is excused, lets the step have any tag.
    """
    distribution, under_rules = distribution_of(y_pred), under_rules_of(y_pred)

    def answer(labels, ignore_index):
        if under_rules is None:
            return ask(labels, ignore_index)
        labels, right = under_rules(labels, distribution, ignore_index)
        return broken_unless(right, ask(labels, ignore_index))

    labels = _labels(y_true, distribution, excused)
    if excused is None:
        return answer(labels, ignore_index)
    unknown = excused & ~_is_tag(labels, distribution)
    if labels.shape.rank == 3:
        return answer(tf.where(unknown[..., tf.newaxis], tf.ones_like(labels), labels), None)
    any_tag = NO_TAG if ignore_index is None else ignore_index
    labels = tf.where(unknown, tf.cast(any_tag, labels.dtype), labels)
    if ignore_index is not None:
        return answer(labels, ignore_index)
    # Single tags are cheaper than sets of them, which are needed only where a tag is unknown.
    return tf.cond(
        tf.reduce_any(unknown), lambda: answer(labels, any_tag), lambda: answer(labels, None)
    )


def _is_tag(labels, distribution):
    """[B, T] bool: where labels are tags, or sets of some."""
    if labels.shape.rank == 3:
        return tf.reduce_any(tf.cast(labels, tf.bool), axis=2)
    return (labels >= 0) & (labels < tf.shape(distribution.potentials, labels.dtype)[2])


def _labels(y_true, distribution, excused):
    """y_true as whole numbers [B, T], or as the allowed sets [B, T, K] that it is."""
    labels = checks.tensor(y_true, "y_true", checks.PAD)
    if labels.shape.rank == 3:
        if labels.shape[2] != 1:
            return checks.like_potentials(distribution.potentials, labels, "tags as allowed sets")
        labels = tf.squeeze(labels, 2)
    if labels.shape.rank is not None:  # Keras forgets it after batches of [B, T] and [B, T, 1]
        checks.rank(labels, "y_true", "[batch, time]")
    labels = checks.same_steps(labels, "y_true", distribution.potentials)
    if labels.dtype.is_floating:
        if excused is not None:
            labels = tf.where(excused & tf.not_equal(labels, tf.round(labels)), -1, labels)
        labels, right = label_checks.whole(labels, "y_true", distribution.mask)
        return tf.where(right, labels, NO_TAG)
    if not labels.dtype.is_integer:
        raise TypeError(f"y_true must hold whole numbers, got {labels.dtype.name}.")
    return tf.cast(labels, tf.int64)


def _excused(rows, steps, mask):
    """[B, T] bool: the kept steps of weight 0; None where there are no weights."""
    if steps is None and rows is None:
        return None
    weights = rows[:, tf.newaxis] if steps is None else steps
    return mask & ~tf.cast(weights, tf.bool)


def _weights(sample_weight, y_pred):
    """Weights of rows [B], and of steps [B, T]; both or one of them None."""
    if sample_weight is None:
        return None, None
    weights = checks.tensor(sample_weight, "sample_weight", checks.PAD)
    if weights.shape.rank == 2 and weights.shape[1] != 1:
        return None, checks.same_steps(weights, "sample_weight", y_pred)
    return _row_weights(weights, y_pred), None


def _row_weights(weights, y_pred):
    """One number a row, [B]."""
    if weights.shape.rank == 2 and weights.shape[1] == 1:
        weights = tf.squeeze(weights, 1)
    if weights.shape.rank not in (None, 1) or not weights.shape.is_compatible_with(
        y_pred.shape[:1]
    ):
        raise ValueError(
            "sample_weight must be one number a row, [batch] or [batch, 1], or one a step, "
            "[batch, time]; got the shape "
            f"{weights.shape} for outputs of the shape {y_pred.shape}."
        )
    return checks.same_shape(weights, "sample_weight", tf.shape(y_pred)[:1], "outputs")
