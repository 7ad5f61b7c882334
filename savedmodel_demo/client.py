"""What both clients of a server share: sentences are padded, and answers cut to their lengths."""

import argparse

SENTENCES = (
    "tell Paris the bus from new york to boston goes at quarter to nine",
    "order two green tea",
)


class ServerError(RuntimeError):
    """What went wrong between a client and its server, in one line."""


def pad(sentences):
    """The inputs of sentences, lists of tokens: `words` [B, T], "" behind each, `lengths` [B]."""
    lengths = [len(tokens) for tokens in sentences]
    if not all(lengths):
        raise ValueError(f"sentence {lengths.index(0)} has no tokens")
    words = [[*tokens, *[""] * (max(lengths) - len(tokens))] for tokens in sentences]
    return {"words": words, "lengths": lengths}


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
