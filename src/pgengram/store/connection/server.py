"""What is found out about a PostgreSQL before it is used: its extensions, and the role that its login may take."""

from __future__ import annotations

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
    """Return the role transactions take: the application's, or none where the login itself is held by row-level
    security.
    """
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
