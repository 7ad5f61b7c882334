"""Which tags: the paths that a distribution names."""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import labels, likelihood, recursions
from keras_crf.asking import Asking
from keras_crf.graphs import as_graph_or_compiled


class BestPath(NamedTuple):
    """The result of `LinearChainCRF.argmax`."""

    tags: tf.Tensor  # [B, T] int32, argmax_y score(y); 0 on dropped steps
    score: tf.Tensor  # [B], score(tags)


class Tagging(NamedTuple):
    """The result of `LinearChainCRF.tagging`."""

    tags: tf.Tensor  # [B, T] int32, as `argmax` has them
    confidence: tf.Tensor  # [B, T], p(y_t = tags_t); 0 on dropped steps
    log_prob: tf.Tensor  # [B], log p(tags)
    marginals: tf.Tensor  # [B, T, K]


@as_graph_or_compiled
def _best_path(chain, steps):
    tags = recursions.viterbi(chain)
    score = likelihood.score(chain, tags) + likelihood.not_a_number(chain)
    return BestPath(steps.unpack(tags), score)


@as_graph_or_compiled
def _tagging(chain, steps):
    tags = recursions.viterbi(chain)
    marginals, log_prob = labels.marginals_and_log_prob(chain, tags)
    marginals, tags = steps.unpack(marginals), steps.unpack(tags)
    return Tagging(tags, likelihood.picked(marginals, tags), log_prob, marginals)


class Decoding(Asking):
    """The methods of `LinearChainCRF` that name paths."""

    def argmax(self):
        """The best path of each row, by Viterbi: a named tuple `(tags [B, T] int32, score [B])`.

        Tags are 0 on dropped steps. Of equally good paths it is the one with the lowest tag at
        the last kept step, then at the one before it, and so on. A row without a legal path has
        the score -inf, and then its tags mean nothing. (Rabiner 1989, section III.B.)

        >>> LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).argmax().tags.numpy()
        array([[1]], dtype=int32)
        """
        return self._run(_best_path)

    def tagging(self):
        """The best path and how sure it is: `(tags, confidence, log_prob, marginals)`.

        What `argmax`, `marginals` and `log_prob` of the best path say, by one pass each way:
        confidence [B, T] is the marginal of each decoded tag, 0 on dropped steps.

        >>> tagging = LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]]).tagging()
        >>> tagging.tags.numpy(), tagging.confidence.numpy()
        (array([[0]], dtype=int32), array([[0.5]], dtype=float32))
        """
        return self._run(_tagging)
