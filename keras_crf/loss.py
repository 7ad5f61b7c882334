"""CRFLoss: the negative log-likelihood, for plain `model.compile` and `model.fit`."""

import keras
import tensorflow as tf

from keras_crf import checks
from keras_crf.carrying import distribution_of, is_stand_in

REDUCTIONS = ("sum_over_batch_size", "sum", "none", "mean_per_token")


@keras.saving.register_keras_serializable(package="keras_crf")
class CRFLoss(keras.losses.Loss):
    """The negative log-likelihood of the true tags, in nats.

        loss of a row = -log p(y_true) = log_partition - score(y_true)

    It reads the distribution from the output of the `CRFLayer`, in any of its output modes, with
    the mask that the layer used: what y_true holds on dropped steps is not read. A row without
    kept steps has loss 0, and no gradient.

    Args:
        reduction: over the rows of a batch:
            "sum_over_batch_size": the mean over rows, those without kept steps counted;
            "sum": their sum;
            "none": none, [B];
            "mean_per_token": the sum over rows divided by the number of kept steps.
        name: the name of the loss.

    Call it with:
        y_true: tag ids [B, T] or [B, T, 1], in any dtype that holds whole numbers.
        y_pred: the output of a `CRFLayer`.
        sample_weight: [B] or [B, 1], a weight for each row.

    Raises:
        ValueError: an output that carries no distribution; y_true of another shape; a label that is
            not in 0..K-1 on a kept step (in a graph InvalidArgumentError; under XLA the loss is
            NaN).

    Source: Lafferty, McCallum and Pereira, "Conditional Random Fields", 2001.

    >>> layer = CRFLayer(2, kernel_initializer="zeros", transitions_initializer="zeros")
    >>> print(f"{CRFLoss()([[0, 1, 1]], layer(tf.zeros([1, 3, 8]))):.4f}")  # 3 ln 2
    2.0794
    """

    def __init__(self, reduction="sum_over_batch_size", name="crf_loss", **kwargs):
        super().__init__(name=name, **kwargs)
        reduction = "none" if reduction is None else reduction
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}.")
        self.reduction = reduction

    def __call__(self, y_true, y_pred, sample_weight=None):
        # Keras would multiply the losses, [B], by the mask that rides on y_pred, [B, T].
        with tf.name_scope(self.name):
            if is_stand_in(y_pred):
                return self._of_stand_in(y_pred)
            weights = 1.0 if sample_weight is None else _row_weights(sample_weight, y_pred)
            losses = self.call(y_true, y_pred)
            return self._reduced(losses * tf.cast(weights, losses.dtype), y_pred)

    def call(self, y_true, y_pred):
        """The loss of each row, [B]."""
        distribution = distribution_of(y_pred)
        return -distribution.log_prob(_labels(y_true, distribution))

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

    def get_config(self):
        return {"name": self.name, "reduction": self.reduction}


def _labels(y_true, distribution):
    """y_true as whole numbers, [B, T]."""
    labels = checks.tensor(y_true, "y_true")
    if labels.shape.rank == 3 and labels.shape[2] == 1:
        labels = tf.squeeze(labels, 2)
    if labels.shape.rank == 3:
        raise ValueError(
            "y_true must have rank 2, [batch, time], or be [batch, time, 1]; got rank 3, the shape "
            f"{labels.shape}. Of one-hot labels, pass y_true.argmax(-1)."
        )
    if labels.shape.rank is not None:  # Keras forgets it after batches of [B, T] and [B, T, 1]
        checks.rank(labels, "y_true", "[batch, time]")
    labels = checks.same_steps(labels, "y_true", distribution.potentials)
    if labels.dtype.is_floating:
        whole = tf.equal(labels, tf.round(labels)) | ~distribution.mask
        checks.values(whole, "y_true must hold whole numbers; got {value}", labels)
        labels = tf.cast(tf.where(whole & distribution.mask, labels, -1), tf.int64)
    return labels


def _row_weights(sample_weight, y_pred):
    """sample_weight as one number a row, [B]."""
    weights = checks.tensor(sample_weight, "sample_weight")
    if weights.shape.rank == 2 and weights.shape[1] == 1:
        weights = tf.squeeze(weights, 1)
    if weights.shape.rank not in (None, 1) or not weights.shape.is_compatible_with(
        y_pred.shape[:1]
    ):
        raise ValueError(
            "sample_weight must be one number a row, [batch] or [batch, 1]; got the shape "
            f"{weights.shape} for outputs of the shape {y_pred.shape}."
        )
    return checks.same_shape(weights, "sample_weight", tf.shape(y_pred)[:1], "outputs")
