"""Tags files as tag_files.py does, on the workers of Ray: pip install "ray[data]"

    python examples/tag_files_on_ray.py tagger/1 may.tsv june.tsv --output tagged --workers 2

Files are cut between sentences into pieces. Each worker loads the export once and writes the tags
of each of its pieces into a file; these are then joined in order. Of several machines, all have to
see the files and directories under the same names.
"""

import itertools
import os
import pathlib
import shutil
import tempfile

import ray
import tensorflow as tf

import tag_files

PIECE = 16 * 2**20  # bytes


class PieceTagger:
    """What a worker does with each piece."""

    def __init__(self, export):
        self.tagger = tag_files.Tagger(export)

    def __call__(self, piece):
        reading = {name: piece[name] for name in ("plain", "token_column", "start", "stop")}
        try:
            count = tag_files.tag_file(self.tagger, piece["source"], piece["part"], **reading)
            return {"source": piece["source"], "count": count, "error": ""}
        except (ValueError, OSError, tf.errors.OpError) as error:
            # As text, since Ray would bury it in words of its own.
            return {"source": piece["source"], "count": 0, "error": str(error)}


def cut(source, parts, reading):
    """The pieces of a file, in order, as dicts for `PieceTagger`; `parts` is what they become."""
    places = tag_files.pieces(source, PIECE, plain=reading["plain"])
    return [
        {"source": source, "part": f"{parts}.{number:05}", "start": start, "stop": stop, **reading}
        for number, (start, stop) in enumerate(places)
    ]


def tag_pieces(export, pieces, workers):
    """Tags pieces on the workers; returns how many sentences each source has."""
    counts = dict.fromkeys((piece["source"] for piece in pieces), 0)
    if not pieces:
        return counts
    dataset = ray.data.from_items(pieces, override_num_blocks=len(pieces))
    compute = ray.data.ActorPoolStrategy(size=workers)
    done = dataset.map(PieceTagger, fn_constructor_args=[export], compute=compute)
    # To the end, also after an error: else workers would still write parts while they are deleted.
    results = list(done.iter_rows())
    for result in results:
        if result["error"]:
            raise ValueError(result["error"])
        counts[result["source"]] += result["count"]
    return counts


def join(parts, target):
    """Makes one file of its parts, which are deleted."""
    with tag_files.written_whole(target) as whole:
        for path in parts:
            with open(path, "rb") as part:
                shutil.copyfileobj(part, whole)
            os.remove(path)


def tag_all(targets, directory, options):
    """Writes every target, by way of parts in a directory; returns what `tag_pieces` does."""
    reading = tag_files.reading_of(options)
    pieces = {
        target: cut(source, os.path.join(directory, os.path.basename(target)), reading)
        for source, target in targets
    }
    everything = list(itertools.chain(*pieces.values()))
    counts = tag_pieces(os.path.abspath(options.export), everything, options.workers)
    for target, of_target in pieces.items():
        join([piece["part"] for piece in of_target], target)
    return counts


def main(arguments=None):
    parser = tag_files.make_parser(__doc__)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    files, output = (map(os.path.abspath, options.files), os.path.abspath(options.output))
    try:
        targets = tag_files.choose_targets(list(files), output)
        tag_files.Tagger(options.export)  # what is wrong with it is said here, and once
        pathlib.Path(output).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="parts-", dir=output) as directory:
            counts = tag_all(targets, directory, options)
    except (ValueError, OSError) as error:
        raise SystemExit(f"tag_files_on_ray: {error}") from None
    for source, target in targets:
        print(f"{target}: {counts.get(source, 0)} sentences")


if __name__ == "__main__":
    main()
