"""Metrics that follow the best path and skip dropped steps: of spans, of sequences, of tags.

All take labels and outputs of a model, with or without a CRF:

    y_true: tag ids [B, T] or [B, T, 1], in any dtype that holds whole numbers; or one-hot
        [B, T, K].
    y_pred: the output of a model. What a `CRFLayer` returned stands for its best path, whatever
        the output mode. Another tensor is taken as it is: ids [B, T], or [B, T, K], whose largest
        entry at each step is the tag.
    sample_weight: [B], [B, 1] or [B, T]. Rows and steps of weight 0 are left out, all others count
        once, whatever their weight.

A step is dropped where the CRF or the Keras mask on y_pred dropped it, where its label is
`ignore_index`, and where its weight is 0. What stands there is not read, and the steps around it
are neighbours. A label that is no tag, on a kept step, is a ValueError (in a graph
InvalidArgumentError; under XLA, which cannot raise, the result is NaN).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from keras_crf import checks, matching, schemes
from keras_crf.callers import reported_name
from keras_crf.comparing import COUNT, compare
from keras_crf.spans import span_boundaries
from keras_crf.tags import detect_scheme
from keras_crf.tensor_like import TensorLike

if TYPE_CHECKING:
    from keras_crf.comparing import Compared

AVERAGES = ("micro", "macro", "weighted", None)


class TagMetric(keras.metrics.Metric):
    """Base of the metrics that compare tags: what comes in is brought to ids [B, T]."""

    def __init__(
        self,
        number_of_tags: int | None,
        ignore_index: int | None,
        name: str,
        dtype: str | keras.DTypePolicy | None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        # By which callbacks of Keras choose mode="auto"; its own metrics set it, too.
        self._direction = "up"
        self.number_of_tags = number_of_tags
        self.ignore_index = checks.whole_number_or_none(ignore_index, "ignore_index")

    def update_state(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        """Adds a batch."""
        labels = (y_true, y_pred, sample_weight)
        self.add_batch(compare(*labels, self.number_of_tags, self.ignore_index))

    def add_batch(self, compared: Compared) -> None:
        """Adds the counts of a batch to the state."""
        raise NotImplementedError

    def _count(self, name, shape=()):
        return self.add_variable(shape=shape, initializer="zeros", dtype=COUNT, name=name)

    def get_config(self) -> dict[str, Any]:
        """What the metric is made again from."""
        return {**super().get_config(), "ignore_index": self.ignore_index}


@keras.saving.register_keras_serializable(package="keras_crf")
class SpanF1(TagMetric):
    """F1 of the spans that tags stand for, as seqeval counts them.

        precision = spans in both / predicted spans      recall = spans in both / true spans
        F1 = 2 precision recall / (precision + recall), and 0 where there are none

    A predicted span is right if its type, its first and its last step are. Broken sequences are
    read as `tags.tags_to_spans` reads them: by default as conlleval does and seqeval in its default
    mode, with `strict` as seqeval does in its strict mode. Counts are added up over batches, so the
    result is that of all rows at once.

    Args:
        tag_names: the K names of the tags, by id.
        scheme: the name of their scheme, such as "BIO"; left out, the one that the names fit.
        average: "micro" for that of all spans together; "macro" for the mean over the types that
            were seen, true or predicted; "weighted" for the mean weighted by the number of true
            spans; None for each type by itself.
        strict: whether spans that are not whole by the scheme are left out.
        ignore_index: a label that drops its step, such as -100.
        name: the name of the metric.
        separator, prefix_first: how the names are written, as in `keras_crf.tags`.
        unused_tags: those of the names that are counted as O, such as "PAD" or "[CLS]".

    Returns, as `result()`: a number; or with `average=None` a dict from f"{name}_{type}", such as
        "span_f1_PER", to the F1 of the type, which Keras reports entry by entry. In a model of
        several outputs the name of the output goes before, "slots_span_f1_PER", and among
        `weighted_metrics` of the same name "weighted_span_f1_PER", as for all metrics of Keras.
        Callbacks do not know the direction of such entries: give them mode="max".

    Raises:
        ValueError: names that are not of the scheme, an unknown scheme or average; on update,
            outputs without K tags, labels or weights of other shapes, labels that are no tags.

    Source: Tjong Kim Sang and De Meulder, "Introduction to the CoNLL-2003 Shared Task", 2003; and
    Nakayama, "seqeval", 2018.

    >>> metric = SpanF1(["O", "B-PER", "I-PER"])
    >>> metric.update_state([[1, 2, 0, 1]], np.array([[1, 2, 0, 0]]))
    >>> print(f"{metric.result():.4f}")  # one of one predicted, one of two true
    0.6667
    """

    def __init__(
        self,
        tag_names: Iterable[str],
        scheme: str | None = None,
        average: str = "micro",
        strict: bool = False,
        ignore_index: int | None = None,
        name: str = "span_f1",
        *,
        separator: str = "-",
        prefix_first: bool = True,
        unused_tags: Iterable[str] = (),
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        names = schemes.different(tag_names)
        super().__init__(len(names), ignore_index, name, dtype)
        if average not in AVERAGES:
            raise ValueError(f"average must be one of {AVERAGES}, got {average!r}.")
        spelled: dict[str, Any] = {
            "separator": separator,
            "prefix_first": prefix_first,
            "unused_tags": schemes.unused_among(unused_tags, names),
        }
        scheme = detect_scheme(names, **spelled) if scheme is None else scheme
        self._config = {
            "tag_names": names,
            "scheme": schemes.scheme_named(scheme).name,
            "average": average,
            "strict": bool(strict),
            **spelled,
        }
        self.average = average
        boundaries = span_boundaries(names, scheme, strict=strict, **spelled)
        tags = schemes.parse(names, schemes.scheme_named(scheme), **spelled)
        of_spans = [tag.type for tag in tags if tag.prefix != schemes.OUTSIDE]
        self.types = tuple(dict.fromkeys(of_spans)) or ("",)
        numbers = [self.types.index(tag.type) if tag.type in self.types else 0 for tag in tags]
        self._tables = matching.SpanTables(*boundaries, np.array([*numbers, 0], "int32"))
        self.true_positives, self.predicted, self.gold = (
            self._count(what, [len(self.types)]) for what in ("true_positives", "predicted", "gold")
        )

    def add_batch(self, compared: Compared) -> None:
        """Adds the spans of a batch to the counts of their types."""
        tables = matching.SpanTables(*map(tf.convert_to_tensor, self._tables))
        counts = matching.count_spans(*compared[:3], tables, len(self.types))
        counts = tf.unstack(tf.cast(counts, COUNT) + compared.error)
        variables = (self.true_positives, self.predicted, self.gold)
        for variable, count in zip(variables, counts, strict=True):
            variable.assign(variable + count)

    def result(self) -> tf.Tensor | dict[str, tf.Tensor]:
        """The F1 of all that was added; see the class."""
        counts = [
            tf.convert_to_tensor(count)
            for count in (self.true_positives, self.predicted, self.gold)
        ]
        if self.average == "micro":
            return tf.cast(_f1(*map(tf.reduce_sum, counts)), self.dtype)
        of_types = _f1(*counts)
        if self.average is None:
            of_types = tf.unstack(tf.cast(of_types, self.dtype), len(self.types))
            name = reported_name(self)
            entries = [f"{name}_{type_}" if type_ else name for type_ in self.types]
            return dict(zip(entries, of_types, strict=True))
        weights = counts[2]
        if self.average == "macro":
            seen = counts[1] + counts[2]
            weights = seen / tf.where(seen > 0, seen, 1)  # 1 or 0, or NaN
        mean = tf.math.divide_no_nan(tf.reduce_sum(of_types * weights), tf.reduce_sum(weights))
        return tf.cast(mean, self.dtype)

    def get_config(self) -> dict[str, Any]:
        """What the metric is made again from."""
        return {**super().get_config(), **self._config}


class ShareMetric(TagMetric):
    """Base of the metrics that are a share: how many are right, of how many."""

    def __init__(
        self, ignore_index: int | None, name: str, dtype: str | keras.DTypePolicy | None
    ) -> None:
        super().__init__(None, ignore_index, name, dtype)
        self.right, self.total = self._count("right"), self._count("total")

    def add_batch(self, compared: Compared) -> None:
        """Adds those of a batch that are right, and all."""
        counted, right = self.judged(compared)
        for variable, what in ((self.right, counted & right), (self.total, counted)):
            count = tf.cast(tf.math.count_nonzero(what), COUNT)
            variable.assign(variable + count + compared.error)

    def judged(self, compared: Compared) -> tuple[tf.Tensor, tf.Tensor]:
        """Two bool tensors: what counts, and what is right."""
        raise NotImplementedError

    def result(self) -> tf.Tensor | dict[str, tf.Tensor]:
        """The share of all that was added; 0 of none."""
        share = tf.math.divide_no_nan(*map(tf.convert_to_tensor, (self.right, self.total)))
        return tf.cast(share, self.dtype)


@keras.saving.register_keras_serializable(package="keras_crf")
class TagAccuracy(ShareMetric):
    """The share of kept steps whose tag is right, in every output mode.

    With `output_mode="int"`, where `metrics=["accuracy"]` would compare ids as if they were
    scores, this is the accuracy to use.

    Args:
        ignore_index: a label that drops its step, such as -100.
        name: the name of the metric.

    Raises:
        ValueError: on update, labels or weights of other shapes, labels that are no tags.

    >>> metric = TagAccuracy(ignore_index=-100)
    >>> metric.update_state([[1, 2, 0], [1, -100, -100]], np.array([[1, 2, 2], [1, 0, 0]]))
    >>> float(metric.result())
    0.75
    """

    def __init__(
        self,
        ignore_index: int | None = None,
        name: str = "tag_accuracy",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(ignore_index, name, dtype)

    def judged(self, compared: Compared) -> tuple[tf.Tensor, tf.Tensor]:
        """The kept steps, and where both tags are one."""
        return compared.kept, tf.equal(compared.gold, compared.predicted)


@keras.saving.register_keras_serializable(package="keras_crf")
class SequenceAccuracy(ShareMetric):
    """The share of rows all of whose kept tags are right; rows without any do not count.

    Args:
        ignore_index: a label that drops its step, such as -100.
        name: the name of the metric.

    Raises:
        ValueError: on update, labels or weights of other shapes, labels that are no tags.

    >>> metric = SequenceAccuracy(ignore_index=-100)
    >>> metric.update_state([[1, 2, 0], [1, -100, -100]], np.array([[1, 2, 2], [1, 0, 0]]))
    >>> float(metric.result())
    0.5
    """

    def __init__(
        self,
        ignore_index: int | None = None,
        name: str = "sequence_accuracy",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(ignore_index, name, dtype)

    def judged(self, compared: Compared) -> tuple[tf.Tensor, tf.Tensor]:
        """The rows with kept steps, and those without a wrong one."""
        wrong = compared.kept & tf.not_equal(compared.gold, compared.predicted)
        return tf.reduce_any(compared.kept, axis=1), ~tf.reduce_any(wrong, axis=1)


def _f1(both, predicted, gold):
    # 2 precision recall / (precision + recall), with the fractions cancelled.
    return tf.math.divide_no_nan(2 * both, predicted + gold)
