"""CRFLoss and crf_loss: the negative log-likelihood, for plain `model.compile` and `model.fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_crf import checks, label_checks
from keras_crf.asking import broken_unless
from keras_crf.carrying import distribution_of, is_stand_in, under_rules_of
from keras_crf.tensor_like import TensorLike

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
            more. Of an allowed set of several tags it is their mean.
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
        sample_weight: [B] or [B, 1], a weight for each row; or [B, T], one for each step.

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
            if is_stand_in(y_pred):
                return self._of_stand_in(y_pred)
            rows, steps = _weights(sample_weight, y_pred)
            losses = self._losses(y_true, y_pred, steps)
            return self._reduced(_weighted(losses, rows), y_pred)

    def call(self, y_true: TensorLike, y_pred: TensorLike) -> tf.Tensor:
        """The loss of each row, [B]."""
        return self._losses(y_true, y_pred, None)

    def _losses(self, y_true, y_pred, step_weights):
        """The loss of each row, [B], its steps weighted by `step_weights` [B, T] or None."""
        distribution = distribution_of(y_pred)

        def of_labels(labels):
            return self._of_labels(labels, distribution, step_weights)

        return _under_rules(of_labels, y_true, y_pred, self.ignore_index)

    def _of_labels(self, labels, distribution, step_weights):
        if self.tag_weights is not None:
            of_tags = self._weights_of_tags(labels, distribution)
            step_weights = (
                of_tags if step_weights is None else of_tags * tf.cast(step_weights, of_tags.dtype)
            )
        if step_weights is None:
            return -distribution.log_prob(labels, self.ignore_index)
        terms = distribution.token_log_prob(labels, self.ignore_index)
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
    mean: over the steps that the mask of the output keeps. `CRFLoss` has the mean over rows.

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
    if is_stand_in(y_pred):
        return tf.zeros(tf.shape(y_pred)[:2])
    return -_under_rules(distribution_of(y_pred).token_log_prob, y_true, y_pred)


def _weighted(values, weights):
    """values * weights, with 0 for what has weight 0, were it -inf."""
    return tf.math.multiply_no_nan(values, tf.cast(weights, values.dtype))


def _under_rules(ask, y_true, y_pred, ignore_index=None):
    """`ask(labels)`, [B, ...], of labels that keep the scheme of the layer, if it has one.

    Where nothing can be raised, NaN for the rows whose labels do not.
    """
    distribution, under_rules = distribution_of(y_pred), under_rules_of(y_pred)
    labels = _labels(y_true, distribution)
    if under_rules is None:
        return ask(labels)
    labels, right = under_rules(labels, distribution, ignore_index)
    return broken_unless(right, ask(labels))


def _labels(y_true, distribution):
    """y_true as whole numbers [B, T], or as the allowed sets [B, T, K] that it is."""
    labels = checks.tensor(y_true, "y_true")
    if labels.shape.rank == 3:
        if labels.shape[2] != 1:
            return labels
        labels = tf.squeeze(labels, 2)
    if labels.shape.rank is not None:  # Keras forgets it after batches of [B, T] and [B, T, 1]
        checks.rank(labels, "y_true", "[batch, time]")
    labels = checks.same_steps(labels, "y_true", distribution.potentials)
    if labels.dtype.is_floating:
        labels, right = label_checks.whole(labels, "y_true", distribution.mask)
        labels = tf.where(right, labels, tf.int64.min)  # no tag, and no ignore_index
    return labels


def _weights(sample_weight, y_pred):
    """(weights of rows [B] or 1, weights of steps [B, T] or None)."""
    if sample_weight is None:
        return 1.0, None
    weights = checks.tensor(sample_weight, "sample_weight")
    if weights.shape.rank == 2 and weights.shape[1] != 1:
        return 1.0, checks.same_steps(weights, "sample_weight", y_pred)
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
