"""LinearChainCRF: the distribution over the tag sequences of a batch, and every question to it."""

import copy
import functools
from typing import NamedTuple

import tensorflow as tf

from keras_crf import checks, likelihood, messages, recursions
from keras_crf.graphs import as_graph, as_graph_or_compiled
from keras_crf.packing import packing


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


def _packed(potentials, transitions, start, end, mask, right, in_front):
    """(chain, packing): the kept steps, with NaN in rows that broke a rule."""
    steps = packing(mask | ~right[:, tf.newaxis], in_front)
    broken = likelihood.nan_unless(right, potentials.dtype)
    potentials = steps.pack(potentials) + broken[:, tf.newaxis, tf.newaxis]
    return recursions.Chain(potentials, transitions, start, end, steps.lengths), steps


_packed_in_front = as_graph(functools.partial(_packed, in_front=True))
_packed_from_anywhere = as_graph(functools.partial(_packed, in_front=False))


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
    return likelihood.log_prob(chain, steps.pack(tags))


@as_graph_or_compiled
def _marginals(chain, steps):
    return steps.unpack(likelihood.marginals(*messages.both_ways(chain)))


@as_graph_or_compiled
def _edge_marginals(chain, steps):
    return steps.unpack(likelihood.edge_marginals(*messages.both_ways(chain)))


@as_graph_or_compiled
def _best_path(chain, steps):
    tags = recursions.viterbi(chain)
    score = likelihood.score(chain, tags) + likelihood.not_a_number(chain)
    return BestPath(steps.unpack(tags), score)


@as_graph_or_compiled
def _tagging(chain, steps):
    tags = recursions.viterbi(chain)
    marginals, log_prob = likelihood.marginals_and_log_prob(chain, tags)
    marginals, tags = steps.unpack(marginals), steps.unpack(tags)
    return Tagging(tags, likelihood.picked(marginals, tags), log_prob, marginals)


@as_graph_or_compiled
def _log_alpha(chain, steps):
    return steps.unpack(likelihood.log_alpha(chain))


@as_graph_or_compiled
def _log_beta(chain, steps):
    return steps.unpack(likelihood.log_beta(chain))


class LinearChainCRF:
    """The distribution over the tag sequences of a batch of rows, given their scores.

        score(y) = start[y_1] + sum_t potentials[t, y_t]
                   + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]
        p(y) = exp(score(y) - log_partition)

    over the kept steps t = 1..n of a row. A dropped step is skipped: the chain runs over the kept
    steps in order, as if the others were not there, and what lies on them changes nothing. A row
    without kept steps has score, log_partition and log_prob 0. -inf in any of the scores forbids,
    exactly. Logarithms are natural (nats). A row that holds NaN or +inf gets NaN, alone.

    Args:
        potentials: float [B, T, K], the score of each tag at each step. float16 and bfloat16 are
            computed in float32.
        transitions: float [K, K], `transitions[i, j]` from tag i to tag j.
        start: float [K], of the tag of the first kept step. Zeros if left out.
        end: float [K], of the tag of the last kept step. Zeros if left out.
        mask: bool (or a number type holding 0 and 1) [B, T], True keeps a step. Any pattern.
        lengths: integer [B], short for a mask that keeps the first steps. Where both are given, a
            step counts if both keep it.
        jit_compile: whether the methods run compiled by XLA, by themselves, whatever graph they
            are called in. Each compiles once for each batch size and for each of a few numbers of
            steps (8, 12, 16, 24, 32, ...), to which rows are filled up.

    Raises:
        TypeError: potentials that are not floating point, lengths that are not whole numbers.
        ValueError: tensors whose shapes do not go together; mask or lengths with other values
            (in a graph InvalidArgumentError; under XLA, which cannot raise, the row gives NaN).

    Source: Lafferty, McCallum and Pereira, "Conditional Random Fields", 2001.

    >>> crf = LinearChainCRF([[[0.0, 0.75], [1.0, 0.0], [0.0, 0.25]]], [[0.5, -0.5], [0.0, 0.25]])
    >>> crf.argmax().tags.numpy()
    array([[1, 0, 0]], dtype=int32)
    >>> print(f"{crf.log_prob([[1, 0, 1]])[0]:.4f}")
    -2.0162
    """

    def __init__(
        self,
        potentials,
        transitions,
        *,
        start=None,
        end=None,
        mask=None,
        lengths=None,
        jit_compile=False,
    ):
        potentials = checks.potentials(potentials)
        transitions = checks.scores(transitions, "transitions", potentials, axes=2)
        no_score = tf.zeros_like(transitions[0])
        start = no_score if start is None else checks.scores(start, "start", potentials, axes=1)
        end = no_score if end is None else checks.scores(end, "end", potentials, axes=1)
        keeps_first_steps = mask is None
        mask, right = checks.mask_and_lengths(mask, lengths, potentials)
        scores = (potentials, transitions, start, end)
        pack = _packed_in_front if keeps_first_steps else _packed_from_anywhere
        self._chain, self._steps = pack(*scores, mask, right)
        self._jit_compile = jit_compile

    def compiled(self):
        """The same distribution with `jit_compile=True`.

        >>> LinearChainCRF([[[0.0]]], [[0.0]]).compiled().log_partition().numpy()
        array([0.], dtype=float32)
        """
        compiled = copy.copy(self)
        compiled._jit_compile = True
        return compiled

    def narrowed(self, *, mask=None, lengths=None):
        """The same scores over fewer steps: those that were kept, and that these keep as well.

        Its methods run without `jit_compile`.

        >>> crf = LinearChainCRF([[[0.0], [0.0]]], [[0.0]], mask=[[0, 1]])
        >>> crf.narrowed(lengths=[1]).mask.numpy()
        array([[False, False]])
        """
        kept, right = checks.mask_and_lengths(mask, lengths, self.potentials)
        narrowed = copy.copy(self)
        scores = (self.potentials, *self._chain[1:4])
        narrowed._jit_compile = False
        narrowed._chain, narrowed._steps = _packed_from_anywhere(*scores, self.mask & kept, right)
        return narrowed

    @property
    def mask(self):
        """The kept steps, [B, T] bool."""
        return self._steps.mask

    @property
    def potentials(self):
        """The potentials, [B, T, K], with zeros on dropped steps."""
        return self._steps.unpack(self._chain.potentials)

    @property
    def transitions(self):
        """The transitions, [K, K]."""
        return self._chain.transitions

    def _run(self, function, *others):
        return function(self._chain, self._steps, *others, jit_compile=self._jit_compile)

    def _run_checked(self, function, tags):
        """`_run` on tags, with NaN in the result for the rows whose tags are no tags."""
        tags, right = checks.tags(tags, self._chain.potentials, self.mask)
        result = self._run(function, tags)
        return result + likelihood.nan_unless(right, result.dtype)

    def score(self, tags):
        """The unnormalised score of each row's path (formula above), [B].

        Args:
            tags: integer [B, T]; what stands on dropped steps is not read.

        Raises:
            ValueError: a tag that is not in 0..K-1 on a kept step (in a graph
                InvalidArgumentError; under XLA the row gives NaN), tags of another shape.

        >>> float(LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).score([[1]])[0])
        2.0
        """
        return self._run_checked(_score, tags)

    def contributions(self, tags):
        """What each step gives to the score: two [B, T], 0 on dropped steps.

        The first is the step's potential; the second its incoming transition, with `start` at the
        first kept step and `end` at the last. Their sum over both and over time is `score`.

        >>> crf = LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]], end=[0.0, 0.5])
        >>> [part.numpy().item() for part in crf.contributions([[1]])]
        [2.0, 0.5]
        """
        tags, right = checks.tags(tags, self._chain.potentials, self.mask)
        parts = self._run(_contributions, tags)
        wrong = likelihood.nan_unless(right, self._chain.potentials.dtype)[:, tf.newaxis]
        return tuple(part + wrong for part in parts)

    def log_partition(self):
        """log of the sum over all paths y of exp(score(y)), [B], in nats; -inf if none is legal.

        Its gradient is the marginals and the expected transition counts, in closed form.

        >>> crf = LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> print(f"{crf.log_partition()[0]:.4f}")
        0.6931
        """
        return self._run(_log_partition)

    def log_prob(self, tags):
        """log p(tags), [B], in nats: never above 0; -inf for a path that is forbidden.

        Computed as the sum over steps of log p(y_t given the tags before it, and x), which keeps
        the digits that the difference of score and log_partition would lose in long rows.

        Args:
            tags: integer [B, T]; what stands on dropped steps is not read.

        Raises:
            ValueError: as `score`.

        >>> crf = LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> print(f"{crf.log_prob([[1]])[0]:.4f}")
        -0.6931
        """
        return self._run_checked(_log_prob, tags)

    def marginals(self):
        """p(y_t = k), [B, T, K]; 0 on dropped steps, and in a row that has no legal path.

            p(y_t = k) = exp(alpha_t[k] + beta_t[k] - log_partition)        (Rabiner 1989, eq. 27)

        >>> LinearChainCRF([[[0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]]).marginals().numpy()
        array([[[0.5, 0.5]]], dtype=float32)
        """
        return self._run(_marginals)

    def edge_marginals(self):
        """p(y_s = i, y_t = j) at [b, t-1, i, j], with s the kept step before t: [B, T-1, K, K].

        0 where t is dropped or is the first kept step. (Rabiner 1989, eq. 37.)

        >>> crf = LinearChainCRF([[[0.0, 0.0], [0.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]])
        >>> crf.edge_marginals().numpy()
        array([[[[0.25, 0.25],
                 [0.25, 0.25]]]], dtype=float32)
        """
        return self._run(_edge_marginals)[:, 1:]

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

    def forward_messages(self):
        """log alpha, [B, T, K]: the scores of all that may stand up to a step; 0 on dropped steps.

            alpha_1 = start + potentials_1
            alpha_t = potentials_t + logsumexp_i(alpha_{t-1}[i] + transitions[i, :])

        >>> LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).forward_messages().numpy()
        array([[[1., 2.]]], dtype=float32)
        """
        return self._run(_log_alpha)

    def backward_messages(self):
        """log beta, [B, T, K]: the scores of all that may stand behind a step; 0 on dropped steps.

            beta_n = end
            beta_{t-1} = logsumexp_j(transitions[:, j] + potentials_t[j] + beta_t[j])

        >>> LinearChainCRF([[[1.0, 2.0]]], [[0.0, 0.0], [0.0, 0.0]]).backward_messages().numpy()
        array([[[0., 0.]]], dtype=float32)
        """
        return self._run(_log_beta)
