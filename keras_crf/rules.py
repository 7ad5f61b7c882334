"""The rules of a tag scheme in a model, and what is done about true tags that break them.

A label says in which set of tags a step lies: of one tag, or of several where it is not known for
sure. What can stand at step t, given the labels up to there, is

    reached_1 = labels_1 ∩ start        reached_t = labels_t ∩ what may follow reached_{t-1}

and where that is empty the rules are broken; from there on it begins anew, with labels_t. (A set
that was empty before is no matter of rules, and leaves open what follows it.)
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_crf import checks, label_checks, schemes
from keras_crf.chain import a_step_earlier, a_step_later
from keras_crf.graphs import as_graph
from keras_crf.raising import earliest, refuse_unless
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
            end [K])` bool, as `tags.allowed_transitions` gives them; or None for no other rule than
            that unused tags have probability 0.
        tag_names: the K names of the tags, or None with rules that are given themselves.
        number_of_tags: K.
        unused_tags: those of the names that no sequence holds.

    Raises:
        ValueError: names that are not of the scheme, tags that no legal sequence holds, and a
            number of steps for which there is no legal sequence.
    """

    def __init__(self, scheme, tag_names, number_of_tags, unused_tags=()):
        self.tag_names = tag_names or [str(tag) for tag in range(number_of_tags)]
        self.unused = np.isin(self.tag_names, schemes.unused_among(unused_tags, tag_names))
        self.allowed = _without(
            self.unused, _allowed(scheme, tag_names, number_of_tags, unused_tags)
        )
        is_given = scheme is not None and not isinstance(scheme, str)
        self.scheme = self.allowed if is_given else scheme
        self.name = scheme if isinstance(scheme, str) else "the scheme"
        self._check_tags()
        self._check_lengths()

    def config(self):
        """The scheme as JSON can hold it: its name, or the rules as lists."""
        if self.scheme is None or isinstance(self.scheme, str):
            return self.scheme
        return [table.tolist() for table in self.allowed]

    def _check_tags(self):
        can = can_occur(self.allowed) | self.unused
        never = [name for tag, name in enumerate(self.tag_names) if not can[tag]]
        if never:
            raise ValueError(
                f"no legal sequence of {self.name} over these tag_names holds {never}. Leave them "
                "out, name them in unused_tags, or add the names that have to stand beside them, "
                "as B-X before I-X in IOB2; or choose the names' own scheme, which "
                "tags.detect_scheme(tag_names) tells."
            )

    def _check_lengths(self):
        steps = shortest_impossible_length(self.allowed)
        if steps is not None:
            raise ValueError(
                f"under {self.name} the tag_names {self.tag_names} make no legal sequence for rows "
                f"of the length {steps}. Add O, or the name of a tag that may stand alone."
            )

    def applied(self, labels, distribution, ignore_index=None, *, illegal_gold="raise"):
        """True tags as a loss is to take them, and which rows are right, [B] bool.

        With "raise", labels that break the rules are refused, in a graph when it runs; where
        nothing can be raised, their rows are not right. With "allow" they become allowed sets that
        say nothing where the rules are broken: neither of two tags counts that may not follow each
        other, nor a first or last one that may not be that. A row that has no legal path even so
        says nothing at all.

        Args:
            labels: tags [B, T], or allowed sets [B, T, K].
            distribution: the `LinearChainCRF` that they are for.
            ignore_index: a tag that stands for all of them.
            illegal_gold: "raise" or "allow".
        """
        scores, mask = distribution.potentials, distribution.mask
        are_tags = labels.shape.rank == 2 and ignore_index is None
        labels, right = label_checks.labels(labels, scores, mask, ignore_index)
        sets = tf.one_hot(labels, tf.shape(scores)[2], True, False) if are_tags else labels
        breaks = _breaks(sets, distribution._steps, *self._as_numbers(), are_tags)
        if illegal_gold == "allow":
            return self._widened(sets, breaks, distribution._steps), right
        self._refuse(breaks)
        return labels, right & ~tf.reduce_any(breaks.any(), axis=1)

    def _as_numbers(self):
        return [tf.constant(part, tf.float32) for part in self.allowed]

    def _widened(self, sets, breaks, steps):
        """The sets, of any tag where the rules are broken, and that leave a legal path."""
        known = tf.reduce_any(sets, axis=2)
        sets |= (breaks.unknown & known)[..., tf.newaxis]
        hopeless = tf.reduce_any(
            _breaks(sets, steps, *self._as_numbers(), False).any(), axis=1, keepdims=True
        )
        return sets | (hopeless & known)[..., tf.newaxis]

    def _refuse(self, breaks):
        """Raises, where TensorFlow can, about the first place where the rules are broken."""
        first_place = earliest(breaks.any())
        shown = {"value": breaks.tags, "previous": breaks.previous}
        if self.unused.any():
            unused = first_place & tf.gather(tf.constant(self.unused), breaks.tags)
            first_place &= ~unused
            message = "the true tags hold {value}, one of unused_tags, which have probability 0,"
            tag, ways_out = {"value": breaks.tags}, label_checks.WAYS_OUT
            refuse_unless(
                ~(breaks.any() & unused), message, tag, names=self.tag_names, advice=ways_out
            )
        for words, broken in {
            "{value} may not be first": breaks.at_first,
            "{value} may not follow {previous}": breaks.following,
            "{value} may not be last": breaks.at_last,
        }.items():
            message = f"the true tags break the rules of {self.name}: {words}"
            refuse_unless(~(broken & first_place), message, shown, names=self.tag_names)


class Breaks(NamedTuple):
    """Where labels break the rules, [B, T]."""

    at_first: tf.Tensor  # bool: the tag may not be the first
    following: tf.Tensor  # bool: the tag may not follow the one before it
    at_last: tf.Tensor  # bool: the tag may not be the last
    unknown: tf.Tensor  # bool: the labels of the step may be at fault
    tags: tf.Tensor  # int32, the tag of the step; of several the lowest
    previous: tf.Tensor  # int32, the tag of the step before it

    def any(self):
        """[B, T] bool: where the rules are broken in one way or another."""
        return self.at_first | self.following | self.at_last


@as_graph
def _breaks(sets, steps, transitions, start, end, are_tags):
    """The `Breaks` of labels, sets [B, T, K] bool, under rules of 0 and 1."""
    sets = tf.cast(steps.pack(sets), tf.float32)
    # For single tags, what is reached is the tag itself: no recurrence is needed.
    reached = sets if are_tags else _reached(sets, transitions, start)
    may_enter = _first(start, a_step_later(tf.matmul(reached, transitions)))
    places, last = tf.range(tf.shape(sets)[1]), steps.lengths[:, tf.newaxis] - 1
    entering = _is_empty(sets * may_enter) & ~_is_empty(sets) & (places <= last)
    leaving = _is_empty(reached * end) & ~_is_empty(sets) & tf.equal(places, last)
    nowhere = tf.zeros_like(entering)
    parts = Breaks(
        at_first=_first(entering, nowhere),
        following=_first(nowhere, entering),
        at_last=leaving,
        unknown=entering | leaving | a_step_earlier(entering),
        tags=tf.argmax(sets, axis=-1, output_type=tf.int32),
        previous=a_step_later(tf.argmax(reached, axis=-1, output_type=tf.int32)),
    )
    return Breaks(*map(steps.unpack, parts))


def _reached(sets, transitions, start):
    """What can stand at each step, given the labels [B, T, K] up to there, as 0 and 1."""
    anew = _unless_empty(sets, tf.ones_like(sets))

    def cell(inputs, state, _):
        follows = tf.minimum(tf.matmul(state, transitions), 1)
        reached = _unless_empty(inputs[0] * follows, inputs[1])
        return reached, reached

    # Anything may come before the first step, whose own rule is already in it.
    sets = _first(_unless_empty(sets * start, anew), sets)
    nothing = tf.zeros(tf.shape(sets)[::2], sets.dtype)
    inputs = [time_first(sets), time_first(_first(sets, anew))]
    return time_first(scan(cell, inputs, nothing, sets.dtype)[0])


def _unless_empty(sets, otherwise):
    return tf.where(_is_empty(sets)[..., tf.newaxis], otherwise, sets)


def _is_empty(sets):
    return tf.equal(tf.reduce_max(sets, axis=-1), 0)


def _first(values, others):
    """`values` at the first step, `others` [B, T, ...] at all behind it."""
    is_first = tf.equal(tf.range(tf.shape(others)[1]), 0)
    return tf.where(is_first[(..., *[tf.newaxis] * (others.shape.rank - 2))], values, others)


def _without(unused, allowed):
    """Rules that allow nothing for the unused tags, [K] bool."""
    used = ~unused
    transitions, start, end = allowed
    return AllowedTransitions(transitions & used & used[:, np.newaxis], start & used, end & used)


def _allowed(scheme, tag_names, number_of_tags, unused_tags):
    if scheme is None:
        every = np.ones(number_of_tags, bool)
        return AllowedTransitions(np.ones([number_of_tags] * 2, bool), every, every)
    if not isinstance(scheme, str):
        return AllowedTransitions(*_tables(scheme, number_of_tags))
    if tag_names is None:
        raise ValueError(f"scheme={scheme!r} needs tag_names, in the order of the tag ids.")
    try:
        return allowed_transitions(tag_names, scheme, unused_tags=unused_tags)
    except ValueError as error:
        raise ValueError(
            f"{error} For names that are written in another way, give the rules themselves: "
            f"scheme=keras_crf.tags.allowed_transitions(tag_names, {scheme!r}, separator=…, "
            "prefix_first=…)."
        ) from error


def _tables(scheme, number_of_tags):
    """Copies of rules that are given themselves, as bool arrays."""
    if not isinstance(scheme, (tuple, list)):
        raise TypeError(
            "scheme must be the name of a tag scheme, or three bool arrays, (transitions [K, K], "
            f"start [K], end [K]); got {type(scheme).__name__} {scheme!r}."
        )
    try:
        tables = [np.array(table) for table in scheme]
    except ValueError as error:
        raise ValueError(f"the arrays of the scheme need rows of one length: {error}") from error
    checks.rules(tables, number_of_tags)
    return tables
