"""What a name sounds like, in a few consonants, so that a question in another script finds it.

"Лютер", "Λούθηρος" and "لوثر" share no letter with "Luther", but all are L, T, R. The letters are put together
more coarsely than Soundex does, as scripts differ in the consonants they have: Arabic writes no P, Greek neither B
nor SH, and Japanese and Chinese don't tell L from R. Of a name with two consonants counts as well that it begins with
a vowel: "Emil" and "埃米尔" are A, M, L or R.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, product
from operator import add
from typing import Final

from pgengram.text.language import clear_language, function_words

SHORTEST: Final = 3  # sounds: with two, every word sounds like some name
MARK: Final = "sound:"  # of a term that is no word
REMEMBERED: Final = 20_000  # names
LONGEST: Final = 6  # Chinese characters of a name
MOST_LIQUIDS: Final = 3  # of a name, of which each may be either

# Letters by what they count as; vowels, H, W and Y count as nothing.
_LETTERS: Final = {
    "P": "bpfv" "бвпф" "βπφ" "بفپ" "पफबभव" "バビブベボパピプペポフヴ",
    "T": "tdđðþ" "дт" "δθτ" "تثدذضطظ" "टठडढतथदध" "タテトダデド",
    "K": "kgqc" "гкхґ" "γκχ" "خغقكگک" "कखगघ" "カキクケコガギグゲゴ",
    "S": "szjß" "жзсцчшщџћ" "ζσς" "جزسشصچژ" "चछजझशषस" "サシスセソザジズゼゾチヂツヅ",
    "L": "lł" "лљ" "λ" "ل" "ल",
    "R": "r" "р" "ρ" "ر" "रृ" "ラリルレロ",
    "M": "m" "м" "μ" "م" "म" "マミムメモ",
    "N": "n" "нњ" "ν" "ن" "ङञणनंँ" "ナニヌネノン",
    "KS": "x" "ξ",
    "PS": "ψ",
    "TS": "ђ",
}  # fmt: skip
# Chinese characters that foreign names are written with; an N that ends the syllable stands behind its first sound.
_CHARACTERS: Final = {
    "": "阿埃艾爱愛奥奧伊厄乌烏尤亚亞娅婭雅耶约約欧歐赫哈海豪黑希霍胡华華沃瓦韦韋维維威惠怀懷",
    "N": "安恩因英翁汉漢亨温溫文纳納娜奈瑙内內尼妮诺諾努",
    "P": "布巴拜鲍鮑贝貝比博伯普帕派保佩皮珀波弗夫法费費菲福富",
    "PN": "班本宾賓潘彭平凡芬丰冯馮",
    "T": "德达達戴道代迪蒂多杜特塔泰陶托图圖",
    "TN": "丹登丁东東坦滕廷顿頓唐",
    "K": "格加盖蓋高戈古克卡凯凱考基柯科库庫夸奎",
    "KN": "根贡貢坎肯金孔",
    "S": "兹茲扎宰佐祖察斯萨薩赛賽索塞西苏蘇什沙夏谢謝舍肖绍紹舒奇查柴乔喬切恰丘日贾賈杰傑吉焦久朱让讓齐齊",
    "SN": "曾津岑桑森辛松香申欣钱錢琴詹珍",
    "M": "姆马馬玛瑪迈邁毛梅米默莫穆",
    "MN": "曼门門明蒙",
    "R": "尔爾拉莱萊劳勞利莉丽麗洛罗羅勒卢盧鲁魯雷里赖賴露",
    "RN": "兰蘭林琳伦倫龙龍朗",
}
_SOUNDS: Final = {
    letter: sound for table in (_LETTERS, _CHARACTERS) for sound, all_ in table.items() for letter in all_
}
# Pairs that stand for one sound, before the letters.
_PAIRS: Final = (
    *((pair, "s") for pair in ("sch", "tch", "sh", "ch", "дж", "τζ", "τσ")),
    *(("th", "t"), ("ph", "f"), ("ck", "k"), ("gh", "g"), ("кс", "x"), ("μπ", "π"), ("ντ", "δ"), ("γκ", "κ")),
)
_SOFT: Final = re.compile("[cg](?=[eiy])")
_VOWEL: Final = re.compile("[aeiouаеёиіоуыэюяαεηιουωアイウエオ阿艾爱愛奥奧伊厄乌烏尤亚亞埃安恩因英欧歐]")
_SILENT_R: Final = re.compile("r(?![aeiouyr])")
_MARKED: Final = re.compile(r"[\u0370-\u052f\u1f00-\u1fffA-Za-zÀ-ɏ]")  # scripts whose letters have accents
_ARTICLES: Final = re.compile("^(?:[وفبك]?ال|لل|[وبلك])(?=...)")  # of Arabic, written as one with what follows


@dataclass(frozen=True, slots=True)
class _Script:
    """How names are known in a script, and what marks their sounds.

    name: what may be one; listed: whether a memory is found by them, as it isn't where every word may be a name;
    one_liquid: whether L and R are one sound, and an R before a consonant is none.
    """

    mark: str
    name: re.Pattern[str]
    listed: bool = True
    one_liquid: bool = False


def _capital_pattern(letters: Iterable[int]) -> re.Pattern[str]:
    """Return what finds words of at least three letters of a script of which the first is a capital."""
    own = [chr(letter) for letter in letters if chr(letter).isalpha()]
    capitals = "".join(filter(str.isupper, own))
    return re.compile(rf"(?<![^\W\d_])[{capitals}][{''.join(own)}]{{2,}}")


LATIN: Final = _Script("", _capital_pattern(range(0x41, 0x250)))
HAN: Final = _Script("han:", re.compile(f"[{''.join(_CHARACTERS.values())}]{{3,}}"), one_liquid=True)
_SCRIPTS: Final = (
    LATIN,
    _Script("cyrillic:", _capital_pattern(range(0x400, 0x530))),
    _Script("greek:", _capital_pattern((*range(0x370, 0x400), *range(0x1F00, 0x2000)))),
    _Script("arabic:", re.compile(r"[\u0600-\u06ff\u0750-\u077f]+"), listed=False),
    _Script("devanagari:", re.compile(r"[\u0900-\u097f]+"), listed=False),
    _Script("kana:", re.compile(r"[\u30a1-\u30f4\u30fc]{3,}"), one_liquid=True),
    HAN,
)


def sounds_of_names(text: str) -> list[str]:
    """Return a term for each sound of a name: a word with a capital that isn't a common one, a Japanese word in
    katakana, or a run of Chinese characters that foreign names are written with.
    """
    scripts = (LATIN,) if text.isascii() else _SCRIPTS
    found = (
        MARK + script.mark + sound
        for script in scripts
        if script.listed
        for name in _names_in_script(script, text)
        for sound in _sounds(name)
    )
    return list(dict.fromkeys(found))


def asked_sounds(text: str, words: Iterable[str], unknown: Collection[str] = ()) -> dict[str, list[str]]:
    """Return what names of a question sound like in the scripts that they are not written in.

    Args:
        text: the question.
        words: those of it that weigh.
        unknown: those that no lexicon has; they may be names in small letters, as people type them.
    """
    scripts = (LATIN,) if text.isascii() else _SCRIPTS
    empty = function_words(clear_language(text) or "en")
    whole = [word for word in words if word.lower() not in empty]
    found: dict[str, list[str]] = {}
    for script in scripts:
        runs = (
            [(name, name) for name in _names_in_script(script, text)]
            if script.one_liquid
            else _matching(script, whole, unknown)
        )
        found |= {word: sounds for word, name in runs if (sounds := _in_other_scripts(name, script))}
    return found


def _matching(script: _Script, words: Iterable[str], unknown: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the words that may be names in a script, and the letters that each begins with."""
    spelled = ((word, word.capitalize() if word in unknown else word) for word in words)
    return ((word, match[0]) for word, name in spelled if (match := script.name.match(name)))


def _names_in_script(script: _Script, text: str) -> Iterator[str]:
    empty = function_words("en") if script is LATIN else function_words(clear_language(text) or "")
    for found in script.name.findall(text):
        if found.lower() not in empty:
            yield from _name_parts(found) if script is HAN else (found,)


def _name_parts(run: str) -> Iterator[str]:
    """Yield what may be a name in a run of characters, as other words are written with them, too."""
    for begin in range(len(run) - SHORTEST + 1):
        yield from (run[begin:end] for end in range(begin + SHORTEST, min(begin + LONGEST, len(run)) + 1))


def _in_other_scripts(name: str, own: _Script) -> list[str]:
    terms = []
    for other in _SCRIPTS:
        if other.listed and other is not own:
            either = own.one_liquid and not other.one_liquid
            terms += [MARK + other.mark + sound for sound in _sounds(name, one_liquid=other.one_liquid, either=either)]
    return list(dict.fromkeys(terms))


@lru_cache(REMEMBERED)
def _sounds(name: str, *, one_liquid: bool = False, either: bool = False) -> tuple[str, ...]:
    """Return the forms of what a name sounds like that are long enough.

    Args:
        name: in any script.
        one_liquid: whether as Japanese and Chinese write it.
        either: whether it is written so, and each R may be an L.
    """
    forms = [name, _ARTICLES.sub("", name), _without_ending(name)]
    if one_liquid:
        forms.append(_SILENT_R.sub("", name.lower()))
    sounds = [_sound(form) for form in dict.fromkeys(forms)]
    if one_liquid:
        sounds = [sound.replace("L", "R") for sound in sounds]
    elif either:
        sounds = [sound for one in sounds for sound in _with_either(one)]
    return tuple(dict.fromkeys(sound for sound in map(_without_runs, sounds) if len(sound) >= SHORTEST))


def _with_either(sound: str) -> Iterator[str]:
    """Yield a sound with each of its first R as an R and as an L."""
    parts = sound.split("R", MOST_LIQUIDS)
    for liquids in product("RL", repeat=len(parts) - 1):
        yield parts[0] + "".join(map(add, liquids, parts[1:]))


def _without_ending(name: str) -> str:
    """Return a Greek or Russian name without the consonant of its ending."""
    return re.sub("(?:[οαηώόά]?ς|[оеиыа]?[мйв])$", "", name)


def _sound(name: str) -> str:
    """Return the sounds of a name, each letter's; one that is short begins with an A, if it does with a vowel."""
    lowered = name.lower()
    for pair, one in _PAIRS:
        lowered = lowered.replace(pair, one)
    lowered = _SOFT.sub("s", lowered)
    plain = _without_accents(lowered) if _MARKED.search(lowered) else lowered
    sounds = "".join(_SOUNDS.get(letter, "") for letter in plain)
    return "A" + sounds if len(_without_runs(sounds)) < SHORTEST and _VOWEL.match(plain) else sounds


def _without_runs(sounds: str) -> str:
    """Return sounds with one for each run of the same."""
    return "".join(sound for sound, _ in groupby(sounds))


def _without_accents(text: str) -> str:
    """Return `text` without accents."""
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))
