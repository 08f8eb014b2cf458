"""What the driver raises, as errors of ours; and why no connection could be made, in one sentence with the next step.

What the server says before somebody is logged in has no SQLSTATE that the driver would pass on, so its text decides. No
sentence has a password.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolTimeout

from pgengram.errors import (
    Conflict,
    ConnectionLost,
    DatabaseFailed,
    NotAllowed,
    NotReady,
    PgengramError,
    ShardMoved,
    Unreachable,
    WritesRefused,
)

log = logging.getLogger(__name__)


class our_errors:  # noqa: N801  # reads as a word at its only use: `with our_errors():`
    """The one place where the driver's errors become ours; nothing of a statement's values leaves with them."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        ours = None if error is None else translated(error)
        if ours is not None:
            raise ours from error


BY_POLICY: Final = re.compile(r"row-level security policy")
ONLY_READS: Final = (
    "You may read this space, but not change it.",
    "Nothing was changed. An admin of the space can let you write.",
)
ERASED_NAMESPACE: Final = re.compile(r"_namespace_id_fkey$")
RULE_IN_MESSAGE: Final = re.compile(r'constraint "(\w+)"')
NUMBER_OF_SHARD: Final = re.compile(r"_\d{6,}$")
SHARD_GONE: Final = re.compile(r'could not find valid entry for shard|relation "(public\.)?\w+_\d{6,}" does not exist')
# Our error for a state of SQL; what needs a look at the message besides is in `_refused`.
REFUSALS: Final[dict[str, Callable[[], PgengramError]]] = {
    **dict.fromkeys(
        ("40001", "40P01", "55P03", "57014"),
        partial(
            DatabaseFailed,
            "The database is busy with another change, or the call took too long.",
            "Nothing was changed; call again.",
        ),
    ),
    **dict.fromkeys(
        ("53100", "53200", "53300", "53400"),
        partial(
            DatabaseFailed,
            "The database has no room left (disk, memory or connections).",
            "Free some room, then call again; reading still works.",
        ),
    ),
    **dict.fromkeys(
        ("25P03", "25P04", "57P05"),  # as the machine slept, or the network held back what was said
        partial(ConnectionLost, "PostgreSQL ended the connection, which had been silent for too long."),
    ),
    "25006": partial(WritesRefused, "The database accepts no writes now."),
    **dict.fromkeys(
        ("42P01", "42703", "42883"),
        partial(NotReady, "The database's schema does not fit this version.", "Run `pgengram migrate`."),
    ),
}


def translated(error: BaseException) -> PgengramError | None:
    """Return our error for one of the driver's, or None for any other."""
    if isinstance(error, PoolTimeout):
        return DatabaseFailed("All database connections are busy.", "Nothing was changed; call again in a moment.")
    return _refused(error) if isinstance(error, psycopg.Error) else None


def broken_rule(error: psycopg.Error) -> str | None:
    """Return the name of the broken constraint; a shard's has a number, and only the message names it."""
    named = RULE_IN_MESSAGE.search(error.diag.message_primary or "")
    name = error.diag.constraint_name or (named[1] if named else None)
    return NUMBER_OF_SHARD.sub("", name) if name else None


# What a unique constraint says when it is broken; every other one is broken only by two calls of the same moment.
CHANGED_AT_ONCE: Final = ("Another call changed the same at this very moment.", "Nothing was changed; call again.")
TAKEN: Final = {
    "memories_active_content": ("Another active memory already says exactly this.",),
    "memories_by_idempotency_key": (
        "Another memory was stored with this idempotency_key.",
        "Nothing was changed; call again to get that memory, or take another key.",
    ),
    "memory_beliefs_namespace_id_belief_hash_key": (
        "Another belief already says exactly this.",
        "Change that one, or remove one of the two.",
    ),
}


def _refused(error: psycopg.Error) -> PgengramError:
    state = error.sqlstate or ""
    log.info("PostgreSQL refused a statement: SQLSTATE %s %s", state or "none", type(error).__name__)
    ours = _by_message(state, error)
    if ours is not None:
        return ours
    if state in REFUSALS:
        return REFUSALS[state]()
    if isinstance(error, psycopg.OperationalError):
        return ConnectionLost("The connection to the database was lost.")
    return DatabaseFailed(f"PostgreSQL refused the statement (SQLSTATE {state or 'unknown'}).")


def _by_message(state: str, error: psycopg.Error) -> PgengramError | None:
    """Return our error where the constraint or the relation that the message names decides."""
    rule, message = broken_rule(error) or "", error.diag.message_primary or ""
    if state == "23503" and ERASED_NAMESPACE.search(rule):
        return NotReady(
            "This namespace was erased while the server ran; nothing was stored.", "Start the server again."
        )
    if state == "42501" and BY_POLICY.search(message):
        return NotAllowed(*ONLY_READS)
    if state == "23505":
        return Conflict(*TAKEN.get(rule, CHANGED_AT_ONCE))
    if state in ("42P01", "XX000") and SHARD_GONE.search(message):
        return ShardMoved()
    return None


SETTING: Final = "PGENGRAM_DATABASE_URL"
FORM: Final = f"{SETTING} is not in the form postgresql://login:password@host:port/database."
ESCAPES: Final = "In login and password write %25 for %, %40 for @, %2F for /, %3A for :, %3F for ? and %23 for #."
SCHEMES: Final = ("postgresql", "postgres")
DIALECT: Final = re.compile(r"[a-z0-9.:-]*postgres(?:ql)?[a-z0-9.:-]*(?:\+\w+)?|[a-z0-9+.-]+", re.IGNORECASE)
UNKNOWN_OPTION: Final = re.compile(r'invalid connection option "(\w+)"')
OTHERS_OPTIONS: Final = {
    "schema": "Remove it; to use the tables of a schema, add options=-csearch_path%3DNAME.",
    "pgbouncer": "Remove it; pgengram notices a pooler by itself.",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """What a text of the driver or the server means: how a sentence about the server goes on, and what to do."""

    pattern: re.Pattern[str]
    says: str
    hint: str


def _cause(pattern: str, says: str, hint: str) -> Cause:
    return Cause(re.compile(pattern, re.IGNORECASE), says, hint)


SOON: Final = "Nothing was changed; call again in a moment."
CAUSES: Final = (
    _cause(
        "too many clients|too many connections|remaining connection slots",
        "has no connections left: {said}",
        "Nothing was changed; call again in a moment. If it stays so, end programs that hold connections, raise "
        "max_connections, or put a pooler before the server.",
    ),
    _cause(
        "is starting up|not yet accepting connections|in recovery mode|consistent recovery", "starts up: {said}", SOON
    ),
    _cause("is shutting down|administrator command", "shuts down: {said}", SOON),
    _cause(
        "password authentication failed|no password supplied|authentication failed for user",
        "refuses the login: {said}",
        f"Check login and password in {SETTING}. {ESCAPES}",
    ),
    _cause(
        r"no pg_hba\.conf entry.*no encryption|requires? (?:ssl|encryption|a secure)|insecure connection|ssl required",
        "requires TLS: {said}",
        f"Add sslmode=require to the parameters in {SETTING}.",
    ),
    _cause(
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "does not let this machine in: {said}",
        "An administrator adds a line for this address, login and database to pg_hba.conf and reloads it.",
    ),
    _cause(
        "does not support SSL, but SSL was required",
        "has no TLS: {said}",
        f"Turn on ssl in postgresql.conf, or remove sslmode from {SETTING}.",
    ),
    _cause(
        "certificate verify failed|root certificate|server certificate|certificate file|host name.*certificate",
        "has a certificate that is not trusted: {said}",
        f"Check sslmode and sslrootcert in {SETTING}.",
    ),
    _cause("SSL error|SSL SYSCALL|TLS", "could not agree on TLS: {said}", f"Check sslmode in {SETTING}."),
    _cause(
        "role .* does not exist|Role .* is not permitted to log in",
        "does not know the login: {said}",
        f"Check the login in {SETTING}, or have an administrator run CREATE ROLE … LOGIN.",
    ),
    _cause(
        "database .* does not exist",
        "does not have the database: {said}",
        f"Create it with CREATE DATABASE, or check the name in {SETTING}.",
    ),
    _cause(
        "permission denied for database|not currently accepting connections",
        "does not let this login into the database: {said}",
        "An administrator runs GRANT CONNECT ON DATABASE … TO the login.",
    ),
    _cause(
        "session is read-only|session is not read-write|server is in hot standby mode",
        "takes no writes now: {said}",
        f"Nothing was changed; call again once a server takes writes, or remove target_session_attrs from {SETTING}.",
    ),
    _cause(
        "failed to resolve host|could not translate host name|name or service not known|getaddrinfo",
        "cannot be reached: its name is not known",
        f"Check the host in {SETTING}, and this machine's network.",
    ),
    _cause(
        "timeout expired|timed out|Connection timeout",
        "cannot be reached: it does not answer",
        f"Nothing was changed. Check host and port in {SETTING}, and the firewalls on the way; then call again.",
    ),
    _cause(
        "connection refused|no such file or directory|is the server running",
        "cannot be reached: connection refused",
        f"Nothing was changed. Start the server, or check host and port in {SETTING}; then call again.",
    ),
    _cause(
        "network is unreachable|no route to host",
        "cannot be reached: there is no way to it",
        f"Check the host in {SETTING}, and this machine's network; then call again.",
    ),
    _cause(r"invalid \w* ?value", "cannot be asked: {said}", f"Correct that parameter in {SETTING}."),
)
OTHER: Final = _cause("", "cannot be used: {said}", f"Check {SETTING} and the server's log; call again in a moment.")
SAYS_WHERE: Final = re.compile(r"(?:FATAL|PANIC|ERROR):\s+|failed: |is bad: ")


def parsed(url: str) -> dict[str, str]:
    """Return the parameters of a connection string.

    Raises:
        ProgrammingError: it cannot be read; also where a % that was not escaped makes bytes that are not text.
    """
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except UnicodeDecodeError:
        raise psycopg.ProgrammingError("invalid percent-encoded token") from None


def unreachable(url: str, error: BaseException) -> Unreachable:
    """Return our error for a connection that could not be made.

    Args:
        url: by which it was tried.
        error: the driver's.
    """
    text = str(error)
    if isinstance(error, psycopg.ProgrammingError):
        return Unreachable(*url_fault(url, text))
    if _is_cut_in_the_password(url):
        return Unreachable(FORM, ESCAPES)
    cause = next((one for one in CAUSES if one.pattern.search(text)), OTHER)
    return Unreachable(f"PostgreSQL at {_where(url)} {cause.says.format(said=_said(text))}.", cause.hint)


def url_fault(url: str, said: str = "") -> tuple[str, str]:
    """Return what is wrong with a connection string that the driver cannot read, and what to do; nothing of it is
    repeated but a scheme or the name of a parameter.
    """
    scheme, is_url, rest = url.strip().partition("://")
    if is_url and scheme not in SCHEMES and DIALECT.fullmatch(scheme):
        return f"{SETTING} begins with {scheme}://, which PostgreSQL's library doesn't know.", "Write postgresql://."
    if name := _unknown_parameter(rest) if is_url else _unknown_option(said):
        hint = OTHERS_OPTIONS.get(name, "Remove it.")
        return f"{SETTING} has the parameter {name}, which PostgreSQL's library doesn't know.", hint
    return FORM, ESCAPES


def _unknown_parameter(rest: str) -> str:
    """Return the name of a parameter in a URL that the library doesn't know; empty where it knows all."""
    known = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()} | {"ssl"}
    given = parse_qsl(rest.partition("?")[2], keep_blank_values=True)
    return next((name for name, _ in given if name not in known and name.isidentifier()), "")


def _unknown_option(said: str) -> str:
    found = UNKNOWN_OPTION.search(said)
    return found[1] if found else ""


def _is_cut_in_the_password(url: str) -> bool:
    """Whether a password holds what should have been escaped, so that some of it is read as host, port or database."""
    given = parsed(url)
    host, ports = given.get("host", ""), given.get("port", "").replace(",", "")
    return (
        ("@" in host and not host.startswith(("/", "@")))
        or bool(ports and not ports.isdigit())
        or ("://" in url and "@" in given.get("dbname", ""))
    )


def _where(url: str) -> str:
    """Return the hosts and ports of a connection string."""
    given = parsed(url)
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    ports = str(given.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    named = [
        host if host.startswith("/") else f"{host or 'this machine'}:{port}"
        for host, port in zip(hosts, ports, strict=False)
    ]
    return " and ".join(named)


def _said(text: str) -> str:
    """Return what the server or the driver said last, without where that was."""
    first = text.partition("\nMultiple connection attempts failed")[0].strip()
    line = first.splitlines()[0] if first else "no reason is given"
    return SAYS_WHERE.split(line)[-1].strip().rstrip(".")
