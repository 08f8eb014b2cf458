"""Requests to sign in, from the page on which a person answers to what the program or browser is given.

A request is kept from its first answer on. A pairing code or a passkey shows whose memories it may open; what of that
is allowed, the person says then.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from pgengram.store import persons
from pgengram.store.clients import tokens
from pgengram.store.clients.connections import Asked, Connection, Connections, Proof, note
from pgengram.store.clients.tokens import Scope, hashed
from pgengram.store.persons import Right

if TYPE_CHECKING:
    from pgengram.store.store import Store

REQUEST_LIFE: Final = timedelta(minutes=10)
CODE_LIFE: Final = timedelta(seconds=60)
PAIRING_LIFE: Final = timedelta(minutes=10)
GRANT_LIFE: Final = timedelta(days=365)
PAGE_LIFE: Final = timedelta(days=30)  # as long as a browser on the owner's machine
TRIES: Final = 5  # wrong pairing codes in one request
TRIES_OF_A_CODE: Final = 15  # wrong ones, wherever they are typed, until a code that waits is worth nothing
LETTERS: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
CODE_LETTERS: Final = 8

# Uses oauth_requests_pkey; whoever answers at the same time waits.
ANSWER: Final = """
INSERT INTO oauth_requests AS r (id_hash, asked, expires_at) VALUES (%(id_hash)s, %(asked)s, now() + %(life)s)
ON CONFLICT (id_hash) DO UPDATE SET tries = r.tries RETURNING tries, code_hash, namespace, allowed
"""
COUNT_TRY: Final = "UPDATE oauth_requests SET tries = tries + 1 WHERE id_hash = %(id_hash)s"
END: Final = "UPDATE oauth_requests SET tries = %(tries)s WHERE id_hash = %(id_hash)s"
KEEP_PROOF: Final = """
UPDATE oauth_requests SET namespace = %(namespace)s, allowed = %(allowed)s WHERE id_hash = %(id_hash)s
"""
OPEN_PAIRING: Final = """
INSERT INTO pairing_codes (code_hash, namespace, may_write, spaces, person, expires_at)
VALUES (%(code_hash)s, %(namespace)s, %(may_write)s, %(spaces)s, %(person)s, now() + %(life)s)
"""
CLOSE_PAIRINGS: Final = "DELETE FROM pairing_codes WHERE namespace = %(namespace)s OR expires_at < now()"
# Uses pairing_codes_pkey, namespaces_name_key and persons_personal_id_key.
USE_PAIRING: Final = """
DELETE FROM pairing_codes c WHERE code_hash = %(code_hash)s AND expires_at > now() AND tries < %(tries)s
RETURNING namespace, may_write, spaces, person, (SELECT id FROM namespaces WHERE name = c.namespace) AS personal_id,
  (SELECT p.id FROM persons p JOIN namespaces n ON n.id = p.personal_id WHERE n.name = c.namespace) AS person_id
"""
MISS_PAIRING: Final = "UPDATE pairing_codes SET tries = tries + 1"
ALLOW: Final = """
WITH made AS (
  INSERT INTO oauth_grants
    (id, client_id, client_name, client_host, redirect_host, namespace, scope, resource, spaces, refresh_hash, rotated_at,
     expires_at)
  VALUES (%(grant_id)s, %(client_id)s, %(client_name)s, %(client_host)s, %(redirect_host)s, %(namespace)s, %(scope)s,
    %(resource)s, %(spaces)s, %(refresh_hash)s, CASE WHEN %(refresh_hash)s::bytea IS NOT NULL THEN now() END,
    now() + %(life)s))
UPDATE oauth_requests SET tries = %(tries)s, grant_id = %(grant_id)s, code_hash = %(code_hash)s,
  code_expires_at = CASE WHEN %(code_hash)s::bytea IS NOT NULL THEN now() + %(code_life)s END
WHERE id_hash = %(id_hash)s
"""


@dataclass(frozen=True, slots=True)
class Answering:
    """A request that is being answered.

    left: how many tries are left; none once it has been answered.
    proof: who has shown who they are, and has not chosen yet.
    """

    left: int
    proof: Proof | None


def plain_code(typed: str) -> str:
    """Return a pairing code as it is hashed, however it was typed."""
    return "".join(typed.upper().split()).replace("-", "")


async def open_pairing(
    store: Store,
    namespace: str,
    *,
    may_write: bool,
    spaces: Mapping[int, Right] | None = None,
    person: str | None = None,
) -> str:
    """Return a code that allows one program into a namespace. It is typed once within ten minutes; an older one ends.

    Args:
        store: whose memories.
        namespace: which of them.
        may_write: whether it may allow to write.
        spaces: the shared spaces that it may open, by key; by default all that the person is in.
        person: the name of somebody new, whose namespace it is from when the code is typed.
    """
    await store.open()
    await store.database.namespace_id(namespace)
    code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LETTERS))
    given = {"code_hash": hashed(code), "namespace": namespace, "may_write": may_write, "life": PAIRING_LIFE}
    given |= {"spaces": None if spaces is None else Jsonb(dict(spaces or {})), "person": person}
    async with store.as_login() as connection:
        await connection.execute(CLOSE_PAIRINGS, {"namespace": namespace})
        await connection.execute(OPEN_PAIRING, given)
        await note(connection, "pairing_opened", namespace=namespace)
    return f"{code[:4]}-{code[4:]}"


class SignInRequests:
    """The requests that people answer.

    Args:
        connections: in whose database they are.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def show(self, asked: Asked) -> None:
        """Note that a person is asked. Nothing else is kept of a request until somebody answers it, so strangers can't
        use up room for those of the owner.
        """
        async with self._connections.login() as connection:
            await note(connection, "consent_shown", asked)

    async def answering(self, connection: Connection, id_: str, asked: Asked) -> Answering:
        """Lock a request that is being answered."""
        given = {"id_hash": hashed(id_), "asked": Jsonb(asked.as_json()), "life": REQUEST_LIFE}
        row = await (await connection.execute(ANSWER, given)).fetchone()
        if row is None or row["code_hash"] is not None:
            return Answering(0, None)
        proof = None if row["namespace"] is None else Proof.of(row["allowed"], namespace=row["namespace"])
        return Answering(max(0, TRIES - int(row["tries"])), proof)

    async def deny(self, connection: Connection, id_: str, asked: Asked) -> None:
        """End a request that a person refused."""
        await connection.execute(END, {"id_hash": hashed(id_), "tries": TRIES})
        await note(connection, "consent_denied", asked)

    async def miss(self, connection: Connection, id_: str, asked: Asked) -> None:
        """Count a passkey that is not good."""
        await connection.execute(COUNT_TRY, {"id_hash": hashed(id_)})
        await note(connection, "wrong_passkey", asked)

    async def proven_by_code(self, connection: Connection, id_: str, asked: Asked, code: str) -> Proof | None:
        """Use a pairing code, and return what it is worth; a wrong one is counted, and gives None.

        Raises:
            Conflict: somebody else has the name now for which it was made.
        """
        given = {"code_hash": hashed(plain_code(code)), "tries": TRIES_OF_A_CODE}
        row = await (await connection.execute(USE_PAIRING, given)).fetchone()
        if row is None:
            await connection.execute(COUNT_TRY, {"id_hash": hashed(id_)})
            await connection.execute(MISS_PAIRING)
            await note(connection, "wrong_code", asked)
            return None
        if row["person"] is not None and row["person_id"] is None:
            row["person_id"] = await persons.put_person(connection, row["person"], row["namespace"], row["personal_id"])
            await note(connection, "person_added", asked, namespace=row["namespace"])
        return Proof.of(row)

    async def keep_proof(self, connection: Connection, id_: str, proof: Proof) -> None:
        """Keep who has shown who they are until they have chosen."""
        given = {"id_hash": hashed(id_), "namespace": proof.namespace, "allowed": Jsonb(proof.as_json())}
        await connection.execute(KEEP_PROOF, given)

    async def allow(
        self,
        connection: Connection,
        id_: str,
        asked: Asked,
        namespace: str,
        *,
        may_write: bool,
        spaces: Mapping[int, Right] | None = None,
    ) -> str:
        """Return the code of a request that a person allows; for a browser that is to show the page, its cookie.

        Args:
            connection: in whose transaction.
            id_: which request.
            asked: what it asks for.
            namespace: whose memories are opened.
            may_write: whether to write, too.
            spaces: the shared spaces that are opened, by key.
        """
        grant_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        is_page = asked.client_id == tokens.PAGE_CLIENT
        scope: Scope = "read-write" if may_write else "read-only"
        given = {
            "id_hash": hashed(id_), "grant_id": grant_id, "client_id": asked.client_id,
            "client_name": asked.client_name, "client_host": asked.client_host, "redirect_host": asked.redirect_host,
            "namespace": namespace,
            "scope": scope, "resource": asked.resource, "spaces": Jsonb(dict(spaces or {})),
            "life": PAGE_LIFE if is_page else GRANT_LIFE, "code_life": CODE_LIFE, "tries": TRIES,
            "code_hash": None if is_page else hashed(secret), "refresh_hash": hashed(secret) if is_page else None,
        }  # fmt: skip
        await connection.execute(ALLOW, given)
        about: dict[str, Any] = {"namespace": namespace, "scope": scope, "grant_id": grant_id}
        await note(connection, "consent_given", asked, **about)
        return f"{grant_id}_{secret}" if is_page else secret
