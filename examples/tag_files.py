"""Tags files of any size with an export, in memory that does not grow with them.

    python examples/tag_files.py tagger/1 may.tsv june.tsv --output tagged
    python examples/tag_files.py tagger/1 book.txt --plain --output tagged

Column files have one token per line, before the first tab or in the column that --token-column
names, and an empty line after each sentence. With --plain each line is a sentence, and its tokens
are what stands between spaces. Each file is written under its name into the output directory, in
order, as `TOKEN<TAB>TAG` lines with an empty line after each sentence; until it is whole, its name
ends in ".unfinished". Of a file that cannot be read, nothing is left.
"""

import argparse
import contextlib
import itertools
import os
import pathlib
import sys
import time

import numpy as np
import tensorflow as tf

from columns import read_lines, read_tokens, split_text

TOKENS_IN_BATCH = 16_384  # with the padding; a sentence that is longer goes alone
TOKENS_IN_WINDOW = 8 * TOKENS_IN_BATCH  # within which sentences are sorted by length

BATCH = (
    tf.TensorSpec([None], tf.int64),  # the place of each sentence in its file
    tf.TensorSpec([None, None], tf.string),  # words, "" behind each sentence
    tf.TensorSpec([None], tf.int32),  # lengths
)


class Tagger:
    """An export, and how a stream of sentences goes through it."""

    def __init__(self, directory):
        if not tf.saved_model.contains_saved_model(directory):
            raise FileNotFoundError(f"no export at {directory}: it holds no saved_model.pb")
        try:
            self.loaded = tf.saved_model.load(directory)  # the signature does not keep it alive
        except Exception as error:  # whatever TensorFlow makes of files that are no model
            raise ValueError(f"the export at {directory} is broken: {error}") from None
        signatures = self.loaded.signatures
        if "serving_default" not in signatures:
            raise ValueError(
                f"the SavedModel at {directory} has the signatures {sorted(signatures)}; needed is "
                "serving_default, as export_tagger writes it"
            )
        self.serve = signatures["serving_default"]
        self._check_signature(directory)

    def _check_signature(self, directory):
        specs = self.serve.structured_input_signature[1]
        takes = {name: spec.dtype.name for name, spec in specs.items()}
        gives = sorted(self.serve.structured_outputs)
        if takes == {"words": "string", "lengths": "int32"} and "tags" in gives:
            return
        advice = "needed is one that takes words (string) and lengths (int32) and gives tags"
        if "tag_ids" in gives and "tags" not in gives:
            advice += "; tags come with export_tagger(model, directory, tag_names=...)"
        inputs = ", ".join(f"{name} ({dtype})" for name, dtype in sorted(takes.items()))
        raise ValueError(
            f"the export at {directory} takes {inputs} and gives {', '.join(gives)}; {advice}"
        )

    def tag(self, sentences):
        """Yields `(tokens, tags)`, in order, of an iterable of lists of tokens; all in bytes."""
        errors = []

        def batches():
            try:
                yield from padded_batches(sentences)
            except (ValueError, OSError) as error:  # tf.data would hide it in words of its own
                errors.append(error)

        dataset = tf.data.Dataset.from_generator(batches, output_signature=BATCH)
        yield from in_order(self._tagged(dataset.prefetch(2)))
        if errors:
            raise errors[0]

    def _tagged(self, dataset):
        for places, words, lengths in dataset:
            tags = self.serve(words=words, lengths=lengths)["tags"]
            rows = zip(*(t.numpy() for t in (places, lengths, words, tags)), strict=True)
            for place, length, row, names in rows:
                yield place, (row[:length], names[:length])


def padded_batches(sentences):
    """Yields what `BATCH` says, of sentences that are about as long as each other."""
    for window in windows(enumerate(sentences)):
        window.sort(key=lambda row: len(row[1]))
        for batch in batches_of(window):
            lengths = [len(tokens) for _, tokens in batch]
            words = np.full([len(batch), lengths[-1]], b"", object)
            for row, (_, tokens) in zip(words, batch, strict=True):
                row[: len(tokens)] = tokens
            yield [place for place, _ in batch], words, lengths


def windows(rows):
    """Cuts rows `(place, tokens)` into lists of about TOKENS_IN_WINDOW tokens."""
    window, size = [], 0
    for place, tokens in rows:
        window.append((place, tokens))
        size += len(tokens)
        if size >= TOKENS_IN_WINDOW:
            yield window
            window, size = [], 0
    if window:
        yield window


def batches_of(window):
    """Cuts rows, sorted by length, into lists of at most TOKENS_IN_BATCH when padded."""
    batch = []
    for place, tokens in window:
        if batch and (len(batch) + 1) * len(tokens) > TOKENS_IN_BATCH:
            yield batch
            batch = []
        batch.append((place, tokens))
    yield batch


def in_order(rows):
    """The second of pairs `(place, value)`, by place from 0 on, each as soon as its turn comes."""
    waiting, turn = {}, 0
    for place, value in rows:
        waiting[place] = value
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1


def read_sentences(path, *, plain=False, token_column=None, start=0, stop=None, **progress):
    """Yields the sentences of a file, or of its bytes from `start` to `stop`, as lists of bytes.

    `progress` is `on_read` of `columns.read_lines`, if anything.
    """
    with open(path, "rb") as file:
        file.seek(start)
        lines = read_lines(file, path, start, stop, **progress)
        for tokens in map(split_text, lines) if plain else read_tokens(lines, token_column):
            if tokens:
                yield [token.encode() for token in tokens]


def pieces(path, size, *, plain=False):
    """Cuts a file into `(start, stop)` of at least `size` bytes, none of them within a sentence."""
    cuts = [0]
    with open(path, "rb") as file:
        end = os.path.getsize(path)
        while cuts[-1] < end:
            file.seek(min(cuts[-1] + size, end))
            file.readline()  # from here on, lines are whole
            while not plain and file.readline().strip():
                pass
            cuts.append(file.tell())
    return list(itertools.pairwise(cuts))


def tag_file(tagger, source, target, **reading):
    """Writes the tags of a file, or of the part that `reading` names; returns how many sentences.

    `reading` is what `read_sentences` takes by keyword.
    """
    count = 0
    with written_whole(target) as file:
        for tokens, tags in tagger.tag(read_sentences(source, **reading)):
            file.write(
                b"".join(b"%s\t%s\n" % row for row in zip(tokens, tags, strict=True)) + b"\n"
            )
            count += 1
    return count


@contextlib.contextmanager
def written_whole(target):
    """A file to write, which gets its name when all is written, and is deleted if that fails."""
    unfinished = f"{target}.unfinished"
    try:
        with open(unfinished, "wb") as file:
            yield file
        os.replace(unfinished, target)
    except BaseException:  # an interrupt as well
        pathlib.Path(unfinished).unlink(missing_ok=True)
        raise


def choose_targets(sources, directory):
    """Pairs of each file and what is written for it, after a look at whether that can be."""
    pairs = [(source, os.path.join(directory, os.path.basename(source))) for source in sources]
    for source, target in pairs:
        if not os.path.isfile(source):
            raise FileNotFoundError(f"no file {source}")
        if os.path.exists(target) and os.path.samefile(source, target):
            raise ValueError(f"{target} would be written over itself: choose another --output")
    for one, other in itertools.combinations(pairs, 2):
        if one[1] == other[1]:
            raise ValueError(f"{one[0]} and {other[0]} would both be written to {one[1]}")
    return pairs


class Progress:
    """A bar on standard error, where that is a terminal, of the bytes that are read."""

    def __init__(self, total):
        self.total, self.done, self.shown_at = total, 0, 0.0
        self.shows = sys.stderr.isatty()

    def __call__(self, count):
        self.done += count
        now = time.monotonic()
        if self.shows and (now > self.shown_at + 0.2 or self.done == self.total):
            self.shown_at, share = now, self.done / self.total
            end = "\n" if share == 1 else ""
            print(f"\r[{'=' * int(40 * share):40}] {share:4.0%}", end=end, file=sys.stderr)


def make_parser(description):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("export", help='the directory of an export, "tagger/1"')
    parser.add_argument("files", nargs="+")
    parser.add_argument("--output", required=True, metavar="DIRECTORY")
    reading = parser.add_mutually_exclusive_group()
    reading.add_argument("--plain", action="store_true", help="each line is a sentence")
    reading.add_argument("--token-column", type=int, metavar="N", help="from 0; default: the first")
    return parser


def reading_of(options):
    """What the options say to `read_sentences`."""
    return {"plain": options.plain, "token_column": options.token_column}


def main(arguments=None):
    options = make_parser(__doc__).parse_args(arguments)
    try:
        targets = choose_targets(options.files, options.output)
        tagger = Tagger(options.export)
        pathlib.Path(options.output).mkdir(parents=True, exist_ok=True)
        progress = Progress(sum(map(os.path.getsize, options.files)))
        for source, target in targets:
            count = tag_file(tagger, source, target, on_read=progress, **reading_of(options))
            print(f"{target}: {count} sentences")
    except (ValueError, OSError, tf.errors.OpError) as error:
        raise SystemExit(f"tag_files: {error}") from None


if __name__ == "__main__":
    main()
