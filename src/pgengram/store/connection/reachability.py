"""Why no connection to PostgreSQL could be made, in one sentence with the next step, and never with a password.

What the server says before somebody is logged in has no SQLSTATE that the driver would pass on, so its text decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

import psycopg
from psycopg.conninfo import conninfo_to_dict

from pgengram.errors import Unreachable

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
