"""Which roles of the server can reach a store's tables, for whoever looks after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pgengram.store.connection.begin import APP_ROLE
from pgengram.store.connection.database import Database

RIGHTS: Final = "SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER"
COLUMN_RIGHTS: Final = "SELECT, INSERT, UPDATE, REFERENCES"
# Who may act as another role: from PostgreSQL 16 on a membership may be without that.
ACTS_AS: Final = """CASE WHEN current_setting('server_version_num')::integer < 160000 THEN pg_has_role(r.oid, {role}, 'MEMBER')
  ELSE pg_has_role(r.oid, {role}, 'SET') OR pg_has_role(r.oid, {role}, 'USAGE') END"""
# Superusers and PostgreSQL's own roles are left out. Reads pg_roles once for each table.
REACH: Final = f"""
WITH ours AS (
  SELECT c.oid, c.relowner, c.relname, c.relacl FROM pg_class c
  WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('memory_activation'))
    AND c.relkind IN ('r', 'p', 'v', 'm') AND c.relowner = (SELECT relowner FROM pg_class WHERE oid = to_regclass('memory_activation'))
    AND c.relname = ANY (%(names)s)),
owner AS (SELECT DISTINCT relowner AS oid FROM ours),
place AS (
  SELECT n.oid, quote_ident(n.nspname) AS name, n.nspowner, EXISTS (
    SELECT FROM aclexplode(n.nspacl) a WHERE a.grantee = 0 AND a.privilege_type = 'CREATE') AS open
  FROM pg_namespace n WHERE n.oid = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('memory_activation'))),
app AS (SELECT oid FROM pg_roles WHERE rolname = '{APP_ROLE}'),
reached AS (
  SELECT 'everybody' AS role, o.relname AS name, 'rights' AS how FROM ours o, aclexplode(o.relacl) a WHERE a.grantee = 0
  UNION ALL
  SELECT r.rolname, o.relname, 'rights' FROM pg_roles r, ours o
  WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%%' AND r.rolname <> '{APP_ROLE}' AND r.oid <> o.relowner
    AND NOT pg_has_role(r.oid, o.relowner, 'USAGE') AND NOT EXISTS (SELECT FROM app WHERE pg_has_role(r.oid, app.oid, 'USAGE'))
    AND NOT EXISTS (SELECT FROM aclexplode(o.relacl) a WHERE a.grantee = 0)
    AND (has_table_privilege(r.oid, o.oid, '{RIGHTS}') OR has_any_column_privilege(r.oid, o.oid, '{COLUMN_RIGHTS}'))
  UNION ALL
  SELECT 'PUBLIC', name, 'maker' FROM place WHERE open
  UNION ALL
  SELECT r.rolname, p.name, 'maker' FROM pg_roles r, place p
  WHERE NOT r.rolsuper AND r.rolname NOT LIKE 'pg\\_%%' AND NOT p.open AND has_schema_privilege(r.oid, p.oid, 'CREATE')
    AND NOT pg_has_role(r.oid, p.nspowner, 'USAGE') AND NOT EXISTS (SELECT FROM owner o WHERE pg_has_role(r.oid, o.oid, 'USAGE'))
  UNION ALL
  SELECT r.rolname, '{APP_ROLE}', CASE WHEN EXISTS (
    SELECT FROM pg_database d WHERE d.datdba = r.oid AND d.datname <> current_database()) THEN 'sibling' ELSE 'application' END
  FROM pg_roles r, app
  WHERE NOT r.rolsuper AND r.rolname <> '{APP_ROLE}' AND r.rolname NOT LIKE 'pg\\_%%'
    AND NOT EXISTS (SELECT FROM owner o WHERE {ACTS_AS.format(role="o.oid")})
    AND {ACTS_AS.format(role="app.oid")} AND (r.rolcanlogin IS FALSE OR has_database_privilege(r.oid, current_database(), 'CONNECT'))
  UNION ALL
  SELECT r.rolname, o.oid::regrole::text, 'owner' FROM pg_roles r, owner o
  WHERE NOT r.rolsuper AND r.oid <> o.oid AND {ACTS_AS.format(role="o.oid")})
SELECT role, how, array_agg(DISTINCT name ORDER BY name) AS names FROM reached GROUP BY role, how ORDER BY how, role
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """Who reaches what, besides the owner and the application's role.

    rights: of each role with rights of its own or by membership, the tables; makers: of each role that may create
        functions beside them, which our statements could take for PostgreSQL's, the schema; application: those that may
        take the application's role; siblings: those of them that own another database, which may be another store;
        owner: those that may act as the owner.
    """

    rights: dict[str, list[str]]
    makers: dict[str, list[str]]
    application: list[str]
    siblings: list[str]
    owner: list[str]

    @property
    def is_closed(self) -> bool:
        """Whether nobody reaches anything who was not meant to."""
        return not (self.rights or self.makers or self.application)

    def __str__(self) -> str:
        said = [f"{role} has rights on {_few(names)}" for role, names in self.rights.items()]
        said += [
            f"{role} may create functions in the schema {place}, which a statement could take for PostgreSQL's own"
            for role, (place,) in self.makers.items()
        ]
        said += [f"{role} may take the role {APP_ROLE}, so it can read every namespace" for role in self.application]
        said += [
            f"{role}, which owns another database, may take the role {APP_ROLE} here, too, unless you REVOKE "
            "CONNECT ON DATABASE … FROM PUBLIC"
            for role in self.siblings
        ]
        said += [f"{role} may act as the owner" for role in self.owner]
        return "; ".join(said) or f"only the owner and the role {APP_ROLE} reach the tables"

    @property
    def repair(self) -> str:
        """What to do about it."""
        steps = ["`pgengram migrate` takes these rights back."] if self.rights else []
        steps += [f"REVOKE CREATE ON SCHEMA {place} FROM {role};" for role, (place,) in self.makers.items()]
        steps += [f"REVOKE {APP_ROLE} FROM {', '.join(self.application)};"] if self.application else []
        return " ".join(steps)


async def reach(database: Database) -> Reach:
    """Return who reaches the tables of a store."""
    from pgengram.store.schema.rights import VERSION_TABLE
    from pgengram.store.schema.tables import VIEWS, metadata

    names = [*metadata.tables, *VIEWS, VERSION_TABLE]
    async with database.as_login() as connection:
        rows = await (await connection.execute(REACH, {"names": names})).fetchall()
    rights, makers = ({row["role"]: row["names"] for row in rows if row["how"] == how} for how in ("rights", "maker"))
    return Reach(
        rights,
        makers,
        *([row["role"] for row in rows if row["how"] == how] for how in ("application", "sibling", "owner")),
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
