"""How probable: scores, probabilities, marginals, and the messages they are made of."""

from __future__ import annotations

import tensorflow as tf

from keras_crf import label_checks, labels, likelihood, messages
from keras_crf.asking import Asking
from keras_crf.graphs import as_graph_or_compiled
from keras_crf.tensor_like import TensorLike


@as_graph_or_compiled
def _score(chain, steps, tags):
    return likelihood.score(chain, steps.pack(tags))


@as_graph_or_compiled
def _contributions(chain, steps, tags):
    return [steps.unpack(part) for part in likelihood.contributions(chain, steps.pack(tags))]


@as_graph_or_compiled
def _log_partition(chain, steps):
    return likelihood.log_partition(chain)


@as_graph_or_compiled
def _log_prob(chain, steps, tags):
    return labels.log_prob(chain, steps.pack(tags))


@as_graph_or_compiled
def _token_log_prob(chain, steps, tags):
    return steps.unpack(labels.token_log_prob(chain, steps.pack(tags)))


@as_graph_or_compiled
def _marginals(chain, steps):
    return steps.unpack(likelihood.marginals(*messages.both_ways(chain)))


@as_graph_or_compiled
def _edge_marginals(chain, steps):
    return steps.unpack(likelihood.edge_marginals(*messages.both_ways(chain)))


@as_graph_or_compiled
def _log_alpha(chain, steps):
    return steps.unpack(likelihood.log_alpha(chain))


@as_graph_or_compiled
def _log_beta(chain, steps):
    return steps.unpack(likelihood.log_beta(chain))


class Probability(Asking):
    """The methods of `LinearChainCRF` that say how probable something is."""

    def score(self, tags: TensorLike) -> tf.Tensor:
        """The unnormalised score of each row's path (formula above), [B].

        Args:
            tags: integer [B, T]; what stands on dropped steps is not read.

        Raises:
            ValueError: a tag that is not in 0..K-1 on a kept step (in a graph
                InvalidArgumentError; under XLA the row gives NaN), tags of another shape.

        >>> float(LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).score([[1]])[0])
        2.0
        """
        return self._run_on_tags(_score, tags)

    def contributions(self, tags: TensorLike) -> tuple[tf.Tensor, tf.Tensor]:
        """What each step gives to the score: two [B, T], 0 on dropped steps.

        The first is the step's potential; the second its incoming transition, with `start` at the
        first kept step and `end` at the last. Their sum over both and over time is `score`.

        >>> crf = LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]], end=[0.0, 0.5])
        >>> [part.numpy().item() for part in crf.contributions([[1]])]
        [2.0, 0.5]
        """
        tags, right = label_checks.tags(tags, self._chain.potentials, self.mask)
        parts = self._run(_contributions, tags)
        wrong = likelihood.nan_unless(right, self._chain.potentials.dtype)[:, tf.newaxis]
        return tuple(part + wrong for part in parts)

    def log_partition(self) -> tf.Tensor:
        """log of the sum over all paths y of exp(score(y)), [B], in nats; -inf if none is legal.

        Its gradient is the marginals and the expected transition counts, in closed form.

        >>> crf = LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> print(f"{crf.log_partition()[0]:.4f}")
        0.6931
        """
        return self._run(_log_partition)

    def log_prob(self, tags: TensorLike, ignore_index: int | None = None) -> tf.Tensor:
        """log p(tags), [B], in nats: never above 0; -inf for a path that is forbidden.

        Computed as the sum over steps of log p(y_t given the tags before it, and x), which keeps
        the digits that the difference of score and log_partition would lose in long rows.

        Of partly known labels it is the log-probability that each tag lies in its allowed set:

            log p(sets) = log of the sum of p(y) over all paths y with y_t in set_t at each step t

        which is 0, without a gradient, for a row of which nothing is known, and -inf where a set
        is empty. (Tsuboi et al., "Training Conditional Random Fields Using Incomplete
        Annotations", 2008.)

        Args:
            tags: integer [B, T]; or allowed sets, bool or 0 and 1, [B, T, K]: one-hot labels are
                sets of one tag. What stands on dropped steps is not read.
            ignore_index: a label; steps of [B, T] tags that carry it may have any tag.

        Raises:
            ValueError: as `score`; sets that hold other numbers than 0 and 1.

        >>> crf = LinearChainCRF([[[0.0, 0.0], [0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> print(f"{crf.log_prob([[1, 0]])[0]:.4f}")
        -1.3863
        >>> print(f"{crf.log_prob([[1, -1]], ignore_index=-1)[0]:.4f}")
        -0.6931
        """
        return self._run_on_labels(_log_prob, tags, ignore_index)

    def token_log_prob(self, tags: TensorLike, ignore_index: int | None = None) -> tf.Tensor:
        """log p(y_t given the tags before it, and x), [B, T], in nats; 0 on dropped steps.

        The terms of `log_prob`, none above 0: their sum over a row is log p(tags). Of allowed sets
        a term is log p(y_t in set_t, given that the tags before it lie in theirs). Differentiable,
        also where terms are weighted. Terms are computed in the dtype of the potentials.

        Args:
            tags, ignore_index: as for `log_prob`.

        Raises:
            ValueError: as `log_prob`.

        >>> crf = LinearChainCRF([[[0.0, 0.0], [0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> crf.token_log_prob([[1, 0]]).numpy()
        array([[-0.6931472, -0.6931472]], dtype=float32)
        """
        return self._run_on_labels(_token_log_prob, tags, ignore_index)

    def marginals(self) -> tf.Tensor:
        """p(y_t = k), [B, T, K]; 0 on dropped steps, and in a row that has no legal path.

            p(y_t = k) = exp(alpha_t[k] + beta_t[k] - log_partition)        (Rabiner 1989, eq. 27)

        >>> LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]]).marginals().numpy()
        array([[[0.5, 0.5]]], dtype=float32)
        """
        return self._run(_marginals)

    def edge_marginals(self) -> tf.Tensor:
        """p(y_s = i, y_t = j) at [b, t-1, i, j], with s the kept step before t: [B, T-1, K, K].

        0 where t is dropped or is the first kept step. (Rabiner 1989, eq. 37.)

        >>> crf = LinearChainCRF([[[0.0, 0.0], [0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> crf.edge_marginals().numpy()
        array([[[[0.25, 0.25],
                 [0.25, 0.25]]]], dtype=float32)
        """
        return self._run(_edge_marginals)[:, 1:]

    def forward_messages(self) -> tf.Tensor:
        """log alpha, [B, T, K]: the scores of all that may stand up to a step; 0 on dropped steps.

            alpha_1 = start + potentials_1
            alpha_t = potentials_t + logsumexp_i(alpha_{t-1}[i] + transitions[i, :])

        >>> LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).forward_messages().numpy()
        array([[[1., 2.]]], dtype=float32)
        """
        return self._run(_log_alpha)

    def backward_messages(self) -> tf.Tensor:
        """log beta, [B, T, K]: the scores of all that may stand behind a step; 0 on dropped steps.

            beta_n = end
            beta_{t-1} = logsumexp_j(transitions[:, j] + potentials_t[j] + beta_t[j])

        >>> LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).backward_messages().numpy()
        array([[[0., 0.]]], dtype=float32)
        """
        return self._run(_log_beta)
