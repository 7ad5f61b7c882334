"""LinearChainCRF: the distribution over the tag sequences of a batch, and every question to it."""

from __future__ import annotations

import copy
import functools

import tensorflow as tf

from keras_crf import checks, likelihood
from keras_crf.chain import Chain
from keras_crf.decoding import Decoding
from keras_crf.graphs import as_graph, with_axes
from keras_crf.hmm import HiddenMarkov
from keras_crf.information import Information
from keras_crf.packing import Packing, packing
from keras_crf.probability import Probability
from keras_crf.scores import only_where
from keras_crf.subpaths import Subpaths
from keras_crf.tensor_like import TensorLike


def _packed(potentials, transitions, start, end, mask, right, in_front):
    """(chain, packing): the kept steps, with NaN in rows that broke a rule."""
    steps = packing(mask | ~right[:, tf.newaxis], in_front)
    broken = likelihood.nan_unless(right, potentials.dtype)
    potentials = steps.pack(potentials) + broken[:, tf.newaxis, tf.newaxis]
    if transitions.shape.rank == 4:
        transitions = steps.pack(transitions)
    return Chain(potentials, transitions, start, end, steps.lengths), steps


@as_graph
def _under(rules, chain):
    """The chain with -inf wherever rules (transitions, start, end) say so.

    At first and last steps the potentials of what may not stand there as well: else a large one
    would be what others are measured by, and cost them digits.
    """
    transitions, start, end = map(only_where, rules, chain[1:4])
    chain = chain._replace(transitions=transitions, start=start, end=end)
    # Not [..., tf.newaxis]: LiteRT has no slice of bools with an ellipsis.
    is_first, is_last = (tf.expand_dims(steps, -1) for steps in (chain.at_first(), chain.at_last()))
    may_stand = (rules[1] | ~is_first) & (rules[2] | ~is_last)
    return chain._replace(potentials=only_where(may_stand, chain.potentials))


_packed_in_front = as_graph(functools.partial(_packed, in_front=True))
_packed_from_anywhere = as_graph(functools.partial(_packed, in_front=False))


def _with_known_axes(chain, mask):
    """The chain, its batch and time axes as far as the mask knows them."""
    with_axes([chain.potentials, *[chain.transitions] * chain.varies], mask.shape)
    return chain


def _kept(scores, mask, right, in_front=False):
    """(chain, packing) of the kept steps, with NaN in the rows that are not right."""
    pack = _packed_in_front if in_front else _packed_from_anywhere
    chain, steps = pack(*scores, mask, right)
    return _with_known_axes(chain, mask), with_axes(steps, mask.shape)


class LinearChainCRF(Probability, Decoding, Information, Subpaths, HiddenMarkov):
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
            computed in float32. A `tf.RaggedTensor` [B, (T), K] says itself how long its rows are,
            and tags may be ragged as well; what comes out is dense, with 0 behind the rows.
        transitions: float [K, K], `transitions[i, j]` from tag i to tag j; or [B, T-1, K, K] where
            they depend on the input: `transitions[b, t-1]` leads into step t, from the kept step
            before it.
        start: float [K], of the tag of the first kept step. Zeros if left out.
        end: float [K], of the tag of the last kept step. Zeros if left out.
        mask: bool (or a number type holding 0 and 1) [B, T], True keeps a step. Any pattern.
        lengths: integer [B], short for a mask that keeps the first steps. Where both are given, a
            step counts if both keep it.
        jit_compile: whether the methods run compiled by XLA, by themselves, whatever graph they
            are called in. Each compiles once for each batch size and for each of a few numbers of
            steps (8, 12, 16, 24, 32, ...), to which rows are filled up. They have first derivatives
            only: under a persistent `tf.GradientTape` TensorFlow raises for most of them.

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
        potentials: TensorLike,
        transitions: TensorLike,
        *,
        start: TensorLike | None = None,
        end: TensorLike | None = None,
        mask: TensorLike | None = None,
        lengths: TensorLike | None = None,
        jit_compile: bool = False,
    ) -> None:
        potentials, row_lengths = checks.padded(potentials, "potentials")
        potentials = checks.potentials(potentials)
        transitions = checks.transitions(transitions, potentials)
        no_score = tf.zeros(tf.shape(potentials)[2:], potentials.dtype)
        start = no_score if start is None else checks.scores(start, "start", potentials, axes=1)
        end = no_score if end is None else checks.scores(end, "end", potentials, axes=1)
        kept, right = checks.mask_and_lengths(mask, lengths, potentials)
        if row_lengths is not None:
            kept &= tf.sequence_mask(row_lengths, tf.shape(kept)[1])
        scores = (potentials, transitions, start, end)
        self._chain, self._steps = _kept(scores, kept, right, in_front=mask is None)
        # For `narrowed`, which then starts from here and not from what was packed.
        self._given: tuple | None = (potentials, transitions, kept)
        self._right = right
        self._jit_compile = jit_compile

    def __repr__(self) -> str:
        """B, T, K (None where a graph does not know them), the dtype, and the number of kept steps.

        A graph does not know how many steps are kept, and leaves that out.

        >>> LinearChainCRF([[[0.0, 1.0], [1.0, 0.0]]], [[0.0, 0.0], [0.0, 0.0]], lengths=[1])
        LinearChainCRF(B=1, T=2, K=2, dtype=float32, kept_steps=1)
        """
        potentials, lengths = self._chain.potentials, self._chain.lengths
        sizes = ", ".join(f"{n}={size}" for n, size in zip("BTK", potentials.shape, strict=True))
        kept = "" if tf.is_symbolic_tensor(lengths) else f", kept_steps={lengths.numpy().sum()}"
        return f"LinearChainCRF({sizes}, dtype={potentials.dtype.name}{kept})"

    def compiled(self) -> LinearChainCRF:
        """The same distribution with `jit_compile=True`.

        >>> LinearChainCRF([[[0.0]]], [[0.0]]).compiled().log_partition().numpy()
        array([0.], dtype=float32)
        """
        compiled = copy.copy(self)
        compiled._jit_compile = True
        return compiled

    def narrowed(
        self, *, mask: TensorLike | None = None, lengths: TensorLike | None = None
    ) -> LinearChainCRF:
        """The same scores over fewer steps: those that were kept, and that these keep as well.

        Its methods run without `jit_compile`.

        >>> crf = LinearChainCRF([[[0.0], [0.0]]], [[0.0]], mask=[[0, 1]])
        >>> crf.narrowed(lengths=[1]).mask.numpy()
        array([[False, False]])
        """
        potentials, transitions, given_mask = self._given or self._unpacked()
        kept, right = checks.mask_and_lengths(mask, lengths, potentials)
        scores = (potentials, transitions, *self._chain[2:4])
        narrowed = copy.copy(self)
        narrowed._jit_compile = False
        kept, narrowed._right = given_mask & kept, self._right & right
        narrowed._chain, narrowed._steps = _kept(scores, kept, narrowed._right)
        narrowed._given = (potentials, transitions, kept)
        return narrowed

    def _unpacked(self):
        """What the constructor was given, as far as the kept steps say it."""
        transitions = self._chain.transitions
        if self._chain.varies:
            transitions = self._steps.unpack(transitions)
        return self.potentials, transitions, self.mask

    def repeated(self, n: int) -> LinearChainCRF:
        """Each row n times, one right after the other: the answers are [n B, ...].

        Args:
            n: Python int, at least 1.

        >>> LinearChainCRF([[[0.0]], [[1.0]]], [[0.0]]).repeated(2).log_partition().numpy()
        array([0., 0., 1., 1.], dtype=float32)
        """
        n = checks.how_many(n, "n")

        def rows(tensor):
            return None if tensor is None else tf.repeat(tensor, n, axis=0)

        repeated = copy.copy(self)
        repeated._chain = self._chain.repeated(n)
        repeated._steps = Packing(*map(rows, self._steps))
        repeated._given, repeated._right = None, rows(self._right)
        return repeated

    def constrained(self, allowed: tuple | TensorLike) -> LinearChainCRF:
        """The same scores where `allowed` holds, and -inf elsewhere: what it rules out has
        probability 0, exactly, in every answer, and no gradient.

        Args:
            allowed: `tags.allowed_transitions(tag_names, scheme)`, or any three bool arrays
                `(transitions [K, K], start [K], end [K])`; or allowed sets, bool [B, T, K], such as
                a gazetteer's, or tags that are fixed by hand. (Both: constrain twice.) What a set
                says of dropped steps is not read.

        Raises:
            ValueError: arrays of another shape; TypeError: that are not bool.

        >>> names = ["O", "B-X", "I-X"]
        >>> crf = LinearChainCRF([[[0.0, 0.0, 9.0]]], [[0.0] * 3] * 3)
        >>> legal = crf.constrained(tags.allowed_transitions(names, "BIO"))
        >>> names[crf.argmax().tags[0, 0]], names[legal.argmax().tags[0, 0]]
        ('I-X', 'O')
        """
        constrained = copy.copy(self)
        if isinstance(allowed, tuple):
            rules = tuple(checks.rules(allowed, self._chain.potentials.shape[2]))
            chain = _with_known_axes(_under(rules, self._chain), self.mask)
        else:
            sets = self._steps.pack(checks.allowed_sets(allowed, self._chain.potentials))
            sets |= ~self._chain.within()[..., tf.newaxis]
            chain = self._chain._replace(potentials=only_where(sets, self._chain.potentials))
        constrained._chain = chain
        constrained._given = None
        return constrained

    @property
    def potentials(self) -> tf.Tensor:
        """The potentials, [B, T, K], with zeros on dropped steps."""
        return self._steps.unpack(self._chain.potentials)

    @property
    def transitions(self) -> tf.Tensor:
        """The transitions, [K, K]; or [B, T-1, K, K], with zeros into dropped steps."""
        transitions = self._chain.transitions
        return self._steps.unpack(transitions)[:, 1:] if self._chain.varies else transitions
