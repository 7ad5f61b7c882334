"""Column files: one token a line, `TOKEN<TAB>...<TAB>TAG`, an empty line after each sentence."""


class ColumnFileError(ValueError):
    """A column file that cannot be read; the message starts with the file and the line."""

    def __init__(self, path, line_number, problem):
        super().__init__(f"{path}:{line_number}: {problem}")


def read_columns(path, column=-1):
    """Reads a UTF-8 column file.

    Only tabs separate columns, since a token may hold spaces.

    Args:
        path: the file.
        column: where the tag stands, counted from 0; negative numbers count from the end.

    Returns:
        A list of sentences, each a pair of equally long lists `(tokens, tags)`.
    """
    sentences, rows = [], []
    for line_number, line in _numbered_lines(path):
        if line:
            rows.append(_parse_row(path, line_number, line, column))
        elif rows:
            sentences.append(_to_sentence(rows))
            rows = []
    if rows:
        sentences.append(_to_sentence(rows))
    if not sentences:
        raise ColumnFileError(path, 1, "no sentences in this file; expected TOKEN<TAB>TAG lines")
    return sentences


def write_columns(path, sentences):
    """Writes sentences `(tokens, tags)` as `TOKEN<TAB>TAG` lines."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for tokens, tags in sentences:
            file.writelines(f"{token}\t{tag}\n" for token, tag in zip(tokens, tags, strict=True))
            file.write("\n")


def _numbered_lines(path):
    with open(path, "rb") as file:
        for line_number, line in enumerate(file, start=1):
            try:
                yield line_number, line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                problem = f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start})"
                raise ColumnFileError(path, line_number, problem) from None


def _parse_row(path, line_number, line, column):
    cells = line.split("\t")
    fewest = max(2, column + 1, -column)
    if len(cells) < fewest:
        problem = (
            f"expected at least {fewest} columns separated by tabs, the tag in column {column}, "
            f"got {len(cells)}: {line!r}"
        )
        raise ColumnFileError(path, line_number, problem)
    token, tag = cells[0], cells[column]
    if not token or not tag.strip():
        missing = "tag" if token else "token"
        raise ColumnFileError(path, line_number, f"the {missing} is empty: {line!r}")
    return token, tag


def _to_sentence(rows):
    tokens, tags = zip(*rows, strict=True)
    return list(tokens), list(tags)
