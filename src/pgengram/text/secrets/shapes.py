"""What secrets look like; `redaction` loads this when the first text is searched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import Final, NamedTuple

KEY_ENTROPY: Final = 3.0  # bits a character of what follows "api_key="; English words of that length lie below
SECRET_KEY_ENTROPY: Final = 3.5  # of 40 characters of base64, which random ones exceed by far
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
        match,
    is the secret; judge: has the last word; anchored: the shape begins where a keyword stands; spaced: it may hold
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


def _fits(shape: str, text: str) -> bool:
    return re.fullmatch(shape, text) is not None


def _is_nothing(value: str) -> bool:
    """Whether a value is a placeholder, a place, or a piece of code rather than a secret."""
    return any(_fits(shape, value) for shape in (_PLACEHOLDER, _CODE, _PLACE))


def _unless_placeholder(match: re.Match[str]) -> bool:
    value = match["secret"] if "secret" in match.re.groupindex else match[0]
    body = value.rpartition("_")[2] or value
    return len(set(body[-12:].lower())) > 1 or body[-1] not in "xX0*"


def _is_password(match: re.Match[str]) -> bool:
    """Judge what follows `password:`; a short human password is one, a plain word only when nothing else follows."""
    quoted = match["quote"] != ""
    value = match["secret"] if quoted else match["secret"].rstrip(".,;:!?)]}>")
    if _is_no_password(value) or _is_nothing(match["secret"]):
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


def _is_no_password(value: str) -> bool:
    if len(value) < SHORTEST_PASSWORD or value.casefold() in _NO_PASSWORD or _fits(_ALGORITHM, value):
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
    if len(value) < SHORTEST_KEY or _is_nothing(value) or _fits(_ALGORITHM, value) or _fits(_LISTED, value):
        return False
    before = match.string[max(0, match.start() - 40) : match.start()]
    if not re.search(_COMPOUND, before) and not _stands_alone(match, before, value):
        return False
    return all(_digits_and_letters(value)) and entropy(value) >= KEY_ENTROPY


def _stands_alone(match: re.Match[str], before: str, value: str) -> bool:
    """Whether the announcing word is a whole one, such as token, and its value is no id: tokens of many things are."""
    alone = not before or not before[-1].isalnum() or (before[-1].islower() and match[0][0].isupper())
    return alone and match["word"].lower() != "key" and not _fits(_UUID, value) and not _fits(_HASH, value)


_LISTED = r"(?i)(?:[a-z]+|\d{1,8})(?:[-_.:/+](?:v?\d{1,8}|[a-z]+))*|[a-z]+\d{1,4}"  # words and numbers: names, versions


def _is_aws_secret(match: re.Match[str]) -> bool:
    value = match["secret"]
    return not _fits(_HASH, value) and entropy(value) >= SECRET_KEY_ENTROPY


def _is_generic_sk(match: re.Match[str]) -> bool:
    return any(c.isdigit() for c in match["body"]) and _unless_placeholder(match)


def _is_url_password(match: re.Match[str]) -> bool:
    value = match["secret"]
    return not _fits(r"<.*>|\$.*|\{.*\}|\[.*\]|%[A-Za-z_]\w*%|[*•.…xX]+|.*\*{3,}.*", value)


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
    return _fits(_ISSUERS, number) and (sum(digits[::2]) + sum(doubled)) % 10 == 0


# -- shapes ----------------------------------------------------------------------------------------------------------

_B = r"(?<![A-Za-z0-9])"  # what has no - or _ in its body begins after anything else
_BB = r"(?<![\w-])"
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


PATTERNS: Final[tuple[Pattern, ...]] = (
    Pattern("anthropic key", ("sk-ant-",), _BB + r"sk-ant-[\w-]{16,}", _unless_placeholder),
    Pattern("openai key", ("sk-proj-", "sk-svcacct-", "sk-admin-"), _BB + r"sk-(?:proj|svcacct|admin)-[\w-]{16,}",
    _unless_placeholder),
    Pattern("api key", ("sk-",), _BB + r"sk-(?:[a-z0-9]{1,8}-){0,3}(?P<body>[A-Za-z0-9_]{20,})", _is_generic_sk),
    Pattern("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _B + r"gh[pousr]_[A-Za-z0-9]{30,}",
    _unless_placeholder),
    Pattern("pgengram token", ("pgt_",), _B + r"pgt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}"),
    Pattern("github token", ("github_pat_",), r"(?<!\w)github_pat_\w{22,}", _unless_placeholder),
    Pattern(
        "gitlab token", ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glagent-"),
        _BB + r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w.-]{20,}", _unless_placeholder,
    ),
    Pattern("aws access key", ("akia", "asia", "abia", "acca"),
    _B + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Pattern(
        "aws secret key", ("aws", "secret_access_key", "secretaccesskey", "secret access key"),
        r"(?i:aws|secret[ _-]?access[ _-]?key)[^\n]{0,60}?(?<![A-Za-z0-9/+=])(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        _is_aws_secret, spaced=True,
    ),
    Pattern("slack token", ("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xoxc-", "xoxd-", "xoxe."),
    _BB + r"xox[abcdeprs][.-][A-Za-z0-9-]{10,}", _unless_placeholder),
    Pattern("slack token", ("xapp-",), _BB + r"xapp-\d-[A-Za-z0-9-]{20,}", _unless_placeholder),
    Pattern("slack webhook", ("hooks.slack.com/",),
    r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{20,})", _unless_placeholder),
    Pattern("google key", ("aiza",), _BB + r"AIza[\w-]{30,}"),
    Pattern("google token", ("ya29.",), _BB + r"ya29\.[\w-]{20,}"),
    Pattern("google client secret", ("gocspx-",), _BB + r"GOCSPX-[\w-]{20,}", _unless_placeholder),
    Pattern("google refresh token", ("1//0",), r"(?<![\w/-])1//0[\w-]{30,}"),
    Pattern("stripe key", ("k_live_", "k_test_"),
    _B + r"[srp]k_(?:live|test)_(?<!pk_live_)(?<!pk_test_)[A-Za-z0-9]{10,}", _unless_placeholder),
    Pattern("webhook secret", ("whsec_",), _B + r"whsec_[A-Za-z0-9+/=]{16,}", _unless_placeholder),
    Pattern("hugging face token", ("hf_", "api_org_"), _B + r"(?:hf|api_org)_[A-Za-z0-9]{30,}", _unless_placeholder),
    Pattern("npm token", ("npm_",), _B + r"npm_[A-Za-z0-9]{36,}", _unless_placeholder),
    Pattern("pypi token", ("pypi-ag",), _BB + r"pypi-Ag[\w-]{16,}"),
    Pattern("json web token", ("eyj",), r"(?<![\w.-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w.-]{8,}"),
    Pattern(
        "private key", ("private key",),
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----BEGIN)[\s\S])*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        spaced=True,
    ),
    Pattern("private key", ("age-secret-key-1",), _B + r"(?i:AGE-SECRET-KEY-1)[A-Za-z0-9]{50,}"),
    Pattern(
        "password in an address", ("://",),
        r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@]{0,128}:(?!\d{1,5}[/?#])(?P<secret>[^\s@\"'`]{1,200})@(?=[\w\[$<{])",
        _is_url_password, spaced=True,
    ),
    Pattern("twilio key", ("sk",), _B + r"SK[0-9a-f]{32}(?![A-Za-z0-9])", _unless_placeholder),
    Pattern("sendgrid key", ("sg.",), _BB + r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    Pattern("azure key", ("accountkey=", "sharedaccesskey="),
    r"(?i:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{30,}=*)"),
    Pattern("azure signature", ("sig=",), r"(?<=[?&])sig=(?P<secret>[A-Za-z0-9%+/_-]{40,}=*)"),
    Pattern("azure client secret", ("q~",), r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])"),
    Pattern("telegram bot token", (":a",), r"(?<![\w:])\d{8,10}:A[\w-]{34}(?![\w-])"),
    Pattern("discord token", (".",), r"[MNO](?<![\w.-][MNO])[\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])",
    lambda m: entropy(m[0]) >= SECRET_KEY_ENTROPY),
    Pattern("discord webhook", ("/api/webhooks/",), r"discord(?:app)?\.com/api/webhooks/\d+/(?P<secret>[\w-]{40,})"),
    Pattern("digitalocean token", ("doo_v1_", "dop_v1_", "dor_v1_"), _B + r"do[opr]_v1_[a-f0-9]{40,}",
    _unless_placeholder),
    Pattern("shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), _B + r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{30,}",
    _unless_placeholder),
    Pattern("square token", ("sq0atp-", "sq0csp-", "eaaa"), _BB + r"(?:sq0(?:atp|csp)-[\w-]{22,}|EAAA[\w-]{60,})"),
    Pattern("mailgun key", ("key-",), _BB + r"key-[a-f0-9]{32}(?![\w-])", _unless_placeholder),
    Pattern("mailchimp key", ("-us",), _B + r"[a-f0-9]{32}-us\d{1,2}(?!\w)"),
    Pattern("doppler token", ("dp.",), _BB + r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{40,}"),
    Pattern("databricks token", ("dapi",), _B + r"dapi[a-f0-9]{32}(?![A-Za-z0-9])", _unless_placeholder),
    Pattern("linear key", ("lin_api_", "lin_oauth_"), _B + r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}", _unless_placeholder),
    Pattern("notion token", ("secret_", "ntn_"),
    _B + r"(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,})(?![A-Za-z0-9])", _unless_placeholder),
    Pattern("vault token", ("hvs.", "hvb.", "hvr."), _BB + r"hv[sbr]\.[\w-]{20,}"),
    Pattern("terraform token", (".atlasv1.",), r"(?<![\w.-])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,}"),
    Pattern("fly token", ("fo1_", "fm1", "fm2"), r"(?<!\w)(?:fo1_[\w-]{40,}|fm[12][ar]?_[A-Za-z0-9+/=_-]{60,})"),
    Pattern("supabase key", ("sbp_", "sb_secret_"), r"(?<!\w)(?:sbp_(?:v0_)?[a-f0-9]{40}|sb_secret_[\w-]{20,})",
    _unless_placeholder),
    Pattern("grafana token", ("glsa_", "glc_"),
    _B + r"(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,}=*)"),
    Pattern("heroku key", ("hrku-",), _BB + r"HRKU-[\w-]{30,}", _unless_placeholder),
    Pattern("new relic key", ("nrak-",), _BB + r"NRAK-[A-Z0-9]{27}"),
    Pattern(
        "ai provider key", ("gsk_", "xai-", "pplx-", "r8_", "fw_", "nvapi-", "csk-"),
        _BB + r"(?:gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,}|pplx-[A-Za-z0-9]{40,}|r8_[A-Za-z0-9]{37,}|nvapi-[\w-]{50,}|csk-[a-z0-9]{40,})",
        _unless_placeholder,
    ),
    Pattern("docker token", ("dckr_pat_", "dckr_oat_"), r"(?<!\w)dckr_[po]at_[\w-]{20,}", _unless_placeholder),
    Pattern("atlassian token", ("atatt3", "atctt3"), _B + r"AT[AC]TT3[\w=-]{40,}"),
    Pattern("airtable token", ("pat",), _B + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    Pattern("figma token", ("figd_",), r"(?<!\w)figd_[\w-]{30,}", _unless_placeholder),
    Pattern("planetscale token", ("pscale_",), r"(?<!\w)pscale_(?:tkn|pw|oauth)_[\w.-]{30,}", _unless_placeholder),
    Pattern("postman key", ("pmak-",), _BB + r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    Pattern("rubygems key", ("rubygems_",), _B + r"rubygems_[a-f0-9]{48}"),
    Pattern("sentry token", ("sntrys_", "sntryu_"), _B + r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    Pattern(
        "authorization header", ("bearer", "authorization"),
        r"(?i)(?<!\w)(?:authorization[\"']?[ ]?[:=][ ]?[\"']?(?:bearer|basic|token)|bearer)[ ]+(?P<secret>[\w.~+/-]{16,}=*)",
        lambda m: any(c.isdigit() for c in m["secret"]) and entropy(m["secret"]) >= KEY_ENTROPY and not _fits(_LISTED,
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

# For each keyword the places of the patterns that it may belong to: one pass over few words says which patterns are
# worth trying. Those that may hold spaces are looked for in the whole text, the others in its long words.
_Keywords = tuple[tuple[str, tuple[int, ...]], ...]


def _keywords(*, spaced: bool) -> _Keywords:
    found: dict[str, list[int]] = {}
    for place, pattern in enumerate(PATTERNS):
        for word in pattern.keywords if pattern.spaced == spaced else ():
            found.setdefault(word, []).append(place)
    return tuple((word, tuple(places)) for word, places in found.items())


_IN_TEXT: Final = _keywords(spaced=True)
_IN_LONG_WORDS: Final = _keywords(spaced=False)
_ALWAYS: Final = tuple(place for place, pattern in enumerate(PATTERNS) if not pattern.keywords)


def worth_trying(lowered: str, long_lowered: str) -> list[Pattern]:
    """Return the patterns whose secrets a text may hold, in their order; both its text and its long words in lower
    case.
    """
    places = {*_ALWAYS}
    for word, belongs in _IN_TEXT:
        if word in lowered:
            places.update(belongs)
    for word, belongs in _IN_LONG_WORDS if long_lowered else ():
        if word in long_lowered:
            places.update(belongs)
    return [PATTERNS[place] for place in sorted(places)]
