"""Trains a BiLSTM-CRF tagger over words and characters.

    python examples/train_tagger.py                                      the corpus of corpus.py
    python examples/train_tagger.py --train a.tsv --dev b.tsv --save tagger.keras --export tagger/1

Column files hold `TOKEN<TAB>...<TAB>TAG` lines and an empty line after each sentence. Tags that
break their scheme are reported; `keras_crf.tags.convert_scheme` repairs them. With `--constrain`
the CRF keeps to the scheme, in training and in all that it tags. With `--softmax` the same network
gets a softmax per token in place of the CRF, for comparison.
"""

import argparse
import collections
import dataclasses
import itertools
import math
import os
import sys

import keras
import tensorflow as tf

import keras_crf
from columns import read_columns
from corpus import generate_corpus
from predicting import least_certain, padded_length, predict_entities, predict_tags
from report import broken_report, count_illegal, entity_f1, entity_report, sentence_report
from text_layers import CharacterFeatures, CharacterIds, NormalizeWords


@dataclasses.dataclass
class Settings:
    """What a training run can choose."""

    epochs: int = 12
    batch_size: int = 16
    learning_rate: float = 6e-3
    word_size: int = 100
    character_filters: int = 50
    lstm_units: int = 100
    dropout: float = 0.3
    patience: int = 3
    softmax: bool = False
    scheme: str | None = "BIO"  # of the tags; None: they are of no scheme, as parts of speech
    constrain: bool = False  # whether the CRF gives probability 0 to what the scheme forbids
    seed: int = 0


QUICK = {"epochs": 4, "word_size": 48, "character_filters": 32, "lstm_units": 48}


def build_tagger(vocabulary, tag_names, settings, illegal_gold="raise"):
    """The model: words, string [B, T] padded with "", to tags, float [B, T, K].

    The CRF gives the best path one-hot, the softmax gives probabilities; `argmax(-1)` reads both.
    `illegal_gold` is that of `CRFLayer`.
    """
    words = keras.Input((None,), dtype="string", name="words")
    lookup = keras.layers.StringLookup(vocabulary=vocabulary, mask_token="", name="vocabulary")
    word_ids = lookup(NormalizeWords()(words))
    word_features = keras.layers.Embedding(
        lookup.vocabulary_size(), settings.word_size, mask_zero=True, name="word_embedding"
    )(word_ids)
    character_features = CharacterFeatures(settings.character_filters)(CharacterIds()(words))
    features = keras.layers.Concatenate()([word_features, character_features])
    features = keras.layers.Dropout(settings.dropout)(features)
    lstm = keras.layers.LSTM(settings.lstm_units, return_sequences=True)
    features = keras.layers.Bidirectional(lstm)(features)
    features = keras.layers.Dropout(settings.dropout)(features)
    return keras.Model(words, _head(tag_names, settings, illegal_gold)(features))


def _head(tag_names, settings, illegal_gold):
    if settings.softmax:
        return keras.layers.Dense(len(tag_names), activation="softmax", name="tags")
    return keras_crf.CRFLayer(
        len(tag_names),
        tag_names=tag_names,
        scheme=settings.scheme if settings.constrain else None,
        illegal_gold=illegal_gold,
        lr_multiplier=5.0,  # the few transitions have far to go, and start from nothing
        name="tags",
    )


def compile_tagger(model, settings):
    loss = keras.losses.SparseCategoricalCrossentropy() if settings.softmax else keras_crf.CRFLoss()
    optimizer = keras.optimizers.Adam(settings.learning_rate, clipnorm=5.0)
    model.compile(optimizer, loss=loss, metrics=["accuracy"])


def collect_vocabulary(sentences):
    """The words of the sentences as the model sees them, lower-cased and with 0 for each digit."""
    words = tf.constant(sorted({token for tokens, _ in sentences for token in tokens}))
    normalized = {word.decode("utf-8") for word in NormalizeWords()(words).numpy()}
    return sorted(normalized - {"", "[UNK]"})


def collect_tag_names(sentences):
    """The tags of the sentences, O first; their places are the tag ids."""
    names = {tag for _, tags in sentences for tag in tags}
    return sorted(names, key=lambda name: (name != "O", name))


def training_batches(sentences, tag_names, settings):
    """A `tf.data` pipeline of `(words [B, T], tag ids [B, T])`, shuffled, bucketed by length."""
    tag_ids = {name: tag_id for tag_id, name in enumerate(tag_names)}
    examples = [(tokens, [tag_ids[tag] for tag in tags]) for tokens, tags in sentences]
    buckets = collections.Counter(padded_length(len(tokens)) for tokens, _ in sentences)
    count = sum(math.ceil(size / settings.batch_size) for size in buckets.values())
    row = (tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32))
    return (
        tf.data.Dataset.from_generator(lambda: examples, output_signature=row)
        .cache()
        .shuffle(len(examples), seed=settings.seed)
        .bucket_by_sequence_length(
            lambda words, ids: tf.shape(words)[0],
            bucket_boundaries=[length + 1 for length in sorted(buckets)],
            bucket_batch_sizes=[settings.batch_size] * (len(buckets) + 1),
            pad_to_bucket_boundary=True,
        )
        .shuffle(64, seed=settings.seed)
        .apply(tf.data.experimental.assert_cardinality(count))
        .prefetch(tf.data.AUTOTUNE)
    )


class EntityF1(keras.callbacks.Callback):
    """Puts the entity F1 of the dev sentences into the logs of each epoch, as `val_entity_f1`."""

    def __init__(self, sentences, tag_names, scheme):
        super().__init__()
        self.token_lists, self.gold = zip(*sentences, strict=True)
        self.tag_names = tag_names
        self.scheme = scheme

    def on_epoch_end(self, epoch, logs=None):
        predicted = predict_tags(self.model, self.token_lists, self.tag_names)
        logs["val_entity_f1"] = entity_f1(self.gold, predicted, self.scheme)


def train_tagger(train, dev, settings, verbose="auto"):
    """Trains on `train`, and keeps the weights of the epoch with the best entity F1 on `dev`.

    Args:
        train, dev: lists of sentences `(tokens, tags)`.
        settings: `Settings`.

    Returns:
        The trained model and its tag names.
    """
    keras.utils.set_random_seed(settings.seed)
    tag_names = collect_tag_names(train)
    illegal_gold = choose_illegal_gold(train, settings)
    model = build_tagger(collect_vocabulary(train), tag_names, settings, illegal_gold)
    compile_tagger(model, settings)
    stopping = keras.callbacks.EarlyStopping(
        "val_entity_f1", mode="max", patience=settings.patience, restore_best_weights=True
    )
    model.fit(
        training_batches(train, tag_names, settings),
        epochs=settings.epochs,
        callbacks=[EntityF1(dev, tag_names, settings.scheme), stopping],
        shuffle=False,  # the batches come shuffled
        verbose=_progress() if verbose == "auto" else verbose,
    )
    return model, tag_names


def choose_illegal_gold(sentences, settings):
    """What the CRF does about broken tags: "allow", which costs time, only where there are some."""
    tags = (tags for _, tags in sentences)
    if not settings.constrain or not count_illegal(tags, settings.scheme):
        return "raise"
    print('training: broken tags are taken for unknown (illegal_gold="allow")')
    return "allow"


def _progress():
    return 1 if sys.stdout.isatty() else 2  # in a file, a line for each epoch reads better


def evaluate_tagger(model, tag_names, sentences, title, scheme):
    """Prints the report; returns the entity F1 and the number of illegal tag sequences."""
    token_lists, gold = zip(*sentences, strict=True)
    predicted = predict_tags(model, token_lists, tag_names)
    illegal = count_illegal(predicted, scheme)
    print(f"\n{title}\n{entity_report(gold, predicted, scheme)}")
    if scheme:
        print(f"illegal tag sequences: {illegal} of {len(gold)} under {scheme}")
    return entity_f1(gold, predicted, scheme), illegal


def show_least_certain(model, tag_names, sentences, title, scheme):
    """Prints the sentences with the least certain entities: what is hard, or tagged wrongly."""
    token_lists, gold = zip(*sentences, strict=True)
    entities = predict_entities(model, token_lists, tag_names, scheme)
    print(f"\n{title}: the sentences with the least certain entities")
    for row in least_certain(entities):
        print(sentence_report(token_lists[row], entities[row], gold[row], scheme))


def load_corpus(options):
    """The parts of the corpus that the options name: a dict from part name to sentences."""
    files = {"train": options.train, "dev": options.dev, "test": options.test}
    if options.train is None:
        corpus = generate_corpus(seed=0)
    else:
        columns = -1 if options.column is None else options.column, options.token_column
        corpus = {part: read_columns(path, *columns) for part, path in files.items() if path}
    corpus["train"] = corpus["train"][: options.max_sentences]
    return corpus


def choose_scheme(options, corpus):
    """The scheme that was named, else the one that all tags fit; None if they fit none."""
    if options.scheme:
        return options.scheme
    try:
        return keras_crf.tags.detect_scheme(collect_tag_names(itertools.chain(*corpus.values())))
    except ValueError:
        if options.constrain:
            raise
        print("the tags fit no scheme (--scheme BIO says why not): each is scored by itself")
        return None


def check_tags(corpus, settings):
    """Prints which parts of the corpus hold broken tags; refuses those that can never be legal."""
    for part, sentences in corpus.items():
        if line := broken_report(part, sentences, settings.scheme):
            print(line)
    _head(collect_tag_names(corpus["train"]), settings, "raise")  # the layer says what is wrong


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", metavar="FILE", help="without it, a generated corpus is used")
    parser.add_argument("--dev", metavar="FILE", help="chooses the best epoch; needed with --train")
    parser.add_argument("--test", metavar="FILE", help="reported at the end")
    parser.add_argument("--column", type=int, metavar="N", help="of the tag, from 0; default: last")
    parser.add_argument(
        "--token-column", type=int, metavar="N", help="of the token, from 0; default: the first"
    )
    parser.add_argument("--scheme", metavar="NAME", help="of the tags; default: the one they fit")
    parser.add_argument("--max-sentences", type=int, metavar="N", help="train on the first N")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--quick", action="store_true", help="a small model and few epochs")
    parser.add_argument("--softmax", action="store_true", help="no CRF, for comparison")
    parser.add_argument("--constrain", action="store_true", help="only legal tags can come out")
    parser.add_argument("--save", metavar="FILE.keras", help="writes the Keras model")
    parser.add_argument("--export", metavar="DIRECTORY", help="writes a SavedModel for serving")
    options = parser.parse_args(arguments)
    _check_options(parser, options)
    _check_targets(parser, options)
    return options


def _check_options(parser, options):
    if options.train and not options.dev:
        parser.error("--train needs --dev, by which the best epoch is chosen")
    if not options.train and (options.dev or options.test):
        parser.error("--dev and --test need --train")
    if not options.train and options.scheme:
        parser.error("--scheme is that of the column files, and needs --train")
    if options.token_column and options.column is None:
        parser.error("--token-column needs --column: the last column need not be that of the tag")
    if options.constrain and options.softmax:
        parser.error("--constrain is for the CRF: a softmax chooses each tag by itself")
    if options.softmax and (options.save or options.export):
        parser.error("--softmax is for comparison and knows no tag names: it is not saved")
    if options.max_sentences is not None and options.max_sentences < 1:
        parser.error(f"--max-sentences must be at least 1, got {options.max_sentences}")


def _check_targets(parser, options):
    if options.export and os.path.exists(options.export):
        parser.error(f"--export: {options.export} is there already, name the next version")
    if options.save and not options.save.endswith(".keras"):
        parser.error(f"--save must end in .keras, got {options.save}")
    if options.save and not os.path.isdir(os.path.dirname(options.save) or "."):
        parser.error(f"--save: there is no directory {os.path.dirname(options.save)}")


def choose_settings(options):
    """The defaults, changed by `--quick`, changed by what was given."""
    names = {field.name for field in dataclasses.fields(Settings)}
    given = {name: value for name, value in vars(options).items() if value is not None}
    chosen = {name: value for name, value in given.items() if name in names}
    return Settings(**((QUICK if options.quick else {}) | chosen))


def main(arguments=None):
    options = parse_options(arguments)
    settings = choose_settings(options)
    try:
        corpus = load_corpus(options)
        settings.scheme = choose_scheme(options, corpus)
        check_tags(corpus, settings)
    except (ValueError, OSError) as error:
        raise SystemExit(f"train_tagger: {error}") from None
    model, tag_names = train_tagger(corpus["train"], corpus["dev"], settings)
    for part in ("dev", "test"):
        if part in corpus:
            evaluate_tagger(model, tag_names, corpus[part], part, settings.scheme)
    if settings.scheme and not settings.softmax:  # sentences of dev: those of test stay unseen
        show_least_certain(model, tag_names, corpus["dev"], "dev", settings.scheme)
    if options.save:
        model.save(options.save)
    if options.export:
        keras_crf.export_tagger(model, options.export, tag_names=tag_names)


if __name__ == "__main__":
    main()
