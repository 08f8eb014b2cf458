"""Where in a database a store is, or can be: its schema, pgvector's, and what is in the way of one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row

from pgengram.errors import NotReady
from pgengram.store.connection.begin import APP_ROLE, PGVECTOR
from pgengram.store.connection.translation import parsed
from pgengram.store.schema.rights import HOLDS, VERSION_TABLE

# Uses pg_class_relname_nsp_index. Builds before the first release had the column memories.voice, the last of them turns
# without an id, and no other program has tables of these names and columns.
LOOK: Final = f"""
SELECT current_database() AS database, current_user::text AS login, current_schema()::text AS first,
  current_schemas(false)::text[] AS visible, current_setting('search_path') LIKE '%"$user"%' AS by_login,
  current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS standby,
  current_setting('transaction_read_only') = 'on' AS read_only,
  has_schema_privilege(current_schema(), 'CREATE') AS may_create,
  (SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE c.oid = to_regclass('{VERSION_TABLE}'))::text AS schema,
  EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('memories') AND attname = 'content_hash') AND (
    EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('memories') AND attname = 'voice')
    OR coalesce('source_key' = ANY (turns.columns) AND NOT 'id' = ANY (turns.columns), false)
  ) AS unreleased,
  e.extversion AS vector, (SELECT nspname FROM pg_namespace WHERE oid = e.extnamespace)::text AS vector_schema,
  coalesce(has_schema_privilege(e.extnamespace, 'USAGE'), true) AS may_use_vector,
  (SELECT default_version FROM pg_available_extensions WHERE name = 'vector') AS vector_to_have,
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR has_database_privilege(current_database(), 'CREATE')
    AND coalesce((SELECT bool_or(v.trusted) FROM pg_available_extension_versions v WHERE v.name = 'vector'), false)
    AS may_make_vector
FROM (SELECT array_agg(attname::text) AS columns FROM pg_attribute
      WHERE attrelid = to_regclass('conversation_turns') AND NOT attisdropped) AS turns
  LEFT JOIN pg_extension e ON e.extname = 'vector'
"""
TAKEN: Final = """
SELECT relname FROM pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relname = ANY (%s) AND relkind <> 'I'
ORDER BY relname
"""
SHUT: Final = f"""
SELECT n.nspname FROM pg_namespace n JOIN pg_roles r ON r.rolname = '{APP_ROLE}'
WHERE n.nspname = ANY (%s) AND NOT has_schema_privilege(r.oid, n.oid, 'USAGE') ORDER BY 1
"""
IS_DISTRIBUTED: Final = "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('memories')"
OF_ITS_OWN: Final = "Nothing was changed. Give pgengram a database of its own: CREATE DATABASE memo OWNER {login};"


@dataclass(frozen=True, slots=True)
class Place:
    """What a login sees of a database.

    first: the schema in which it would make a table, None if there is none; visible: all of its search path.
    by_login: whether the search path begins with a schema that is called as the login.
    schema: of the store, by its table of the version.
    unreleased: whether the store was made by a build from before the first release.
    vector, vector_schema: pgvector's version and schema, None if this database has none; vector_to_have: the version
        that the server could make.
    """

    database: str
    login: str
    first: str | None
    encoding: str
    standby: bool
    read_only: bool
    by_login: bool
    may_create: bool | None
    schema: str | None
    unreleased: bool
    vector: str | None
    vector_schema: str | None
    may_use_vector: bool
    vector_to_have: str | None
    may_make_vector: bool
    visible: list[str]

    @property
    def home(self) -> str | None:
        """The schema of the store, or of the one to come."""
        return self.schema or self.first

    @property
    def search_path(self) -> str | None:
        """What the search path must be for the application's role to find everything; None if it is so by itself."""
        needed = [name for name in (self.home, self.vector_schema) if name is not None]
        as_is = all(name in self.visible for name in needed) and self.visible[:1] == needed[:1]
        if not needed or (as_is and not (self.by_login and self.login in self.visible)):
            return None
        return ",".join(sql.Identifier(name).as_string() for name in dict.fromkeys(needed))


def look(connection: psycopg.Connection[Any]) -> Place:
    """Return what the login of a connection sees of its database."""
    with connection.cursor(row_factory=class_row(Place)) as cursor:
        place = cursor.execute(LOOK).fetchone()
    if place is None:
        raise NotReady("PostgreSQL gave no answer.")
    return place


def pinned(url: str, search_path: str | None) -> str:
    """Return a connection string that names the search path, if there is one to name."""
    if search_path is None:
        return url
    escaped = search_path.replace("\\", "\\\\").replace(" ", "\\ ")
    already = parsed(url).get("options")
    return make_conninfo(url, options=" ".join(filter(None, [already, f"-csearch_path={escaped}"])))


def version(connection: psycopg.Connection[Any], place: Place) -> str | None:
    """Return the version of the schema that a store has, or None where there is no store.

    Raises:
        NotReady: a build from before the first release made the store; no migration begins there.
    """
    if place.unreleased:
        raise NotReady(
            f"The store in the database {place.database} was made by a build from before the first release.",
            "Nothing was changed. Run `pgengram export memories.jsonl` with that build, then `pgengram import "
            "memories.jsonl` with this one in a new database.",
        )
    if place.schema is None:
        return None
    table = sql.Identifier(place.schema, VERSION_TABLE)
    row = connection.execute(sql.SQL("SELECT version_num FROM {}").format(table)).fetchone()
    return str(row[0]) if row else None


def holds(connection: psycopg.Connection[Any], place: Place) -> bool:
    """Whether the rights of the application and of maintenance are there, or cannot be mended by this login."""
    if place.read_only or place.home is None:
        return True
    row = connection.execute(HOLDS, {"schema": sql.Identifier(place.home).as_string()}).fetchone()
    return row is None or bool(row[0])


def expect_changeable(place: Place) -> None:
    """Refuse a database that takes no changes.

    Raises:
        NotReady: it is a standby, or read-only.
    """
    if place.standby:
        raise NotReady(
            "This PostgreSQL is a standby, which takes no changes, and the store there is not of this version.",
            "Nothing was changed. Set PGENGRAM_DATABASE_URL to the primary.",
        )
    if place.read_only:
        raise NotReady(
            f"The database {place.database} is read-only (default_transaction_read_only), so its schema cannot be "
            "brought up to date.",
            f"Nothing was changed. ALTER DATABASE {place.database} SET default_transaction_read_only = off;",
        )


def expect_room_for_a_store(connection: psycopg.Connection[Any], place: Place, names: Collection[str]) -> None:
    """Refuse a database in which no store can be made, with one sentence for what is in the way.

    Args:
        connection: to the database.
        place: what its login sees.
        names: of the relations that would be made.

    Raises:
        NotReady: something is in the way.
    """
    expect_changeable(place)
    if place.encoding != "UTF8":
        raise NotReady(
            f"The database {place.database} has the encoding {place.encoding}, which cannot hold every text.",
            "Nothing was changed. CREATE DATABASE memo ENCODING 'UTF8' TEMPLATE template0;",
        )
    if place.first is None:
        raise NotReady(
            f"The login {place.login} has no schema to make tables in.",
            f"Nothing was changed. CREATE SCHEMA {_quoted(place.login)} AUTHORIZATION {_quoted(place.login)}; or name "
            "one in the URL: ?options=-csearch_path%3Dmem",
        )
    if not place.may_create:
        raise NotReady(
            f"The login {place.login} may not make tables in the schema {place.first}.",
            f"Nothing was changed. Let it own the database: ALTER DATABASE {_quoted(place.database)} OWNER TO "
            f"{_quoted(place.login)};",
        )
    if taken := [name for (name,) in connection.execute(TAKEN, [sorted(names)]).fetchall()]:
        raise NotReady(
            f"The database {place.database} has something of another program that is called as pgengram's: "
            f"{', '.join(taken)}.",
            OF_ITS_OWN.format(login=_quoted(place.login)),
        )
    _expect_vector(place)


def expect_open(connection: psycopg.Connection[Any], place: Place) -> None:
    """Refuse schemas that the application's role may not enter, now that the login has let it into what it could.

    Raises:
        NotReady: an administrator has to let it in.
    """
    needed = [name for name in (place.home, look(connection).vector_schema) if name is not None]
    if shut := [name for (name,) in connection.execute(SHUT, [needed]).fetchall()]:
        grants = " ".join(f"GRANT USAGE ON SCHEMA {_quoted(name)} TO {APP_ROLE};" for name in shut)
        raise NotReady(
            f"The role {APP_ROLE} may not use the schema {', '.join(shut)}.",
            f"Nothing was changed. An administrator runs in the database {place.database}: {grants}",
        )


def _expect_vector(place: Place) -> None:
    wanted = ".".join(map(str, PGVECTOR))
    if place.vector is None and (place.vector_to_have is None or _number(place.vector_to_have) < PGVECTOR):
        raise NotReady(
            f"This PostgreSQL has no pgvector {wanted} or newer.",
            "Install pgvector on the server, or leave PGENGRAM_DATABASE_URL empty to use the embedded PostgreSQL.",
        )
    if place.vector is None and not place.may_make_vector:
        raise NotReady(
            f"The login {place.login} may not make the extension vector.",
            f"Nothing was changed. An administrator runs in the database {place.database}: CREATE EXTENSION vector;",
        )
    if place.vector is not None and _number(place.vector) < PGVECTOR:
        raise NotReady(
            f"pgvector {place.vector} is too old: {wanted} or newer is needed.",
            "Nothing was changed. Install it on the server, then run ALTER EXTENSION vector UPDATE;",
        )
    if not place.may_use_vector:
        raise NotReady(
            f"pgvector is in the schema {place.vector_schema}, which the login {place.login} may not use.",
            f"Nothing was changed. GRANT USAGE ON SCHEMA {_quoted(place.vector_schema or '')} TO "
            f"{_quoted(place.login)}, {APP_ROLE};",
        )


def _number(version_: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version_.split(".")[:2] if part.isdigit())


def _quoted(name: str) -> str:
    """Return a name as SQL takes it, in quotes where it needs them."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
