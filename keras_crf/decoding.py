"""Which tags: the paths that a distribution names."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from keras_crf import checks, k_best, labels, likelihood, messages, recursions, sampling
from keras_crf.asking import Asking
from keras_crf.graphs import as_graph_or_compiled
from keras_crf.tensor_like import TensorLike


class BestPath(NamedTuple):
    """The result of `LinearChainCRF.argmax`."""

    tags: tf.Tensor  # [B, T] int32, argmax_y score(y); 0 on dropped steps
    score: tf.Tensor  # [B], score(tags)


class BestPaths(NamedTuple):
    """The result of `LinearChainCRF.top_k`."""

    tags: tf.Tensor  # [B, k, T] int32, best path first; 0 on dropped steps
    score: tf.Tensor  # [B, k], score(tags); -inf where there is no k-th path
    log_prob: tf.Tensor  # [B, k], log p(tags), in nats; -inf where there is no k-th path


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
def _best_paths(chain, steps, *, k):
    ranked = k_best.k_best(chain, k)
    scores = ranked.score, k_best.log_prob(chain, ranked, k)
    return steps.unpack(ranked.tags), *(tf.reshape(x, [-1]) for x in scores)


@as_graph_or_compiled
def _most_right_tags(chain, steps):
    marginals = likelihood.marginals(*messages.both_ways(chain))
    return steps.unpack(recursions.viterbi(chain.where_legal(marginals)))


@as_graph_or_compiled
def _samples(chain, steps, *, n, seed):
    return steps.unpack(sampling.sample(chain, n, seed))


@as_graph_or_compiled
def _tagging(chain, steps):
    tags, marginals, log_prob = labels.tagging(chain)
    confidence = likelihood.within_only(chain, likelihood.picked(marginals, tags))
    tags, confidence, marginals = map(steps.unpack, (tags, confidence, marginals))
    return Tagging(*map(tf.stop_gradient, (tags, confidence, log_prob, marginals)))


class Decoding(Asking):
    """The methods of `LinearChainCRF` that name paths."""

    def argmax(self) -> BestPath:
        """The best path of each row, by Viterbi: a named tuple `(tags [B, T] int32, score [B])`.

        Tags are 0 on dropped steps. Of equally good paths it is the one with the lowest tag at
        the last kept step, then at the one before it, and so on. A row without a legal path has
        the score -inf, and then its tags mean nothing. (Rabiner 1989, section III.B.)

        >>> LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).argmax().tags.numpy()
        array([[1]], dtype=int32)
        """
        return self._run(_best_path)

    def top_k(self, k: int) -> BestPaths:
        """The k best paths of each row: `(tags [B, k, T] int32, score [B, k], log_prob [B, k])`.

        A named tuple. The paths of a row are all different, best first. Of equally good paths the
        one with the lowest tag at the last kept step goes first, then at the one before it, and so
        on; `top_k(1)` is `argmax`. (What scores the same but for rounding may stand in either
        order.) `score` is the unnormalised score of each path, and `log_prob` is its log p in nats,
        as exact as that of the method `log_prob`. Both are differentiable.

        Tags are 0 on dropped steps. Where a row has fewer than k legal paths, the places that are
        left over have tags 0, and -inf for `score` and `log_prob`. A row of NaN has tags 0, and NaN
        for both. A row without kept steps has one path, with `score` and `log_prob` 0.

        Args:
            k: Python int, at least 1. Eagerly, each new k is traced as a graph of its own.

        Raises:
            ValueError: another k.

        Source: Seshadri and Sundberg, "List Viterbi Decoding Algorithms with Applications", 1994.

        >>> crf = LinearChainCRF([[[1.0, 2.0], [0.0, 0.5]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> best = crf.top_k(3)
        >>> best.tags.numpy()
        array([[[1, 1],
                [1, 0],
                [0, 1]]], dtype=int32)
        >>> best.score.numpy()
        array([[2.5, 2. , 1.5]], dtype=float32)
        >>> np.exp(best.log_prob).round(3)
        array([[0.455, 0.276, 0.167]], dtype=float32)
        """
        k = checks.how_many(k, "k")
        tags, *scores = self._run(_best_paths, k=k)
        return BestPaths(tf.transpose(tags, [0, 2, 1]), *(tf.reshape(x, [-1, k]) for x in scores))

    def posterior_decode(self) -> tf.Tensor:
        """The legal path of which most tags are expected to be right, [B, T] int32.

            y = argmax over legal y of sum_t p(y_t)

        by Viterbi on the marginals, with all transitions that are not forbidden alike. `argmax` is
        the path most probable to be right as a whole; this one has the fewest wrong tags, in
        expectation, that a path can have that breaks no rule. Legal is what has a score above
        -inf. Tags are 0 on dropped steps; in a row without a legal path, and in one that holds NaN,
        they mean nothing. Ties are broken as by `argmax`, but marginals tie only to rounding.

        Source: Käll, Krogh and Sonnhammer, "An HMM posterior decoder for sequence feature
        prediction that includes homology information", 2005.

        >>> potentials = np.log([[[0.4, 0.5, 0.1], [0.4, 0.1, 0.5], [0.4, 0.1, 0.5]]])
        >>> transitions = np.log([[0.3, 0.1, 0.4], [0.6, 0.2, 0.1], [0.5, 0.2, 0.1]])
        >>> crf = LinearChainCRF(potentials, transitions)
        >>> crf.argmax().tags.numpy(), crf.posterior_decode().numpy()
        (array([[1, 0, 2]], dtype=int32), array([[1, 0, 0]], dtype=int32))
        """
        return self._run(_most_right_tags)

    def sample(self, n: int, seed: TensorLike | None = None) -> tf.Tensor:
        """n independent paths of each row, drawn with their probabilities: [n, B, T] int32.

            p(y_t | y_{t-1}) ∝ exp(transitions[y_{t-1}, y_t] + potentials[t, y_t] + beta_t[y_t])

        One pass from the right serves all n. A tag of probability 0 is never drawn. Tags are 0 on
        dropped steps, and in a row that has no legal path or holds NaN.

        Args:
            n: Python int, at least 1.
            seed: a whole number, or two. The same seed gives the same paths, eagerly, in a graph
                and compiled (but where a draw falls on the last digit of a probability), and
                whatever steps a row is filled up with and rows are added behind it. None draws
                afresh at each call; then it is `tf.random.set_seed` that makes runs repeatable.

        Raises:
            ValueError: another n, or a seed that is neither.

        Source: Frühwirth-Schnatter, "Data Augmentation and Dynamic Linear Models", 1994 (with
        time reversed).

        >>> crf = LinearChainCRF([[[0.0, 0.0]] * 4], [[0.0, -np.inf], [-np.inf, 0.0]])
        >>> set(map(tuple, crf.sample(20, seed=1)[:, 0].numpy().tolist())) == {(0,) * 4, (1,) * 4}
        True
        """
        n = checks.how_many(n, "n")
        # As a tensor, for one cached graph to serve every n.
        tags = self._run(_samples, n=tf.constant(n), seed=checks.seed(seed))
        tags.set_shape([None, None, n])
        return tf.transpose(tags, [2, 0, 1])

    def tagging(self) -> Tagging:
        """The best path and how sure it is: `(tags, confidence, log_prob, marginals)`.

        What `argmax`, `marginals` and `log_prob` of the best path say, by one pass each way:
        confidence [B, T] is the marginal of each decoded tag, 0 on dropped steps. They are
        answers, not terms of a loss: without a gradient.

        >>> tagging = LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]]).tagging()
        >>> tagging.tags.numpy(), tagging.confidence.numpy()
        (array([[0]], dtype=int32), array([[0.5]], dtype=float32))
        """
        return self._run(_tagging)
