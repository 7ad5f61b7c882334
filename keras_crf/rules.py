"""The rules of a tag scheme in a model, and what is done about true tags that break them.

A label says in which set of tags a step lies: of one tag, or of several where it is not known for
sure. What can stand at step t, given the labels up to there, is

    reached_1 = labels_1 ∩ start        reached_t = labels_t ∩ what may follow reached_{t-1}

and where that is empty the rules are broken; from there on it begins anew, with labels_t.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_crf import checks
from keras_crf.chain import a_step_earlier, a_step_later
from keras_crf.raising import refuse_unless
from keras_crf.scan import scan, time_first
from keras_crf.tags import (
    AllowedTransitions,
    allowed_transitions,
    can_occur,
    shortest_impossible_length,
)

ILLEGAL_GOLD = ("raise", "allow")


class Rules:
    """What a scheme allows, and what is done about true tags that break it.

    Args:
        scheme: the name of a tag scheme; or the rules themselves, `(transitions [K, K], start [K],
            end [K])` bool, as `tags.allowed_transitions` gives them.
        tag_names: the K names of the tags, or None with rules that are given themselves.
        number_of_tags: K.
        illegal_gold: "raise" or "allow", see `CRFLayer`.

    Raises:
        ValueError: names that are not of the scheme, tags that no legal sequence holds, and a
            number of steps for which there is no legal sequence.
    """

    def __init__(self, scheme, tag_names, number_of_tags, illegal_gold):
        if illegal_gold not in ILLEGAL_GOLD:
            raise ValueError(f"illegal_gold must be one of {ILLEGAL_GOLD}, got {illegal_gold!r}.")
        self.illegal_gold = illegal_gold
        self.allowed = _allowed(scheme, tag_names, number_of_tags)
        self.name = scheme if isinstance(scheme, str) else "the scheme"
        self.tag_names = tag_names or [str(tag) for tag in range(number_of_tags)]
        self._check_tags()
        self._check_lengths()

    def _check_tags(self):
        can = can_occur(self.allowed)
        never = [name for tag, name in enumerate(self.tag_names) if not can[tag]]
        if never:
            raise ValueError(
                f"no legal sequence of {self.name} over these tag_names holds {never}. Leave them "
                "out, or add the names that have to stand beside them, as B-X before I-X in IOB2."
            )

    def _check_lengths(self):
        steps = shortest_impossible_length(self.allowed)
        if steps is not None:
            raise ValueError(
                f"under {self.name} the tag_names {self.tag_names} make no legal sequence for rows "
                f"of the length {steps}. Add O, or the name of a tag that may stand alone."
            )

    def applied(self, labels, distribution, ignore_index=None):
        """True tags as a loss is to take them, and which rows are right, [B] bool.

        With "raise", labels that break the rules are refused, in a graph when it runs; where
        nothing can be raised, their rows are not right. With "allow" they become allowed sets that
        say nothing where the rules are broken: neither of two tags counts that may not follow each
        other, nor a first or last one that may not be that.

        Args:
            labels: tags [B, T], or allowed sets [B, T, K].
            distribution: the `LinearChainCRF` that they are for.
            ignore_index: a tag that stands for all of them.
        """
        scores, mask = distribution.potentials, distribution.mask
        are_tags = labels.shape.rank == 2 and ignore_index is None
        labels, right = checks.labels(labels, scores, mask, ignore_index)
        sets = tf.one_hot(labels, tf.shape(scores)[2], True, False) if are_tags else labels
        steps = distribution._steps
        breaks = self._breaks(steps.pack(sets), steps.lengths, are_tags)
        if self.illegal_gold == "allow":
            return sets | steps.unpack(breaks.unknown())[..., tf.newaxis], right
        self._refuse(breaks, steps)
        return labels, right & ~tf.reduce_any(breaks.entering | breaks.leaving, axis=1)

    def _breaks(self, sets, lengths, are_tags):
        """The `Breaks` of labels [B, T, K] bool, whose kept steps stand in front."""
        transitions, start, end = (tf.constant(part, tf.float32) for part in self.allowed)
        sets = tf.cast(sets, tf.float32)
        # For single tags, what is reached is the tag itself: no recurrence is needed.
        reached = sets if are_tags else _reached(sets, transitions, start)
        may_enter = _first(start, a_step_later(tf.matmul(reached, transitions)))
        steps, last = tf.range(tf.shape(sets)[1]), lengths[:, tf.newaxis] - 1
        return Breaks(
            entering=_is_empty(sets * may_enter) & (steps <= last),
            leaving=_is_empty(reached * end) & tf.equal(steps, last),
            tags=tf.argmax(sets, axis=-1, output_type=tf.int32),
            previous=a_step_later(tf.argmax(reached, axis=-1, output_type=tf.int32)),
        )

    def _refuse(self, breaks, steps):
        """Raises, where TensorFlow can, about the first place where the rules are broken."""
        nothing = tf.zeros_like(breaks.entering)
        places = {
            "{value} may not be first": _first(breaks.entering, nothing),
            "{value} may not follow {previous}": _first(nothing, breaks.entering),
            "{value} may not be last": breaks.leaving,
        }
        shown = {"value": steps.unpack(breaks.tags), "previous": steps.unpack(breaks.previous)}
        for words, broken in places.items():
            message = f"the true tags break the rules of {self.name}: {words}"
            refuse_unless(~steps.unpack(broken), message, shown, names=self.tag_names)


class Breaks(NamedTuple):
    """Where labels break the rules, [B, T], kept steps in front."""

    entering: tf.Tensor  # bool: the tag may not follow the one before it, or not be the first
    leaving: tf.Tensor  # bool: the tag may not be the last
    tags: tf.Tensor  # int32, the tag of the step; of several the lowest
    previous: tf.Tensor  # int32, the tag of the step before it

    def unknown(self):
        """[B, T] bool: the steps whose labels may be at fault."""
        return self.entering | self.leaving | a_step_earlier(self.entering)


def _reached(sets, transitions, start):
    """What can stand at each step, given the labels [B, T, K] up to there, as 0 and 1."""

    def cell(inputs, state, _):
        follows = tf.minimum(tf.matmul(state, transitions), 1)
        reached = _unless_empty(inputs[0] * follows, inputs[0])
        return reached, reached

    sets = _first(_unless_empty(sets * start, sets), sets)
    nothing = tf.zeros(tf.shape(sets)[::2], sets.dtype)
    return time_first(scan(cell, [time_first(sets)], nothing, sets.dtype)[0])


def _unless_empty(sets, otherwise):
    return tf.where(_is_empty(sets)[..., tf.newaxis], otherwise, sets)


def _is_empty(sets):
    return tf.equal(tf.reduce_max(sets, axis=-1), 0)


def _first(values, others):
    """`values` at the first step, `others` [B, T, ...] at all behind it."""
    is_first = tf.equal(tf.range(tf.shape(others)[1]), 0)
    return tf.where(is_first[(..., *[tf.newaxis] * (others.shape.rank - 2))], values, others)


def _allowed(scheme, tag_names, number_of_tags):
    if isinstance(scheme, str):
        if tag_names is None:
            raise ValueError(f"scheme={scheme!r} needs tag_names, in the order of the tag ids.")
        return allowed_transitions(tag_names, scheme)
    parts = [np.asarray(part) for part in scheme]
    checks.rules(parts, number_of_tags)
    return AllowedTransitions(*parts)
