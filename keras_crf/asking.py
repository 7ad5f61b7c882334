"""What the methods of a distribution share: how a function is run on its chains."""

import tensorflow as tf

from keras_crf import label_checks, likelihood
from keras_crf.chain import Chain
from keras_crf.packing import Packing


class Asking:
    """Base of the classes whose methods ask about `_chain`, the kept steps of `_steps`."""

    _chain: Chain
    _steps: Packing
    _jit_compile: bool

    @property
    def mask(self) -> tf.Tensor:
        """The kept steps, [B, T] bool."""
        return self._steps.mask

    def _run(self, function, *others, **options):
        options["jit_compile"] = self._jit_compile
        return function(self._chain, self._steps, *others, **options)

    def _run_on_tags(self, function, tags):
        """`_run` on tags [B, T], with NaN in the result for the rows whose tags are no tags."""
        tags, right = label_checks.tags(tags, self._chain.potentials, self.mask)
        return broken_unless(right, self._run(function, tags))

    def _run_on_labels(self, function, labels, ignore_index):
        """The same on tags, or on allowed sets [B, T, K]."""
        potentials = self._chain.potentials
        labels, right = label_checks.labels(labels, potentials, self.mask, ignore_index)
        return broken_unless(right, self._run(function, labels))


def broken_unless(right, results):
    """Results [B, ...] with NaN in the rows that are not right, [B]."""
    right = tf.reshape(right, [-1] + [1] * (results.shape.rank - 1))
    return results + likelihood.nan_unless(right, results.dtype)
