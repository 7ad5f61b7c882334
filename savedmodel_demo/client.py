"""What both clients of a server share: requests are checked, padded and split, answers cut."""

import argparse

SENTENCES = (
    "tell Paris the bus from new york to boston goes at quarter to nine",
    "order two green tea",
)
MOST_ROWS = 64  # max_batch_size of batching_parameters.txt: a server refuses a request with more
RANKS = {"words": 2, "lengths": 1}  # of the inputs of the export, strings and int32


class ServerError(RuntimeError):
    """What went wrong between a client and its server, in one line."""

    def __init__(self, message):
        super().__init__(" ".join(message.split()))  # errors of a graph hold line breaks


def pad(sentences):
    """The inputs of sentences, lists of tokens: `words` [B, T], "" behind each, `lengths` [B]."""
    lengths = [len(tokens) for tokens in sentences]
    if not all(lengths):
        raise ValueError(f"sentence {lengths.index(0)} has no tokens")
    words = [[*tokens, *[""] * (max(lengths) - len(tokens))] for tokens in sentences]
    return {"words": words, "lengths": lengths}


def checked(inputs):
    """The inputs as lists, refused with ValueError unless a server can take them.

    A server that merges requests fails the whole batch for a bad one, and its process ends at one
    of another rank. A length above T is no error to it where the batch holds a longer row.

    Args:
        inputs: `words`, strings [B, T], and `lengths`, whole numbers [B], each in 1..T; as lists,
            or as arrays of any whole-number dtype.
    """
    if inputs.keys() != RANKS.keys():
        raise ValueError(f"the inputs must be {sorted(RANKS)}; got {sorted(inputs)}")
    lists = {name: _as_lists(value) for name, value in inputs.items()}
    shapes = {name: _shape(value, name) for name, value in lists.items()}
    for name, rank in RANKS.items():
        if 0 in shapes[name]:
            raise ValueError(f"{name} must not be empty; got the shape {shapes[name]}")
        if len(shapes[name]) != rank:
            raise ValueError(f"{name} must have rank {rank}; got the shape {shapes[name]}")
    rows = len(lists["words"])
    if shapes["lengths"] != (rows,):
        raise ValueError(
            f"lengths must have the shape {(rows,)}, as many rows as words; got {shapes['lengths']}"
        )
    for row in range(rows):
        _check_row(row, lists["words"][row], lists["lengths"][row])
    return lists


def _check_row(row, tokens, length):
    for token in tokens:
        if not isinstance(token, str):
            raise ValueError(f"words must be strings; got {token!r} in row {row}")
    if not isinstance(length, int) or isinstance(length, bool):
        raise ValueError(f"lengths must be whole numbers; got {length!r} in row {row}")
    if not 1 <= length <= len(tokens):
        raise ValueError(f"lengths must lie in 1..{len(tokens)}; got {length} in row {row}")


def _as_lists(value):
    """Nested lists of Python's own types."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, (list, tuple)):
        return [_as_lists(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _shape(lists, name):
    if not isinstance(lists, list):
        return ()
    shapes = {_shape(each, name) for each in lists}
    if len(shapes) > 1:
        raise ValueError(f"{name} must be padded to one length; got the shapes {sorted(shapes)}")
    return (len(lists), *(shapes.pop() if shapes else ()))


def ask(send, inputs, most_rows=MOST_ROWS):
    """The outputs for inputs, a dict of lists of rows, by as many requests as it takes.

    Args:
        send: function of the inputs of one request, which gives its outputs.
        inputs: as `checked` takes them, of any number of rows.
        most_rows: how many rows a request has at most.
    """
    inputs = checked(inputs)
    outputs = {}
    for start in range(0, len(inputs["lengths"]), most_rows):
        rows = slice(start, start + most_rows)
        for name, value in send({name: value[rows] for name, value in inputs.items()}).items():
            outputs.setdefault(name, []).extend(value)
    return outputs


def tag(predict, sentences):
    """Asks `predict`, a function from inputs to outputs, for the rows `(token, tag, confidence)`.

    An answer is as long as the longest request with which the server merged this one, so each
    sentence takes of it what is its own.
    """
    outputs = predict(pad(sentences))
    answers = zip(sentences, outputs["tags"], outputs["confidence"], strict=True)
    return [list(zip(*answer, strict=False)) for answer in answers]


def main(description, predict_at, address):
    """The command line of a client; `predict_at(address, model, inputs)` asks the server."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--server", default=address, help="default: %(default)s")
    parser.add_argument("--model", default="tagger", help="its name there; default: %(default)s")
    options = parser.parse_args()
    try:
        rows_of_sentences = tag(
            lambda inputs: predict_at(options.server, options.model, inputs),
            [sentence.split() for sentence in options.sentences],
        )
    except (ServerError, ValueError) as error:
        raise SystemExit(f"{parser.prog}: {error}") from None
    for rows in rows_of_sentences:
        for token, tag_name, confidence in rows:
            print(f"{token:>12}  {tag_name:<14} {confidence:.3f}")
        print()
