"""The k best paths: Viterbi with a list of the k best paths in place of one.

    list_t[j] = the k best of { list_{t-1}[i] + transitions[i, j] + potentials_t[j] : any i }

At each tag there meet K lists, each sorted, that are merged: k times the best of the K heads is
taken, and its list moves up. Of equal paths the one with the lower tag before goes first, and then
the one that stood first in its list; so of all equal paths that with the lowest last tag, then the
lowest tag before it, and so on.

Each place of the lists of a step is known by one number, its node: (rank * B + row) * K + tag.
What was merged is remembered as the nodes that it came from, which lead the way back.

Seshadri and Sundberg, "List Viterbi Decoding Algorithms with Applications", 1994 (the parallel
algorithm).
"""

from typing import NamedTuple

import tensorflow as tf

from keras_crf import labels, likelihood
from keras_crf.chain import Chain
from keras_crf.graphs import custom_gradient
from keras_crf.recursions import STEPS_PER_SCALING
from keras_crf.scan import scan
from keras_crf.scores import forbidden, only_where

# Merging is written out once for each of the k; for more, all K * k candidates are sorted.
MOST_TO_MERGE = 16


class Ranked(NamedTuple):
    """The k best of each row, best first."""

    tags: tf.Tensor  # [B, T, k] int32, zeros behind a row's length and where there is no path
    score: tf.Tensor  # [B, k], -inf where there is no path


def k_best(chain, number_of_paths):
    """The k best paths and their scores, in which NaN stands for rows that have NaN or +inf."""
    numbers = _numbers_only(chain)
    centered, _ = numbers.centered()
    lists, came_from = _merged_lists(centered, number_of_paths)
    scores, nodes = _best_at_the_end(centered, lists)
    tags = _way_back(came_from, nodes, tf.shape(chain.start)[0])
    not_a_number = likelihood.not_a_number(chain)[:, tf.newaxis]
    exists = _exists(centered, scores) & tf.equal(not_a_number, 0)
    tags = tf.where(exists[:, tf.newaxis] & chain.within()[..., tf.newaxis], tags, 0)
    return Ranked(tags, only_where(exists, _scores(numbers, tags)) + not_a_number)


def _numbers_only(chain):
    """The chain with 0 in place of NaN and +inf, which cannot be compared."""
    scores = [
        tf.where(scores <= scores.dtype.max, scores, tf.zeros_like(scores)) for scores in chain[:4]
    ]
    return chain._replace(**dict(zip(chain._fields, scores, strict=False)))


def _merged_lists(chain, k):
    """The lists [k, B, K] after each row's last step, and the nodes that they came from, one step
    earlier: [T, k, B, K] int32. Behind a row's length, lists stay what they are."""
    stay = _nodes(chain, k)
    moves = _moves(chain)
    best_of_lists = _merged if k <= MOST_TO_MERGE else _sorted

    def cell(inputs, lists, place):
        potentials, goes_on, *varying = inputs
        lists += potentials
        if place % STEPS_PER_SCALING == 0:
            best = tf.reduce_max(lists[0], axis=-1, keepdims=True)
            lists -= tf.where(_is_score(best), best, tf.zeros_like(best))
        leaving = tf.transpose(varying[0], [1, 0, 2]) if varying else moves
        merged, came_from = best_of_lists(lists, leaving)
        goes_on = goes_on[:, tf.newaxis]
        merged, came_from = tf.where(goes_on, merged, lists), tf.where(goes_on, came_from, stay)
        merged.set_shape(lists.shape)
        return came_from, merged

    potentials, *varying = chain.by_step()
    steps = tf.range(1, tf.shape(potentials)[0] + 1)
    goes_on = steps[:, tf.newaxis] < chain.lengths
    start = chain.at_each_row(chain.start)
    lists = tf.concat([start[tf.newaxis], tf.repeat(_nothing(start)[tf.newaxis], k - 1, 0)], 0)
    inputs = [potentials, goes_on, *varying]
    came_from, lists = scan(cell, inputs, lists, tf.int32, STEPS_PER_SCALING)
    return lists, came_from


def _nodes(chain, k):
    """The node of each place of the lists, [k, B, K]."""
    rows, tags = tf.shape(chain.lengths)[0], tf.shape(chain.start)[0]
    return tf.reshape(tf.range(k * rows * tags), [k, rows, tags])


def _moves(chain):
    """Transitions that do not vary, [K, B, K], from i in row b to j at [i, b, j]."""
    if chain.varies:
        return None
    return tf.repeat(chain.transitions[:, tf.newaxis], tf.shape(chain.lengths)[0], axis=1)


def _nothing(scores):
    """What stands where there is no path: so low that no transition makes a path of it.

    Not -inf, which would set off tf.debugging.enable_check_numerics.
    """
    return tf.fill(tf.shape(scores), scores.dtype.min)


def _is_score(scores):
    """Where scores are of something, neither forbidden nor `_nothing` and what came of it."""
    return scores > scores.dtype.min / 2


def _merged(lists, moves):
    """The best of lists [k, B, K_from] + moves [K_from, B, K_to]: k of each [B, K_to], and the
    nodes that they came from."""
    k, (rows, tags) = lists.shape[0], tf.unstack(tf.shape(lists)[1:])
    heads = tf.transpose(lists[0])[..., tf.newaxis] + moves  # [K_from, B, K_to]
    each_tag = tf.range(tags)[:, tf.newaxis, tf.newaxis]
    each_place = tf.reshape(tf.range(tf.size(heads[0])), tf.shape(heads[0]))
    each_row = tags * tf.range(rows)[:, tf.newaxis]
    flat_lists = tf.reshape(tf.concat([lists, _nothing(lists[:1])], axis=0), [-1])
    flat_moves = tf.reshape(moves, [-1])
    scores, came_from, taken = [], [], []
    for _ in range(k):
        best = tf.reduce_max(heads, axis=0)
        # The lowest tag of the best. (tf.argmax, here, is the slowest of all ops.)
        tag = tf.reduce_min(tf.where(heads >= best, each_tag, tags - 1), axis=0)
        rank = sum((tf.cast(tf.equal(other, tag), tf.int32) for other in taken), 0)
        node = rank * (rows * tags) + (each_row + tag)
        scores.append(best)
        came_from.append(node)
        taken.append(tag)
        following = tf.gather(flat_lists, node + rows * tags)
        following += tf.gather(flat_moves, tag * tf.size(each_place) + each_place)
        heads = tf.where(tf.not_equal(each_tag, tag), heads, following)
    return tf.stack(scores), tf.stack(came_from)


def _sorted(lists, moves):
    """What `_merged` gives, by sorting."""
    k, (rows, tags) = lists.shape[0], tf.unstack(tf.shape(lists)[1:])
    moves = tf.transpose(moves, [1, 2, 0])[..., tf.newaxis]
    candidates = tf.transpose(lists, [1, 2, 0])[:, tf.newaxis] + moves  # [B, K_to, K_from, k]
    shape = tf.shape(candidates)
    scores, places = tf.math.top_k(tf.reshape(candidates, [rows, shape[1], tags * k]), k)
    row = tf.range(rows)[:, tf.newaxis, tf.newaxis]
    nodes = (places % k * rows + row) * tags + places // k
    return tf.transpose(scores, [2, 0, 1]), tf.transpose(nodes, [2, 0, 1])


def _best_at_the_end(chain, lists):
    """The scores of the k best paths, [B, k], and the nodes of their last tags, [k, B]."""
    end = tf.transpose(chain.at_each_row(chain.end))[..., tf.newaxis]  # [K, B, 1]
    best_of_lists = _merged if lists.shape[0] <= MOST_TO_MERGE else _sorted
    scores, nodes = best_of_lists(lists, end)
    return tf.transpose(scores[..., 0]), nodes[..., 0]


def _way_back(came_from, nodes, number_of_tags):
    """The tags of the paths that end in `nodes` [k, B]: [B, T, k]."""

    def cell(inputs, nodes, _):
        nodes = tf.gather(tf.reshape(inputs[0], [-1]), nodes)
        return nodes % number_of_tags, nodes

    tags, _ = scan(cell, [tf.reverse(came_from, [0])], nodes, tf.int32)
    return tf.transpose(tf.reverse(tags, [0]), [2, 0, 1])


def _exists(chain, scores):
    """[B, k] bool: which scores are those of a path. A row without steps has the empty one."""
    is_first = tf.equal(tf.range(tf.shape(scores)[1]), 0)
    is_empty = tf.equal(chain.lengths, 0)[:, tf.newaxis]
    return tf.where(is_empty, is_first, _is_score(scores))


def _scores(chain, tags):
    """score(path) of each path, tags [B, T, k]: [B, k]. Its gradient is the counts of the paths."""
    paths = tf.transpose(tags, [2, 0, 1])

    @custom_gradient
    def value(paths, *scores_and_lengths):
        paths, mine = tf.identity(paths), Chain(*map(tf.identity, scores_and_lengths))

        def gradient(upstream):
            def add(counts, path_and_weights):
                return counts.plus(likelihood.observed_counts(mine, *path_and_weights))

            nothing = likelihood.Counts(*map(tf.zeros_like, mine[:4]))
            return None, *tf.foldl(add, (paths, upstream), nothing), None

        scores = tf.map_fn(
            lambda path: likelihood.score(mine, path), paths, fn_output_signature=mine.start.dtype
        )
        return tf.stop_gradient(scores), gradient

    return tf.transpose(value(paths, *chain))


def log_prob(chain, ranked, k):
    """log p(path) of each of the k best paths, [B, k], from that of the best path alone:

        log p(y) = log p(best) + sum_t (score of y at step t - score of the best path at step t)

    The scores of a step are subtracted before they are summed, in float64. So the difference is 0
    at each step where the two paths agree, and large scores cost no digits.
    """
    rows, steps = tf.unstack(tf.shape(ranked.tags)[:2])
    paths = tf.reshape(tf.transpose(ranked.tags, [0, 2, 1]), [rows * k, steps])
    parts = likelihood.contributions(chain.repeated(k), paths)
    scored = tf.add_n([tf.cast(part, tf.float64) for part in parts])
    scored = tf.reshape(scored, [rows, k, steps])
    less = tf.reduce_sum(scored - scored[:, :1], axis=2)
    best = tf.cast(labels.log_prob(chain, ranked.tags[..., 0]), tf.float64)
    log_prob = tf.cast(best[:, tf.newaxis] + less, ranked.score.dtype)
    return tf.where(forbidden(ranked.score), ranked.score, log_prob)
