"""Documents about unknown clients: fetched from public machines only, and worth nothing when anything about them is wrong."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgengram.sign_in.clients import InvalidClient, same_address, usable
from pgengram.sign_in.documents import ClientDocuments, checked_url, is_public

URL = "https://app.example.org/oauth/client.json"
PUBLIC = "93.184.216.34"
GOOD = {
    "client_id": URL,
    "client_name": "App",
    "redirect_uris": ["https://app.example.org/back", "http://127.0.0.1/cb"],
}


def documents(
    answer: Any = GOOD, addresses: Sequence[str] = (PUBLIC,), **how: Any
) -> tuple[ClientDocuments, list[str]]:
    """Return documents that come from a web of one page, and the list of requests that reach it."""
    reached: list[str] = []

    async def answers(request: httpx.Request) -> httpx.Response:
        reached.append(f"{request.url} {request.headers['host']} {request.extensions['sni_hostname']}")
        if isinstance(answer, Exception):
            raise answer
        if how.get("slow"):
            await asyncio.sleep(30)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        headers = {"content-type": "application/json", **how.get("headers", {})}
        return httpx.Response(how.get("status", 200), headers=headers, content=body)

    async def resolve(_: str) -> Sequence[str]:
        return addresses

    return ClientDocuments(resolve, httpx.MockTransport(answers)), reached


async def test_a_document_comes_from_the_checked_address_under_its_own_name_and_is_kept() -> None:
    found, reached = documents()
    client = await found.client(URL)
    assert (client.name, client.host) == ("App", "app.example.org")
    assert client.allows("http://127.0.0.1:5555/cb")
    assert not client.allows("https://app.example.org/back2")
    assert reached == [f"https://{PUBLIC}/oauth/client.json app.example.org app.example.org"]
    await found.client(URL)
    assert len(reached) == 1


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"], ["127.0.0.1"], ["169.254.169.254"], ["192.168.1.1"], ["172.16.0.1"], ["100.64.0.1"], ["0.0.0.0"], ["224.0.0.1"],
        ["::1"], ["::"], ["::ffff:127.0.0.1"], ["::127.0.0.1"], ["64:ff9b::a00:1"], ["64:ff9b:1::a00:1"], ["2002:7f00:1::"], ["fe80::1%eth0"],
        ["fd00::1"], ["fec0::1"], ["2001:0:a00:1::f5ff:fffe"], ["ff02::1"], [PUBLIC, "10.0.0.1"], [],
    ],
)  # fmt: skip
async def test_no_request_goes_to_a_machine_that_is_not_public(addresses: list[str]) -> None:
    found, reached = documents(addresses=addresses)
    with pytest.raises(InvalidClient):
        await found.client(URL)
    assert reached == []


@given(st.ip_addresses(v=6) | st.ip_addresses(v=4))
def test_what_is_wrapped_into_another_address_is_no_more_public_than_it_is_alone(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if isinstance(address, ipaddress.IPv4Address):
        number = int(address)
        wrapped = [
            f"::ffff:{address}",
            str(ipaddress.IPv6Address((0x64FF9B << 96) | number)),
            str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))),
        ]
        assert all(is_public(one) <= is_public(str(address)) for one in wrapped)
    elif is_public(str(address)):
        assert address.is_global
        assert not any((address.is_private, address.is_loopback, address.is_link_local, address.is_multicast))


@pytest.mark.parametrize(
    ("answer", "how"),
    [
        (GOOD | {"client_id": "https://app.example.org/other"}, {}),
        (GOOD | {"redirect_uris": ["javascript:alert(1)", "http://evil.example/"]}, {}),
        (GOOD | {"redirect_uris": []}, {}),
        (GOOD | {"token_endpoint_auth_method": "client_secret_basic"}, {}),
        ([], {}),
        (b"{", {}),
        (b"[" * 10_000, {}),
        (b"<html>", {"headers": {"content-type": "text/html"}}),
        (GOOD, {"status": 302, "headers": {"location": "https://127.0.0.1/"}}),
        (GOOD, {"status": 404}),
        (GOOD | {"more": "x" * 17_000}, {}),
        (gzip.compress(json.dumps(GOOD).encode()), {"headers": {"content-encoding": "gzip"}}),
        (GOOD | {"redirect_uris": ["https://app.example.org;sandbox/x", "https://app.example.org,default-src/x"]}, {}),
        (httpx.ConnectError("no"), {}),
    ],
)
async def test_a_document_with_something_wrong_is_worth_nothing(answer: Any, how: dict[str, Any]) -> None:
    found, reached = documents(answer, **how)
    for _ in range(2):
        with pytest.raises(InvalidClient):
            await found.client(URL)
    assert len(reached) == 1, "a failure was not kept"


async def test_a_name_that_nobody_answers_for_keeps_no_other_work_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgengram.sign_in.documents.TIMEOUT_S", 0.05)
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(30) or [])
    found = ClientDocuments()
    try:
        for number in range(40):
            with pytest.raises(InvalidClient):
                await found.client(f"https://a{number}.example.org/x")
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        answered.set()


async def test_a_slow_document_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgengram.sign_in.documents.TIMEOUT_S", 0.05)
    found, _ = documents(slow=True)
    with pytest.raises(InvalidClient):
        await found.client(URL)


@pytest.mark.parametrize(
    "url",
    [
        "http://app.example.org/x", "https://app.example.org", "https://app.example.org/", "https://u@app.example.org/x", "https://u:p@app.example.org/x",
        "https://app.example.org:8443/x", "https://app.example.org/x#y", "https://app.example.org/a/../x", "https:///x", "ftp://app.example.org/x",
        "https://app.example.org/x y", "https://app.example.org:x/x", "https://[::1/x", "https://äpp.example.org/x", "",
    ],
)  # fmt: skip
def test_an_id_that_is_no_plain_https_url_is_not_fetched(url: str) -> None:
    with pytest.raises(InvalidClient):
        checked_url(url)


TEXTS = st.text(st.sampled_from("ahtps:/\\@#?%.0127 \n\t[]localhost"), max_size=40)


@given(TEXTS)
def test_only_the_port_of_a_loopback_address_is_free(text: str) -> None:
    for known in ("https://app.example.org/back", "http://127.0.0.1/cb", "http://localhost/cb"):
        for given_uri in (text, known + text, known.replace("/cb", text + "/cb"), known.replace("//", f"//{text}")):
            if given_uri == known or not same_address(known, given_uri):
                continue
            assert usable(given_uri)
            host, _, path = given_uri.removeprefix("http://").partition("/")
            assert known.startswith("http://")
            assert path == "cb"
            assert host.rpartition(":")[2].isdigit() or host.endswith(":")
            assert host.rpartition(":")[0] == known.split("/")[2]


@asynccontextmanager
async def tls_server(certificate: tuple[str, str], body: bytes) -> AsyncIterator[int]:
    """Serve one document over TLS on this machine."""

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = await asyncio.start_server(answers, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


class Detour(httpx.AsyncHTTPTransport):
    """Goes to a port of this machine instead of the public address, and changes nothing else."""

    def __init__(self, port: int, trusted: ssl.SSLContext) -> None:
        super().__init__(verify=trusted, trust_env=False)
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


@pytest.mark.parametrize(("names", "is_good"), [("app.example.org", True), ("evil.example.org", False)])
async def test_the_certificate_must_be_of_the_name_though_the_connection_goes_to_an_address(
    names: str, is_good: bool, tmp_path: Any
) -> None:
    certificate = issued(tmp_path, names)
    trusted = ssl.create_default_context(cafile=certificate[0])

    async def resolve(_: str) -> Sequence[str]:
        return [PUBLIC]

    async with tls_server(certificate, json.dumps(GOOD).encode()) as port:
        found = ClientDocuments(resolve, Detour(port, trusted))
        if is_good:
            assert (await found.client(URL)).name == "App"
        else:
            with pytest.raises(InvalidClient):
                await found.client(URL)


def issued(folder: Any, name: str) -> tuple[str, str]:
    """Write a certificate of a name and its key, and return their paths."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    no_passphrase = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    secret.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, no_passphrase))
    return str(chain), str(secret)
