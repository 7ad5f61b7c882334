"""What a trained tagger says: tags, and entities with the probability of each."""

import heapq

import tensorflow as tf

import keras_crf

# Sentences of about equal length share a batch, padded to one of these: few shapes, little padding.
LENGTHS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def padded_length(length):
    """The length that a sentence of this length is padded to."""
    return next((padded for padded in LENGTHS if padded >= length), length)


def predict_tags(model, token_lists, tag_names, batch_size=64):
    """Tags sentences, in any order of lengths, with a model from `build_tagger`.

    Returns:
        A list of tag sequences, each as long as its sentence.
    """
    predicted = [[] for _ in token_lists]
    for rows, words in _batches(token_lists, batch_size):
        best = model.predict_on_batch(words).argmax(-1)
        for row, ids in zip(rows, best, strict=True):
            predicted[row] = [tag_names[i] for i in ids[: len(token_lists[row])]]
    return predicted


def predict_entities(model, token_lists, tag_names, scheme, batch_size=128):
    """The entities of sentences by a model that ends in a CRF, each with its probability.

    Returns:
        For each sentence a list of `keras_crf.tags.DecodedEntity`.
    """
    predicted = [[] for _ in token_lists]
    for rows, words in _batches(token_lists, batch_size):
        distribution = keras_crf.distribution_of(model(words))
        entities = keras_crf.tags.decoded_entities(distribution, tag_names, scheme)
        for row, found in zip(rows, entities, strict=True):
            predicted[row] = found
    return predicted


def least_certain(entities, count=3):
    """Where the sentences with the least probable entities stand, the least probable one first."""
    rows = (row for row, found in enumerate(entities) if found)
    return heapq.nsmallest(
        count, rows, key=lambda row: min(entity.probability for entity in entities[row])
    )


def _batches(token_lists, batch_size):
    """Sentences of like lengths: pairs of their places, and their words [B, T], padded with ""."""
    by_length = sorted(range(len(token_lists)), key=lambda index: len(token_lists[index]))
    for first in range(0, len(by_length), batch_size):
        rows = by_length[first : first + batch_size]
        yield rows, _pad([token_lists[row] for row in rows])


def _pad(token_lists):
    width = padded_length(max(map(len, token_lists)))
    rows = [tokens + [""] * (width - len(tokens)) for tokens in token_lists]
    return tf.constant(rows, shape=(len(rows), width), dtype=tf.string)
