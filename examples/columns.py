"""Column files: one token per line, `TOKEN<TAB>...<TAB>TAG`, an empty line after each sentence.

Every example that reads a file reads it here. Of each line, the byte order mark at its start and
the blanks around token and tag are dropped. Lines `-DOCSTART-` end a sentence, comments `# ...`
before the first token of a sentence are skipped, and so are the ranges `1-2` and the empty nodes
`1.1` of CoNLL-U. What could be read in two ways is a `ColumnFileError`.
"""

import itertools
import re
from typing import NamedTuple

DOCUMENT_START = "-DOCSTART-"
TAG = r"(?:O|[BIESLMU]-\S+)"
COLUMNS_IN_TEXT = re.compile(rf"\t\s*{TAG}\s*$")  # a column file that is read as plain text
OTHER_SEPARATOR = re.compile(rf"([,;|]){TAG}$")  # what separates the tag where no blank does
RANGE_OR_EMPTY_NODE = re.compile(r"\d+[-.]\d+")


class ColumnFileError(ValueError):
    """A column file that cannot be read; the message starts with the file and the line."""

    def __init__(self, path, line_number, problem):
        super().__init__(f"{path}:{line_number}: {problem}")


class Line(NamedTuple):
    """A line without its end, and where it stands."""

    text: str
    path: str
    number: int  # counted from 1, at the byte `start` of the file
    start: int = 0

    def error(self, problem):
        number = self.number
        if self.start:
            with open(self.path, "rb") as file:
                number += _count_lines(file, self.start)
        return ColumnFileError(self.path, number, problem)


def read_columns(path, column=-1, token_column=None):
    """Reads a UTF-8 column file.

    Only tabs separate columns, since a token may hold spaces.

    Args:
        path: the file.
        column: where the tag stands, counted from 0; negative numbers count from the end.
        token_column: where the token stands, counted likewise. None: in the first column, and a
            file whose first column counts the tokens, 1, 2, 3, ..., is refused.

    Returns:
        A list of sentences, each a pair of equally long lists `(tokens, tags)`.

    Raises:
        ColumnFileError: a line that cannot be read, or that could be read in two ways.
    """
    with open(path, "rb") as file:
        sentences = [
            _with_tags(rows, column, token_column or 0)
            for rows in _sentences(read_lines(file, path), token_column, column)
        ]
    if not sentences:
        raise ColumnFileError(path, 1, "no sentences in this file; expected TOKEN<TAB>TAG lines")
    return sentences


def read_tokens(lines, token_column=None):
    """Yields the tokens of each sentence of the lines of a column file, which may lack tags."""
    for rows in _sentences(lines, token_column):
        yield [_token(line, cells, token_column or 0) for line, cells in rows]


def split_text(line):
    """The tokens of a line of plain text: what stands between blanks."""
    tokens = line.text.split()
    if tokens[:1] == [DOCUMENT_START] or COLUMNS_IN_TEXT.search(line.text):
        raise line.error(
            "a line of a column file, where plain text was wanted, a sentence per line: "
            f"{line.text!r}. Give the file to tag_files.py, without --plain"
        )
    return tokens


def read_lines(file, path, start=0, stop=None, on_read=lambda count: None):
    """Yields the lines of a binary file that stands at byte `start`, up to byte `stop`."""
    place = start
    for number, raw in enumerate(file, start=1):
        if stop is not None and place >= stop:
            return
        yield Line(_decoded(raw, path, number, start), path, number, start)
        place += len(raw)
        on_read(len(raw))


def write_columns(path, sentences):
    """Writes sentences `(tokens, tags)` as `TOKEN<TAB>TAG` lines."""
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for tokens, tags in sentences:
            file.writelines(f"{token}\t{tag}\n" for token, tag in zip(tokens, tags, strict=True))
            file.write("\n")


def _decoded(raw, *where):
    """The text of a line, without the byte order mark that files which were joined may have."""
    try:
        text = raw.decode("utf-8").rstrip("\r\n").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte 0x{raw[error.start]:02x} at position {error.start})"
        problem += ": convert the file, as with iconv -t UTF-8"
        raise Line("", *where).error(problem) from None
    if "\0" in text:
        raise Line(text, *where).error("holds a zero byte: not UTF-8, but perhaps UTF-16")
    if "\r" in text:
        raise Line(text, *where).error(
            "holds a carriage return, the line end of old Macs: "
            r"put line feeds in their place, as with tr '\r' '\n'"
        )
    return text


def _count_lines(file, size):
    """The line ends in the first `size` bytes of a file."""
    blocks = iter(lambda: file.read(min(size - file.tell(), 1 << 20)), b"")
    return sum(block.count(b"\n") for block in blocks)


def _sentences(lines, token_column, column=None):
    """Yields the rows `(line, cells)` of each sentence, all of the same number of cells."""
    may_count = token_column is None  # the first sentence of several tokens tells
    for block in _blocks(lines):
        rows = _without_comments([(line, line.text.split("\t")) for line in block])
        _check_columns(rows, token_column or 0, column)
        if may_count and len(rows) > 1:
            _refuse_counted(rows)
            may_count = False
        if token_column:
            rows = _words(rows)
        if rows:
            yield rows


def _blocks(lines):
    """Lists of lines that nothing separates: no line of blanks, and no `-DOCSTART-`."""
    block = []
    for line in lines:
        if line.text.strip() and not line.text.startswith(DOCUMENT_START):
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _without_comments(rows):
    """Rows from the first one on that is no comment.

    "#" may be a token as well: what starts with it is a comment where it has not the columns of
    its sentence.
    """
    width = len(rows[-1][1])

    def is_comment(row):
        line, cells = row
        sentence = line.text.startswith("# ") and len(cells) == 1
        return line.text.startswith("#") and (len(cells) != width or sentence)

    return list(itertools.dropwhile(is_comment, rows))


def _check_columns(rows, token_column, column):
    """Refuses rows that have not the columns that are read, or not those of their sentence."""
    wanted = [token_column] if column is None else [token_column, column]
    fewest = max(len(wanted), *(max(place + 1, -place) for place in wanted))
    width = len(rows[0][1]) if rows else fewest
    if width >= fewest and len({place % width for place in wanted}) < len(wanted):
        line, _ = rows[0]
        raise line.error(f"token and tag are both in column {column} of {width}: {line.text!r}")
    for line, cells in rows:
        if len(cells) == 1 or len(cells) < fewest or len(cells) != width:
            _check_row(line, cells, fewest, width, column)


def _check_row(line, cells, fewest, width, column):
    otherwise = _separated_otherwise(line) if len(cells) == 1 else ""
    if len(cells) < fewest:
        tag = "" if column is None else f", the tag in column {column}"
        raise line.error(
            f"expected at least {fewest} columns separated by tabs{tag}, "
            f"got {len(cells)}: {line.text!r}{otherwise}"
        )
    if otherwise:
        raise line.error(f"1 column separated by tabs: {line.text!r}{otherwise}")
    if len(cells) != width:
        raise line.error(
            f"{len(cells)} columns, where the first line of the sentence has {width}: {line.text!r}"
        )


def _separated_otherwise(line):
    """What to say of a line whose columns are separated by something else than tabs."""
    if len(cells := line.text.strip(" ").split(" ")) > 1:
        cells, separator, tr = list(filter(None, cells)), "spaces", "tr -s ' ' '\\t'"
    elif match := OTHER_SEPARATOR.search(line.text):
        cells, separator = line.text.split(match[1]), repr(match[1])
        tr = f"tr {separator} '\\t'"
    else:
        return ""
    return (
        f". Separated by {separator} there would be {len(cells)}: put tabs in their place, as "
        f"with {tr}. (A token that holds {separator} needs a tab behind it. Plain text, a sentence "
        "per line, is for tag_files.py --plain.)"
    )


def _refuse_counted(rows):
    line, cells = rows[0]
    if len(cells) > 1 and _are_counted(_words(rows)):
        raise line.error(
            f"the first column counts the tokens of the sentence, from {cells[0]} on: "
            f"{line.text!r}. Name the token's column, counted from 0, as with "
            "--token-column 1; with --token-column 0 these numbers are the tokens"
        )


def _words(rows):
    """Rows without the ranges and empty nodes of CoNLL-U, where the first column is of its kind."""
    words = [row for row in rows if not RANGE_OR_EMPTY_NODE.fullmatch(row[1][0])]
    return words if _are_counted(words) else rows


def _are_counted(rows):
    """Whether the first column of some rows says 1, 2, 3, ... or 0, 1, 2, ..."""
    numbers = [cells[0] for _, cells in rows]
    counts = [[str(base + place) for place in range(len(rows))] for base in (0, 1)]
    return rows != [] and numbers in counts


def _token(line, cells, token_column):
    token = cells[token_column].strip(" ")
    if not token:
        raise line.error(f"the token is empty: {line.text!r}")
    return token


def _with_tags(rows, column, token_column):
    tokens = [_token(line, cells, token_column) for line, cells in rows]
    return tokens, [_tag(line, cells[column].strip()) for line, cells in rows]


def _tag(line, tag):
    if not tag:
        raise line.error(f"the tag is empty: {line.text!r}")
    if len(tag.split()) > 1:
        raise line.error(f"the tag {tag!r} holds a blank: columns are separated by tabs alone")
    return tag
