"""Who may reach what: the application's role, the owner's maintenance, and nobody else; and who can all the same.

What gives and takes rights is text that can run again and again: at the end of every migration, and where a store came
from another server.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pgengram.store.connection.begin import APP_ROLE, FIRST_SPACE
from pgengram.store.connection.database import Database

VERSION_TABLE: Final = "pgengram_version"
ROLES: Final = ("read", "write", "admin")  # of a member in a space; each may do what those before it may

ROLE: Final = (
    # A login that may not make the role, or not take it, is held by row-level security itself: it is no superuser.
    f"""DO $$ BEGIN
          IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP_ROLE}') THEN
            CREATE ROLE {APP_ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS;
          END IF;
        EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
        END $$""",
    # From PostgreSQL 16 on a role's maker is a member that may not take the role unless told so.
    f"""DO $$ BEGIN
          IF current_setting('server_version_num')::integer < 160000 THEN
            IF NOT pg_has_role(current_user, '{APP_ROLE}', 'MEMBER') THEN
              EXECUTE format('GRANT {APP_ROLE} TO %I', current_user);
            END IF;
          ELSIF NOT pg_has_role(current_user, '{APP_ROLE}', 'SET') THEN
            EXECUTE format('GRANT {APP_ROLE} TO %I WITH SET TRUE', current_user);
          END IF;
        EXCEPTION WHEN insufficient_privilege OR undefined_object THEN NULL;
        END $$""",
)
# Everything of ours in the schema that others than its owner may have rights on. Functions of a cluster are left as
# Citus has dealt them out: they only compute.
REACHED: Final = """
    WITH ours AS (
      SELECT c.oid, c.relowner, c.relacl FROM pg_class c
      WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY ('{{{names}}}')),
    reached AS (
      SELECT 'TABLE ' || oid::regclass AS what, relowner AS owner, relacl AS acl FROM ours
      UNION ALL
      SELECT 'TABLE ' || o.oid::regclass, o.relowner, a.attacl FROM ours o
      JOIN pg_attribute a ON a.attrelid = o.oid AND a.attnum > 0 AND NOT a.attisdropped
      UNION ALL
      SELECT 'SEQUENCE ' || s.oid::regclass, s.relowner, s.relacl FROM ours o
      JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = o.oid AND d.classid = d.refclassid
      JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'
      UNION ALL
      SELECT 'FUNCTION ' || p.oid::regprocedure, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
      FROM pg_proc p WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname LIKE 'pgengram\\_%'
        AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus'))
    SELECT DISTINCT r.what, a.grantee FROM reached r, aclexplode(r.acl) a WHERE a.grantee <> r.owner"""
GRANTEE: Final = "CASE one.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(one.grantee)) END"
# What the login gives to others of all that it makes here: on some hosts that is everything, to whoever knows a public
# key. That PUBLIC may run functions is no entry of this list.
NOT_BY_DEFAULT: Final = f"""DO $$ DECLARE one record; BEGIN
  FOR one IN
    SELECT DISTINCT a.grantee,
      CASE WHEN d.defaclnamespace = 0 THEN '' ELSE 'IN SCHEMA ' || quote_ident(current_schema()) END AS place,
      CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' ELSE 'FUNCTIONS' END AS what
    FROM pg_default_acl d, aclexplode(d.defaclacl) a
    WHERE d.defaclrole = current_user::regrole AND d.defaclnamespace IN (0, quote_ident(current_schema())::regnamespace)
      AND d.defaclobjtype IN ('r', 'S', 'f') AND a.grantee <> d.defaclrole
      AND NOT (d.defaclobjtype = 'f' AND d.defaclnamespace = 0 AND a.grantee = 0)
  LOOP
    EXECUTE format('ALTER DEFAULT PRIVILEGES %s REVOKE ALL ON %s FROM %s', one.place, one.what, {GRANTEE});
  END LOOP;
END $$"""
# The owner may count and copy all namespaces' rows, while it says so: to build indexes, and for backups. A policy knows
# a role by its number, so it is made anew where the owner has become another.
MAINTENANCE: Final = """DO $$ DECLARE one record; BEGIN
  FOR one IN
    SELECT c.oid::regclass AS name, pg_get_userbyid(c.relowner) AS owner FROM pg_class c
    WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = ANY ('{{{names}}}') AND NOT EXISTS (
      SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance' AND p.polroles = ARRAY[c.relowner])
    ORDER BY 1
  LOOP
    EXECUTE format('DROP POLICY IF EXISTS maintenance ON %s', one.name);
    EXECUTE format('CREATE POLICY maintenance ON %s FOR SELECT TO %I
      USING (current_setting(''pgengram.maintenance'', true) = ''on'')', one.name, one.owner);
  END LOOP;
END $$"""
# Whether all of that still holds for whoever asks, who could mend it. Uses pg_class_relname_nsp_index; the tables with
# rows of namespaces are those with the policy.
HOLDS: Final = f"""
SELECT NOT EXISTS (
  SELECT FROM pg_policy o JOIN pg_class c ON c.oid = o.polrelid
  WHERE o.polname = 'one_namespace' AND c.relnamespace = %(schema)s::regnamespace AND pg_has_role(c.relowner, 'USAGE')
    AND (NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'maintenance'
                     AND p.polroles = ARRAY[c.relowner])
         OR EXISTS (SELECT FROM pg_roles r WHERE r.rolname = '{APP_ROLE}'
                    AND NOT has_table_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE, DELETE')))) AS holds
"""


def statements(owned: Sequence[str], lookups: Sequence[str], others: Sequence[str], views: Sequence[str]) -> list[str]:
    """Return what makes the rights so, whatever they were, in the first schema of the search path.

    Args:
        owned: the tables with rows of namespaces.
        lookups: those that the application reads besides.
        others: those that are the login's alone.
        views: the views over tables with rows of namespaces.
    """
    grants = [f"GRANT SELECT ON {name} TO {APP_ROLE}" for name in lookups]
    grants += [f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name} TO {APP_ROLE}" for name in owned]
    everything = ",".join([*owned, *lookups, *others, *views, VERSION_TABLE])
    return [
        *ROLE,
        f"""DO $$ DECLARE one record; BEGIN
  FOR one IN {REACHED.format(names=everything)}
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM %s CASCADE', one.what, {GRANTEE});
  END LOOP;
END $$""",
        NOT_BY_DEFAULT,
        _if_there_is_the_role(
            _usage() + "\n".join(f"            {grant};" for grant in grants) + _functions() + _views(views)
        ),
        MAINTENANCE.format(names=",".join(owned)),
    ]


MEMBERSHIP: Final = (
    # The setting of one transaction says whose rows it asks for; whether it may is asked here, once for each statement.
    # A namespace below the keys of spaces has no members: whoever may log in may enter it.
    f"""
CREATE FUNCTION pgengram_may(wanted text) RETURNS integer LANGUAGE plpgsql STABLE
AS $$
DECLARE
  named integer := nullif(current_setting('pgengram.namespace_id', true), '')::integer;
BEGIN
  IF named IS NULL OR named < {FIRST_SPACE} THEN
    RETURN named;
  END IF;
  RETURN pgengram_may_as_member(named, wanted);
END
$$
""",
    # Runs with the rights of its owner, as the application may not read who is a member. Temporary tables come last, so
    # that none can stand in for a table of ours.
    """
DO $do$ BEGIN
  EXECUTE format($f$
CREATE FUNCTION pgengram_may_as_member(space integer, wanted text) RETURNS integer LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = %I, pg_temp
AS $$
DECLARE
  who integer := nullif(current_setting('pgengram.person_id', true), '')::integer;
  has text;
BEGIN
  IF who = -1 THEN  -- the upkeep of the server
    RETURN CASE WHEN wanted = 'role' THEN 3 ELSE space END;
  END IF;
  SELECT m.role INTO has FROM space_members m WHERE m.space_id = space AND m.person_id = who AND m.until IS NULL;
  IF has <> 'read' AND current_setting('pgengram.may_write', true) = 'off' THEN
    has := 'read';
  END IF;
  IF wanted = 'role' THEN
    RETURN array_position(ARRAY['read', 'write', 'admin'], has);
  END IF;
  RETURN CASE WHEN has = 'admin' OR has = wanted OR (has = 'write' AND wanted = 'read') THEN space END;
END
$$
  $f$, current_schema());
END $do$
""",
)


def row_level_security(table: str) -> list[str]:
    """Return what makes row-level security also bind the table's owner; nothing is visible while no namespace is set,
    nor in a space that the person who asks is not in.

    Whoever may only read a space gets an error for each row that they would add or change, and removes none; of the
    memories of others only an admin removes any. The right is asked for once for each statement.
    """
    return [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        *policies(table, *(f"namespace_id = (SELECT pgengram_may('{wanted}'))" for wanted in ROLES)),
    ]


def policies(table: str, read: str, write: str, admin: str) -> list[str]:
    """Return what makes the policies of a table with rows of namespaces, by the conditions on a row of whoever may
    read, write and decide.
    """
    return [
        f"""CREATE POLICY one_namespace ON {table}
            USING ({read}) WITH CHECK ({write})""",
        f"CREATE POLICY removing ON {table} AS RESTRICTIVE FOR DELETE USING ({_removes(table, write, admin)})",
    ]


def policies_on_shards(table: str) -> list[str]:
    """Return what comes to the same for a table that is spread over machines.

    Its policies may not ask a query, so the right is asked for each row; of a namespace without members only its key is
    compared. Citus 13 makes a restrictive policy a permissive one on the workers, so each command has one of its own.
    """
    mine = "namespace_id = nullif(current_setting('pgengram.namespace_id', true), '')::integer"
    read, write, admin = (
        f"({mine} AND (namespace_id < {FIRST_SPACE} OR namespace_id = pgengram_may('{wanted}')))" for wanted in ROLES
    )
    return [
        f"CREATE POLICY one_namespace ON {table} FOR SELECT USING ({read})",
        f"CREATE POLICY adding ON {table} FOR INSERT WITH CHECK ({write})",
        f"CREATE POLICY changing ON {table} FOR UPDATE USING ({read}) WITH CHECK ({write})",
        f"CREATE POLICY removing ON {table} FOR DELETE USING ({_removes(table, write, admin)})",
    ]


def _removes(table: str, write: str, admin: str) -> str:
    """Return the condition on a row of whoever may remove it."""
    if table != "memories":
        return write
    me = "nullif(current_setting('pgengram.person_id', true), '')::integer"
    return f"{admin} OR ({write} AND person_id = {me})"


def closed(lookups: Sequence[str], others: Sequence[str]) -> str:
    """Return what closes the tables without a namespace to all but their owner, whatever rights somebody is given;
    lookups can still be read.

    A cluster copies such tables by ways of its own, so there it is the rights alone.
    """
    wanted = [f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;" for table in (*lookups, *others)]
    wanted += [f"CREATE POLICY readable ON {table} FOR SELECT USING (true);" for table in lookups]
    lines = "\n".join(f"    {line}" for line in wanted)
    return f"""DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
{lines}
  END IF;
END $$"""


def _if_there_is_the_role(body: str) -> str:
    return f"""DO $$ DECLARE one record; BEGIN
          IF EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP_ROLE}') THEN
{body}
          END IF;
        END $$"""


def _usage() -> str:
    """Return the lines that let the role into the schemas; where the login may not, whoever migrates sees that."""
    return f"""            FOR one IN SELECT n.nspname FROM pg_namespace n
              WHERE n.nspname = current_schema() OR n.oid = (SELECT extnamespace FROM pg_extension WHERE extname = 'vector')
            LOOP
              BEGIN
                EXECUTE format('GRANT USAGE ON SCHEMA %I TO {APP_ROLE}', one.nspname);
              EXCEPTION WHEN insufficient_privilege THEN NULL;
              END;
            END LOOP;
"""


def _functions() -> str:
    return f"""
            FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p
              WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname LIKE 'pgengram\\_%'
                AND NOT has_function_privilege('{APP_ROLE}', p.oid, 'EXECUTE')
            LOOP
              EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO {APP_ROLE}', one.name);
            END LOOP;"""


def _views(views: Sequence[str]) -> str:
    """Return the lines that let the role read the views, which a cluster has not."""
    grants = (
        f"IF to_regclass('{view}') IS NOT NULL THEN GRANT SELECT ON {view} TO {APP_ROLE}; END IF;" for view in views
    )
    return "".join(f"\n            {grant}" for grant in grants)


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


async def reach(database: Database, names: Iterable[str]) -> Reach:
    """Return who reaches the tables and views `names` of a store, and the table of its version."""
    async with database.as_login() as connection:
        rows = await (await connection.execute(REACH, {"names": [*names, VERSION_TABLE]})).fetchall()
    rights, makers = ({row["role"]: row["names"] for row in rows if row["how"] == how} for how in ("rights", "maker"))
    return Reach(
        rights,
        makers,
        *([row["role"] for row in rows if row["how"] == how] for how in ("application", "sibling", "owner")),
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
