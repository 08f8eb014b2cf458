"""`pgengram doctor --public` finds what keeps programs from the internet away, and says what to do."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import httpx
import pytest
from http_server import HttpServer
from test_client_documents import issued, tls_server

from helpers import PATIENCE_S, environment
from pgengram.cli.store.public_address import PublicAddress, Row

NAME = "memory.example.org"
URL = f"https://{NAME}/mcp"


class Passed(httpx.AsyncBaseTransport):
    """A proxy in front of a server, which changes what passes.

    Args:
        to: the server's address.
        change: is given each request and the server's answer, and returns another answer or the same.
    """

    def __init__(self, to: str, change: Callable[[httpx.Request, httpx.Response], httpx.Response]) -> None:
        self._to, self._change = to, change
        self._way = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = httpx.Request(
            request.method, self._to + request.url.raw_path.decode(), headers=dict(request.headers) | {"host": "127.0.0.1"},
            content=await request.aread(),
        )  # fmt: skip
        answer = await self._way.handle_async_request(asked)
        body = (await answer.aread()).replace(self._to.encode(), f"https://{NAME}".encode())
        headers = {name: value.replace(self._to, f"https://{NAME}") for name, value in answer.headers.items()}
        headers.pop("content-length", None)
        return self._change(request, httpx.Response(answer.status_code, headers=headers, content=body))


class Behind(PublicAddress):
    """An address behind a proxy whose certificate is good."""

    async def _certificate(self) -> str:
        return "good"


async def resolved(_: str) -> Sequence[str]:
    return ["93.184.216.34"]


async def found(address: PublicAddress) -> dict[str, Row]:
    return {row[0]: row async for row in address.findings()}


def test_a_server_is_found_well_from_its_own_machine(web: HttpServer) -> None:
    command = [sys.executable, "-m", "pgengram", "doctor", "--public", web.url, "--json"]
    done = subprocess.run(command, env=environment(), capture_output=True, timeout=PATIENCE_S, check=False)
    findings = json.loads(done.stdout)
    assert [one["ok"] for one in findings] == [True] * 5, findings
    assert done.returncode == 0
    gone = subprocess.run(
        [*command[:5], "http://127.0.0.1:9/mcp", "--json"], env=environment(), capture_output=True, timeout=PATIENCE_S, check=False
    )  # fmt: skip
    assert gone.returncode == 1
    assert all(one["repair"] for one in json.loads(gone.stdout) if not one["ok"])


def answered(request: httpx.Request, answer: httpx.Response, path: str, **other: object) -> httpx.Response:
    """Return another answer at one path."""
    if not request.url.path.startswith(path):
        return answer
    return httpx.Response(**{"status_code": 200, "headers": answer.headers, "content": answer.content, **other})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "path", "other", "says"),
    [
        ("Challenge", "/mcp", {"status_code": 301, "headers": {"location": "https://www.example.org/mcp"}}, "serve it at this very address"),
        ("Challenge", "/mcp", {"status_code": 403}, "firewall"),
        ("Challenge", "/mcp", {"status_code": 421}, "--allowed-host"),
        ("Challenge", "/mcp", {"status_code": 404}, "every path"),
        ("Challenge", "/mcp", {"status_code": 401, "headers": {"www-authenticate": 'Bearer resource_metadata="/.well-known/x"'}}, "--sign-in"),
        ("Resource metadata", "/.well-known/oauth-protected", {"status_code": 404}, "every path"),
        ("Resource metadata", "/.well-known/oauth-protected", {"content": b'{"resource": "https://memory.example.org/mcp/"}'}, "letter by letter"),
        ("Resource metadata", "/.well-known/oauth-protected", {"content": b"[]"}, "every path"),
        ("Server metadata", "/.well-known/openid", {"content": b"{}"}, "every path"),
        ("Server metadata", "/.well-known/o", {"content": b'{"issuer": "https://memory.example.org/"}'}, "--url"),
        ("Sign-in", "/oauth/authorize", {"status_code": 502, "content": b"bad gateway"}, "every path"),
        ("Sign-in", "/oauth/token", {"status_code": 405}, "every path"),
    ],
)  # fmt: skip
async def test_each_thing_that_a_proxy_does_wrong_is_named_with_what_to_do(
    web: HttpServer, what: str, path: str, other: dict[str, object], says: str
) -> None:
    proxy = Passed(web.base, lambda request, answer: answered(request, answer, path, **other))
    findings = await found(Behind(URL, resolved, transport=proxy))
    assert not findings[what][1], findings
    assert says in findings[what][3]


@pytest.mark.parametrize(
    ("addresses", "says"),
    [(["192.168.1.7"], "public address"), (["2606:2800:220:1::1"], "A record"), (OSError("no"), "A record")],
)
async def test_a_name_that_the_internet_cannot_follow_is_told_before_anything_is_asked(
    addresses: list[str] | OSError, says: str
) -> None:
    async def resolve(_: str) -> Sequence[str]:
        if isinstance(addresses, OSError):
            raise addresses
        return addresses

    findings = await found(PublicAddress(URL, resolve))
    assert [*findings] == ["Address", "Name"]
    assert says in findings["Name"][3]


@pytest.mark.parametrize(
    "url", ["http://memory.example.org/mcp", "https://memory.example.org/mcp/", "https://memory.example.org", "x"]
)
async def test_an_address_that_no_program_can_use_is_told(url: str) -> None:
    findings = await found(PublicAddress(url, resolved))
    assert [*findings] == ["Address"]
    assert "/mcp" in findings["Address"][3]


@pytest.mark.parametrize(
    ("names", "trusted", "says"),
    [("localhost", True, "isn't renewed"), ("other.example", True, "this very name"), ("localhost", False, "trust")],
)
async def test_a_certificate_that_is_not_good_is_told_with_what_to_do(
    tmp_path: Path, names: str, trusted: bool, says: str
) -> None:
    certificate = issued(tmp_path, names)  # for one day
    context = ssl.create_default_context(cafile=certificate[0] if trusted else None)
    async with tls_server(certificate, b"{}") as port:
        findings = await found(PublicAddress(f"https://localhost:{port}/mcp", resolved, context))
    assert [*findings] == ["Address", "Name", "Certificate"]
    assert says in findings["Certificate"][3]
