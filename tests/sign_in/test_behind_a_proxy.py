"""Behind a proxy that its owner names, each visitor is counted alone; what others say of themselves counts for nothing."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from http_server import HttpServer, serving_http
from hypothesis import given
from hypothesis import strategies as st
from signing_in import Program

from helpers import Database
from machine import pgengram
from pgengram.mcp.http.doors import source_of

PROXIES = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("10.0.0.0/24"))
ADDRESSES = st.ip_addresses(v=4).map(str)


async def opened(server: HttpServer, times: int, forwarded: str) -> list[int]:
    """Open the page several times through a proxy that adds an address, and return the statuses."""
    browser = Program(server.base).browser
    path = f"{server.base}/oauth/page"
    return [(await browser.get(path, headers={"x-forwarded-for": forwarded})).status_code for _ in range(times)]


@pytest.mark.parametrize(
    "words", [["--trusted-proxy", "127.0.0.0/8"], []], ids=["a proxy that is named", "no proxy named"]
)
async def test_one_visitor_of_a_named_proxy_keeps_no_other_out(signing_database: Database, words: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    limit = ("--sign-in", "--sign-in-rate", "4", "--port", port, "--url", f"http://127.0.0.1:{port}/mcp")
    with serving_http(*limit, *words, database_url=signing_database.url, embedder="none:") as server:
        stranger = await opened(server, 6, "203.0.113.7")
        owner = await opened(server, 1, "203.0.113.7, 198.51.100.4")
        pretending = await opened(server, 1, "198.51.100.4, 203.0.113.7")
    assert stranger[-1] == 429
    assert owner == ([200] if words else [429])
    assert pretending == [429]


@given(st.lists(ADDRESSES | st.text(max_size=8).filter(lambda text: "," not in text), max_size=4), ADDRESSES)
def test_whatever_a_visitor_writes_the_address_that_the_proxy_saw_is_counted(written: list[str], seen: str) -> None:
    forwarded = ", ".join([*written, seen])
    outside = not any(ipaddress.ip_address(seen) in proxy for proxy in PROXIES)
    if outside:
        assert source_of("127.0.0.1", forwarded, PROXIES) == seen
    assert source_of("203.0.113.9", forwarded, PROXIES) == "203.0.113.9"
    assert source_of("127.0.0.1", forwarded, ()) == "127.0.0.1"


def test_addresses_of_one_network_are_one_visitor() -> None:
    one, other = (source_of("::ffff:127.0.0.1", f"2001:db8:1:2::{last}", PROXIES) for last in ("1", "ffff"))
    assert one == other == "2001:db8:1:2::/64"
    assert source_of("10.0.0.1", "198.51.100.4, 10.0.0.9, 127.0.0.1", PROXIES) == "198.51.100.4"
    for written, seen in (("198.51.100.4:5123", "198.51.100.4"), ("[2001:db8:1:2::9]:443", "2001:db8:1:2::/64")):
        assert source_of("10.0.0.1", written, PROXIES) == seen, "some proxies write the port, too"
    for written in ("unknown", "_hidden", "", "1.2.3.4.5", "[]:1", ":1"):
        assert source_of("10.0.0.1", written, PROXIES) == "10.0.0.1"


def test_a_proxy_that_is_no_address_is_refused() -> None:
    done = pgengram(
        "serve", "--http", "--sign-in", "--url", "http://127.0.0.1:1/mcp", "--trusted-proxy", "cloudflare", expect=2
    )
    assert "--trusted-proxy" in done.stderr
