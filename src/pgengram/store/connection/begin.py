"""What is found out about a PostgreSQL before it is used, and the SQL that begins a transaction of one namespace.

The settings that it makes hold until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg import sql

from pgengram.errors import NotReady

APP_ROLE: Final = "pgengram_app"
PGVECTOR: Final = (0, 8)

DESCRIBE: Final = """
SELECT current_setting('server_version') AS server, (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector
"""
HAS_CITUS: Final = "SELECT 1 FROM pg_extension WHERE extname = 'citus'"
WHO_AM_I: Final = """
SELECT rolsuper, rolbypassrls,
       EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %(role)s)
       AND CASE WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname = %(role)s)
                THEN pg_has_role(current_user, %(role)s,
                  CASE WHEN current_setting('server_version_num')::integer < 160000 THEN 'MEMBER' ELSE 'SET' END)
                ELSE false END AS member
FROM pg_roles WHERE rolname = current_user
"""


async def check_vector(connection: psycopg.AsyncConnection[dict[str, Any]]) -> None:
    """Refuse a pgvector without iterative scans of filtered indexes."""
    row = await (await connection.execute(DESCRIBE)).fetchone()
    version = str(row["vector"]) if row else "none"
    if not version[:1].isdigit() or tuple(int(part) for part in version.split(".")[:2]) < PGVECTOR:
        raise NotReady(
            f"pgvector {version} is too old.", "Install pgvector 0.8 or newer, then run ALTER EXTENSION vector UPDATE."
        )


async def has_citus(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Return whether this database has the extension Citus, so that its tables may be distributed."""
    return await (await connection.execute(HAS_CITUS)).fetchone() is not None


async def secured_role(connection: psycopg.AsyncConnection[dict[str, Any]]) -> str:
    """Return the role transactions take: the application's, or none where row-level security holds the login itself."""
    row = await (await connection.execute(WHO_AM_I, {"role": APP_ROLE})).fetchone()
    if row and row["member"]:
        return APP_ROLE
    if row and (row["rolsuper"] or row["rolbypassrls"]):
        login = sql.Identifier(connection.info.user).as_string()
        raise NotReady(
            "This login bypasses row-level security and cannot switch to the application's role.",
            f"An administrator runs `GRANT {APP_ROLE} TO {login};`, "
            "or connect as a role without SUPERUSER and BYPASSRLS.",
        )
    return "none"


FIRST_SPACE: Final = 1_000_000_000  # the key of the first space that people share; those of other namespaces are below
STATEMENT_TIMEOUT_MS: Final = 10_000
EACH_TIMEOUT_MS: Final = 250  # more for each memory that one statement writes; a busy small machine takes 100
LOCK_TIMEOUT_MS: Final = 5_000
MOVE_TIMEOUT_MS: Final = 60_000  # on a cluster, where a namespace may be on the way to another machine

# One round trip: begin, take the application's role, name the namespace, bound the time, and say how far a look into an
# index of vectors goes. All of it ends with the transaction, so a pooled connection (or a pooler in transaction mode)
# never carries one namespace's rights to the next. The switch to another embedding model gives its index a new file, in
# the same transaction: to look at that costs a tenth of looking at the table.
BEGIN: Final = sql.SQL("""
BEGIN {mode};
SELECT pg_relation_filenode('embedding_models_active'::regclass), {settings}
""")
# On Citus row-level security stands on the worker that has the namespace's rows, and the index too. Only SET LOCAL
# travels there; it takes the whole text of its query along, so each has a text of its own inside a block. Plans are
# made anew for each call: a generic one does not know on which worker the namespace is.
BEGIN_ON_CITUS: Final = sql.SQL("""{enter};
SELECT set_config('plan_cache_mode', 'force_custom_plan', true);
{carried}
""")
# How far a look into an index of vectors goes until a filtered search has enough.
INDEX_SETTINGS: Final = {
    "ivfflat.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "200",
    "hnsw.iterative_scan": "relaxed_order",
}
# A database or login may be set otherwise, for other programs: how values are written, and that a row that row-level
# security hides is an error.
AS_USUAL: Final = {"timezone": "UTC", "extra_float_digits": "1", "row_security": "on"}
SNAPSHOT: Final = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"
PROBES: Final = 20  # lists of an ivfflat index visited for a question: recall .985 at sqrt(n) lists
PROBES_NARROWED: Final = 60  # where a filter leaves only some of what each list holds
# A plan that serves every namespace is made for one of average size: among many small namespaces it would read and sort
# all vectors of a large one, as for a small one that is cheaper than the index. Where the index is to answer, only what
# nothing holds in order is sorted.
NO_SORT: Final = {"enable_sort": "off"}


@dataclass(frozen=True, slots=True)
class Member:
    """Who asks in a space.

    person_id: the person's key.
    writes: whether their client may write; the database decides whether they may.
    """

    person_id: int
    writes: bool = True


UPKEEP: Final = Member(-1)  # the server itself, in spaces too: indexes, words, what expires, erasing


ROLE_OF_MEMBER: Final = sql.SQL(", pgengram_may_as_member({}, 'role')")


def asks_for_role(namespace_id: int, member: Member | None) -> bool:
    """Whether beginning a transaction answers, last, what whoever asks may do there: in a space, but for upkeep."""
    return namespace_id >= FIRST_SPACE and member is not UPKEEP


@lru_cache(maxsize=1_000)
def begin_sql(
    role: str,
    namespace_id: int,
    actor: str = "",
    mode: str = "",
    *,
    probes: int = PROBES,
    distributed: bool = False,
    member: Member | None = None,
) -> bytes:
    """Return the text that begins a transaction of one namespace as `role`; all but our own `mode` is a quoted literal.

    probes: lists of an ivfflat index visited for a vector; distributed: the namespace's rows are on a worker of a Citus
        cluster.
    member: who asks, where that matters.
    """
    carried = {
        "pgengram.namespace_id": str(namespace_id),
        "pgengram.actor": actor,
        **_of_member(member),
        "jit": "off",  # a server that can would compile the ranking anew for each search, which takes seconds
        "ivfflat.probes": str(probes),
        **INDEX_SETTINGS,
        **AS_USUAL,
    }
    here = {
        "role": role,
        "statement_timeout": str(STATEMENT_TIMEOUT_MS),
        "lock_timeout": str(LOCK_TIMEOUT_MS),
        "idle_in_transaction_session_timeout": "15000",
        "plan_cache_mode": "force_generic_plan",
    }
    settings = _set_here(here | carried)
    if asks_for_role(namespace_id, member):  # after the settings, as the columns of a row are made in their order
        settings += ROLE_OF_MEMBER.format(sql.Literal(namespace_id))
    enter = BEGIN.format(mode=sql.SQL(mode), settings=settings)
    if not distributed:
        return enter.as_bytes()
    # Whoever writes waits while the shard is taken to another machine.
    carried |= {"lock_timeout": "0", "statement_timeout": str(MOVE_TIMEOUT_MS)}
    return BEGIN_ON_CITUS.format(enter=enter, carried=set_local(carried, distributed=True)).as_bytes()


def _of_member(member: Member | None) -> dict[str, str]:
    if member is None:
        return {}
    return {"pgengram.person_id": str(member.person_id), "pgengram.may_write": "on" if member.writes else "off"}


def _set_here(settings: Mapping[str, str]) -> sql.Composed:
    call = sql.SQL("set_config({}, {}, true)")
    return sql.SQL(", ").join(call.format(sql.Literal(name), sql.Literal(value)) for name, value in settings.items())


def set_local(settings: Mapping[str, str], *, distributed: bool) -> sql.Composed:
    """Return the text that makes settings hold until the transaction ends, also on the workers where `distributed`.

    Names are our own; values are quoted as literals.
    """
    if not distributed:
        return sql.SQL("SELECT {}").format(_set_here(settings))
    carried = {"citus.propagate_set_commands": "local", **settings}
    each = [sql.SQL("SET LOCAL {} = {};").format(sql.SQL(name), sql.Literal(value)) for name, value in carried.items()]
    return sql.SQL("DO {}").format(sql.Literal(f"BEGIN {sql.SQL(' ').join(each).as_string()} END"))


@lru_cache(maxsize=100)
def settings_sql(settings: tuple[tuple[str, str], ...], distributed: bool) -> bytes:
    """Return the text of `set_local`, kept for settings that come up again."""
    return set_local(dict(settings), distributed=distributed).as_bytes()
