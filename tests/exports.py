"""SavedModels that take strings, and what they say of a sentence alone."""

import itertools

import keras
import tensorflow as tf

from keras_crf import CRFLayer, export_tagger

VOCABULARY = ["Ort", "zu", "são", "北京", *(f"w{number}" for number in range(26))]
TAG_NAMES = ["O", "B-Ort", "I-Ört"]


class Exported:
    """A tagger of words, of which different ones have different tags, and its export."""

    def __init__(self, directory):
        keras.utils.set_random_seed(7)
        words = keras.Input((None,), dtype="string", name="words")
        ids = keras.layers.StringLookup(vocabulary=VOCABULARY, mask_token="")(words)
        vectors = keras.initializers.RandomNormal(stddev=2)
        embedding = keras.layers.Embedding(
            len(VOCABULARY) + 2, 3, mask_zero=True, embeddings_initializer=vectors
        )
        outputs = CRFLayer(3, tag_names=TAG_NAMES)(embedding(ids))
        export_tagger(keras.Model(words, outputs), directory)
        self.directory = str(directory)
        self.loaded = tf.saved_model.load(self.directory)

    def alone(self, tokens):
        """Tags and confidences of one sentence, tagged by itself."""
        outputs = self.loaded.signatures["unpadded"](words=tf.constant([tokens]))
        names = [name.decode() for name in outputs["tags"][0].numpy()]
        return names, outputs["confidence"][0].numpy().tolist()


class Counting(tf.Module):
    """A stand-in that is exported in no time: a tag says how many letters there are up to it."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.string, name="words"),
            tf.TensorSpec([None], tf.int32, name="lengths"),
        ]
    )
    def tags(self, words, lengths):
        letters = tf.cumsum(tf.strings.length(words, unit="UTF8_CHAR"), axis=1)
        kept = tf.sequence_mask(lengths, tf.shape(words)[1])
        return {"tags": tf.where(kept, tf.strings.as_string(letters), "")}

    def export(self, directory):
        tf.saved_model.save(self, str(directory), signatures=self.tags)

    @staticmethod
    def alone(tokens):
        return [str(count) for count in itertools.accumulate(map(len, tokens))]
