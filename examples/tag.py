"""Tags text with a saved model (FILE.keras) or an exported one (a SavedModel directory).

    python examples/tag.py tagger.keras book a flight from Paris to Rome
    python examples/tag.py tagger/1 < requests.txt

Tokens are what stands between spaces. Each token is printed with its tag and, from an export, with
the probability of that tag; an empty line ends a sentence.
"""

import argparse
import pathlib
import sys

import tensorflow as tf


def load_tagger(path):
    """A function from the tokens of one sentence to its rows, `(token, tag[, confidence])`."""
    path = pathlib.Path(path)
    if path.is_dir():
        return _load_export(path)
    if path.is_file():
        return _load_keras_model(path)
    raise FileNotFoundError(f"no saved model and no export at {path}")


def _load_export(directory):
    loaded = tf.saved_model.load(str(directory))
    serve = loaded.signatures["serving_default"]

    def tag(tokens):
        outputs = serve(words=tf.constant([tokens]), lengths=tf.constant([len(tokens)], tf.int32))
        tags = [name.decode("utf-8") for name in outputs["tags"][0].numpy()]
        confidences = [f"{value:.3f}" for value in outputs["confidence"][0].numpy()]
        return list(zip(tokens, tags, confidences, strict=True))

    tag.loaded = loaded  # the signature alone does not keep the variables alive
    return tag


def _load_keras_model(path):
    # An export needs neither Keras nor this library, so only this branch imports them.
    import keras

    import train_tagger

    model = keras.models.load_model(path)
    tag_names = model.layers[-1].tag_names

    def tag(tokens):
        (tags,) = train_tagger.predict_tags(model, [tokens], tag_names)
        return list(zip(tokens, tags, strict=True))

    return tag


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="FILE.keras or the directory of an export")
    parser.add_argument("text", nargs="*", help="one sentence; without it, lines are read on stdin")
    options = parser.parse_args(arguments)
    try:
        tag = load_tagger(options.model)
    except OSError as error:
        raise SystemExit(f"tag: {error}") from None
    for line in [" ".join(options.text)] if options.text else sys.stdin:
        if tokens := line.split():
            print("\n".join("\t".join(row) for row in tag(tokens)), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
