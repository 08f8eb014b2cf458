"""How well the language of a text is told: our own way beside py3langid and lingua.

    pip install py3langid lingua-language-detector
    python benchmarks/languages.py XQUAD [--texts N] [--json PATH]

XQUAD is a clone of github.com/google-deepmind/xquad: the same paragraphs and questions in twelve languages. The probe in
eight languages is always asked. Each way runs in a process of its own, so that its time and memory are its own. A text
counts as told if its code is; ours may also say that it doesn't know, which counts as not told. *English as foreign* is
the share of English texts that are taken for another language: those would be embedded by the wrong model.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from corpus import PROBE
from rich.console import Console
from rich.table import Table

WAYS = ("pgengram", "py3langid", "lingua")
PACKAGES = {"pgengram": ["pgengram/text/languages"], "py3langid": ["py3langid"], "lingua": ["lingua"]}
FEW_WORDS = 3
SEED = 7


def samples(xquad: Path, texts: int) -> Iterator[tuple[str, str, str]]:
    """Yield kind, code and text: questions, paragraphs, three words of these, and the notes and questions of the probe."""
    chosen = random.Random(SEED)
    for file in sorted(xquad.glob("xquad.*.json")):
        code = file.name.split(".")[1]
        paragraphs = [
            one for article in json.loads(file.read_text(encoding="utf-8"))["data"] for one in article["paragraphs"]
        ]
        questions = [asked["question"] for one in paragraphs for asked in one["qas"]]
        for question in chosen.sample(questions, min(texts, len(questions))):
            yield "questions", code, question
        for paragraph in chosen.sample(paragraphs, min(texts, len(paragraphs))):
            yield "paragraphs", code, paragraph["context"]
        for question in chosen.sample(questions, min(texts, len(questions))):
            words = question.split()
            if len(words) > FEW_WORDS:
                yield "three words", code, " ".join(words[-FEW_WORDS - 1 : -1])
    with PROBE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield from (("notes", row["language"], row[column]) for column in ("memory", "question"))


def way_of(name: str) -> Callable[[str], str]:
    """Return what tells the code of a text's language; imports it."""
    if name == "py3langid":
        import py3langid

        return lambda text: str(py3langid.classify(text)[0])
    if name == "lingua":
        from lingua import LanguageDetectorBuilder

        detector = LanguageDetectorBuilder.from_all_languages().build()

        def told(text: str) -> str:
            found = detector.detect_language_of(text)
            return found.iso_code_639_1.name.lower() if found else "und"

        return told
    from pgengram.text.language import language_of

    return lambda text: language_of(text).code


def measure(name: str) -> dict[str, object]:
    """Tell the language of each text that stands in the standard input; return what it took in this process."""
    texts: list[str] = json.load(sys.stdin)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    told = way_of(name)
    told("Where is the key?")
    ready = time.process_time()
    codes = [told(text) for text in texts]
    return {
        "codes": codes,
        "start_ms": 1e3 * (ready - start),
        "us": 1e6 * (time.process_time() - ready) / len(texts),
        "mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }


def size_mb(name: str) -> float:
    """Return what a way takes on the disk."""
    found = importlib.util.find_spec(PACKAGES[name][0].partition("/")[0])
    assert found is not None
    assert found.submodule_search_locations is not None
    folder = Path(found.submodule_search_locations[0]).parent / PACKAGES[name][0]
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare ways to tell languages.")
    parser.add_argument("xquad", type=Path, nargs="?")
    parser.add_argument("--texts", type=int, default=200, help="of each kind and language")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        json.dump(measure(given.way), sys.stdout)
        return
    if not given.xquad:
        parser.error("Name the folder of XQuAD.")
    asked = [*samples(given.xquad, given.texts)]
    kinds = list(dict.fromkeys(kind for kind, _, _ in asked))
    table = Table(title=f"{len(asked)} texts; the language is told, per cent")
    for column in ("", *kinds, "English as foreign", "first text, ms", "a text, µs", "memory, MB", "on the disk, MB"):
        table.add_column(column, justify="right" if column else "left")
    figures = {}
    for name in WAYS:
        command = [sys.executable, __file__, "--way", name]
        answer = subprocess.run(
            command, input=json.dumps([text for *_, text in asked]), capture_output=True, text=True, check=True
        )
        taken = json.loads(answer.stdout)
        right = {
            kind: [told == code for (one, code, _), told in zip(asked, taken["codes"], strict=True) if one == kind]
            for kind in kinds
        }
        english = [told for (_, code, _), told in zip(asked, taken["codes"], strict=True) if code == "en"]
        foreign = sum(told not in ("en", "und") for told in english) / len(english)
        figures[name] = {
            **{kind: 100 * sum(one) / len(one) for kind, one in right.items()},
            "English as foreign": 100 * foreign,
            **{key: taken[key] for key in ("start_ms", "us", "mb")},
            "disk_mb": size_mb(name),
        }
        table.add_row(name, *(f"{value:,.1f}" for value in figures[name].values()))
    Console(width=150).print(table)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
