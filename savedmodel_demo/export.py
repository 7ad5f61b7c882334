"""Writes the export that run.py and c_client/ tag with.

python savedmodel_demo/export.py DIRECTORY                       trains a small tagger first
python savedmodel_demo/export.py DIRECTORY --model FILE.keras    exports a saved one
"""

import argparse
import pathlib
import sys

import keras

import keras_crf

# The examples are scripts, not a package.
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))

import train_tagger


def load_or_train(path):
    """A tagger and its tag names: loaded from `path`, or trained on the generated corpus."""
    if path:
        model = keras.models.load_model(path)
        return model, model.get_layer("tags").tag_names
    corpus = train_tagger.generate_corpus()
    settings = train_tagger.Settings(**train_tagger.QUICK)
    return train_tagger.train_tagger(corpus["train"], corpus["dev"], settings)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory")
    parser.add_argument("--model", metavar="FILE.keras")
    options = parser.parse_args(arguments)
    if pathlib.Path(options.directory).exists():  # said before training, not after it
        parser.error(f"{options.directory} is there already: name the next version")
    model, tag_names = load_or_train(options.model)
    keras_crf.export_tagger(model, options.directory, tag_names=tag_names, top_k=3)
    print(f"exported; now: python savedmodel_demo/run.py {options.directory}")


if __name__ == "__main__":
    main()
