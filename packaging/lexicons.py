"""Make the lexicons by which a question's words are looked for in English memories, too.

Not used at run time. To rebuild, with pgengram installed:

    git clone https://github.com/omwn/omw-data  # at the commit below; its wns folder holds WORDNETS
    # WordNet 3.0 (Princeton University), or Debian's package wordnet-sense-index 3.0-37, holds index.sense
    python packaging/lexicons.py WORDNETS index.sense

The last line is the hash of what is made: put it into `SHA256` (text/words.py) and into SOURCE.md.

A word of another language gets the English words that share a meaning with it, at most three: those with the most meanings in
common, each counted by how often the English word has it in the texts that WordNet's authors marked.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pgengram.text.language import function_words
from pgengram.text.languages import language_data
from pgengram.text.words import FILE, MAX_SYLLABLES, lookup_key

COMMIT = "f75be19ec590da12a7a5665e361690b5badb7a25"
SOURCES_SHA256 = "3bce474b4418025744f923e219a04a1994d6d8ad65a9b90ea2efd59e0b2e10db"
MOST = 3  # English words
PARTS_OF_SPEECH = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
# What PostgreSQL leaves out of English texts, as far as WordNet has it.
STOP_WORDS = frozenset(
    """a about above after again against all am an and any are as at be because been before being below between both but by can
    did do does doing don down during each few for from further had has have having he her here hers him his how i if in into is it
    its just me more most my no nor not now of off on once only or other our out over own s same she should so some such t than
    that the their them then there these they this those through to too under until up very was we were what when where which while
    who whom why will with you your""".split()
)
# Turkish: how verbs end in dictionaries, how the last consonant of a word sounds before a vowel, and its last vowel before -yor.
INFINITIVE, SHORT = ("mak", "mek"), 4
SOFTENED = {"p": "b", "ç": "c", "t": "d", "k": "ğ"}
NARROWED = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}
EPOCH = (1980, 1, 1, 0, 0, 0)  # in the archive, so that it is the same each time
# Of Wiktionary unless said otherwise: ISO 639-3 of each language that is told by its words or script.
WIKTIONARY = {
    "ar": "arb", "be": "bel", "ca": "cat", "cs": "ces", "da": "dan", "de": "deu", "el": "ell", "es": "spa", "et": "est", "eu": "eus",
    "fa": "fas", "fi": "fin", "fr": "fra", "ga": "gle", "gl": "glg", "he": "heb", "hi": "hin", "hr": "hbs", "hu": "hun", "hy": "hye",
    "id": "ind", "is": "isl", "it": "ita", "ja": "jpn", "ka": "kat", "ko": "kor", "lt": "lit", "lv": "lav", "mk": "mkd", "ms": "zsm",
    "nl": "nld", "no": "nob", "pl": "pol", "pt": "por", "ro": "ron", "ru": "rus", "sk": "slk", "sl": "slv", "sr": "hbs", "sv": "swe",
    "sw": "swa", "th": "tha", "tr": "tur", "uk": "ukr", "vi": "vie", "zh": "cmn",
}  # fmt: skip
FURTHER = {"ar": ("arb/wn-nodia-arb.tab",), "zh": ("cow/wn-data-cmn.tab",)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the lexicons.")
    parser.add_argument("wordnets", type=Path)
    parser.add_argument("senses", type=Path)
    given = parser.parse_args()
    sources = {code: files_of(given.wordnets, code) for code in WIKTIONARY}
    read = hashlib.sha256(b"".join(file.read_bytes() for file in (given.senses, *chain(*sources.values()))))
    if read.hexdigest() != SOURCES_SHA256:
        sys.exit(f"These are not the files that the lexicons are made from: {read.hexdigest()}")
    english = meanings(given.senses)
    with zipfile.ZipFile(FILE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for code, files in sources.items():
            text = "".join(
                f"{word}\t{' '.join(found)}\n" for word, found in sorted(lexicon(code, files, english).items())
            )
            archive.writestr(zipfile.ZipInfo(code, EPOCH), text, zipfile.ZIP_DEFLATED)
            print(
                code,
                text.count("\n"),
                "words",
                len(text.encode()),
                "B,",
                archive.getinfo(code).compress_size,
                "in the archive",
            )
    print(hashlib.sha256(FILE.read_bytes()).hexdigest())


def files_of(wordnets: Path, code: str) -> list[Path]:
    """Return the files that a lexicon is made from."""
    return [wordnets / name for name in (f"wikt/wn-wikt-{WIKTIONARY[code]}.tab", *FURTHER.get(code, ()))]


def meanings(senses: Path) -> dict[str, dict[str, float]]:
    """Return for each meaning its English words, each with its weight."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in senses.read_text(encoding="ascii").splitlines():
        key, offset, _, times = line.split()
        word, rest = key.split("%")
        if "_" not in word and word not in STOP_WORDS:
            found[f"{offset}-{PARTS_OF_SPEECH[rest[0]]}"][word] = 1 + math.log1p(int(times))
    return found


def lexicon(code: str, files: list[Path], english: dict[str, dict[str, float]]) -> dict[str, list[str]]:
    """Return for each stem of a language its English words, the likeliest first."""
    # Texts without spaces between words are cut by the lexicon, which has to know those words, too.
    empty = frozenset() if language_data(code).lexicon == "characters" else function_words(code)
    weights: dict[str, Counter[str]] = defaultdict(Counter)
    for meaning, word in lemmas(files):
        if fits(code, word, empty):
            for key in keys(code, word):
                weights[key].update(english.get(meaning, {}))
    return {
        word: best
        for word, found in weights.items()
        if (best := [one for one, _ in found.most_common(MOST) if one != word])
    }


def keys(code: str, word: str) -> list[str]:
    """Return what a word is looked up by."""
    return turkish_roots(word) if language_data(code).lexicon == "beginnings" else [lookup_key(code, word)]


def turkish_roots(word: str) -> list[str]:
    """Return all the ways in which a word may be written before endings."""
    if not word.endswith(INFINITIVE) or len(word) <= SHORT:
        softened = SOFTENED.get(word[-1])
        return [word, word[:-1] + softened] if softened else [word]
    root = word[:-3]
    if root.endswith("t"):  # gitmek, gidiyor
        return [root, root[:-1] + "d"]
    vowels = [NARROWED[letter] for letter in root[:-1] if letter in NARROWED]
    return [root, root[:-1] + vowels[-1]] if root.endswith(("a", "e")) and vowels else [root]  # yaşamak, yaşıyor


def fits(code: str, word: str, empty: frozenset[str]) -> bool:
    """Whether a word can be looked up as questions are cut into words."""
    parts = word.split()
    most = MAX_SYLLABLES if language_data(code).lexicon == "syllables" else 1
    return 1 <= len(parts) <= most and word not in empty and not word.isdigit()


def lemmas(files: list[Path]) -> Iterator[tuple[str, str]]:
    """Yield each meaning with a word that has it."""
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            columns = line.split("\t")
            if len(columns) > 2 and columns[1].endswith("lemma"):
                yield (
                    columns[0].replace("-s", "-a"),
                    unicodedata.normalize("NFC", columns[2].replace("_", " ")).lower().strip(),
                )


if __name__ == "__main__":
    main()
