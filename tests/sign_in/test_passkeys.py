"""A passkey confirms the next sign-in instead of a code: only the person's own, for this request, at this address."""

from __future__ import annotations

import contextlib
import html
import json
import re
from typing import Any

import httpx
import pytest

pytest.importorskip("fido2", reason="pgengram[passkeys] is not installed")

from fido2.utils import websafe_decode
from fido2.webauthn import AttestationObject
from http_server import HttpServer, outcome
from hypothesis import given, settings
from hypothesis import strategies as st
from signing_in import PAGE_HEADERS, Pair, Phone, Program, hidden
from soft_authenticator import PRESENT, VERIFIED, Device, in_base64

from helpers import Database, examples
from pgengram.sign_in import passkeys
from pgengram.sign_in.passkeys import InvalidPasskey, PasskeyVerifier
from pgengram.sign_in.requests import Asking
from pgengram.sign_in.server import AuthorizationServer
from pgengram.store.clients.connections import Proof
from pgengram.store.store import Store


@pytest.fixture
def base(named_web: HttpServer) -> str:
    return f"http://localhost:{named_web.address[1]}"


def options(page: httpx.Response, which: str) -> dict[str, Any]:
    """Return what a page has a device sign, or make."""
    found = re.search(f'data-{which}="([^"]+)"', page.text)
    assert found, page.text
    return dict(json.loads(html.unescape(found[1]))["publicKey"])


async def send(program: Program, page: httpx.Response, **form: str) -> httpx.Response:
    """Answer a page with a form of one's own."""
    form = {"request": hidden(page), "decision": "allow", "may_write": "yes", **form}
    headers = {"origin": program.base, **PAGE_HEADERS}
    return await program.browser.post(f"{program.base}/oauth/authorize", data=form, headers=headers)


async def with_passkey(base: str, code: str, device: Device) -> httpx.Response:
    """Sign in with a code and add a device's passkey; return where that leads."""
    program = Program(base)
    second = await send(program, await program.page(), code=code, add_passkey="yes")
    made = device.made(options(second, "add")["challenge"])
    return await send(program, second, step="choose", add_passkey="yes", passkey=json.dumps(made))


async def by_passkey(base: str, device: Device, **lies: Any) -> httpx.Response:
    """Sign in with a device's passkey, or try to."""
    program = Program(base)
    page = await program.page()
    return await send(program, page, passkey=json.dumps(device.signed(options(page, "sign")["challenge"], **lies)))


async def test_a_passkey_is_added_after_a_code_confirms_the_next_sign_in_and_is_removed(
    named_web: HttpServer, base: str, pair: Pair, signing_database: Database
) -> None:
    device = Device(base)
    added = await with_passkey(base, await pair("mara", may_write=False), device)
    assert added.status_code == 303, added.text
    again = await by_passkey(base, device)
    assert again.status_code == 303, again.text
    program = Program(base)
    program.client_id = program.profile.client_id
    page = await program.page()
    signed = device.signed(options(page, "sign")["challenge"])
    back = await send(program, page, passkey=json.dumps(signed))
    tokens = await program.exchange(re.findall("code=([^&]+)", back.headers["location"])[0])
    assert tokens.json()["scope"] == "memory:read", "no more than the code that it was added with"
    assert signing_database.as_login("SELECT namespace, scope FROM oauth_grants ORDER BY created_at DESC LIMIT 1") == [
        ("mara", "read-only")
    ]

    [one] = [each for each in outcome("passkey", "list", **named_web.settings) if each["namespace"] == "mara"]
    assert one["last_used_at"] is not None
    assert not {"credential", "credential_id"} & {*one}
    removed = outcome("passkey", "remove", one["id"], **named_web.settings)
    assert removed == {"removed": one["id"]}
    refused = await by_passkey(base, device)
    assert "4 tries left" in refused.text
    assert signing_database.as_login(f"SELECT credential FROM passkeys WHERE id = '{one['id']}'") == [(None,)], (
        "what is removed is forgotten"
    )
    readded = await with_passkey(base, await pair("mara"), device)
    assert "could not be added" in readded.text
    events = {each["event"] for each in outcome("connection", "log", **named_web.settings)}
    assert {"passkey_added", "passkey_removed", "wrong_passkey"} <= events


async def test_no_answer_of_a_device_is_accepted_that_was_not_made_for_this_request_at_this_address(
    base: str, pair: Pair
) -> None:
    device = Device(base)
    await with_passkey(base, await pair(), device)
    program = Program(base)
    other = await program.page()
    lies: list[dict[str, Any]] = [
        {"origin": "https://evil.example"}, {"origin": base.replace("localhost", "localhost.evil.example")},
        {"origin": f"{base}0"}, {"origin": base.replace("http:", "https:")}, {"crossOrigin": True},
        {"challenge": options(other, "sign")["challenge"]}, {"challenge": in_base64(bytes(32))}, {"challenge": ""},
        {"type": "webauthn.create"}, {"flags": PRESENT}, {"flags": VERIFIED}, {"flags": 0}, {"rp_id": "evil.example"},
    ]  # fmt: skip
    for lie in lies:
        challenge = lie.pop("challenge", None)
        page = await program.page()
        signed = device.signed(options(page, "sign")["challenge"] if challenge is None else challenge, **lie)
        refused = await send(program, page, passkey=json.dumps(signed))
        assert (refused.status_code, "4 tries left" in refused.text) == (200, True), (lie, challenge)

    stranger, page = Device(base), await program.page()
    stranger.credential_id = device.credential_id  # another key under its id
    signed = stranger.signed(options(page, "sign")["challenge"])
    assert (await send(program, page, passkey=json.dumps(signed))).status_code == 200
    assert (await by_passkey(base, Device(base))).status_code == 200, "a passkey that nobody added"

    page = await program.page()
    signed = device.signed(options(page, "sign")["challenge"])
    for accepted in (303, 400):  # once
        assert (await send(program, page, passkey=json.dumps(signed))).status_code == accepted
    assert (await send(program, await program.page(), passkey=json.dumps(signed))).status_code == 200
    device.count -= 2  # a copy of it that has signed less often
    assert (await by_passkey(base, device)).status_code == 200
    assert (await by_passkey(base, device)).status_code == 200
    assert (await by_passkey(base, device)).status_code == 303


async def test_a_passkey_that_keeps_no_count_is_good_as_long_as_it_never_counted(base: str, pair: Pair) -> None:
    synced = Device(base, count=0)
    assert (await with_passkey(base, await pair(), synced)).status_code == 303
    for _ in range(2):
        assert (await by_passkey(base, synced)).status_code == 303
    synced.count = 5
    assert (await by_passkey(base, synced)).status_code == 303
    synced.count = 0
    assert (await by_passkey(base, synced)).status_code == 200


@pytest.mark.parametrize(
    "lie",
    [
        {"origin": "https://evil.example"}, {"challenge": in_base64(bytes(32))}, {"flags": PRESENT}, {"crossOrigin": True},
        {"rp_id": "evil.example"}, {"type": "webauthn.get"}, {"algorithm": -65535},
    ],
)  # fmt: skip
async def test_a_passkey_that_was_not_made_for_this_request_is_not_added_and_the_person_goes_on_without(
    base: str, pair: Pair, lie: dict[str, Any]
) -> None:
    program, device = Program(base), Device(base)
    second = await send(program, await program.page(), code=await pair(), add_passkey="yes")
    asked = options(second, "add")
    assert asked["authenticatorSelection"]["userVerification"] == "required"
    made = device.made(lie.get("challenge", asked["challenge"]), **{k: v for k, v in lie.items() if k != "challenge"})
    refused = await send(program, second, step="choose", add_passkey="yes", passkey=json.dumps(made))
    assert "could not be added" in refused.text
    assert (await by_passkey(base, device)).status_code == 200
    assert (await send(program, refused, step="choose")).status_code == 303


async def test_nobody_adds_a_passkey_without_a_code_or_takes_over_that_of_another(base: str, pair: Pair) -> None:
    mine = Device(base)
    await with_passkey(base, await pair("mara"), mine)
    thief = Device(base)
    thief.credential_id = mine.credential_id
    assert "could not be added" in (await with_passkey(base, await pair("ben"), thief)).text
    assert (await by_passkey(base, mine)).status_code == 303

    program = Program(base)
    page = await program.page()
    made = thief.made(options(page, "sign")["challenge"])
    for step in ({"step": "choose", "add_passkey": "yes"}, {"add_passkey": "yes"}):
        assert "tries left" in (await send(program, page, passkey=json.dumps(made), **step)).text
    page = await program.page()
    signed = mine.signed(options(page, "sign")["challenge"])
    done = await send(program, page, passkey=json.dumps(signed), add_passkey="yes")
    assert done.status_code == 303, "a passkey adds no other"


async def test_the_page_tells_a_stranger_nothing_of_whose_passkeys_there_are(base: str, pair: Pair) -> None:
    before = options(await Program(base).page(), "sign")
    await with_passkey(base, await pair("mara"), Device(base))
    page = await Program(base).page()
    assert options(page, "sign").keys() == before.keys() == {"challenge", "rpId", "userVerification"}
    assert "mara" not in page.text


async def test_the_phones_page_shows_and_removes_the_passkeys_of_its_own_namespace(base: str, pair: Pair) -> None:
    mine, other = Device(base), Device(base)
    await with_passkey(base, await pair("ruth"), mine)
    await with_passkey(base, await pair("jonas"), other)
    phone = Phone(base)
    await phone.sign_in(await pair("ruth"))
    page = await phone.shows("/connections")
    ids = re.findall(r'action="/passkeys/remove".*?name="id" value="(\w+)"', page)
    assert len(ids) == 1
    reader = Phone(base)
    await reader.sign_in(await pair("ruth", may_write=False))
    assert (await reader.send("/passkeys/remove", id=ids[0], mark="x")).status_code == 403
    foreign = Phone(base)
    await foreign.sign_in(await pair("jonas"))
    assert (await foreign.send("/passkeys/remove", id=ids[0])).status_code == 404
    assert (await by_passkey(base, mine)).status_code == 303
    assert (await phone.send("/passkeys/remove", id=ids[0])).status_code == 303
    assert (await by_passkey(base, mine)).status_code == 200
    assert (await by_passkey(base, other)).status_code == 303


async def test_a_passkey_goes_with_the_memories_and_with_all_connections(
    named_web: HttpServer, base: str, pair: Pair
) -> None:
    diary, mine = Device(base), Device(base)
    await with_passkey(base, await pair("diary"), diary)
    await with_passkey(base, await pair(), mine)
    outcome("erase-namespace", "diary", "--yes", **named_web.settings)
    assert (await by_passkey(base, diary)).status_code == 200
    ended = outcome("connection", "revoke", "--all", "--yes", **named_web.settings)
    assert ended["passkeys_removed"] >= 1
    assert (await by_passkey(base, mine)).status_code == 200


async def test_without_the_extra_or_a_name_no_passkey_is_offered(
    store: Store, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def page(origin: str) -> str:
        server = AuthorizationServer(store, f"{origin}/mcp")
        return bytes((await server.answer(Asking("GET", "/oauth/page"))).body).decode()

    assert "data-sign" in await page("https://memory.example.org")
    assert "data-sign" not in await page("http://127.0.0.1:8811")
    assert "data-sign" not in await page("https://[2001:db8::1]")
    monkeypatch.setattr(passkeys, "is_installed", lambda: False)
    assert "passkey" not in await page("https://memory.example.org")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.binary(max_size=40).map(in_base64),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)


class OnePasskey:
    """A connection on which every passkey is found to be that of one device."""

    rowcount = 1

    def __init__(self, device: Device) -> None:
        made = AttestationObject(websafe_decode(device.made("")["response"]["attestationObject"]))
        self._credential = bytes(made.auth_data.credential_data or b"")

    async def execute(self, *_: Any) -> OnePasskey:
        return self

    async def fetchone(self) -> dict[str, Any]:
        return {
            "id": 1,
            "credential": self._credential,
            "sign_count": 0,
            "namespace": "mara",
            "may_write": True,
            "spaces": None,
        }


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), cut=st.integers(0, 400), noise=st.binary(max_size=64))
async def test_whatever_is_sent_as_a_passkey_is_refused_in_one_way(data: st.DataObject, cut: int, noise: bytes) -> None:
    device, verifier = Device("http://localhost:1"), PasskeyVerifier("http://localhost:1")
    connection: Any = OnePasskey(device)
    signed = device.signed(verifier.to_sign(b"k", "r")["publicKey"]["challenge"])
    assert (await verifier.proven(connection, b"k", "r", json.dumps(signed))).namespace == "mara"
    made = device.made(verifier.to_add(b"k", "r", "mara")["publicKey"]["challenge"])
    for honest in (signed, made):
        part = data.draw(st.sampled_from(sorted(honest["response"])))
        whole = honest["response"][part]
        bent = data.draw(st.sampled_from([whole[:cut] + in_base64(noise), in_base64(noise), None, 7]))
        answer = json.dumps(honest | {"response": honest["response"] | {part: bent}})
        if bent != whole:
            with pytest.raises(InvalidPasskey):
                await verifier.proven(connection, b"k", "r", answer)
        with contextlib.suppress(InvalidPasskey):  # what a device says of itself is signed by nobody
            await verifier.keep(connection, b"k", "r", answer, Proof("mara", True), "x")
    for answer in (json.dumps(data.draw(JSON)), "[" * 200, noise.decode("latin-1"), ""):
        with pytest.raises(InvalidPasskey):
            await verifier.proven(connection, b"k", "r", answer)
        with pytest.raises(InvalidPasskey):
            await verifier.keep(connection, b"k", "r", answer, Proof("mara", True), "x")
