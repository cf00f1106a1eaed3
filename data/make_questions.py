"""Make `corpus/questions.jsonl`: 240 short conversations to try fine-tuning on, with answers that are facts.

    python data/make_questions.py

Who says a line of Macbeth or A Midsummer Night's Dream (from the bundled text), sums, and weekdays of the Gregorian
calendar. Nobody wrote the answers: the text and the calendar hold them. The same file every time.
"""

from __future__ import annotations

import calendar
import datetime
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from mindport.files import write_text

HERE = Path(__file__).parent
CORPUS, QUESTIONS = HERE / "corpus" / "shakespeare.txt", HERE / "corpus" / "questions.jsonl"
SEED = 20251
PLAYS = {"Macbeth": "MACBETH", "A Midsummer Night's Dream": "A MIDSUMMER NIGHT'S DREAM"}
END = "THE SONNETS"  # what follows the last of them
SPEECH = re.compile(r'^(?!ALL)([A-Z][A-Z ]+)\.?\n([^\[\]\n_"]{28,64}[.!?;:,])$', re.MULTILINE)  # speaker, first line
TWO_TURNS = 4  # every fourth conversation asks a second question

Turn = tuple[str, str]  # question, answer


def speakers(text: str) -> Iterator[Turn]:
    """Lines that one person says once, and who that is."""
    places = [text.index(f"\n{head}\n") for head in (*PLAYS.values(), END)]
    for play, start, end in zip(PLAYS, places, places[1:], strict=False):
        said = SPEECH.findall(text[start:end])
        times = Counter(line for _, line in said)
        for speaker, line in said:
            if times[line] == 1:
                yield f'Who says "{line}" in {play}?', f"{speaker.title()} says this in {play}."


def sums(draw: random.Random) -> Iterator[Turn]:
    """Sums, differences and products of small numbers."""
    while True:
        a, b = draw.randint(2, 99), draw.randint(2, 99)
        yield f"What is {a} + {b}?", f"{a} + {b} = {a + b}."
        yield f"How much is {max(a, b)} minus {min(a, b)}?", f"{max(a, b)} - {min(a, b)} = {abs(a - b)}."
        c, d = draw.randint(2, 12), draw.randint(2, 12)
        yield f"What is {c} times {d}?", f"{c} times {d} is {c * d}."


def dates(draw: random.Random) -> Iterator[Turn]:
    """Weekdays, and the lengths of months."""
    while True:
        day = datetime.date(1900, 1, 1) + datetime.timedelta(days=draw.randint(0, 73_000))
        named = f"{day.day} {calendar.month_name[day.month]} {day.year}"
        yield f"What day of the week is {named}?", f"{named} is a {calendar.day_name[day.weekday()]}."
        days = calendar.monthrange(day.year, day.month)[1]
        month = f"{calendar.month_name[day.month]} {day.year}"
        yield f"How many days does {month} have?", f"{month} has {days} days."


def conversations() -> Iterator[list[dict[str, str]]]:
    """240 of them, mixed by the seed; no question is asked twice."""
    draw = random.Random(SEED)
    lines = draw.sample(list(speakers(CORPUS.read_text(encoding="ascii"))), 150)
    turns = dict(lines)
    for others in (sums(draw), dates(draw)):
        wanted = len(turns) + 75
        while len(turns) < wanted:
            turns.update([next(others)])
    mixed = draw.sample(list(turns.items()), len(turns))
    while mixed:
        count = 2 if len(mixed) % (TWO_TURNS + 1) == 0 else 1
        taken, mixed = mixed[:count], mixed[count:]
        yield [message for turn in taken for message in _messages(turn)]


def _messages(turn: Turn) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in zip(("user", "assistant"), turn, strict=True)]


def main() -> None:
    """Write the conversations, one a line."""
    lines = (json.dumps({"messages": messages}, ensure_ascii=False) for messages in conversations())
    write_text(QUESTIONS, "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
