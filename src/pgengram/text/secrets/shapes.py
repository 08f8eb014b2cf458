"""What secrets look like, and how values are judged.

The rules of pgengram.toml and gitleaks.toml are read when the first text is searched; the shapes without a beginning of
their own are here.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from math import log2
from pathlib import Path
from typing import Any, Final, NamedTuple

KEY_ENTROPY: Final = 3.0  # bits a character of what follows "api_key="; English words of that length lie below
SHORTEST_KEY: Final = 12
SHORTEST_PASSWORD: Final = 4
SHORTEST_TOKEN: Final = 15  # characters of the shortest key that has a prefix of its own
SHORTEST_WORD: Final = 6  # a plain word that stands alone after "password:"


class Found(NamedTuple):
    """A secret in a text: what it looks like, and where it begins and ends."""

    name: str
    start: int
    end: int


Judge = Callable[[re.Match[str]], bool]


@dataclass(frozen=True)
class Pattern:
    """What one sort of secret looks like.

    keywords: a text without any of them (in lower case) holds no such secret; shape: group `secret`, else the whole
        match, is the secret; judge: has the last word; anchored: the shape begins where a keyword stands; spaced: it
        may hold
    spaces, or be shorter than a long word.
    """

    name: str
    keywords: tuple[str, ...]
    shape: str
    judge: Judge | None = None
    anchored: bool = False
    spaced: bool = False

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The shape, compiled when first needed."""
        return re.compile(self.shape)

    @cached_property
    def group(self) -> str | int:
        """Which part of a match is the secret."""
        return "secret" if "secret" in self.compiled.groupindex else 0

    def found(self, text: str, lowered: str) -> Iterator[Found]:
        """Give each such secret of `text`; `lowered` is the same in lower case, character for character."""
        matches = self._at_keywords(text, lowered) if self.anchored else self.compiled.finditer(text)
        for match in matches:
            if self.judge is None or self.judge(match):
                yield Found(self.name, *match.span(self.group))

    def found_at_start(self, text: str) -> Iterator[Found]:
        """Give the secret that a text begins with."""
        match = self.compiled.match(text)
        if match is not None and (self.judge is None or self.judge(match)):
            yield Found(self.name, *match.span(self.group))

    def _at_keywords(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        for word in self.keywords:
            place = lowered.find(word)
            while place >= 0:
                if match := self.compiled.match(text, place):
                    yield match
                place = lowered.find(word, place + 1)


# -- judging ---------------------------------------------------------------------------------------------------------


def entropy(text: str) -> float:
    """Return the bits a character of `text` carries, from how often each occurs in it (Shannon 1948)."""
    return -sum(n / len(text) * log2(n / len(text)) for n in Counter(text).values())


# Compiled by `re` when first used, as importing this module must cost nothing.
_PLACEHOLDER = (
    r"(?is)[<\[{(%].*|.*[<{].*[>}].*|\$.*|[*•·.…_xX?#-]+|\W+|.*\*{3,}.*|.*[xX]{4,}|.*(?:redacted|placeholder)\b.*"
    r"|(?:your|my|the|an?|some|dein|ihr|example|sample|dummy|insert)[-_ ].*|change-?me\W*"
)
# A call, an index, a.b.c, DB_ANNOUNCED, db_password.
_CODE = r"[A-Za-z_.]+[(\[].*|@?[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|[A-Z][A-Z_]*_[A-Z_]*[A-Z]|[a-z]+(?:_[a-z]+)+"
_PLACE = r"(?i)[a-z][a-z+.-]*://.*|~?\.{0,2}/[\w./~-]+|[A-Z]:\\.*|.*@[\w-]+(?:\.[\w-]+)+"
_UUID = r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_HASH = r"(?i)(?:[a-z0-9]+[:-])?[0-9a-f]{7,128}"
_ALGORITHM = (
    r"(?i)(?:sha|md|rsa|aes|hmac|base|utf|ipv|argon|scrypt|bcrypt|pbkdf|oauth|tls"
    r"|ssl|http|hs|rs|es|v|x|ed|totp|fido|webauthn|n)[-_]?\d+[a-z]*"
    r"(?:[-_]\w+)*|\d+[-\w]*(?:characters?|chars?|digits?|bytes?|bits?|days?|hours?|times?"
    r"|zeichen|stellig|x|%)|1password|\d{1,2}\.\d{1,2}\.\d{2,4}"
)
_NO_PASSWORD = frozenset({
    "abgelaufen", "absent", "admin-only", "authelia", "available", "bcrypt", "bitwarden", "blank", "boolean",
    "broken", "change", "changed", "changing", "characters", "compromised", "correct", "default", "deleted",
    "deprecated", "disabled", "empty", "enabled", "encrypted", "erforderlich", "expired", "expires", "expiry",
    "falsch", "false", "field", "fields", "fixed", "forgot", "forgotten", "geheim", "generated", "gespeichert",
    "geändert", "hashed", "hidden", "ignored", "incorrect", "instead", "invalid", "keepass", "keepassxc", "keine",
    "keines", "keychain", "keycloak", "keyring", "lastpass", "leaked", "length", "locked", "login", "longer", "lost",
    "manager", "masked", "minimum", "mismatch", "missing", "needed", "never", "nobody", "none", "nothing",
    "notwendig", "null", "number", "nötig", "object", "optional", "outdated", "passed", "passwd", "password",
    "passwords", "passwort",
    "pending", "personal", "pflicht", "pflichtfeld", "plaintext", "policies", "policy", "private", "prompt",
    "protected", "provided", "public", "random", "recovered", "recovery", "refused", "rejected", "removed",
    "required", "reset", "rotated", "rotation", "safe", "saved", "secret", "secrets", "secure", "shared", "shorter",
    "sicher", "siehe", "somebody", "standard", "stimmt", "stored", "string", "strong", "supplied", "tbd",
    "temporary", "text", "todo", "tresor", "true", "unbekannt", "unchanged", "undefined", "unique", "unknown",
    "unsafe", "unset", "unverändert", "update", "updated", "user", "username", "users", "varchar", "vault",
    "vergessen", "verified", "verify", "weak", "wrong", "yes", "zurückgesetzt",
})  # fmt: skip


def _has_shape(shape: str, text: str) -> bool:
    return re.fullmatch(shape, text) is not None


def _is_nothing(value: str) -> bool:
    """Whether a value is a placeholder, a place, or a piece of code rather than a secret."""
    return any(_has_shape(shape, value) for shape in (_PLACEHOLDER, _CODE, _PLACE))


def is_placeholder(value: str) -> bool:
    """Whether a key ends in one letter again and again, as those in examples do."""
    body = value.rpartition("_")[2] or value
    return len(set(body[-12:].lower())) <= 1 and body[-1] in "xX0*"


def _is_password(match: re.Match[str]) -> bool:
    """Judge what follows `password:`; a short human password is one, a plain word only when nothing else follows."""
    quoted = match["quote"] != ""
    value = match["secret"] if quoted else match["secret"].rstrip(".,;:!?)]}>")
    if is_no_password(value) or _is_nothing(match["secret"]):
        return False
    mixed = all(_digits_and_letters(value))
    says = match["says"].strip()
    if not says or " " in value:  # password "hunter2"; a passphrase in quotes
        return quoted and mixed
    if quoted:
        return True
    if says.isalpha():  # "the password is …" is mostly the beginning of a sentence
        return mixed and len(value) >= SHORTEST_WORD
    return _is_bare_password(match, value)


def _is_bare_password(match: re.Match[str], value: str) -> bool:
    """Judge what follows `password=` without quotes."""
    if value.replace("-", "").replace("'", "").isalpha():
        return value.count("-") > 2 or (len(value) >= SHORTEST_WORD and _ends_line(match))
    digits, letters = _digits_and_letters(value)
    return letters or not digits or len(value) >= SHORTEST_WORD


def is_no_password(value: str) -> bool:
    """Whether a value that is announced as a password is a word about passwords, a placeholder or code."""
    if len(value) < SHORTEST_PASSWORD or value.casefold() in _NO_PASSWORD or _has_shape(_ALGORITHM, value):
        return True
    return _is_nothing(value) or value[0] in " ,;.)"  # the quote closes what stands before


def _digits_and_letters(value: str) -> tuple[bool, bool]:
    return any(c.isdigit() for c in value), any(c.isalpha() for c in value)


def _ends_line(match: re.Match[str]) -> bool:
    rest = match.string[match.end("secret") : match.end("secret") + 100].partition("\n")[0]
    return not any(c.isalnum() for c in rest)


def _is_key(match: re.Match[str]) -> bool:
    """Judge what follows `api_key=`: letters and digits, without an order that words or names have."""
    value = match["secret"].strip(".,;:")
    if len(value) < SHORTEST_KEY or _is_nothing(value) or _has_shape(_ALGORITHM, value) or _has_shape(_LISTED, value):
        return False
    before = match.string[max(0, match.start() - 40) : match.start()]
    if not (re.search(_COMPOUND, before) or _is_variable(match, before) or _stands_alone(match, before, value)):
        return False
    return all(_digits_and_letters(value)) and entropy(value) >= KEY_ENTROPY


def _is_variable(match: re.Match[str], before: str) -> bool:
    """Whether the announcing word ends the name of a variable, as in TAVUS_TOKEN=: no id has such a name."""
    return (
        match["word"] in ("TOKEN", "SECRET") and before[-1:] == "_" and before[-2:-1].isalnum() and match["says"] == "="
    )


def _stands_alone(match: re.Match[str], before: str, value: str) -> bool:
    """Whether the announcing word is a whole one, such as token, and its value is not an id."""
    alone = not before or not before[-1].isalnum() or (before[-1].islower() and match[0][0].isupper())
    return alone and match["word"].lower() != "key" and not _has_shape(_UUID, value) and not _has_shape(_HASH, value)


_LISTED = r"(?i)(?:[a-z]+|\d{1,8})(?:[-_.:/+](?:v?\d{1,8}|[a-z]+))*|[a-z]+\d{1,4}"  # words and numbers: names, versions


def _is_url_password(match: re.Match[str]) -> bool:
    value = match["secret"]
    return not _has_shape(r"<.*>|\$.*|\{.*\}|\[.*\]|%[A-Za-z_]\w*%|[*•.…xX]+|.*\*{3,}.*", value)


_ISSUERS = (
    r"(?:4\d{3}|5[1-5]\d\d|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)"
    r"|6(?:011|5\d\d|4[4-9]\d|2\d\d)|35(?:2[89]|[3-8]\d))\d{12}"
    r"|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
)  # Visa, Mastercard, Discover, UnionPay, JCB; American Express; Diners Club


def _is_card(match: re.Match[str]) -> bool:
    """Judge by the issuer's first digits and the check digit (Luhn, ISO 7812-1)."""
    number = "".join(c for c in match[0] if c.isdigit())
    digits = [int(c) for c in reversed(number)]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return _has_shape(_ISSUERS, number) and (sum(digits[::2]) + sum(doubled)) % 10 == 0


# -- shapes ----------------------------------------------------------------------------------------------------------

_SAYS = (
    r"(?P<says>[ \t]*(?::=|=>|->|→|==?|[:：])\s*|['’]s[ \t]+|[ \t]+(?=[\"'`“‘«„])|[ \t]+"
    r"(?:is|was|ist|war|lautet|equals|es|est)[ \t]*:?[ \t]+)"
)
_ABOUT = r"""(?:\s?\([^)\n]{1,40}\)|[ \t]+(?:for|of|to|on|at|für|zum|zur|vom|von|bei|im|am)[ \t][^\n:=;,.]{1,40}?)?"""
_VALUE = r"""(?P<quote>["'`“‘«„]?)(?P<secret>(?<=["'`“‘«„])[^"'`”’»“\n]{1,200}(?=["'`”’»“])|[^\s"'`“”]{1,200})"""
_ANNOUNCED = (
    r"(?:pass(?:word|wd|wort|phrase|code|e)|(?<![a-z])(?:pwd?|clave|senha|has[łl]o|parola)|kennwort|contraseña"
    r"|wachtwoord|пароль|密码|密碼|口令|パスワード|비밀번호|암호)"
)
_COMPOUND = (
    r"(?i)(?:api|app(?:lication)?|access|account|auth(?:entication|orization)?|bearer|bot|client|consumer|"
    r"deploy(?:ment)?|encryption|jwt|master|oauth2?|private|refresh|secret|service|session|shared|signing|storage"
    r"|token|webhook)[ _-]?$"
)


SHAPES: Final[tuple[Pattern, ...]] = (
    Pattern(
        "password in an address", ("://",),
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@]{0,128}:(?!\d{1,5}[/?#])(?P<secret>[^\s@\"'`]{1,200})@(?=[\w\[$<{])",
        _is_url_password, spaced=True,
    ),
    Pattern(
        "authorization header", ("bearer", "authorization"),
        r"(?i)(?<!\w)(?:authorization[\"']?[ ]?[:=][ ]?[\"']?(?:bearer|basic|token)|bearer)[ ]+(?P<secret>[\w.~+/-]{16,}=*)",
        lambda m: any(c.isdigit() for c in m["secret"]) and entropy(m["secret"]) >= KEY_ENTROPY and not _has_shape(_LISTED,
        m["secret"]),
        spaced=True,
    ),
    Pattern(
        "password",
        ("pass", "pw", "kennwort", "contraseña", "clave", "senha", "wachtwoord", "hasło", "haslo", "parola",
         "пароль", "密码", "密碼", "口令", "パスワード", "비밀번호", "암호"),
        r"(?i)" + _ANNOUNCED + r"""[\"'`*]{0,3}""" + _ABOUT + r"""[*]{0,2}""" + _SAYS + r"(?:[*]{2}[ \t]*)?" + _VALUE,
        _is_password, anchored=True, spaced=True,
    ),
    Pattern(
        "key or token", ("key", "token", "secret", "credential", "schlüssel"),
        r"(?i)(?P<word>key|token|secret|credential|schlüssel)s?(?![^\W_])[\"'`*]{0,3}" + _ABOUT + r"[*]{0,2}" + _SAYS
        + r"""[*\"'`]{0,3}(?P<secret>[\w+/=.~!@#$%^&*:-]{12,200})""",
        _is_key, anchored=True, spaced=True,
    ),
    Pattern(
        "card number", (),
        r"[2-6](?<![\w.,+/#-].)(?<!\d[ ].)\d{3}(?:(?P<four>[ -]?)\d{4}(?P=four)\d{4}(?P=four)\d{4}|(?P<six>[ -]?)\d{6}(?P=six)\d{4,5})(?![\w-]|[ .,]\d)",
        _is_card, spaced=True,
    ),
)  # fmt: skip


OURS, GITLEAKS = "pgengram.toml", "gitleaks.toml"
PASSWORD: Final = "password"  # noqa: S105 - a tag
_FIRST_GROUP: Final = re.compile(r"(?<!\\)\((?!\?)")  # the secret, in the format
# The beginning of a word that has something no word of a language has.
_HEAD: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9][\w.-]{2}(?=[\w.-]{0,16}(?:\d|[_-]\w|[a-z][A-Z]|[A-Z]{4}))")
SHORTEST_PREFIX: Final = 3  # characters that stand before pieces of a key, and hardly anywhere else
SPACES: Final = (" ", r"\s", r"\t", r"\n")


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return all shapes; those that are found by what announces them come after those of a beginning of their own."""
    return (*_read_rules(OURS), *SHAPES, *_read_rules(GITLEAKS))


def _read_rules(name: str) -> list[Pattern]:
    return [
        _rule_pattern(rule, spaced=name == OURS)
        for rule in tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))["rules"]
    ]


def _rule_pattern(rule: dict[str, Any], *, spaced: bool) -> Pattern:
    name, shape = rule.get("tags", [rule["id"]])[0], _FIRST_GROUP.sub("(?P<secret>", rule["regex"], count=1)
    allowed = [one for group in rule.get("allowlists", []) for one in group["regexes"]]
    least = rule.get("entropy", 0)

    def judge(match: re.Match[str]) -> bool:
        value = match["secret"] if "secret" in match.re.groupindex else match[0]
        if name == PASSWORD:
            return not is_no_password(value)
        return (
            not is_placeholder(value)
            and (not least or entropy(value) >= least)
            and not any(re.search(one, value) for one in allowed)
        )

    return Pattern(
        name.replace("-", " "),
        tuple(rule["keywords"]),
        shape,
        judge,
        spaced=spaced and any(one in shape for one in SPACES),
    )


# For each keyword the places of the patterns that it may belong to: one pass over few words says which patterns are
# worth trying. Those that may hold spaces are looked for in the whole text, the others in its long words.
_Keywords = tuple[tuple[str, tuple[int, ...]], ...]


@cache
def _keywords(*, spaced: bool) -> _Keywords:
    found: dict[str, list[int]] = {}
    for place, pattern in enumerate(patterns()):
        for word in pattern.keywords if pattern.spaced == spaced else ():
            found.setdefault(word, []).append(place)
    return tuple((word, tuple(places)) for word, places in found.items())


def prefixes_in(text: str) -> Iterator[tuple[int, str, tuple[Pattern, ...]]]:
    """Give the beginnings of keys in a text: where each stands, and its patterns."""
    heads = _patterns_by_prefix()
    for head in _HEAD.finditer(text):
        for prefix, belongs in heads.get(head[0].lower(), ()):
            if text[head.start() : head.start() + len(prefix)].lower() == prefix:
                yield head.start(), prefix, belongs


@cache
def _patterns_by_prefix() -> dict[str, list[tuple[str, tuple[Pattern, ...]]]]:
    """Return the beginnings by which keys are known, each with its patterns, by their first characters."""
    found: dict[str, list[tuple[str, tuple[Pattern, ...]]]] = {}
    for word, places in _keywords(spaced=False):
        if len(word) >= SHORTEST_PREFIX and word[0].isalnum():
            belongs = tuple(patterns()[place] for place in places)
            found.setdefault(word[:SHORTEST_PREFIX], []).append((word, belongs))
    return found


@cache
def _always() -> tuple[int, ...]:
    return tuple(place for place, pattern in enumerate(patterns()) if not pattern.keywords)


def worth_trying(lowered: str, long_lowered: str) -> list[Pattern]:
    """Return the patterns whose secrets a text may hold; its text and its long words in lower case."""
    places = {*_always()}
    for word, belongs in _keywords(spaced=True):
        if word in lowered:
            places.update(belongs)
    for word, belongs in _keywords(spaced=False) if long_lowered else ():
        if word in long_lowered:
            places.update(belongs)
    return [patterns()[place] for place in sorted(places)]


# Zero-width and direction characters, soft hyphens, variation selectors and tags: nothing of them is seen.
INVISIBLE: Final = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\U000e0000-\U000e0fff"
)
FOLDED: Final = r"\uff01-\uff5e\U0001d400-\U0001d7ff"  # full-width characters and mathematical letters
_RARE: Final = re.compile(f"[{INVISIBLE}{FOLDED}]")
_UNSEEN: Final = re.compile(f"[{INVISIBLE}]")
_PIECE: Final = re.compile(r"[A-Za-z0-9_+/=.~:-]{1,250}(?![A-Za-z0-9_+/=.~:-])")  # no line of a terminal is longer
_ODD: Final = re.compile(r"[A-Za-z_-][:.]?\d|\d[:.]?[A-Za-z_-]|[a-z][A-Z]|^\d{8}")
_START: Final = re.compile(r"(?<![A-Za-z0-9_+/.~-])[A-Za-z0-9]")  # of a piece, also behind = or :
_SHORT: Final = 4  # characters that show something of a key
_FULL_LINE: Final = 12  # characters of the narrowest line that wraps a key
_MOST_PIECES: Final = 40  # lines of the longest key
# What stands between two pieces of one key: spaces and line ends, quotes and boxes around lines, a backslash before
# one.
_GAP: Final = re.compile(r"[\s\\>|│┃║\"'`+,]{1,80}")


class Rewritten(NamedTuple):
    """A form of a text, and for each of its characters the place in the text, with the text's end after them."""

    text: str
    places: list[int]


def without_invisible(text: str) -> Rewritten | None:
    """Return a text as it is read, without invisible and full-width characters; None if that is the same."""
    if text.isascii() or not (rare := set(_RARE.findall(text))):
        return None
    plain = {letter: "" if _UNSEEN.match(letter) else unicodedata.normalize("NFKC", letter) for letter in rare}
    kept = [(plain.get(letter, letter), place) for place, letter in enumerate(text)]
    places = [place for letter, place in kept for _ in letter]
    return Rewritten("".join([letter for letter, _ in kept]), [*places, len(text)])


def pieces_from(text: str, place: int, prefix: str) -> Iterator[Rewritten]:
    """Give the pieces of what may be a key that begins at a place, put together, the most likely form first.

    Args:
        text: what may hold the key.
        place: where its prefix stands.
        prefix: how it begins; a first piece that is hardly longer is a word about keys.
    """
    piece = _PIECE.match(text, place)
    if piece is None or len(piece[0]) < len(prefix) + _SHORT:
        return
    of_capitals = piece[0] == piece[0].upper()
    pieces: list[re.Match[str]] = []
    following: re.Match[str] | None = piece
    while following and len(pieces) < _MOST_PIECES and _is_odd(following[0], of_capitals=of_capitals):
        pieces.append(following)
        gap = _GAP.match(text, following.end())
        following = _PIECE.match(text, gap.end()) if gap else None
    if pieces:
        yield _rejoined(text, pieces)
    if following and pieces and _is_rest(following, pieces):
        yield _rejoined(text, [*pieces, following])


def put_together(text: str, begin: int, end: int) -> Iterator[Iterator[Rewritten]]:
    """Give what may be keys of several pieces that begin in a word, also behind what announces one: of a key that is
    known by something in its midst, no piece alone tells that it is one.

    Args:
        text: what may hold the key.
        begin: where the word begins.
        end: where it ends.
    """
    for start in _START.finditer(text, begin, end):
        forms = pieces_from(text, start.start(), "")
        yield (one for one in forms if one.places[-2] - one.places[0] >= len(one.text))  # of more than one piece


def _is_rest(piece: re.Match[str], lines: list[re.Match[str]]) -> bool:
    """Whether a piece that looks like a word may be what was left for the last line of a key, whose others are full."""
    return len(piece[0]) < len(lines[0][0]) >= _FULL_LINE and all(len(one[0]) >= _FULL_LINE for one in lines)


def _rejoined(text: str, pieces: list[re.Match[str]]) -> Rewritten:
    places = [at for one in pieces for at in range(one.start(), one.end())]
    return Rewritten("".join(one[0] for one in pieces), [*places, len(text)])


def _is_odd(piece: str, *, of_capitals: bool) -> bool:
    """Whether a piece looks like no word; with `of_capitals` it may be capitals and digits."""
    return _ODD.search(piece) is not None or (of_capitals and len(piece) >= _SHORT and piece == piece.upper())
