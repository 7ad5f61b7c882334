"""The whole job on a small scale: train, compare with softmax, save, export, tag."""

import argparse
import pathlib
import subprocess
import sys

import keras_crf
import train_tagger

RUN_EXPORT = pathlib.Path(__file__).parents[1] / "savedmodel_demo" / "run.py"
REQUEST = "may i ask you to book a flight for Paris March from new york to Paris on march 7 at 7"


def train_and_evaluate(name, corpus, settings):
    print(f"\n=== {name}: training on {len(corpus['train'])} requests", flush=True)
    model, tag_names = train_tagger.train_tagger(corpus["train"], corpus["dev"], settings)
    f1, illegal = train_tagger.evaluate_tagger(
        model, tag_names, corpus["test"], f"{name}: entities of the test requests", settings.scheme
    )
    return model, tag_names, f"{name:>14}  {f1:9.4f}  {illegal} of {len(corpus['test'])}"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=pathlib.Path, default="build/demo")
    directory = parser.parse_args(arguments).directory
    corpus = train_tagger.generate_corpus()

    softmax = train_tagger.Settings(**train_tagger.QUICK, softmax=True)
    *_, softmax_line = train_and_evaluate("softmax", corpus, softmax)
    crf = train_tagger.Settings(**train_tagger.QUICK, constrain=True)
    model, tag_names, crf_line = train_and_evaluate("CRF with rules", corpus, crf)
    train_tagger.show_least_certain(model, tag_names, corpus["test"], "CRF with rules", crf.scheme)

    directory.mkdir(parents=True, exist_ok=True)
    model.save(directory / "tagger.keras")
    export = directory / "tagger" / "1"
    keras_crf.export_tagger(model, str(export), tag_names=tag_names, overwrite=True)

    print("\n=== the same network with two heads, on the test requests")
    print(f"{'':>14}  entity F1  illegal tag sequences\n{softmax_line}\n{crf_line}")
    print(f"By construction, the CRF cannot break the rules of {crf.scheme}.")
    print(f"\n=== {export}, loaded without keras_crf", flush=True)
    subprocess.run([sys.executable, RUN_EXPORT, export, REQUEST], check=True)


if __name__ == "__main__":
    main()
