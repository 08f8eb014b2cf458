"""The browsers that are signed in to the page of one running server, and the links that sign them in.

A sign-in is a random value that only the browser and this process know, so a restart makes every older one worthless.
It has to be so: a browser also sends its cookie to whatever else listens on the port while this server does not run.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from pgengram.data_folder import make_data_folder
from pgengram.errors import PgengramError
from pgengram.sign_in.requests import browser_name

SIGN_IN_PATH: Final = "/enter"
SIGN_IN_S: Final = 30 * 86_400  # how long a browser stays signed in while the server runs
KEPT_IN: Final = "ui-session.key"
SECRET_BYTES: Final = 32
LOOPBACK: Final = "127.0.0.1"
NSSWITCH: Final = Path("/etc/nsswitch.conf")
RESOLVES_LOCALHOST: Final = re.compile(r"^hosts:.*\b(?:resolve|myhostname)\b", re.MULTILINE)  # modules of systemd


class Shut(PgengramError):
    """Somebody without the right to be here; the page says how to come in."""

    code = "FORBIDDEN"
    default_hint = "Run `pgengram ui` in a terminal: it prints a new link, also while the server runs."


@dataclass(slots=True)
class SignIn:
    """One browser that is signed in; times are seconds since 1970."""

    id: str
    browser: str
    began: float
    last_use: float

    @property
    def ends(self) -> float:
        """When the server forgets it."""
        return self.began + SIGN_IN_S


class SignIns:
    """Who is signed in to one running server.

    Args:
        secret: what links are made of; whoever can read it in the data folder may make some.
        store: the database's URL, empty for the embedded server of the data folder.
        clock: seconds since 1970.
    """

    def __init__(self, secret: bytes = b"", store: str = "", clock: Callable[[], float] = time.time) -> None:
        self._secret = secret or secrets.token_bytes(SECRET_BYTES)
        self._store = store
        self._clock = clock
        self._run = secrets.token_hex(16)  # links of an earlier run are worthless
        self._used: set[str] = set()
        self._by_digest: dict[bytes, SignIn] = {}
        self.own_name = own_name(self._secret)

    def ticket(self) -> str:
        """Return a new ticket, which lets one browser in once."""
        return made_ticket(self._secret, self._run)

    def identity(self, port: int, nonce: str) -> dict[str, str]:
        """Return what shows to another process of the owner that this server is of the same store."""
        return {"run": self._run, "proof": proof(self._secret, port, self._store, self._run, nonce)}

    def mark(self, namespace: str) -> str:
        """Return what every form of a namespace's pages carries; the same after a restart, so that open pages go on."""
        return _mac(self._secret, "mark", namespace)

    def sign_in(self, ticket: str, browser: str) -> str:
        """Take a ticket and return the value of a new sign-in.

        Args:
            ticket: what a link holds.
            browser: what the browser says of itself.

        Raises:
            Shut: it is not a ticket of this run, or was used before.
        """
        made, _, mac = ticket.partition(".")
        if not hmac.compare_digest(mac.encode(), _mac(self._secret, "ticket", self._run, made).encode()):
            raise Shut("This link is incomplete, or of an earlier run of `pgengram ui`.")
        if made in self._used:
            raise Shut("This link was used before: it works once. If that wasn't you, stop `pgengram ui` at once.")
        self._used.add(made)
        value, now = secrets.token_urlsafe(32), self._clock()
        self._forget_ended(now)
        self._by_digest[_digest(value)] = SignIn(secrets.token_hex(4), browser_name(browser), now, now)
        return value

    def known(self, value: str) -> SignIn | None:
        """Return the sign-in of a value, and note that it is in use; None if there is none."""
        now = self._clock()
        self._forget_ended(now)
        found = self._by_digest.get(_digest(value))
        if found is not None:
            found.last_use = now
        return found

    def all(self) -> list[SignIn]:
        """Return every sign-in, the newest first."""
        self._forget_ended(self._clock())
        return sorted(self._by_digest.values(), key=lambda one: -one.began)

    def end(self, id_: str) -> None:
        """Make a sign-in worthless."""
        self._by_digest = {digest: one for digest, one in self._by_digest.items() if one.id != id_}

    def end_all(self) -> None:
        """Make every sign-in worthless."""
        self._by_digest.clear()

    def _forget_ended(self, now: float) -> None:
        for digest in [digest for digest, one in self._by_digest.items() if one.ends <= now]:
            del self._by_digest[digest]


def made_ticket(secret: bytes, run: str) -> str:
    """Return a ticket for the run of a server that has the secret."""
    made = secrets.token_urlsafe(16)
    return f"{made}.{_mac(secret, 'ticket', run, made)}"


def proof(secret: bytes, port: int, store: str, run: str, nonce: str) -> str:
    """Return what only a server of the store can say, of its port, to a nonce."""
    return _mac(secret, "server", str(port), store, run, nonce)


def host_name(secret: bytes, nsswitch: Path = NSSWITCH) -> str:
    """Return the host that links name: one of the store's own, whose cookie no other server of this machine is sent.

    Only where the system finds such names without asking a name server, and every browser and program therefore does.
    """
    with contextlib.suppress(OSError, ValueError):
        if sys.platform == "linux" and RESOLVES_LOCALHOST.search(nsswitch.read_text("utf-8")):
            return own_name(secret)
    return LOOPBACK


def own_name(secret: bytes) -> str:
    """Return the name of this machine that only this store's page has (RFC 6761: all of localhost is loopback)."""
    return f"pgengram-{_mac(secret, 'name')[:12]}.localhost"


def remembered_secret(folder: Path) -> bytes:
    """Return the secret that is kept in a folder for its owner alone, made when it is not there.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / KEPT_IN
    make_data_folder(str(folder))
    with contextlib.suppress(FileExistsError), open(path, "xb", opener=_for_its_owner) as file:
        file.write(secrets.token_bytes(SECRET_BYTES))
    return path.read_bytes()


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _mac(secret: bytes, *parts: str) -> str:
    return hmac.new(secret, json.dumps(parts).encode(), "sha256").hexdigest()


def _digest(value: str) -> bytes:
    return sha256(value.encode()).digest()
