"""Layers that take raw words, so that a saved or exported model needs no vocabulary file beside it.

Words are a string tensor [batch, time], padded with "". Importing this module registers the layers
with Keras; `keras.models.load_model` then finds them by name.
"""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="keras_crf_examples")
class NormalizeWords(keras.layers.Layer):
    """Lower-cases words and turns each digit into 0: string [B, T] -> string [B, T]."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_jit = False  # XLA has no strings

    def call(self, words):
        return tf.strings.regex_replace(tf.strings.lower(words, encoding="utf-8"), r"\d", "0")

    def compute_output_spec(self, words):
        return keras.KerasTensor(words.shape, dtype="string")


@keras.saving.register_keras_serializable(package="keras_crf_examples")
class CharacterIds(keras.layers.Layer):
    """Spells words out: string [B, T] -> int32 [B, T, max_characters], 0 behind the last character.

    A character is its code point modulo `buckets`, plus one: there is no alphabet to store.
    """

    def __init__(self, max_characters=20, buckets=512, **kwargs):
        super().__init__(**kwargs)
        self.max_characters = max_characters
        self.buckets = buckets
        self.supports_jit = False

    def call(self, words):
        code_points = tf.strings.unicode_decode(tf.reshape(words, [-1]), "UTF-8")
        ids = (code_points % self.buckets + 1).to_tensor(shape=[None, self.max_characters])
        return tf.reshape(ids, tf.concat([tf.shape(words), [self.max_characters]], axis=0))

    def compute_output_spec(self, words):
        return keras.KerasTensor((*words.shape, self.max_characters), dtype="int32")

    def get_config(self):
        sizes = {"max_characters": self.max_characters, "buckets": self.buckets}
        return {**super().get_config(), **sizes}


@keras.saving.register_keras_serializable(package="keras_crf_examples")
class CharacterFeatures(keras.layers.Layer):
    """Describes words by their characters: int [B, T, C] -> float [B, T, filters].

    The characters are embedded and passed through a convolution of width 3 along the word; the
    largest response of each filter is kept.

    Masking: the output carries a mask that drops the words without characters, the padding.
    """

    def __init__(self, filters, buckets=512, embedding_size=24, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.buckets = buckets
        self.embedding_size = embedding_size
        self.supports_masking = True
        self.embedding = keras.layers.Embedding(buckets + 1, embedding_size)
        self.convolution = keras.layers.Conv2D(filters, (1, 3), padding="same", activation="relu")

    def build(self, input_shape):
        self.embedding.build(input_shape)
        self.convolution.build((*input_shape, self.embedding_size))

    def call(self, characters):
        responses = self.convolution(self.embedding(characters))  # [B, T, C, filters]
        return keras.ops.max(responses, axis=2)

    def compute_mask(self, characters, mask=None):
        return keras.ops.any(keras.ops.not_equal(characters, 0), axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:2], self.filters)

    def get_config(self):
        sizes = {
            "filters": self.filters,
            "buckets": self.buckets,
            "embedding_size": self.embedding_size,
        }
        return {**super().get_config(), **sizes}
