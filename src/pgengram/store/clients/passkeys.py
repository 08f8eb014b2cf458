"""Passkeys with which people confirm a sign-in: public keys, whose memories they open, and how far.

A key that is removed is forgotten; its row stays, so that an older backup doesn't bring it back.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from psycopg.types.json import Jsonb

from pgengram.errors import NotFound
from pgengram.store.clients import connections
from pgengram.store.clients.connections import Proof

if TYPE_CHECKING:
    from pgengram.store.clients.connections import Connection, Connections
    from pgengram.store.connection.database import Row

# Uses passkeys_credential_id_key: one that was registered is nobody else's, removed or not.
ADD: Final = """
INSERT INTO passkeys (id, credential_id, credential, sign_count, rp_id, name, namespace, may_write, spaces)
VALUES (%(id)s, %(credential_id)s, %(credential)s, %(sign_count)s, %(rp_id)s, %(name)s, %(namespace)s, %(may_write)s,
  %(spaces)s)
ON CONFLICT (credential_id) DO NOTHING
"""
# Uses passkeys_credential_id_key.
FIND: Final = """
SELECT p.id, p.credential, p.sign_count, p.namespace, p.may_write, p.spaces,
  (SELECT o.id FROM persons o JOIN namespaces n ON n.id = o.personal_id WHERE n.name = p.namespace) AS person_id
FROM passkeys p WHERE credential_id = %(credential_id)s AND rp_id = %(rp_id)s AND removed_at IS NULL FOR UPDATE
"""
# Uses passkeys_pkey.
NOTE_USE: Final = "UPDATE passkeys SET sign_count = %(sign_count)s, last_used_at = now() WHERE id = %(id)s"
# There are as many rows as passkeys.
LIST: Final = """
SELECT id, name, rp_id, namespace, may_write, created_at, last_used_at FROM passkeys
WHERE removed_at IS NULL AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s) ORDER BY created_at, id
"""
# Uses passkeys_pkey.
REMOVE: Final = """
UPDATE passkeys SET removed_at = now(), credential = NULL
WHERE id = %(id)s AND removed_at IS NULL AND (%(namespace)s::text IS NULL OR namespace = %(namespace)s) RETURNING name, namespace
"""


async def register(connection: Connection, proof: Proof, name: str, **key: Any) -> bool:
    """Keep a passkey of whoever has just proven who they are; it opens no more than that did.

    Args:
        connection: in whose transaction.
        proof: what the passkey is worth.
        name: of the browser that added it.
        key: credential_id, credential, sign_count and rp_id.

    Returns:
        Whether it is kept: a passkey belongs to whoever added it first.
    """
    allowed = {"namespace": proof.namespace, "may_write": proof.may_write}
    allowed["spaces"] = None if proof.spaces is None else Jsonb(dict(proof.spaces))
    added = await connection.execute(ADD, {**key, **allowed, "id": secrets.token_hex(8), "name": name[:64]})
    if added.rowcount:
        await connections.note(connection, "passkey_added", namespace=proof.namespace)
    return bool(added.rowcount)


async def find(connection: Connection, credential_id: bytes, rp_id: str) -> Row | None:
    """Lock a passkey, and return its row."""
    given = {"credential_id": credential_id, "rp_id": rp_id}
    return await (await connection.execute(FIND, given)).fetchone()


async def note_use(connection: Connection, id_: str, sign_count: int) -> None:
    """Keep how often a passkey has signed by its own count."""
    await connection.execute(NOTE_USE, {"id": id_, "sign_count": sign_count})


async def all_passkeys(of: Connections, namespace: str | None = None) -> list[Row]:
    """Return the passkeys, the oldest first, without any key; with a namespace only those that open that."""
    async with of.login() as connection:
        return await (await connection.execute(LIST, {"namespace": namespace})).fetchall()


async def revoke_passkey(of: Connections, id_: str, namespace: str | None = None) -> str:
    """Remove a passkey, and return its name; with a namespace only one that opens that.

    Raises:
        NotFound: there is none with this id.
    """
    async with of.login() as connection:
        row = await (await connection.execute(REMOVE, {"id": id_, "namespace": namespace})).fetchone()
        if row is None:
            raise NotFound("passkey", id_[:32], "`pgengram passkey list` shows the ids.")
        await connections.note(connection, "passkey_removed", namespace=row["namespace"])
    return str(row["name"])
