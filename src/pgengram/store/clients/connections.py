"""Programs that signed in: what their owner allowed them, their codes and tokens, and what happened.

Access tokens are rows of `access_tokens`, checked like any other. Of codes, tokens and pairing codes only hashes are
kept. A refresh token's successor is computed from it with a key of the server, so that a lost answer can be given
once more, and nothing need be stored for that.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import psycopg

from pgengram.errors import NotFound
from pgengram.store.clients.tokens import Scope, access_token, following, hashed, was_given, with_seal
from pgengram.store.connection.pool import POOL_MAX
from pgengram.store.persons import Right

if TYPE_CHECKING:
    from pgengram.store.connection.database import Row
    from pgengram.store.store import Store

Connection = psycopg.AsyncConnection[dict[str, Any]]

ACCESS_LIFE: Final = timedelta(hours=24)
IDLE_LIFE: Final = timedelta(days=60)
REPLAY: Final = timedelta(seconds=120)  # within which an old refresh token gives the same new tokens again
AT_ONCE: Final = POOL_MAX - 2  # transactions of a process; its other connections are left to those who have a token
ACCESS_PREFIX: Final = "pga_"
REFRESH_PREFIX: Final = "pgr_"
EVENTS_KEPT: Final = timedelta(days=365)
STRANGERS_KEPT: Final = 5_000  # events that anybody can cause
CLEAN_EVERY: Final = 64  # events
MOST_ANSWERED: Final = 1_000  # requests whose tries are counted; of older ones they begin again


@dataclass(frozen=True, slots=True)
class Asked:
    """What a program asks for: who it is, where its answer goes, and what the answer is bound to."""

    client_id: str
    client_name: str
    client_host: str
    redirect_uri: str
    redirect_host: str
    challenge: str
    resource: str
    state: str | None
    may_write: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a program is given: an access token for some time, and one for the next."""

    access: str
    refresh: str
    scope: Scope
    lifetime: timedelta = ACCESS_LIFE


@dataclass(frozen=True, slots=True)
class Proof:
    """Whose memories somebody may open, and how far.

    spaces: the shared spaces, by key, with the most that may be done there; None for all that the person is in.
    person_id: who has that namespace; None where nobody was added for it.
    by: what showed it.
    """

    namespace: str
    may_write: bool
    spaces: Mapping[int, Right] | None = field(default_factory=dict)
    person_id: int | None = None
    by: str = "code"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def of(cls, row: Mapping[str, Any], **other: Any) -> Proof:
        """Return the proof that a row or its JSON holds."""
        values = {name: row[name] for name in cls.__slots__ if name in row} | other
        if values["spaces"] is not None:
            values["spaces"] = {int(key): right for key, right in values["spaces"].items()}
        return cls(**values)


KEY: Final = """
INSERT INTO server_keys (purpose, secret) VALUES (%(purpose)s, %(secret)s) ON CONFLICT (purpose) DO NOTHING
"""
FIND_KEY: Final = "SELECT secret FROM server_keys WHERE purpose = %(purpose)s"
# Those that were allowed stay for an hour, so that a code that is used again ends its connection.
DROP_OLD: Final = """
DELETE FROM oauth_requests WHERE id_hash IN (
  SELECT id_hash FROM oauth_requests WHERE coalesce(code_expires_at + interval '1 hour', expires_at) < now()
    OR code_hash IS NULL AND expires_at < (
      SELECT expires_at FROM oauth_requests WHERE code_hash IS NULL ORDER BY expires_at DESC OFFSET %(most)s LIMIT 1)
  FOR UPDATE SKIP LOCKED)
"""
# Uses oauth_grants_pkey.
FIND_GRANT: Final = """
SELECT *, revoked_at IS NULL AND expires_at > now() AND coalesce(rotated_at, created_at) > now() - %(idle)s AS is_good,
  rotated_at > now() - %(replay)s AS may_replay
FROM oauth_grants WHERE id = %(id)s FOR UPDATE
"""
# Uses oauth_requests_code_hash_key and oauth_grants_pkey.
FIND_CODE: Final = """
SELECT g.*, r.id_hash, r.asked, r.code_used_at, r.code_expires_at > now() AS is_fresh,
  g.revoked_at IS NULL AND g.expires_at > now() AS is_good
FROM oauth_requests r JOIN oauth_grants g ON g.id = r.grant_id WHERE r.code_hash = %(code_hash)s FOR UPDATE
"""
ADD_ACCESS: Final = """
INSERT INTO access_tokens (id, secret_hash, name, namespace, scope, expires_at, grant_id)
VALUES (%(id)s, %(secret_hash)s, %(name)s, %(namespace)s, %(scope)s, now() + %(life)s, %(grant_id)s)
ON CONFLICT (id) DO NOTHING
"""
# A generation of tokens, in place of the one before: for a code, which is used with that, or for a refresh token. Uses
# access_tokens_of_grant, oauth_requests_pkey and oauth_grants_pkey.
ISSUE: Final = f"""
WITH dropped AS (DELETE FROM access_tokens WHERE grant_id = %(grant_id)s AND expires_at < now()),
used AS (UPDATE oauth_requests SET code_used_at = now() WHERE id_hash = %(id_hash)s),
replaced AS (
  UPDATE oauth_grants SET generation = %(generation)s, refresh_hash = %(refresh_hash)s, previous_hash = %(previous_hash)s,
    rotated_at = now()
  WHERE id = %(grant_id)s)
{ADD_ACCESS}
"""
REVOKE_ACCESS: Final = "UPDATE access_tokens SET revoked_at = now() WHERE grant_id = %(id)s AND revoked_at IS NULL"
REVOKE_GRANT: Final = """
UPDATE oauth_grants SET revoked_at = now() WHERE id = %(id)s AND revoked_at IS NULL
RETURNING id, namespace, client_host, redirect_host, scope
"""
KNOWS: Final = """
SELECT EXISTS (SELECT FROM oauth_grants WHERE client_id = %(id)s) AS is_known
"""
GRANT_OF: Final = "SELECT grant_id, secret_hash FROM access_tokens WHERE id = %(id)s AND grant_id IS NOT NULL"
LIST: Final = """
SELECT g.id, g.client_name, g.client_host, g.redirect_host, g.namespace, g.scope, g.created_at, g.expires_at, g.revoked_at,
  g.rotated_at, max(t.last_used_at) AS last_used_at,
  g.revoked_at IS NULL AND g.expires_at > now() AND coalesce(g.rotated_at, g.created_at) > now() - %(idle)s AS is_good
FROM oauth_grants g LEFT JOIN access_tokens t ON t.grant_id = g.id GROUP BY g.id ORDER BY g.created_at, g.id
"""
NOTE: Final = """
INSERT INTO access_events (event, namespace, client_host, redirect_host, scope, grant_id)
VALUES (%(event)s, %(namespace)s, %(client_host)s, %(redirect_host)s, %(scope)s, %(grant_id)s) RETURNING id
"""
# What strangers can make happen, which belongs to no grant, is forgotten earlier, so that they fill neither disk nor
# log. Uses access_events_pkey.
FORGET_EVENTS: Final = """
DELETE FROM access_events WHERE at < now() - %(kept)s OR grant_id IS NULL AND event <> 'pairing_opened' AND id < (
  SELECT id FROM access_events WHERE grant_id IS NULL AND event <> 'pairing_opened'
  ORDER BY id DESC OFFSET %(strangers)s LIMIT 1)
"""
EVENTS: Final = """
SELECT at, event, namespace, client_host, redirect_host, scope, grant_id FROM access_events
WHERE %(namespace)s::text IS NULL OR namespace = %(namespace)s ORDER BY id DESC LIMIT %(limit)s
"""

Event = Literal[
    "pairing_opened", "consent_shown", "consent_given", "consent_denied", "wrong_code", "token_issued", "token_refreshed",
    "code_used_again", "refresh_used_again", "revoked", "client_refused", "passkey_added", "passkey_removed",
    "wrong_passkey", "person_added",
]  # fmt: skip


class Connections:
    """The programs of one store that signed in.

    Args:
        store: in whose database they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keys: dict[str, bytes] = {}
        self._at_once = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def login(self) -> AsyncIterator[Connection]:
        """Run a block in one transaction as the login, as the application's role has no right on any of this.

        Only so many at once, so that strangers who ask for tokens keep no call waiting. A key that is needed in the
        block has to be asked for before it.
        """
        async with self._at_once, self._store.as_login() as connection:
            yield connection

    async def key(self, purpose: str) -> bytes:
        """Return the server's key for a purpose, made when first needed; 32 bytes, the same for all its processes."""
        if purpose not in self._keys:
            async with self.login() as connection:
                await connection.execute(KEY, {"purpose": purpose, "secret": secrets.token_bytes(32)})
                row = await (await connection.execute(FIND_KEY, {"purpose": purpose})).fetchone()
            self._keys[purpose] = bytes(row["secret"]) if row else b""
        return self._keys[purpose]

    # -- tokens ----------------------------------------------------------------------------------------------------

    async def knows(self, client_id: str) -> bool:
        """Whether a person ever let this client in."""
        async with self.login() as connection:
            row = await (await connection.execute(KNOWS, {"id": client_id})).fetchone()
        return bool(row and row["is_known"])

    async def code(self, connection: Connection, code: str) -> Row | None:
        """Lock a code and its grant; return the grant's row with the code's `asked`, `code_used_at` and `is_fresh`."""
        row = await (await connection.execute(FIND_CODE, {"code_hash": hashed(code)})).fetchone()
        return None if row is None else {**row, "asked": Asked(**row["asked"])}

    async def first_tokens(self, connection: Connection, row: Row) -> Tokens | None:
        """Use a code that is good, and return its grant's first tokens; None if the grant has ended since."""
        if not row["is_good"]:
            return None
        await note(connection, "token_issued", row["asked"], **_about(row))
        secret = with_seal(await self.key("tokens"), row["id"], secrets.token_urlsafe(32))
        return await self._issue(connection, row, 1, secret)

    async def refreshed(self, connection: Connection, token: str, client_id: str, resource: str) -> Tokens | None:
        """Return the next tokens for a refresh token that was given to a client for a resource, the same ones within
        two minutes; None if it is worth nothing.

        One that was replaced before that is used by somebody who should not have it, so its grant ends.
        """
        id_, _, secret = token.removeprefix(REFRESH_PREFIX).partition("_")
        grant = await self._grant(connection, id_) if token.startswith(REFRESH_PREFIX) else None
        if grant is None or not grant["is_good"] or (grant["client_id"], grant["resource"]) != (client_id, resource):
            return None
        key, digest, number = await self.key("tokens"), hashed(secret), grant["generation"]
        if _same(grant["refresh_hash"], digest):
            await note(connection, "token_refreshed", **_about(grant))
            next_secret = following(key, grant["id"], number + 1, secret)
            return await self._issue(connection, grant, number + 1, next_secret, previous_hash=digest)
        if _same(grant["previous_hash"], digest) and grant["may_replay"]:
            next_secret = following(key, grant["id"], number, secret)
            tokens, access = await self._tokens(grant, number, next_secret)
            await connection.execute(ADD_ACCESS, access)
            return tokens
        if was_given(key, grant["id"], secret):
            await note(connection, "refresh_used_again", **_about(grant))
            await self.end(connection, grant["id"])
        return None

    async def _grant(self, connection: Connection, id_: str) -> Row | None:
        given = {"id": id_, "idle": IDLE_LIFE, "replay": REPLAY}
        return await (await connection.execute(FIND_GRANT, given)).fetchone()

    async def _issue(
        self, connection: Connection, grant: Row, number: int, secret: str, previous_hash: bytes | None = None
    ) -> Tokens:
        tokens, access = await self._tokens(grant, number, secret)
        given = {"generation": number, "refresh_hash": hashed(secret), "previous_hash": previous_hash}
        await connection.execute(ISSUE, {**access, **given, "id_hash": grant.get("id_hash")})
        return tokens

    async def _tokens(self, grant: Row, number: int, secret: str) -> tuple[Tokens, dict[str, Any]]:
        """Return the tokens of a generation, the same each time, and what is kept of the one for access."""
        id_, access = access_token(await self.key("tokens"), grant["id"], number, secret)
        kept = {
            "id": id_, "secret_hash": hashed(access), "name": grant["client_name"][:64],
            "namespace": grant["namespace"], "scope": grant["scope"], "life": ACCESS_LIFE, "grant_id": grant["id"],
        }  # fmt: skip
        refresh = f"{REFRESH_PREFIX}{grant['id']}_{secret}"
        return Tokens(f"{ACCESS_PREFIX}{id_}_{access}", refresh, grant["scope"]), kept

    # -- ending ----------------------------------------------------------------------------------------------------

    async def end(self, connection: Connection, id_: str) -> bool:
        """End a grant with all its tokens, from the next request on; return whether it had not ended yet."""
        ended = await (await connection.execute(REVOKE_GRANT, {"id": id_})).fetchone()
        await connection.execute(REVOKE_ACCESS, {"id": id_})
        if ended:
            await note(connection, "revoked", **_about(ended))
        return ended is not None

    async def end_by_token(self, connection: Connection, token: str, client_id: str) -> None:
        """End the grant of an access or a refresh token of this client (RFC 7009); any other text ends nothing."""
        prefix, id_, secret = token[: len(ACCESS_PREFIX)], *token[len(ACCESS_PREFIX) :].partition("_")[::2]
        if prefix == ACCESS_PREFIX:
            row = await (await connection.execute(GRANT_OF, {"id": id_})).fetchone()
            if row is None or not _same(row["secret_hash"], hashed(secret)):
                return
            id_ = row["grant_id"]
        grant = await self._grant(connection, id_)
        if grant is None or grant["client_id"] != client_id:
            return
        if prefix == ACCESS_PREFIX or any(
            _same(grant[one], hashed(secret)) for one in ("refresh_hash", "previous_hash")
        ):
            await self.end(connection, grant["id"])

    # -- what is there ---------------------------------------------------------------------------------------------

    async def listed(self) -> list[Row]:
        """Return all grants, the oldest first, without any secret."""
        async with self.login() as connection:
            return await (await connection.execute(LIST, {"idle": IDLE_LIFE})).fetchall()

    async def revoke(self, ids: Sequence[str]) -> int:
        """End grants by their ids, and return how many had not ended yet.

        Raises:
            NotFound: there is none with one of these ids.
        """
        known = {row["id"] for row in await self.listed()}
        for id_ in ids:
            if id_ not in known:
                raise NotFound("connection", id_, "`pgengram connection list` shows the ids.")
        async with self.login() as connection:
            return sum([await self.end(connection, id_) for id_ in ids])

    async def events(self, limit: int, namespace: str | None = None) -> list[Row]:
        """Return what happened lately, the newest first; with a namespace only what concerns that."""
        async with self.login() as connection:
            return await (await connection.execute(EVENTS, {"limit": limit, "namespace": namespace})).fetchall()


async def note(connection: Connection, event: Event, asked: Asked | None = None, **about: Any) -> None:
    """Note that something happened: names of hosts, never a token, code, state or address.

    Now and then, forget what is too old or too much.
    """
    hosts = {"client_host": asked.client_host, "redirect_host": asked.redirect_host} if asked else {}
    nothing = dict.fromkeys(("namespace", "client_host", "redirect_host", "scope", "grant_id"))
    noted = await (await connection.execute(NOTE, {**nothing, **hosts, **about, "event": event})).fetchone()
    if noted is not None and noted["id"] % CLEAN_EVERY == 0:
        await connection.execute(FORGET_EVENTS, {"kept": EVENTS_KEPT, "strangers": STRANGERS_KEPT})
        await connection.execute(DROP_OLD, {"most": MOST_ANSWERED})


def _about(grant: Row) -> dict[str, Any]:
    hosts = {name: grant[name] for name in ("namespace", "client_host", "redirect_host", "scope")}
    return hosts | {"grant_id": grant["id"]}


def _same(kept: Any, digest: bytes) -> bool:
    return kept is not None and hmac.compare_digest(bytes(kept), digest)
