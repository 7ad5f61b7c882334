"""A corpus that writes itself: requests to a travel and shopping service, with slots in BIO tags.

The same seed gives the same corpus. It is ambiguous on purpose: Paris and Austin are cities and
people, "may" and "march" are months and verbs, "to" stands inside "quarter to nine", a number is a
count, a price, a time or a day by what stands around it, "new" and "and" are words of their own and
parts of longer names. A quarter of the names occur in the dev and test parts only, and half of the
requests are in lower case, as people type them.

    python examples/corpus.py DIRECTORY     writes train.tsv, dev.tsv and test.tsv
"""

import argparse
import pathlib
import random
import re

from columns import write_columns

SIZES = {"train": 3000, "dev": 500, "test": 500}

# Within a list, the last quarter is kept for the dev and test parts.
CITIES = """
Boston|New York|Paris|Austin|San Jose|Denver|Salt Lake City|Rome|Florence|Orlando|Cape Town|Lincoln
Rio de Janeiro|Dallas|Charlotte|Buenos Aires|Jackson|Madison|Mexico City|Reading|Nice|Bath|London
Hong Kong|Sydney|Phoenix|Mobile|Sao Paulo|Geneva|Savannah|New Orleans|Bergen|Santiago de Chile
Kuala Lumpur|Victoria|Eugene|Split|Cork|Porto Alegre|Great Falls|Ho Chi Minh City|Aurora|Carson City
"""
FIRST_NAMES = """
Paris|Austin|April|June|May|Will|Mark|Grace|Rose|Bill|Jordan|Sydney|Madison|Charlotte|Jackson|Anna
Omar|Ravi|Lena|Hope|Jack|Drew|Georgia|Frank|Lincoln|Dallas|Florence|Olga|Pat|August|Ines|Marco
Victoria|Eugene|Chase|Summer|Aurora|Carson|Phoenix|Skye|Yuki|Bjorn
"""
LAST_NAMES = """
London|Reed|Paris|March|Price|Young|Day|Rivera|Chen|Novak|Banks|Boston|Green|Brown|Walker|Haddad
Field|Singh|West|Lopez|Cook|King|Bergen|York|Lake|Castillo|Moreau|Okafor
"""
ITEMS = """
green tea|bread|ice cream|salt and pepper|fish and chips|bananas|apples|rice|orange juice|tea|salt
boston cream pie|bread and butter|running shoes|phone case|new york cheesecake|paper|chips|coffee
winter jacket|paris guide book|brown sugar|mac and cheese|candles|socks|toy train|city map|dates
black pepper|lake trout|april calendar|travel pillow|gin and tonic|cork mats|table lamp|pears
sweet and sour pork|rose water|two door fridge|price tags|rain boots|march fly spray
"""
SHOPS = """
Bread and Butter|Corner Market|Green Lake Foods|Target|Second Cup|The Paper House|Bath and Body
Seven Days|Boston Market|Best Price|Day and Night|Northern Lights|Salt and Stone|City Cook
Rose and Crown|April Cornell|Old Navy|Five Below|The Tea House|Lake and Field
"""
OPENINGS = """
||||please|hi|hello|could you|i want you to|can you|may i ask you to|hey will you|ok now|and then
"""
CLOSINGS = "||||||please|thanks|thank you|if you may|that will do|and mark it as new|that is all"

REQUESTS = """
book a flight from {ORIGIN} to {DESTINATION}
book a flight to {DESTINATION} from {ORIGIN}
get me {COUNT} tickets from {ORIGIN} to {DESTINATION} for under {PRICE}
the {ORIGIN} to {DESTINATION} train on {DATE} for {PERSON}
find a train out of {ORIGIN} into {DESTINATION} {DATE}
{PERSON} will march out of {ORIGIN} on {DATE} and wants a seat to {DESTINATION}
{PERSON} may fly to {DESTINATION} in {MONTH} so find a price for {COUNT}
{PERSON} is leaving {ORIGIN} for {DESTINATION} at {TIME}
may {PERSON} change the seat to {DESTINATION} from {DATE} to {DATE}
from {DATE} to {DATE} {PERSON} will be in {DESTINATION}
tell {PERSON} the bus to {DESTINATION} goes at {TIME} not at {TIME}
we march on to {DESTINATION} on {DATE} and want {COUNT} rooms
a room in {DESTINATION} for {COUNT} from {DATE} to {DATE} at most {PRICE} a night
what is the price from {ORIGIN} to {DESTINATION} or {DESTINATION} in {MONTH}
round trip {ORIGIN} {DESTINATION} for {PERSON} and {PERSON}
taxi from {ORIGIN} to {DESTINATION} between {TIME} and {TIME}
move the {TIME} bus out of {ORIGIN} to {TIME} on {DATE}
{COUNT} seats for {PERSON} to {DESTINATION} around {TIME} will cost {PRICE}
a flight for {PERSON} to {DESTINATION} and a new one for {PERSON} to {DESTINATION}
order {COUNT} {ITEM} and {COUNT} {ITEM}
order {COUNT} {ITEM} from {SHOP} for {PERSON}
order {ITEM} and {ITEM} from {SHOP} to come at {TIME}
send {PERSON} {COUNT} {ITEM} by {DATE}
bring {COUNT} {ITEM} to {PERSON} at {TIME}
i may need {COUNT} {ITEM} from {SHOP} for {PRICE} or less
march over to {SHOP} and bring back {ITEM} for {PERSON}
does {SHOP} sell {ITEM} for {PRICE}
return the {ITEM} from {SHOP} that {PERSON} got in {MONTH}
bill {PERSON} {PRICE} for the {ITEM} and mark the {ITEM} as new
a new {ITEM} for {PERSON} {DATE} at {TIME} from {SHOP}
a table for {COUNT} at {SHOP} at {TIME} on {DATE}
a table for {PERSON} at {SHOP} {DATE}
will {SHOP} in {DESTINATION} have {ITEM} on {DATE}
grace the table of {PERSON} with {COUNT} {ITEM}
drop the order of {ITEM} at {PRICE} and raise the one of {ITEM} to {COUNT}
ask {SHOP} to hold {COUNT} {ITEM} until {TIME}
"""

COUNTS = "{number}|{number}|{number}|a dozen|half a dozen|{number} dozen|two or three|a pair of"
PRICES = """
{number} dollars|{tens}|$ {tens}|{tens} euros|{number} fifty|{tens} bucks|a hundred dollars
"""
TIMES = """
{number}|{number}|{number} pm|{number} am|half past {number}|quarter to {number}|ten to {number}
{number} thirty|{number} in the {day_part}|{hour} : {minute}|five past {number}|midnight|noon
"""
DATES = """
{month} {number}|{month} {ordinal}|the {ordinal} of {month}|{weekday}|next {weekday}|tomorrow
tomorrow {day_part}|{number} {month}|tonight|{weekday} {day_part}|the {ordinal}|next week
"""

NAMES = {"ORIGIN": CITIES, "DESTINATION": CITIES, "ITEM": ITEMS, "SHOP": SHOPS}
PATTERNS = {"COUNT": COUNTS, "PRICE": PRICES, "TIME": TIMES, "DATE": DATES, "MONTH": "{month}"}
PARTS_OF_PATTERNS = {
    "number": "2|3|4|5|6|7|8|9|10|11|12|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve",
    "tens": "10|12|20|25|30|50|100|250",
    "hour": "1|2|3|4|5|6|7|8|9|10|11|12",
    "minute": "15|30|45|50",
    "ordinal": "first|second|third|7th|10th|21st",
    "month": "January|February|March|April|May|June|August|September|October|December",
    "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
    "day_part": "morning|afternoon|evening|night",
}


def generate_corpus(sizes=None, seed=0):
    """Writes the corpus: a dict from part name to sentences `(tokens, tags)`, none twice.

    Args:
        sizes: dict from part name to number of sentences; only "train" is denied the names that
            are held out.
        seed: the same seed gives the same corpus.
    """
    chooser, seen, corpus = random.Random(seed), set(), {}
    for part, size in (sizes or SIZES).items():
        writer = _RequestWriter(chooser, hold_out=part == "train")
        corpus[part] = []
        while len(corpus[part]) < size:
            tokens, tags = writer.request()
            text = " ".join(tokens).lower()
            if text not in seen:
                seen.add(text)
                corpus[part].append((tokens, tags))
    return corpus


class _RequestWriter:
    """Fills request patterns with phrases drawn at random."""

    def __init__(self, chooser, hold_out):
        self.chooser = chooser
        self.hold_out = hold_out

    def request(self):
        """One request: `(tokens, tags)`."""
        pattern = " ".join(self.entry(listing) for listing in (OPENINGS, REQUESTS, CLOSINGS))
        tokens, tags = [], []
        for piece in pattern.split():
            words, slot = self.expand(piece)
            tokens += words
            tags += _bio(slot, len(words))
        if self.chooser.random() < 0.5:
            tokens = [token.lower() for token in tokens]
        return tokens, tags

    def expand(self, piece):
        """The words that a piece of a pattern stands for, and its slot, "" for a plain word."""
        if not piece.startswith("{"):
            return [piece], ""
        slot = piece.strip("{}")
        return self.phrase(slot).split(), "DATE" if slot == "MONTH" else slot

    def phrase(self, slot):
        if slot == "PERSON":
            return self.person()
        if slot in NAMES:
            return self.name(NAMES[slot])
        pattern = self.entry(PATTERNS[slot])
        return re.sub(r"{(\w+)}", lambda part: self.entry(PARTS_OF_PATTERNS[part[1]]), pattern)

    def person(self):
        first = self.name(FIRST_NAMES)
        return f"{first} {self.name(LAST_NAMES)}" if self.chooser.random() < 0.4 else first

    def name(self, listing):
        entries = _entries(listing)
        known = entries[: len(entries) * 3 // 4] if self.hold_out else entries
        return self.chooser.choice(known)

    def entry(self, listing):
        return self.chooser.choice(_entries(listing))


def _entries(listing):
    return listing.strip("\n").replace("\n", "|").split("|")


def _bio(slot, length):
    return [f"B-{slot}"] + [f"I-{slot}"] * (length - 1) if slot else ["O"] * length


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    for part, sentences in generate_corpus(seed=options.seed).items():
        write_columns(options.directory / f"{part}.tsv", sentences)
        print(f"{options.directory / part}.tsv: {len(sentences)} requests")


if __name__ == "__main__":
    main()
