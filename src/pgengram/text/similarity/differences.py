"""How alike two texts are in their words, and whether they differ in what must not be mixed up."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pgengram.text.lexical.words import words


def _each_of(*lines: str) -> frozenset[str]:
    """Return the words of several lines."""
    return frozenset(word for line in lines for word in line.split())


# The usual words of each language; two texts with another number of them may say the opposite of each other.
_NEGATIONS: Final = {
    "English": "not no never none nothing nobody nowhere neither nor cannot without hardly barely",
    "German": "nicht nichts nie niemals niemand kein keine keinen keinem keiner keines ohne weder",
    "Dutch": "niet niets nooit niemand geen zonder",
    "French": "pas jamais rien aucun aucune sans ni nul nulle guère",
    "Spanish": "nunca jamás sin ningún ninguno ninguna nada nadie tampoco",
    "Portuguese": "não nunca jamais sem nenhum nenhuma ninguém tampouco",
    "Italian": "non mai senza nessun nessuno nessuna niente nulla né",
    "Romanian": "nu fără niciodată nimic nimeni",
    "Swedish, Danish, Norwegian": "inte ej aldrig ingen inget inga utan ikke aldri uten uden intet",
    "Finnish": "ei eivät älä ilman",
    "Polish": "nie nigdy nic nikt bez żaden",
    "Czech": "ne není nejsou nikdy nic nikdo bez žádný",
    "Hungarian": "nem ne nincs soha semmi nélkül",
    "Turkish": "değil yok hayır asla hiç",
    "Russian": "не нет ни никогда никто ничего без нельзя",
    "Ukrainian": "ні немає ніколи ніхто нічого",
    "Greek": "δεν δε μη μην όχι χωρίς ποτέ κανένας",
    "Arabic": "لا لم لن ليس ليست غير بدون",
    "Hebrew": "לא אין אל בלי",
    "Hindi": "नहीं मत बिना",
    "Indonesian": "tidak bukan tanpa belum jangan",
    "Vietnamese": "không chẳng chưa đừng",
    "Korean": "안 못 아니다 아닙니다 아니에요",
}
_NEGATION_WORDS: Final = _each_of(*_NEGATIONS.values())
# Written inside a word or without spaces: n't and n' with an apostrophe, Chinese, Japanese, Korean, Thai.
_NEGATION_PARTS: Final = re.compile(
    r"n['’]t\b|\bn['’](?=\w)|[不没沒未无無勿莫]|(?<![特分区區])[别別](?![人的])|ない|なく|なかっ|ません|せず|않|없|못[하했해한]|지\s?마[라세십]|ไม่|มิได้"
)
_PREFIXES: Final = ("un", "in", "im", "il", "ir", "dis", "non", "de", "ne", "не")
# Pairs of which one says what the other denies.
_OPPOSITES: Final = (
    "enable disable", "enabled disabled", "enables disables", "on off", "true false", "yes no", "allow forbid",
    "allowed forbidden",
    "allowed denied", "allow deny", "accept reject", "accepted rejected", "before after", "left right", "always never",
    "open closed",
    "likes dislikes", "like dislike", "loves hates", "love hate", "start stop", "started stopped", "add remove",
    "added removed",
    "more less", "above below", "with without", "increase decrease", "increased decreased", "ja nein", "an aus",
    "oui non",
    "avec sans", "con sin", "com sem", "да нет",
    "north south", "east west", "top bottom", "up down", "inside outside", "links rechts", "oben unten", "vor nach", "innen außen",
    "nord süd sud", "est ouest", "ost west", "avant après", "gauche droite", "antes después depois", "izquierda derecha", "norte sur",
    "prima dopo", "sinistra destra", "esquerda direita", "przed po", "lewo prawo", "lewej prawej", "до после",
    "слева справа", "voor na",
)  # fmt: skip
_OPPOSITE: Final = {word: {*pair.split()} for pair in _OPPOSITES for word in pair.split()}

# With its sign, currency and what is joined to it: 5 is neither -5 nor 5k, and 8 am not 8 pm.
_NUMBER: Final = re.compile(
    r"(?:(?<!\w)[-−+±])?[€$£¥₹]?\d+(?:[.,:/-]\d+)*(?:[^\W\d_]{1,3}\b|\s?[ap]\.?m\b|\s?[€$£¥₹%‰])?|[零〇一二三四五六七八九十百千万萬億亿兩两]"
)
_NUMBER_WORDS: Final = _each_of(
    "two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred",
    "thousand million first third once twice half double",
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert tausend",
    "deux trois quatre cinq sept huit neuf dix douze cent mille",
    "dos tres cuatro cinco seis siete ocho nueve diez doce cien mil",
    "due tre quattro cinque sette otto nove dieci dois três quatro sete oito nove dez",
    "два три четыре пять шесть семь восемь девять десять сто двумя тремя двух трёх трех",
    "einmal zweimal dreimal keinmal erste ersten zweite zweiten dritte dritten primero segundo tercero primera segunda tercera "
    "premier première second seconde deuxième troisième",
    "dwa dwie dwoma dwiema dwóch trzy trzema trzech cztery pięć sześć siedem osiem dziewięć dziesięć sto",
)
DATE_WORDS: Final = _each_of(
    "january february march april june july august september october november december",
    "jan feb apr jun jul aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday",
    "mon tue wed thu fri today tomorrow yesterday tonight weekly daily monthly yearly hourly morning evening noon "
    "midnight",
    "spring summer autumn winter",
    "januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag "
    "heute gestern morgen",
    "janvier février mars avril juin juillet août septembre octobre novembre décembre lundi mardi mercredi jeudi "
    "vendredi samedi",
    "dimanche aujourd'hui hier demain",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre lunes martes miércoles "
    "jueves viernes",
    "sábado domingo hoy ayer mañana",
    "gennaio febbraio aprile maggio giugno luglio settembre ottobre dicembre lunedì martedì mercoledì giovedì venerdì "
    "sabato domenica",
    "oggi ieri domani",
    "janeiro fevereiro março maio junho julho setembro outubro novembro dezembro segunda terça quarta quinta sexta "
    "hoje ontem amanhã",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag vandaag gisteren",
    "понедельник вторник среда среду четверг пятница пятницу суббота субботу воскресенье сегодня вчера завтра утром днём днем вечером ночью",
    "январь января январе февраль февраля феврале март марта марте апрель апреля апреле май мая мае июнь июня июне июль июля июле "
    "август августа августе сентябрь сентября сентябре октябрь октября октябре ноябрь ноября ноябре декабрь декабря декабре",
    "poniedziałek wtorek środa środę czwartek piątek sobota sobotę niedziela niedzielę dziś dzisiaj wczoraj jutro rano wieczorem",
    "styczeń stycznia styczniu luty lutego lutym marzec marca marcu kwiecień kwietnia kwietniu maj maja maju czerwiec czerwca czerwcu "
    "lipiec lipca lipcu sierpień sierpnia sierpniu wrzesień września wrześniu październik października październiku listopad listopada "
    "listopadzie grudzień grudnia grudniu",
)
# Of these another one is another time, too, but what is counted in them is no date.
_PERIOD_WORDS: Final = _each_of(
    "afternoon night hour hours day days week weeks month months year years",
    "morgens abends vormittags nachmittags mittags nachts täglich wöchentlich monatlich jährlich stündlich abend vormittag nachmittag "
    "mittag nacht tag woche monat jahr",
    "matin soir midi minuit nuit jour semaine mois an année tarde noche día semana mes año diario semanal mensual",
)
_TIMES: Final = DATE_WORDS | _PERIOD_WORDS
# A sentence that begins with one of these does not begin with a name.
_OPENINGS: Final = _each_of(
    "a an the this that these those there here it its he she they we you i my our your his her their who what when "
    "where why how if",
    "is are was were be has have had do does did can could will would should may might must and or but so as at by "
    "for from in into",
    "of on to with since because while after before during all any some each every one no not never also then now "
    "today please use",
    "never always der die das den dem ein eine einen er sie es wir ich ihr mein unser im am le la les un une il elle "
    "nous je mon el",
    "los las una lo io noi o os uma ele ela",
)
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17d3\u3040-\ud7af\uf900-\ufaff\U00020000-\U0003134f]"
)
_SENTENCE_END: Final = re.compile(r"(?:^|[.!?:;\n\r\"“”«»(\[•|-])\s*$")
_POSSESSIVE: Final = re.compile(r"['’]s?$")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text holds that is compared with another: its words, and those that must not be mixed up, in their order.

    names: words with a capital inside a sentence; openings: those that begin one; caseless: words of scripts without
    capitals, of those without spaces each character; denials: how many words deny.
    """

    lowered: list[str]
    numbers: list[str]
    dates: list[str]
    names: frozenset[str]
    openings: frozenset[str]
    caseless: Counter[str]
    denials: int


@lru_cache(maxsize=256)
def tokens(text: str) -> frozenset[str]:
    """Return what `text` consists of, for comparison: its words in lower case, character pairs where there are no
    spaces.
    """
    found: set[str] = set()
    for word in words(unicodedata.normalize("NFKC", text).casefold()):
        if is_unspaced(word) and len(word) > 1:
            found |= {word[i : i + 2] for i in range(len(word) - 1)}
        else:
            found.add(_bare(word))
    return frozenset(found)


def overlap(one: str, other: str) -> float:
    """Return the share of tokens that two texts have in common, 0 to 1 (the index of Jaccard 1901)."""
    first, second = tokens(one), tokens(other)
    common = len(first & second)
    return common / (len(first) + len(second) - common) if first or second else 1.0


def differences(one: str, other: str) -> list[str]:
    """Return in what two texts that look alike differ: `numbers`, `dates`, `names`, `negation`, `order`; or nothing.

    Order counts when the words are the same: tabs over spaces is not spaces over tabs, but one phrase may stand
    elsewhere. Careful rather than clever: lists of words, and capitals, no grammar. In a script without capitals any
    word in place of another counts as a name.
    """
    first, second = _read(one), _read(other)
    found = {
        "numbers": first.numbers != second.numbers,
        "dates": first.dates != second.dates,
        "names": _other_names(first, second),
        "negation": first.denials != second.denials or _opposed(first, second),
        "order": _changed_places(first.lowered, second.lowered),
    }
    return [name for name, differs in found.items() if differs]


@lru_cache(maxsize=256)
def _read(text: str) -> Reading:
    text = unicodedata.normalize("NFKC", text)
    written = [_bare(word) for word in words(text)]
    lowered = [word.casefold() for word in written]
    capitals = [*_capitalised(text)]
    return Reading(
        lowered=lowered,
        numbers=_numbers(text, lowered),
        dates=[word for word in lowered if word in _TIMES],
        names=frozenset(word.casefold() for word, opens in capitals if not opens),
        openings=frozenset(word.casefold() for word, opens in capitals if opens) - _OPENINGS,
        caseless=Counter(_caseless(written)),
        denials=sum(word in _NEGATION_WORDS for word in lowered) + len(_NEGATION_PARTS.findall(text.casefold())),
    )


def _other_names(one: Reading, other: Reading) -> bool:
    """Whether other names stand in them, or in another order.

    What only begins a sentence is a name when the other text has another word there.
    """
    if (one.caseless - other.caseless) and (other.caseless - one.caseless):
        return True
    names = one.names | other.names
    openings = [one.openings.difference(other.lowered), other.openings.difference(one.lowered)]
    if all(openings):
        names = names.union(*openings)
    names -= _TIMES  # these are compared by themselves
    first, second = ([*dict.fromkeys(word for word in text.lowered if word in names)] for text in (one, other))
    return first != second


def other_subjects(one: str, other: str) -> bool:
    """Whether two texts begin with different names and say different things of them, so that both may hold."""
    first, second = _read(one), _read(other)
    begun = [text.lowered[:1] for text in (first, second)]
    if not (begun[0] and begun[1]) or begun[0] == begun[1] or not all(map(_begins_with_a_name, (first, second))):
        return False
    words = [{word for word in text.lowered if word.isalpha()} for text in (first, second)]
    return len(words[0] - words[1]) > 1 and len(words[1] - words[0]) > 1


def new_names(newer: str, older: str) -> frozenset[str]:
    """Return the names in a text that another doesn't have, case-folded; days and months are none."""
    one, other = _read(newer), _read(older)
    return (one.names | one.openings).difference(other.lowered) - _TIMES


def _begins_with_a_name(text: Reading) -> bool:
    return text.lowered[0] in text.openings | text.names


def _opposed(one: Reading, other: Reading) -> bool:
    """Whether one says what the other denies by a word of its own: enabled and disabled, able and unable."""
    first, second = {*one.lowered} - {*other.lowered}, {*other.lowered} - {*one.lowered}
    if any(_OPPOSITE.get(word, set()) - {word} & second for word in first):
        return True
    return any(
        prefix + word in denied
        for plain, denied in ((first, second), (second, first))
        for word in plain
        for prefix in _PREFIXES
    )


def _changed_places(one: list[str], other: list[str]) -> bool:
    """Whether two texts of the same words differ by more than one phrase that stands before or after its neighbour."""
    if one == other or Counter(one) != Counter(other):
        return False
    start = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
    end = next(i for i, (a, b) in enumerate(zip(one[::-1], other[::-1], strict=True)) if a != b)
    one, other = one[start : len(one) - end], other[start : len(other) - end]
    return not any(one[i] == other[0] and one[i:] + one[:i] == other for i in range(1, len(one)))


def _bare(word: str) -> str:
    return _POSSESSIVE.sub("", word)


def is_unspaced(word: str) -> bool:
    """Whether a word is of a script without spaces or of Korean, whose words carry their endings with them."""
    return bool(_UNSPACED.match(word))


def _numbers(text: str, lowered: list[str]) -> list[str]:
    digits = ["".join(str(unicodedata.digit(c, c)) for c in number) for number in _NUMBER.findall(text)]
    return digits + [word for word in lowered if word in _NUMBER_WORDS]


def _capitalised(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each word that begins with or holds a capital, and whether it begins a sentence."""
    end = 0
    for word in words(text):
        start = text.find(word, end)
        before, end = text[max(0, start - 8) : max(0, start)], max(start, 0) + len(word)
        if any(c.isupper() for c in word) and word not in ("I", "I'm", "I’m", "I've", "I'll", "I'd"):
            opens = start <= 0 or _SENTENCE_END.search(before) is not None
            yield _bare(word), opens and not any(c.isupper() for c in word[1:])


def _caseless(line: list[str]) -> Iterator[str]:
    for word in line:
        if word[:1].isalpha() and word.lower() == word.upper():
            yield from word if is_unspaced(word) else [word]
