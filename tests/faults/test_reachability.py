"""Why no connection can be made: one sentence for each cause, and never a piece of a password."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import Database, in_database
from machine import pgengram
from pgengram.errors import Unreachable
from pgengram.store.connection.translation import parsed, unreachable
from pgengram.store.schema.migrate import connected

URL = "postgresql://memo:sekret@db.example.org:6432/memo"
AT = 'connection failed: connection to server at "10.0.0.5", port 6432 failed: '


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (AT + "Connection refused\n\tIs the server running on that host", "cannot be reached: connection refused", "Start the server"),
        (AT + "FATAL:  sorry, too many clients already", "has no connections left: sorry, too many clients already", "max_connections"),
        (AT + "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", "has no connections left", "max_connections"),
        (AT + "FATAL:  the database system is starting up", "starts up", "call again"),
        (AT + "FATAL:  the database system is in recovery mode", "starts up", "call again"),
        (AT + "FATAL:  the database system is shutting down", "shuts down", "call again"),
        (AT + 'FATAL:  password authentication failed for user "memo"', "refuses the login", "%40"),
        (AT + "fe_sendauth: no password supplied", "refuses the login", "password"),
        (AT + 'FATAL:  database "memo" does not exist', "does not have the database", "CREATE DATABASE"),
        (AT + 'FATAL:  role "memo" does not exist', "does not know the login", "CREATE ROLE"),
        (AT + 'FATAL:  permission denied for database "memo"', "does not let this login into the database", "GRANT CONNECT"),
        (AT + 'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "memo", database "memo", no encryption', "requires TLS", "sslmode=require"),
        (AT + 'FATAL:  no pg_hba.conf entry for host "10.0.0.9", user "memo", database "memo", SSL encryption', "does not let this machine in", "pg_hba.conf"),
        (AT + "server does not support SSL, but SSL was required", "has no TLS", "sslmode"),
        (AT + "SSL error: certificate verify failed", "not trusted", "sslrootcert"),
        (AT + "session is read-only", "takes no writes now", "target_session_attrs"),
        ("failed to resolve host 'db.example.org': [Errno -2] Name or service not known", "its name is not known", "host"),
        ("connection timeout expired", "does not answer", "firewalls"),
        (AT + "FATAL:  Datenbank »memo« gibt es nicht", "cannot be used: Datenbank »memo« gibt es nicht", "server's log"),
    ],
)  # fmt: skip
def test_each_cause_has_a_sentence_with_host_reason_and_next_step(text: str, says: str, hint: str) -> None:
    told = unreachable(URL, psycopg.OperationalError(text))

    assert told.message.startswith("PostgreSQL at db.example.org:6432 ")
    assert says in told.message
    assert hint in told.hint
    assert "not in the form" not in told.message
    assert "sekret" not in told.message + told.hint


def refused_url(url: str) -> Unreachable:
    with pytest.raises(psycopg.Error) as refused:
        connected(url)
    return unreachable(url, refused.value)


@pytest.mark.parametrize(
    ("url", "says", "hint"),
    [
        ("postgresql://memo:sekret@h/memo?pgbouncer=true", "parameter pgbouncer", "notices a pooler"),
        ("postgresql://memo:sekret@h/memo?sslmode=require&schema=public", "parameter schema", "search_path"),
        ("postgresql://memo:sekret@h/memo?connection_limit=1", "parameter connection_limit", "Remove it"),
        ("host=h dbname=memo password=sekret pool_mode=session", "parameter pool_mode", "Remove it"),
        ("postgresql+psycopg://memo:sekret@h/memo", "begins with postgresql+psycopg://", "Write postgresql://"),
        ("jdbc:postgresql://h/memo?password=sekret", "begins with jdbc:postgresql://", "Write postgresql://"),
        ("mysql://memo:sekret@h/memo", "begins with mysql://", "Write postgresql://"),
        ("memo:sekret@h/memo", "is not in the form", "%40"),
        ("postgresql://memo:sek@ret@127.0.0.1:1/memo", "is not in the form", "%40"),
        ("postgresql://memo:sek/ret@127.0.0.1:1/memo", "is not in the form", "%2F"),
        ("postgresql://memo:sek%aaret@127.0.0.1:1/memo", "is not in the form", "%25"),
    ],
)
def test_a_url_that_cannot_be_read_is_told_by_its_parameter_or_scheme(url: str, says: str, hint: str) -> None:
    told = refused_url(url)

    assert says in told.message
    assert hint in told.hint
    assert not any(piece in told.message + told.hint for piece in ("sekret", "sek@", "@ret", "sek/", "/ret"))


@given(
    st.lists(st.from_regex(r"[a-z]{6,9}", fullmatch=True), min_size=1, max_size=3),
    st.sampled_from("@/:?#[]% &="),
    st.sampled_from(
        ["connection refused", "failed to resolve host '{host}'", 'invalid integer value "{port}" for option']
    ),
)
def test_no_piece_of_a_password_is_told_whatever_was_not_escaped_in_it(
    pieces: list[str], between: str, text: str
) -> None:
    url = f"postgresql://login:{between.join(pieces)}@localhost:1/memo"
    try:
        given = parsed(url)
    except psycopg.ProgrammingError as error:
        told = unreachable(url, error)
    else:
        said = text.format(host=given.get("host"), port=given.get("port"))
        told = unreachable(url, psycopg.OperationalError(said))

    assert not any(piece in told.message + told.hint for piece in pieces)


def test_the_doctor_says_each_cause_once_and_never_blames_a_url_that_is_right(database: Database) -> None:
    missing = pgengram("doctor", expect=1, database_url=in_database(database.url, "no_such_database")).stdout
    more = "&" if "?" in database.url else "?"
    unread = pgengram("doctor", expect=1, database_url=f"{database.url}{more}pgbouncer=true").stdout

    assert "✗ Database" in missing
    assert 'does not have the database: database "no_such_database" does not exist.' in missing
    assert missing.count("no_such_database") == 1
    assert "not in the form" not in missing
    assert "has the parameter pgbouncer" in unread
    for command, code in ((["doctor"], 1), (["search", "tea"], 1)):
        odd = pgengram(*command, expect=code, database_url="postgresql://memo:sek%aaret@127.0.0.1:1/memo")
        assert "is not in the form" in odd.stdout + odd.stderr
        assert "Traceback" not in odd.stderr
    assert "not in the form" not in unread
