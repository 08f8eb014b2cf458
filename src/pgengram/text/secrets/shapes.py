"""What secrets without a beginning of their own look like, and how values are judged; `rules` has the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Final, NamedTuple

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
