"""Databases as an administrator prepares them: a login that owns one and can do nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import make_conninfo

from helpers import Database, in_database
from pgengram.store.connection.begin import APP_ROLE
from pgengram.store.schema.rights import ROLE

PASSWORD = "only-for-this-test"


@dataclass(frozen=True)
class Owned:
    """A database, its owner, and what an administrator sees of it."""

    url: str
    login: str
    admin: Database

    @property
    def db(self) -> Database:
        """The database as its owner sees it."""
        return Database(self.url)


@contextmanager
def a_login(postgres: str, *words: str) -> Iterator[str]:
    """Make a role that may log in, and take it away with all that it owns in the end."""
    name = f"pgengram_test_{secrets.token_hex(4)}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {' '.join(words)}")
        try:
            yield name
        finally:
            admin.execute(f"DROP OWNED BY {name}")
            admin.execute(f"DROP ROLE {name}")


@contextmanager
def alone_with_roles(postgres: str) -> Iterator[None]:
    """Keep tests of other workers, which do the same, from granting roles meanwhile: all databases of a server share
    them.
    """
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(hashtext('roles of tests'))")
        yield


def as_user(url: str, login: str) -> str:
    """Return `url` with another login in it."""
    return make_conninfo(url, user=login, password=PASSWORD)


@contextmanager
def owned(
    postgres: str, *before: str, options: str = "", vector: str = "CREATE EXTENSION vector", login: str = ""
) -> Iterator[Owned]:
    """Make a login and an empty database of its own, in which an administrator has run some statements.

    {login} in a statement stands for the login; `options` go to CREATE DATABASE, `login` to CREATE ROLE.
    """
    name = f"pgengram_test_{secrets.token_hex(6)}"
    with a_login(postgres, login) as owner, psycopg.connect(postgres, autocommit=True) as server:
        for statement in (*ROLE, f"GRANT {APP_ROLE} TO {owner}", f"CREATE DATABASE {name} OWNER {owner} {options}"):
            server.execute(statement)
        admin = Database(in_database(postgres, name))
        try:
            admin.as_login("SELECT", *(statement.format(login=owner) for statement in filter(None, (vector, *before))))
            yield Owned(as_user(admin.url, owner), owner, admin)
        finally:
            admin.close()
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
