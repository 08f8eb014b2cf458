"""Texts in many languages with the same text in English, from public repositories at fixed commits.

`folder` has a clone of each, under its name. None of their text is kept in the model or in this project.
"""

from __future__ import annotations

import ast
import hashlib
import json
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Clone: owner/name, commit, licence of the texts.
SOURCES = {
    "ntrex": ("MicrosoftTranslator/NTREX", "8561f6a622db9edad1217683e5c83daefd8bb2bf", "CC BY-SA 4.0"),
    "tatoeba": ("facebookresearch/LASER", "74bc6ae7ffb7cba670fe0f428d0ede9f666fb821", "CC BY 2.0"),
    "queries": (
        "google-research-datasets/query-wellformedness",
        "fb69c21416195cddc797277ea9e4d393226571d2",
        "CC BY-SA 4.0",
    ),
    "docs-es": ("python/python-docs-es", "91f4ccc0baa8c7cbeb739e696c641388264caa30", "CC0 1.0"),
    "docs-fr": ("python/python-docs-fr", "b279d876e2a3381605d38ea62b863f60abadc92c", "CC0 1.0"),
    "docs-ja": ("python/python-docs-ja", "7eb90aaa6d3395bcfe01801ceb5e620eedf2356a", "CC0 1.0"),
    "docs-tr": ("python/python-docs-tr", "be1c5a492f430197f4f23bd679d5f65dab68866a", "CC0 1.0"),
    "docs-zh": ("python/python-docs-zh-cn", "693cf6be2bc17f3d50ee21fe207c6964f3fab130", "CC0 1.0"),
    "xcopa": ("cambridgeltl/xcopa", "e2e9d7f105a758ee869cd13e0fe251ef93a29840", "CC BY 4.0"),
    "pud-de": ("UniversalDependencies/UD_German-PUD", "ff80846ae60a0a70fc4d6251ef73e6a483a620ee", "CC BY-SA 3.0"),
    "pud-fr": ("UniversalDependencies/UD_French-PUD", "c245786cfb3020d43bcfc96215ae531a1b07bcbc", "CC BY-SA 3.0"),
    "pud-ru": ("UniversalDependencies/UD_Russian-PUD", "da5b3816eeaa24283c1d81a48bb1de4d062fc5d5", "CC BY-SA 3.0"),
    "pud-tr": ("UniversalDependencies/UD_Turkish-PUD", "63a134a087c8475ea832713b960baba8ff2f9401", "CC BY-SA 3.0"),
    # Sentences of Tatoeba once more, as courses in translation carry them.
    "book-de": ("DarrenCarvalho/Language-Translation", "a30fc3ec31687d0ed561047a9c7d7fdb5915f89c", "CC BY 2.0"),
    "book-fr": ("DevHunterYZ/Neural-Machine-Translation", "dd286a01f7993cd82f1c1b73e532919f8b3304a5", "CC BY 2.0"),
    "book-ja": ("sezan92/attention_sezan", "f506062ba9ca57cb205deac215083dde38da73e4", "CC BY 2.0"),
    "book-tr": ("devcem/NMT-on-PHP", "54040b37f8c8d891d00abcd364c0498d07aa3a67", "CC BY 2.0"),
    "book-zh": ("YC-Coder-Chen/English-Chinese-Translator", "9663dba4f2f52b4111b706b560023caaa73c72eb", "CC BY 2.0"),
}
# Files of the books, and how many of their longer sentences.
BOOKS = {
    "de": ("data/deu.txt", 12_000),
    "fr": ("fra.txt", 6_000),
    "ja": ("data/jpn.txt", 18_000),
    "tr": ("tur.txt", 25_000),
    "zh": ("data/cmn.txt", 12_000),
}
LONGER = 0.75  # share of a book
CHOICES = ("et", "id", "it", "sw", "ta", "th", "tr", "vi", "zh")
TREEBANKS = ("de", "fr", "ru", "tr")
NEWS = (
    "deu spa ron ell zho-CN rus tur arb hin vie tha jpn kor fra ita por pol nld ukr heb ind ces swe fin hun fas ben bul "
    "dan zho-TW"
).split()
MORE_NEWS = set("deu spa ron ell zho-CN rus tur arb hin vie tha jpn kor fra ita por".split())
UNSPACED = {"zho-CN", "zho-TW", "jpn", "tha"}
PHRASES = (
    "deu spa ron ell cmn rus tur ara hin vie tha jpn kor fra ita por pol nld ukr heb ind ces swe fin hun pes ben bul dan cat"
).split()
UNKNOWN_TO_E5 = (
    "ang arq arz cbk cha cor csb dsb dtp gsw hsb ido ile ina kab kzj lfn max mhr nds nov orv pam pms swg tzl war yue kur"
).split()
MANUALS = ("tutorial", "faq", "howto", "library", "reference", "using", "installing", "glossary.po")
SENTENCES = 1997  # of NTREX, in every language


@dataclass(frozen=True, slots=True)
class Pair:
    """A text, where it is from, and the English text whose vector its own should be."""

    source: str
    text: str
    language: str
    english: str


class Clones:
    """Files of the repositories at their commits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, source: str, path: str) -> str:
        """Return the text of a file."""
        return self._git(source, "show", f"{SOURCES[source][1]}:{path}")

    def paths(self, source: str, under: str = ".") -> list[str]:
        """Return the paths of the files in a folder."""
        return self._git(source, "ls-tree", "-r", "--name-only", SOURCES[source][1], under).split("\n")[:-1]

    def _git(self, source: str, *command: str) -> str:
        clone = self.folder / SOURCES[source][0].rpartition("/")[2]
        return subprocess.run(["git", "-C", str(clone), *command], capture_output=True, check=True).stdout.decode()


def pairs(folder: Path) -> list[Pair]:
    """Return all pairs in an order that is the same each time, sources and languages mixed."""
    clones = Clones(folder)
    makers = {"ntrex": news, "laser": phrases, "queries": questions, "docs": manuals, "books": books}
    found = [pair for name, make in makers.items() for pair in make(clones, random.Random(name))]
    found += [*choices(clones), *treebanks(clones)]
    return sorted(found, key=lambda pair: hashlib.md5((pair.source + pair.text).encode()).digest())


def news(clones: Clones, rng: random.Random) -> Iterator[Pair]:
    """Yield sentences of newspapers, and paragraphs of two to six of them, in 30 languages (Federmann et al. 2022)."""
    english = clones.read("ntrex", "NTREX-128/newstest2019-src.eng.txt").strip().split("\n")
    articles = [line.split("\t")[0] for line in clones.read("ntrex", "DOCUMENT_IDS.tsv").strip().split("\n")]
    for language in ("eng", *NEWS):
        name = "src.eng" if language == "eng" else f"ref.{language}"
        lines = clones.read("ntrex", f"NTREX-128/newstest2019-{name}.txt").strip("\n").split("\n")
        text = [line.strip() for line in lines]
        assert len(text) == len(english) == len(articles) == SENTENCES
        space = "" if language in UNSPACED else " "
        sentences, paragraphs = (
            (1500, 450) if language == "eng" else (1900, 250) if language in MORE_NEWS else (600, 150)
        )
        for i in rng.sample(range(SENTENCES), sentences):
            yield Pair("ntrex", text[i], language, english[i])
        cuts = list(_cuts(articles, rng))
        for a, b in rng.sample(cuts, min(paragraphs, len(cuts))):
            yield Pair("ntrex", space.join(text[a:b]), language, " ".join(english[a:b]))


def _cuts(articles: list[str], rng: random.Random) -> Iterator[tuple[int, int]]:
    begin = 0
    while begin < len(articles):
        longest = begin + rng.choice((2, 3, 4, 5, 6))
        end = begin
        while end < min(longest, len(articles)) and articles[end] == articles[begin]:
            end += 1
        yield begin, end
        begin = end


def phrases(clones: Clones, rng: random.Random) -> Iterator[Pair]:
    """Yield short sentences of Tatoeba in 84 languages (Artetxe and Schwenk 2019)."""
    found = []
    for path in clones.paths("tatoeba", "data/tatoeba/v1"):
        match = re.match(r".*tatoeba\.(\w+)-eng\.(\w+)$", path)
        if match is None or match[2] == "eng" or match[1] in UNKNOWN_TO_E5:
            continue
        own, english = (
            clones.read("tatoeba", path[:-3] + ending).strip("\n").split("\n") for ending in (match[1], "eng")
        )
        both = [(a, b) for a, b in zip(own, english, strict=True) if a.strip() and b.strip()]
        rng.shuffle(both)
        some = both[: 1000 if match[1] in PHRASES else 250]
        found += [Pair("laser", a.strip(), match[1], b.strip()) for a, b in some]
    yield from found
    for text in rng.sample(sorted({pair.english for pair in found}), 5000):
        yield Pair("laser", text, "eng", text)


def questions(clones: Clones, rng: random.Random) -> Iterator[Pair]:
    """Yield English questions as people type them, half of them with a question mark (Faruqui and Das 2018)."""
    lines = [
        line
        for part in ("train", "dev", "test")
        for line in clones.read("queries", f"{part}.tsv").strip("\n").split("\n")
    ]
    found = sorted({line.split("\t")[0].strip() for line in lines})
    rng.shuffle(found)
    for number, one in enumerate(found):
        text = one[0].upper() + one[1:] + "?" * (number % 2)
        yield Pair("queries", text, "eng", text)


def manuals(clones: Clones, rng: random.Random) -> Iterator[Pair]:
    """Yield paragraphs of Python's documentation and of its translations."""
    for language in ("es", "fr", "ja", "tr", "zh"):
        source = f"docs-{language}"
        paths = [path for path in clones.paths(source) if path.endswith(".po") and path.split("/")[0] in MANUALS]
        both = [(_plain(a), _plain(b)) for path in paths for a, b in _messages(clones.read(source, path))]
        both = [(a, b) for a, b in both if 40 < len(a) < 700 and a != b and b.count("|") < 2]
        rng.shuffle(both)
        for a, b in both[:3000]:
            yield Pair("docs", b, language, a)
        for a, _ in both[3000:3500]:
            yield Pair("docs", a, "eng", a)


def choices(clones: Clones) -> Iterator[Pair]:
    """Yield short sentences of what happens every day, in nine languages (Ponti et al. 2020); the English is by a machine."""
    for language in CHOICES:
        own, english = (
            clones.read("xcopa", f"{folder}/{language}/test.{language}.jsonl").splitlines()
            for folder in ("data", "data-gmt")
        )
        for a, b in zip(map(json.loads, own), map(json.loads, english), strict=True):
            yield from (Pair("xcopa", a[part], language, b[part]) for part in ("premise", "choice1", "choice2"))


def treebanks(clones: Clones) -> Iterator[Pair]:
    """Yield sentences of Wikipedia and of newspapers in four languages (Zeman et al. 2017)."""
    own = {one: _sentences(clones.read(f"pud-{one}", f"{one}_pud-ud-test.conllu")) for one in TREEBANKS}
    english = _sentences(clones.read("pud-de", "de_pud-ud-test.conllu"), "text_en")
    for language, text in own.items():
        yield from (Pair("pud", text[one], language, english[one]) for one in text if one in english)


def _sentences(treebank: str, what: str = "text") -> dict[str, str]:
    """Return the sentences of a treebank by their numbers."""
    found = re.findall(rf"^# sent_id = (\S+)\n(?:# .*\n)*?# {what} = (.+)$", treebank, re.MULTILINE)
    return dict(found)


def books(clones: Clones, rng: random.Random) -> Iterator[Pair]:
    """Yield sentences in five languages, the longer ones of a book."""
    for language, (path, most) in BOOKS.items():
        lines = clones.read(f"book-{language}", path).splitlines()
        both = [tuple(line.split("\t")[:2]) for line in lines if "\t" in line]
        rng.shuffle(both)
        sentences = sorted(dict(both).items(), key=lambda pair: len(pair[0]), reverse=True)
        longer = sentences[: round(LONGER * len(sentences))]
        for english, own in rng.sample(longer, min(most, len(longer))):
            yield Pair("books", own, language, english)


def _messages(catalogue: str) -> Iterator[tuple[str, str]]:
    for block in catalogue.split("\n\n"):
        match = re.search(r'^msgid ((?:"[^\n]*"\n?)+)msgstr ((?:"[^\n]*"\n?)+)', block, re.MULTILINE)
        if match is None or "#, fuzzy" in block or "msgctxt" in block:
            continue
        english, own = ("".join(map(ast.literal_eval, group.strip().split("\n"))) for group in match.groups())
        if own and len(english) > 40:
            yield english, own


def _plain(text: str) -> str:
    """Return text without the marks of reStructuredText."""
    text = re.sub(r":[a-z:+]+:`[!~]?([^`<]*)(<[^`]*>)?`", r"\1", text)
    return re.sub(r"\s+", " ", text.replace("``", "").replace("*", "")).strip()
