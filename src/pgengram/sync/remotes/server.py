"""Files at a pgengram server that speaks HTTP: each is one resource, and a list says what is in them."""

from __future__ import annotations

import hashlib
import ipaddress
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from pgengram.errors import InvalidInput
from pgengram.store.clients.connections import ACCESS_PREFIX
from pgengram.sync.keys import Key
from pgengram.sync.mirror import Files
from pgengram.sync.remotes import with_bytes
from pgengram.sync.remotes.sign_in import ENDED, SignIn

PATH: Final = "/sync/"
TIMEOUT_S: Final = 30.0
ENDED_MARK: Final = 'error="invalid_token"'  # in the challenge for a token that ended (RFC 6750, 3.1)
WAIT_S: Final = 60.0  # altogether, for a server that says that we ask too often


class ServerRemote:
    """Brings files to and from a server.

    Args:
        address: of the server, with or without the path at which it speaks MCP.
        key: of the memory.
        token: that the server let us in by.

    Raises:
        InvalidInput: the token would cross a network that others can read, or is one that soon ends.
    """

    idle_pauses = 1

    def __init__(self, address: str, key: Key, token: str | None, _: Path) -> None:
        self._base = address.rstrip("/").removesuffix("/mcp") + PATH + key.folder_name
        check_address(address)
        if token and token.startswith(ACCESS_PREFIX):
            raise InvalidInput(
                "That token was given to another program that signed in, and ends within a day.",
                "Leave out --token: this machine signs in by itself. Or make one: `pgengram token create NAME`.",
            )
        signed_in = SignIn.of(token)
        self._is_signed_in = signed_in is not None
        token = token if signed_in is None else signed_in.access
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    def digest(self, data: bytes) -> str:
        """Return the SHA-256 of a file's bytes."""
        return hashlib.sha256(data).hexdigest()

    def list_files(self) -> Files:
        """Return which files there are; see `Remote`."""
        listed = self._asked("GET", "")
        try:
            return {str(name): str(digest) for name, digest in listed.json()["files"].items()}
        except (ValueError, KeyError, AttributeError) as error:
            raise ConnectionError(f"{self._host} does not answer as a pgengram server does") from error

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield files; see `Remote`."""
        for name in names:
            answer = self._asked("GET", f"/{name}", may_lack=True)
            if answer.is_success:
                yield name, answer.content

    def put(self, folder: Path, names: Sequence[str]) -> None:
        """Bring files; see `Remote`."""
        for name, data in with_bytes(folder, names):
            self._asked("PUT", f"/{name}", content=data)

    def drop(self, _: Path, names: Sequence[str]) -> None:
        """Remove files; see `Remote`."""
        for name in names:
            self._asked("DELETE", f"/{name}", may_lack=True)

    @cached_property
    def _client(self) -> httpx.Client:
        return httpx.Client(headers=self._headers, timeout=TIMEOUT_S, follow_redirects=False)

    @property
    def _host(self) -> str:
        return urlsplit(self._base).netloc

    def _asked(self, method: str, path: str, *, may_lack: bool = False, **more: Any) -> httpx.Response:
        until = time.monotonic() + WAIT_S
        while True:
            try:
                answer = self._client.request(method, self._base + path, **more)
            except httpx.HTTPError as error:
                raise ConnectionError(f"{self._host} cannot be reached ({type(error).__name__})") from error
            wait_s = _wait_s(answer)
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS or time.monotonic() + wait_s > until:
                break
            time.sleep(wait_s)
        if answer.is_success or (may_lack and answer.status_code == httpx.codes.NOT_FOUND):
            return answer
        if self._is_signed_in and ENDED_MARK in answer.headers.get("www-authenticate", ""):
            raise ConnectionError(ENDED.format(self._host))
        raise ConnectionError(f"{self._host} answered {answer.status_code}: {_said(answer)}")


def check_address(address: str) -> None:
    """Make sure that what lets a machine in crosses no network that others can read.

    Raises:
        InvalidInput: it would.
    """
    parts = urlsplit(address)
    if parts.scheme == "http" and not _is_near(parts.hostname or ""):
        raise InvalidInput(f"{address} is not encrypted, so others could read your token.", "Use https://.")


def _wait_s(answer: httpx.Response) -> float:
    given = answer.headers.get("retry-after", "1")
    return float(given) if given.isdigit() else 1.0


def _said(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "not an answer of a pgengram server"


def _is_near(host: str) -> bool:
    """Whether a host is this machine or one of a private network."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost"
