"""The letters of each tag scheme, for the tests that spell tags and ask seqeval."""

PREFIXES = {
    "IOB1": "IB",
    "IOB2": "BI",
    "IOE1": "IE",
    "IOE2": "IE",
    "IOBES": "BIES",
    "BILOU": "BILU",
    "BMES": "BMES",
}
SCHEMES = list(PREFIXES)
# seqeval has no BMES, and its default mode has only the letters of IOBES.
LIKE_IOBES = {"BILOU": str.maketrans("LU", "ES"), "BMES": str.maketrans("M", "I")}


def names_of(scheme, types=("X", "Y")):
    return ["O", *(f"{prefix}-{type_}" for type_ in types for prefix in PREFIXES[scheme])]
