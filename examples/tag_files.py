"""Tags files of any size with an export, in memory that does not grow with them.

    python examples/tag_files.py tagger/1 may.tsv june.tsv --output tagged
    python examples/tag_files.py tagger/1 book.txt --plain --output tagged

Column files have one token a line, before the first tab, and an empty line after each sentence.
With --plain each line is a sentence, and its tokens are what stands between spaces. Each file is
written under its name into the output directory, in order, as `TOKEN<TAB>TAG` lines with an empty
line after each sentence; until it is whole, its name ends in ".unfinished".
"""

import argparse
import itertools
import os
import pathlib
import sys
import time

import numpy as np
import tensorflow as tf

from columns import ColumnFileError

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
        except (OSError, tf.errors.OpError) as error:
            raise ValueError(f"the export at {directory} is broken: {error}") from None
        self.serve = self.loaded.signatures["serving_default"]
        takes, gives = self.serve.structured_input_signature[1], self.serve.structured_outputs
        if set(takes) != {"words", "lengths"} or "tags" not in gives:
            raise ValueError(
                f"the export at {directory} takes {sorted(takes)} and gives {sorted(gives)}; "
                "tag_files needs one that takes words and lengths and gives tags"
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


def read_sentences(path, *, plain=False, start=0, stop=None, on_read=lambda count: None):
    """Yields the sentences of a file, or of its bytes from `start` to `stop`, as lists of bytes."""
    tokens = []
    for place, line in _lines(path, start, stop, on_read):
        if plain:
            if line.strip():
                yield [token.encode() for token in _text(path, place, line).split()]
        elif line:
            tokens.append(_token(path, place, line))
        elif tokens:
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _lines(path, start, stop, on_read):
    """Lines without their ends, each with the place in the file where it begins."""
    with open(path, "rb") as file:
        place = file.seek(start)
        for line in file:
            if stop is not None and place >= stop:
                return
            yield place, line.rstrip(b"\r\n")
            place += len(line)
            on_read(len(line))


def _text(path, place, line):
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start})"
        raise ColumnFileError(path, _line_number(path, place), problem) from None


def _token(path, place, line):
    token = _text(path, place, line).split("\t", 1)[0]
    if not token:
        raise ColumnFileError(path, _line_number(path, place), f"the token is empty: {line!r}")
    return token.encode()


def _line_number(path, place):
    with open(path, "rb") as file:
        blocks = iter(lambda: file.read(min(place - file.tell(), 1 << 20)), b"")
        return 1 + sum(block.count(b"\n") for block in blocks)


def pieces(path, size, *, plain=False):
    """Cuts a file into `(start, stop)` of at least `size` bytes, none of them within a sentence."""
    cuts = [0]
    with open(path, "rb") as file:
        end = os.path.getsize(path)
        while cuts[-1] < end:
            file.seek(min(cuts[-1] + size, end))
            file.readline()  # from here on, lines are whole
            while not plain and file.readline().strip(b"\r\n"):
                pass
            cuts.append(file.tell())
    return list(itertools.pairwise(cuts))


def tag_file(tagger, source, target, **reading):
    """Writes the tags of a file, or of the part that `reading` names; returns how many sentences.

    `reading` is what `read_sentences` takes by keyword.
    """
    count = 0
    unfinished = f"{target}.unfinished"
    with open(unfinished, "wb") as file:
        for tokens, tags in tagger.tag(read_sentences(source, **reading)):
            file.write(
                b"".join(b"%s\t%s\n" % row for row in zip(tokens, tags, strict=True)) + b"\n"
            )
            count += 1
    os.replace(unfinished, target)
    return count


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
    parser.add_argument("--plain", action="store_true", help="each line is a sentence")
    return parser


def main(arguments=None):
    options = make_parser(__doc__).parse_args(arguments)
    try:
        targets = choose_targets(options.files, options.output)
        tagger = Tagger(options.export)
        pathlib.Path(options.output).mkdir(parents=True, exist_ok=True)
        progress = Progress(sum(map(os.path.getsize, options.files)))
        for source, target in targets:
            count = tag_file(tagger, source, target, plain=options.plain, on_read=progress)
            print(f"{target}: {count} sentences")
    except (ValueError, OSError) as error:
        raise SystemExit(f"tag_files: {error}") from None


if __name__ == "__main__":
    main()
