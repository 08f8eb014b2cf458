"""Thousands of hostile requests to an authorization server, made by chance from what it accepts: none is accepted."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import httpx
import pytest
from signing_in import PROFILES, Pair, Program, hidden
from web_of_one_document import BASE, Inside

from helpers import Database
from pgengram.sign_in.clients import known
from pgengram.sign_in.documents import ClientDocuments
from pgengram.sign_in.server import AuthorizationServer
from pgengram.store.clients import tokens
from pgengram.store.store import Store

EVIL = "evil.example"
RACERS = 5


def bent(uri: str, by: Random) -> str:
    """Return another address that somebody might take for a redirect URI."""
    scheme, _, rest = uri.partition("://")
    host, _, path = rest.partition("/")
    name = host.partition(":")[0]
    return by.choice(
        [
            f"{scheme}://{EVIL}/{path}", f"{scheme}://{host}.{EVIL}/{path}", f"{scheme}://{host}@{EVIL}/{path}",
            f"{scheme}://{EVIL}#@{host}/{path}", f"{scheme}://{EVIL}\\@{host}/{path}", f"{scheme}://{EVIL}/{host}/{path}",
            f"{scheme}://u:p@{host}/{path}", f"{uri}/more", f"{uri}?next=https://{EVIL}", f"{uri}#x", f"{uri}/../x", f"{uri};x",
            f"{uri}%00", f"{uri}%2F", f"{uri}\t", f" {uri}", f"{uri} ", f"{scheme}://{host}//{path}", f"{scheme}://{host}/./{path}",
            f"{scheme}://{host.upper()}/{path}x", f"{scheme}:{host}/{path}", f"//{rest}", f"javascript://{rest}%0aalert(1)",
            f"data:text/html,{uri}", f"file://{rest}", f"ftp://{rest}", f"https://{name}:8443/{path}",
            f"{'https' if scheme == 'http' else 'http'}://{rest}", f"{scheme}://[::ffff:127.0.0.1]/{path}",
            f"http://127.{by.randrange(1, 255)}.0.1/{path}", f"http://2130706433/{path}", f"http://127.1/{path}",
            f"http://0.0.0.0/{path}", f"http://localhost.{EVIL}/{path}", f"http://{name}:1@{EVIL}/{path}",
            f"http://{name}:99999/{path}x", f"{scheme}://{host}\u3002{EVIL}/{path}", f"{scheme}://{host}/{path.upper()}",
            uri.replace("callback", "c\u0430llback") + "x", uri[:-1], "",
        ]
    )  # fmt: skip


def hidden_address(by: Random) -> str:
    """Return an address that the internet does not route, in one of the ways to write it."""
    nets = (
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
        "0.0.0.0/8",
        "224.0.0.0/4",
    )
    net = ipaddress.IPv4Network(by.choice(nets))
    one = net[by.randrange(net.num_addresses)]
    return by.choice(
        [
            str(one), f"::ffff:{one}", f"64:ff9b::{one}", str(ipaddress.IPv6Address((0x2002 << 112) | (int(one) << 80))),
            f"fd00::{by.randrange(65536):x}", f"fe80::{by.randrange(65536):x}", "::1", f"::{one}",
        ]
    )  # fmt: skip


def changed(text: str, by: Random) -> str:
    """Return a text with one letter changed, or a piece of it missing, doubled or added."""
    at = by.randrange(len(text))
    letter = by.choice([one for one in "abcXYZ019_-" if one != text[at]])
    return by.choice(
        [text[:at] + letter + text[at + 1 :], text[:at] + text[at + 1 :], text + letter, text[: at + 1] + text]
    )


class Attacker:
    """Somebody who has seen everything but what would let them in."""

    def __init__(self, store: Store, pair: Pair, by: Random) -> None:
        self._store, self._pair, self._by = store, pair, by
        self.reached: list[str] = []  # by requests of the server for documents
        self.program = self._program()

    def _program(self) -> Program:
        async def answers(request: httpx.Request) -> httpx.Response:
            self.reached.append(str(request.url))
            return httpx.Response(200, json={})

        documents = ClientDocuments(self._resolve, httpx.MockTransport(answers))
        server = AuthorizationServer(self._store, f"{BASE}/mcp", documents=documents)
        program = Program(BASE, PROFILES[1], browser=httpx.AsyncClient(transport=Inside(server)))
        program.client_id = program.profile.client_id
        return program

    async def _resolve(self, name: str) -> Sequence[str]:
        try:
            return [socket.inet_ntoa(socket.inet_aton(name))]
        except OSError:
            found = [hidden_address(self._by) for _ in range(self._by.randrange(1, 3))]
            return [*found, "93.184.216.34"] if self._by.random() < 0.5 else found

    async def redirect(self) -> int:
        client = self._by.choice([*known().values()])
        bents = (bent(self._by.choice(client.redirect_uris), self._by) for _ in iter(int, 1))
        address = next(one for one in bents if one not in client.redirect_uris)
        answer = await self.program.page(client_id=client.id, redirect_uri=address)
        assert answer.status_code == 400, (client.id, address)
        assert "location" not in answer.headers
        assert not answer.cookies
        return 1

    async def inside(self) -> int:
        """Have the server fetch something of its own network."""
        hosts = (
            "10.0.0.1",
            "127.1",
            "0x7f000001",
            "2130706433",
            "017700000001",
            "localhost",
            "metadata.internal",
            f"a{self._by.random()}.example",
        )
        url = f"https://{self._by.choice(hosts)}/{self._by.random()}"
        url = self._by.choice([url, url + "?x", url.replace("https", "http"), url.replace("//", "//u@"), url + "#x"])
        answer = await self.program.page(client_id=url, redirect_uri=f"https://{EVIL}/")
        assert (answer.status_code, self.reached) == (400, []), url
        return 1

    async def reused_code(self) -> int:
        """Exchange one code several times at once: it is good once, and the connection of one that was not ends."""
        code = await self.program.code(self._pair)
        answers = await asyncio.gather(*(self.program.exchange(code) for _ in range(RACERS)))
        good = [one.json() for one in answers if one.status_code == 200]
        assert len(good) <= 1
        for one in good:
            assert (await self.program.refresh(one["refresh_token"])).status_code == 400
            assert await tokens.verify(self._store, one["access_token"]) is None
        return RACERS

    async def raced_refresh(self) -> int:
        """Refresh at once with a token and with what it replaced: one generation, or none."""
        first = await self.program.signed_in(self._pair)
        answers = await asyncio.gather(*(self.program.refresh(first["refresh_token"]) for _ in range(RACERS)))
        second = {one.json()["refresh_token"] for one in answers}
        assert len(second) == 1
        [second_token] = second
        third = (await self.program.refresh(second_token)).json()
        wrong = await asyncio.gather(
            self.program.refresh(first["refresh_token"]),
            self.program.refresh(changed(third["refresh_token"], self._by)),
            self.program.refresh(third["refresh_token"], client_id=PROFILES[0].client_id),
            self.program.refresh(third["refresh_token"], resource=f"https://{EVIL}/mcp"),
        )
        assert {one.status_code for one in wrong} == {400}
        assert await tokens.verify(self._store, third["access_token"]) is None, "one that was replaced before was used"
        return RACERS + len(wrong)

    async def stolen_code(self) -> int:
        """Exchange a code without its verifier, as another client, or for another address."""
        code = await self.program.code(self._pair)
        others: list[dict[str, Any]] = [
            {"code_verifier": secrets.token_urlsafe(48)}, {"code_verifier": changed(self.program.verifier, self._by)[:128]},
            {"client_id": PROFILES[0].client_id}, {"redirect_uri": bent("http://localhost:49152/callback", self._by)},
            {"resource": f"{BASE}/mcp/"}, {"code_verifier": None},
        ]  # fmt: skip
        for other in others:
            assert (await self.program.exchange(code, **other)).status_code == 400, other
        assert (await self.program.exchange(changed(code, self._by))).status_code == 400
        return len(others) + 1

    async def forged_answer(self) -> int:
        """Answer somebody's page: with a wrong code, from another page, another browser, or for another request."""
        page, other = await self.program.page(), self._program()
        code, form = await self._pair(), hidden(page)
        cross = {"origin": f"https://{EVIL}"}
        for program, body, headers in (
            (self.program, {"request": form, "code": code}, cross),
            (self.program, {"request": form, "code": code}, {"origin": BASE, "sec-fetch-site": "cross-site"}),
            (self.program, {"request": changed(form, self._by), "code": code}, {"origin": BASE}),
            (other, {"request": form, "code": code}, {"origin": BASE}),
            (self.program, {"request": form, "code": changed(code[:4], self._by) + "ZZZZ"}, {"origin": BASE}),
        ):
            sent = {**body, "decision": "allow", "may_write": "yes"}
            answer = await program.browser.post(f"{BASE}/oauth/authorize", data=sent, headers=headers)
            assert "location" not in answer.headers, headers
            assert "pgengram-page" not in answer.headers.get("set-cookie", "")
        return 5

    async def forged_token(self) -> int:
        """Guess from tokens that were good."""
        good = await self.program.signed_in(self._pair)
        for text in (
            changed(good["access_token"], self._by),
            good["refresh_token"],
            good["access_token"].replace("pga_", "pgt_", 1) + "x",
        ):
            assert await tokens.verify(self._store, text) is None
            assert await tokens.sign_in_of(self._store, text, f"{BASE}/mcp") is None
        return 6

    async def forged_registration(self) -> int:
        registered = self._program()
        registered.profile = PROFILES[5]
        registered.client_id = ""
        id_ = changed(await registered.register(), self._by)
        answer = await registered.page(client_id=id_)
        assert (answer.status_code, "location" in answer.headers) == (400, False)
        assert (await registered.token(client_id=id_, grant_type="refresh_token", refresh_token="x")).status_code == 401
        return 2


@pytest.mark.parametrize("most", [400, pytest.param(10_000, marks=pytest.mark.nightly)])
async def test_of_hostile_requests_none_is_accepted(
    store: Store, pair: Pair, signing_database: Database, most: int
) -> None:
    by = Random(most)
    attacker, made = Attacker(store, pair, by), Counter[str]()
    kinds: list[Callable[[], Awaitable[int]]] = [
        attacker.redirect, attacker.inside, attacker.reused_code, attacker.raced_refresh, attacker.stolen_code,
        attacker.forged_answer, attacker.forged_token, attacker.forged_registration,
    ]  # fmt: skip
    while made.total() < most:
        signing_database.as_login("DELETE FROM pairing_codes")  # wrong ones end them, and each kind has its own
        kind = by.choices(kinds, weights=[8, 8, 1, 1, 1, 1, 1, 2])[0]
        made[kind.__name__] += await kind()
    assert len(made) == len(kinds)
    assert attacker.reached == []
