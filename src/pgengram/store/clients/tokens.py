"""Access tokens of clients that come over HTTP: made, checked, listed, revoked; and what shows the page to a browser.

A token is `pgt_ID_SECRET`, or `pga_ID_SECRET` for a program that signed in (see `connections`). The id finds the row;
of the secret, 256 random bits, only the SHA-256 is stored. How long a look takes says nothing about a secret: the index
sees the id alone, hashes are compared in constant time, and an unknown id costs the same comparison.

The tokens of a program that signed in are each computed from the one before with the server's key: so a lost answer can
be given once more, though only hashes are kept. A browser's grant has its secret in a cookie instead. It is listed and
ended like that of a program, but its client has no id that the token endpoint knows, so a cookie opens no tool.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from psycopg.types.json import Jsonb

from pgengram.errors import DatabaseFailed, InvalidInput, NotFound
from pgengram.store.persons import Right

if TYPE_CHECKING:
    from pgengram.store.store import Store

log = logging.getLogger(__name__)

PREFIX: Final = "pgt_"
PREFIXES: Final = (PREFIX, "pga_")  # pasted by a person, and given to a program that signed in
SHAPE: Final = re.compile(r"pg[ta]_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
SECRET_BYTES: Final = 32
ID_BYTES: Final = 6
MAX_NAME: Final = 64
USE_NOTED_AFTER: Final = timedelta(minutes=1)  # one write a minute for a token, however busy
NOBODY: Final = bytes(32)  # the hash that an unknown id is compared with; no secret is known that has it

Scope = Literal["read-only", "read-write"]

# Uses access_tokens_pkey and oauth_grants_pkey.
FIND: Final = """
SELECT t.id, t.secret_hash, t.name, t.namespace, t.scope, t.created_at, t.expires_at, t.last_used_at, t.revoked_at,
  g.resource, g.client_host, coalesce(g.spaces, t.spaces) AS spaces, now() AS now
FROM access_tokens t LEFT JOIN oauth_grants g ON g.id = t.grant_id WHERE t.id = %(id)s
"""
# Uses no index: there are as many rows as clients.
LIST: Final = """
SELECT id, secret_hash, name, namespace, scope, created_at, expires_at, last_used_at, revoked_at, NULL AS resource, NULL AS client_host,
  spaces, now() AS now
FROM access_tokens WHERE grant_id IS NULL ORDER BY created_at, id
"""
ADD: Final = """
INSERT INTO access_tokens (id, secret_hash, name, namespace, scope, expires_at, spaces)
VALUES (%(id)s, %(secret_hash)s, %(name)s, %(namespace)s, %(scope)s, now() + %(lifetime)s::interval, %(spaces)s)
"""
# Uses access_tokens_pkey.
NOTE_USE: Final = "UPDATE access_tokens SET last_used_at = now() WHERE id = %(id)s"
# Uses access_tokens_pkey.
REVOKE: Final = "UPDATE access_tokens SET revoked_at = now() WHERE id = %(id)s AND revoked_at IS NULL"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What is known of a token; the secret is not."""

    id: str
    name: str
    namespace: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    resource: str | None  # the address that it is for; any where none is named
    client_host: str | None  # whose program signed in
    spaces: dict[int, Right]  # that it may use, by key
    seen_at: datetime  # by the database's clock

    @property
    def state(self) -> Literal["good", "expired", "revoked"]:
        """Whether it was good when it was looked at."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= self.seen_at else "good"


async def create(
    store: Store,
    name: str,
    namespace: str,
    scope: Scope,
    lifetime: timedelta | None,
    spaces: Mapping[int, Right] | None = None,
) -> tuple[str, AccessToken]:
    """Make a token for a namespace, which is made too when it is new; return it with what is known of it.

    It cannot be shown again: only a hash of it is kept. Of shared `spaces` it may use those that are named, by their
    keys, as long as the person whose namespace it is for is in them.

    Raises:
        InvalidInput: the name, the namespace or the lifetime is not allowed.
    """
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidInput(f"A token's name must have 1 to {MAX_NAME} printable characters.")
    if not 1 <= len(namespace) <= 128 or not namespace.isprintable():
        raise InvalidInput("A namespace must have 1 to 128 printable characters.")
    if lifetime is not None and lifetime <= timedelta(0):
        raise InvalidInput("A token must be valid for some time.")
    id_, secret = secrets.token_hex(ID_BYTES), secrets.token_urlsafe(SECRET_BYTES)
    row = {"id": id_, "secret_hash": hashed(secret), "name": name, "namespace": namespace, "scope": scope}
    await store.open()
    await store.database.namespace_id(namespace)
    async with store.as_login() as connection:
        await connection.execute(ADD, {**row, "lifetime": lifetime, "spaces": Jsonb(spaces or {})})
    [made] = [token for token in await list_all(store) if token.id == id_]
    return f"{PREFIX}{id_}_{secret}", made


async def list_all(store: Store) -> list[AccessToken]:
    """Return what is known of every token, the oldest first."""
    async with store.as_login() as connection:
        rows = await (await connection.execute(LIST)).fetchall()
    return [_view(row) for row in rows]


async def revoke(store: Store, id_: str) -> AccessToken:
    """Make a token worthless from now on, and return what is known of it; one that is revoked already stays so.

    Raises:
        NotFound: there is none with this id.
    """
    async with store.as_login() as connection:
        await connection.execute(REVOKE, {"id": id_})
        row = await (await connection.execute(FIND, {"id": id_})).fetchone()
    if row is None:
        raise NotFound("token", id_, "`pgengram token list` shows the ids.")
    return _view(row)


async def verify(store: Store, token: str) -> AccessToken | None:
    """Return what is known of a token that is good now, and note that it was used; None for any other text."""
    shaped = SHAPE.fullmatch(token)
    if shaped is None:
        return None
    id_, secret = shaped.groups()
    row = await store.one(FIND, {"id": id_})
    right = hmac.compare_digest(hashed(secret), NOBODY if row is None else bytes(row["secret_hash"]))
    if row is None or not right or (found := _view(row)).state != "good":
        return None
    if found.last_used_at is None or found.seen_at - found.last_used_at > USE_NOTED_AFTER:
        await _note_use(store, id_)
    return found


async def _note_use(store: Store, id_: str) -> None:
    try:
        async with store.as_login() as connection:
            await connection.execute(NOTE_USE, {"id": id_})
    except DatabaseFailed as error:  # it is full, or only to be read from: reading must go on
        log.info("the use of a token was not noted: %s", error.message)


def _view(row: dict[str, object]) -> AccessToken:
    values = {name: value for name, value in row.items() if name not in ("secret_hash", "now")}
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = value.astimezone(UTC)
    values["spaces"] = {int(key): right for key, right in dict(row["spaces"]).items()}  # type: ignore[call-overload]
    return AccessToken(**values, seen_at=row["now"])  # type: ignore[arg-type]


SEAL_BYTES: Final = 8


def hashed(text: str) -> bytes:
    """Return what is kept of a secret that cannot be guessed: a fast hash is enough for it."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def with_seal(key: bytes, grant_id: str, secret: str) -> str:
    """Return a refresh secret with a seal by which it is known when its hash is kept no longer."""
    text = f"seal {grant_id} {secret}".encode("utf-8", "surrogatepass")
    return secret + hmac.digest(key, text, "sha256")[:SEAL_BYTES].hex()


def was_given(key: bytes, grant_id: str, secret: str) -> bool:
    """Whether a refresh secret is one that this grant had once; a guess ends nobody's connection."""
    made = with_seal(key, grant_id, secret[: -2 * SEAL_BYTES])
    return hmac.compare_digest(made.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


def following(key: bytes, grant_id: str, number: int, secret: str) -> str:
    """Return the refresh secret after another, of a generation's number."""
    text = f"refresh {grant_id} {number} {secret}".encode()
    return with_seal(key, grant_id, _in_base64(hmac.digest(key, text, "sha256")))


def access_token(key: bytes, grant_id: str, number: int, secret: str) -> tuple[str, str]:
    """Return the id and the secret of the access token that goes with a refresh secret."""
    derived = hmac.digest(key, f"access {grant_id} {number} {secret}".encode(), "sha384")
    return derived[:6].hex(), _in_base64(derived[6:38])


def _in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


PAGE_CLIENT: Final = "page"  # in place of the id of a program
SIGN_IN_KEY: Final = "pgengram.page_sign_in"  # of the PageSignIn in the scope of a browser's request
PAGE_SHAPE: Final = re.compile(r"([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
PAGE_USE_NOTED_AFTER: Final = timedelta(hours=1)

# Uses oauth_grants_pkey.
FIND_PAGE: Final = """
SELECT id, namespace, scope, resource, refresh_hash, rotated_at < now() - %(stale)s AS is_stale FROM oauth_grants
WHERE id = %(id)s AND client_id = %(client)s AND revoked_at IS NULL AND expires_at > now()
"""
# Uses oauth_grants_pkey.
NOTE_PAGE_USE: Final = "UPDATE oauth_grants SET rotated_at = now() WHERE id = %(id)s"


@dataclass(frozen=True, slots=True)
class PageSignIn:
    """A browser that may show the page of one namespace."""

    id: str
    namespace: str
    may_write: bool


async def sign_in_of(store: Store, cookie: str, resource: str) -> PageSignIn | None:
    """Return the sign-in of a cookie that was given out for this address and has not ended; None for any other text."""
    shaped = PAGE_SHAPE.fullmatch(cookie)
    if shaped is None:
        return None
    id_, secret = shaped.groups()
    row = await store.one(FIND_PAGE, {"id": id_, "client": PAGE_CLIENT, "stale": PAGE_USE_NOTED_AFTER})
    right = hmac.compare_digest(hashed(secret), NOBODY if row is None else bytes(row["refresh_hash"] or NOBODY))
    if row is None or not right or row["resource"] != resource:
        return None
    if row["is_stale"]:
        with contextlib.suppress(DatabaseFailed):  # full, or only to be read from: reading must go on
            async with store.as_login() as connection:
                await connection.execute(NOTE_PAGE_USE, {"id": id_})
    return PageSignIn(id_, row["namespace"], row["scope"] == "read-write")
