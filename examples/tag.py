"""Tags text with a saved model (FILE.keras) or an exported one (a SavedModel directory).

    python examples/tag.py tagger.keras book a flight from Paris to Rome
    python examples/tag.py tagger/1 < requests.txt

Tokens are what stands between spaces. Each token is printed with its tag and, from an export, with
the probability of that tag; an empty line ends a sentence.
"""

import argparse
import io
import os
import pathlib
import sys

import tensorflow as tf

from columns import read_lines, split_text
from tag_files import Tagger


def load_tagger(path):
    """A function from the tokens of one sentence to its rows, `(token, tag[, confidence])`."""
    path = pathlib.Path(path)
    if path.is_dir():
        return _load_export(path)
    if path.is_file():
        return _load_keras_model(path)
    raise FileNotFoundError(f"no saved model and no export at {path}")


def _load_export(directory):
    tagger = Tagger(str(directory))

    def tag(tokens):
        lengths = tf.constant([len(tokens)], tf.int32)
        outputs = tagger.serve(words=tf.constant([tokens]), lengths=lengths)
        columns = [tokens, [name.decode("utf-8") for name in outputs["tags"][0].numpy()]]
        if "confidence" in outputs:
            columns.append([f"{value:.3f}" for value in outputs["confidence"][0].numpy()])
        return list(zip(*columns, strict=True))

    return tag


def _load_keras_model(path):
    # An export needs neither Keras nor this library, so only this branch imports them.
    import keras

    import train_tagger

    try:
        model = keras.models.load_model(path)
    except Exception as error:  # whatever Keras makes of a file that is no model
        raise ValueError(f"{path} is no saved model: {error}") from None
    tag_names = _check_model(model, path).tag_names

    def tag(tokens):
        (tags,) = train_tagger.predict_tags(model, [tokens], tag_names)
        return list(zip(tokens, tags, strict=True))

    return tag


def _check_model(model, path):
    """The `CRFLayer` at the end of a model that takes words, by which they can be tagged."""
    inputs = [tensor.dtype for tensor in model.inputs or []]
    last = model.layers[-1]
    if inputs != ["string"]:
        problem = f"its inputs are {inputs or 'not known'}, and not one of strings"
    elif getattr(last, "output_mode", None) != "one_hot":
        problem = f'its last layer {last.name!r} is no CRFLayer(output_mode="one_hot")'
    elif not last.tag_names:
        problem = f"its layer {last.name!r} has no tag_names, as CRFLayer(..., tag_names=...) has"
    else:
        return last
    raise ValueError(f"the model at {path} cannot tag words: {problem}")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="FILE.keras or the directory of an export")
    parser.add_argument("text", nargs="*", help="one sentence; without it, lines are read on stdin")
    options = parser.parse_args(arguments)
    given = io.BytesIO(os.fsencode(" ".join(options.text))) if options.text else sys.stdin.buffer
    try:
        tag = load_tagger(options.model)
        for line in read_lines(given, "the text" if options.text else "standard input"):
            if tokens := split_text(line):
                print("\n".join("\t".join(row) for row in tag(tokens)), end="\n\n", flush=True)
    except (ValueError, OSError, tf.errors.OpError) as error:
        raise SystemExit(f"tag: {error}") from None


if __name__ == "__main__":
    main()
