"""Browsers that may show the page over HTTP: a grant whose secret is in a cookie instead of a token.

Such a grant is listed and ended like that of a program. Its client has no id that the token endpoint knows, so no
token can be had for it, and a cookie opens no tool.
"""

from __future__ import annotations

import contextlib
import hmac
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pgengram.errors import DatabaseFailed
from pgengram.store.clients.token_secrets import hashed

if TYPE_CHECKING:
    from pgengram.store.store import Store

PAGE_CLIENT: Final = "page"  # in place of the id of a program
SIGN_IN_KEY: Final = "pgengram.page_sign_in"  # of the PageSignIn in the scope of a browser's request
SHAPE: Final = re.compile(r"([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
USE_NOTED_AFTER: Final = timedelta(hours=1)
NOBODY: Final = bytes(32)  # the hash that an unknown id is compared with; no secret is known that has it

# Uses oauth_grants_pkey.
FIND: Final = """
SELECT id, namespace, scope, resource, refresh_hash, rotated_at < now() - %(stale)s AS is_stale FROM oauth_grants
WHERE id = %(id)s AND client_id = %(client)s AND revoked_at IS NULL AND expires_at > now()
"""
# Uses oauth_grants_pkey.
NOTE_USE: Final = "UPDATE oauth_grants SET rotated_at = now() WHERE id = %(id)s"


@dataclass(frozen=True, slots=True)
class PageSignIn:
    """A browser that may show the page of one namespace."""

    id: str
    namespace: str
    may_write: bool


async def sign_in_of(store: Store, cookie: str, resource: str) -> PageSignIn | None:
    """Return the sign-in of a cookie that was given out for this address and has not ended; None for any other text."""
    shaped = SHAPE.fullmatch(cookie)
    if shaped is None:
        return None
    id_, secret = shaped.groups()
    row = await store.one(FIND, {"id": id_, "client": PAGE_CLIENT, "stale": USE_NOTED_AFTER})
    right = hmac.compare_digest(hashed(secret), NOBODY if row is None else bytes(row["refresh_hash"] or NOBODY))
    if row is None or not right or row["resource"] != resource:
        return None
    if row["is_stale"]:
        with contextlib.suppress(DatabaseFailed):  # full, or only to be read from: reading must go on
            async with store.as_login() as connection:
                await connection.execute(NOTE_USE, {"id": id_})
    return PageSignIn(id_, row["namespace"], row["scope"] == "read-write")
