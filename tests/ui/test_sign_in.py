"""Signing in to the page, and out of it; and what other users and servers of the machine get of it."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from ui_process import marks, run_ui

from helpers import PATIENCE_S, Database, environment
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.sign_in.requests import browser_name
from pgengram.ui.serving import Pages
from pgengram.ui.sign_ins import SIGN_IN_S, SignIns, host_name
from pgengram.ui.view_data.view_service import ViewService

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def started(port: int, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a `pgengram ui` that is expected to end by itself."""
    command = [sys.executable, "-m", "pgengram", "ui", "--no-browser", "--json", "--port", str(port)]
    return await asyncio.to_thread(
        subprocess.run, command, env=environment(embedder="none:", **settings), capture_output=True, encoding="utf-8",
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@asynccontextmanager
async def signed_in(*links: str, agent: str = FIREFOX) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Open each link in a browser of its own."""
    async with AsyncExitStack() as stack:
        browsers = []
        for link in links:
            base = link.partition("/enter")[0]
            browser = httpx.AsyncClient(base_url=base, timeout=PATIENCE_S, headers={"user-agent": agent})
            browsers.append(await stack.enter_async_context(browser))
            assert (await browser.get(link)).status_code == 200
            assert (await browser.get("/tokens")).status_code == 200
        yield browsers


async def sign_out(browser: httpx.AsyncClient, **fields: str) -> httpx.Response:
    """Press a button of the page with the sign-ins."""
    mark = marks((await browser.get("/sign-ins")).text)[0]
    origin = str(browser.base_url).rstrip("/")
    return await browser.post("/sign-ins/end", data={"mark": mark, **fields}, headers={"origin": origin})


async def test_after_a_restart_a_value_that_was_seen_before_is_worthless_and_an_open_form_still_counts(
    database: Database, tmp_path: Path, free_port: int
) -> None:
    start = {"embedder": "none:", "data_dir": str(tmp_path), "port": str(free_port)}
    async with run_ui(database.url, **start) as link, signed_in(link) as [browser]:
        form = marks((await browser.get("/tokens")).text)
        seen = dict(browser.cookies)
    async with run_ui(database.url, **start) as later, httpx.AsyncClient(cookies=seen) as thief:
        base = later.partition("/enter")[0]
        assert (await thief.get(base + "/tokens")).status_code == 403
        assert (await thief.get(link)).status_code == 403
        async with signed_in(later) as [browser]:
            assert marks((await browser.get("/tokens")).text) == form

    if sys.platform != "win32":
        assert (tmp_path / "ui-session.key").stat().st_mode & 0o077 == 0


async def test_a_value_of_one_port_opens_no_page_at_another(database: Database, tmp_path: Path, free_port: int) -> None:
    start = {"embedder": "none:", "data_dir": str(tmp_path)}
    async with (
        run_ui(database.url, **start) as link,
        run_ui(database.url, port=str(free_port), **start) as other,
        signed_in(link) as [browser],
    ):
        [value] = browser.cookies.values()
        stolen = {f"pgengram_ui_{port}": value for port in (free_port, urlsplit(link).port)}
        async with httpx.AsyncClient(cookies=stolen) as thief:
            assert (await thief.get(other.partition("/enter")[0] + "/tokens")).status_code == 403


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("answer", [b'{"run": "1", "proof": "2"}', b"[" * 9_999, b"\xff", None])
async def test_a_port_that_another_program_has_is_refused_with_what_to_do(
    database: Database, tmp_path: Path, address: str, answer: bytes | None
) -> None:
    async def listen(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answer is not None:  # else it never says anything
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + answer)
            writer.close()

    try:
        foreign = await asyncio.start_server(listen, address, 0)
    except OSError:
        pytest.skip(f"this machine has no {address}")
    async with foreign:
        port = foreign.sockets[0].getsockname()[1]
        done = await started(port, database_url=database.url, data_dir=str(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    told = " ".join(done.stderr.split())
    assert f"Port {port} is used by another program" in told
    assert "choose another port with --port." in told


async def test_who_passes_the_question_on_to_the_real_page_is_not_taken_for_it(
    database: Database, tmp_path: Path
) -> None:
    start = {"embedder": "none:", "data_dir": str(tmp_path)}
    async with run_ui(database.url, **start) as link, httpx.AsyncClient() as asking:
        real = urlsplit(link)

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            path = (await reader.readline()).split()[1].decode()
            there = await asking.get(f"http://{real.netloc}{path}")
            assert there.json()["proof"]
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + there.content)
            writer.close()

        async with await asyncio.start_server(relay, "127.0.0.1", 0) as foreign:
            port = foreign.sockets[0].getsockname()[1]
            done = await started(port, database_url=database.url, data_dir=str(tmp_path))

    assert done.returncode == 2
    assert "another program" in done.stderr


async def test_started_twice_it_gives_a_new_link_to_the_page_that_runs_in_the_namespace_that_is_asked_for(
    database: Database, tmp_path: Path
) -> None:
    database.as_login("INSERT INTO namespaces (name) VALUES ('workshop') ON CONFLICT DO NOTHING")
    start = {"embedder": "none:", "data_dir": str(tmp_path)}
    async with run_ui(database.url, **start) as link:
        port = urlsplit(link).port or 0
        again = await started(port, database_url=database.url, data_dir=str(tmp_path), namespace="workshop")
        other_store = await started(port, database_url=database.url + "?application_name=x", data_dir=str(tmp_path))
        async with signed_in(link, json.loads(again.stdout)["url"]) as [first, second]:
            shown = [re.findall(r'data-namespace="(\w+)"', (await one.get("/")).text) for one in (first, second)]

    assert again.returncode == 0
    assert shown == [["default"], ["workshop"]]
    assert other_store.returncode == 2


async def test_settings_list_the_browsers_and_sign_out_this_one_another_or_all(
    database: Database, tmp_path: Path
) -> None:
    start = {"embedder": "none:", "data_dir": str(tmp_path)}
    async with run_ui(database.url, **start) as link:
        port = urlsplit(link).port or 0
        links = [link]
        for _ in range(3):
            again = await started(port, database_url=database.url, data_dir=str(tmp_path))
            links += [json.loads(again.stdout)["url"]]
        async with signed_in(*links) as [one, two, three, four]:
            page = (await one.get("/sign-ins")).text
            ids = re.findall(r'name="id" value="(\w+)"', page)
            assert len(ids) == page.count("Firefox on Linux") - 3 == 4  # the label of each other's button, too
            own = re.findall(r'name="id" value="(\w+)"><button class="danger" aria-label="Sign out here"', page)

            values = dict(one.cookies)
            left = await sign_out(one, id=own[0])
            assert "Signed out" in left.text
            assert not one.cookies
            assert (await two.get("/sign-ins")).status_code == 200
            async with httpx.AsyncClient(base_url=one.base_url, cookies=values) as thief:
                assert (await thief.get("/tokens")).status_code == 403

            others = set(re.findall(r'name="id" value="(\w+)"', (await two.get("/sign-ins")).text))
            assert others == {*ids} - {own[0]}
            assert (await sign_out(two, id=ids[0] if ids[0] != own[0] else ids[1])).status_code in (200, 303)
            assert sorted([(await one_.get("/tokens")).status_code for one_ in (two, three, four)]) == [200, 200, 403]

            left_in = [one_ for one_ in (two, three, four) if (await one_.get("/tokens")).status_code == 200]
            await sign_out(left_in[0], everywhere="1")
            assert [(await one_.get("/tokens")).status_code for one_ in (two, three, four)] == [403, 403, 403]


async def test_the_server_ends_a_sign_in_by_itself_whatever_the_browser_keeps(
    database: Database, tmp_path: Path
) -> None:
    now = [1_000_000.0]
    manager = MemoryManager(Settings(database_url=database.url, embedder="none:"))
    guard = Pages(ViewService(manager, tmp_path), "default", 80, SignIns(clock=lambda: now[0])).session_guard
    transport = httpx.ASGITransport(app=guard)
    host = {"host": "127.0.0.1:80"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=host) as browser:
        assert (await browser.get("/enter", params={"token": guard.sign_ins.ticket()})).status_code == 200
        now[0] += SIGN_IN_S - 1
        assert (await browser.get("/sign-ins")).status_code == 200
        now[0] += 1
        assert (await browser.get("/sign-ins")).status_code == 403
    await manager.close()


@pytest.mark.parametrize(
    ("hosts", "own"),
    [
        ("hosts: files mymachines resolve [!UNAVAIL=return] dns myhostname", True),
        ("passwd: files\nhosts:\tfiles myhostname dns\n", True),
        ("hosts: files mdns4_minimal [NOTFOUND=return] dns", False),
        ("# hosts: myhostname\nhosts: files dns\nnetworks: resolve", False),
        ("", False),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the link always names 127.0.0.1")
def test_a_link_names_a_host_of_its_own_where_the_system_finds_it_without_asking_anybody(
    tmp_path: Path, hosts: str, own: bool
) -> None:
    (tmp_path / "nsswitch.conf").write_text(hosts)
    name = host_name(b"secret", tmp_path / "nsswitch.conf")

    assert name == (SignIns(b"secret").own_name if own else "127.0.0.1")
    assert host_name(b"secret", tmp_path / "absent") == "127.0.0.1"


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.1.2 <b>", "curl/8.1.2 b"),
        ("", "unknown"),
    ],
)  # fmt: skip
def test_a_browser_is_called_as_people_call_it(agent: str, name: str) -> None:
    assert browser_name(agent) == name
