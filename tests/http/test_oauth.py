"""Tokens of an OAuth issuer: accepted when everything about them is right, and never otherwise."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from http_server import HttpServer, client_of, modern, serving_http

from helpers import PATIENCE_S, Database, call, refused, remember
from listener import Reply, listening
from pgengram.errors import InvalidInput
from pgengram.mcp.http.oauth import Issuer, Trust
from pgengram.settings import Settings
from pgengram.store import membership, persons
from pgengram.store.connection.database import Role
from pgengram.store.store import Store

RESOURCE = "https://memory.example.org/mcp"


@dataclass
class FakeIssuer:
    """An issuer that publishes what it is told to."""

    url: str = ""
    keys: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def add_key(self, kid: str, key: Any) -> None:
        algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        self.keys[kid] = json.loads(algorithm.to_jwk(key.public_key())) | {"kid": kid, "use": "sig"}

    def answer(self, path: str) -> Any:
        self.asked.append(path)
        if path == "/realm/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": self.url + "/keys"}
        return {"keys": [*self.keys.values()]} if path == "/realm/keys" else None


@pytest.fixture(scope="module")
def issuer() -> Iterator[FakeIssuer]:
    made = FakeIssuer()

    def answer(asked: BaseHTTPRequestHandler, _: object) -> Reply:
        found = made.answer(asked.path)
        return 404 if found is None else 200, {}, found

    with listening(answer) as address:
        made.url = f"{address}/realm"
        yield made


RSA = rsa.generate_private_key(65_537, 2_048)
OTHER = rsa.generate_private_key(65_537, 2_048)
CURVE = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module", autouse=True)
def _keys(issuer: FakeIssuer) -> None:
    issuer.add_key("one", RSA)
    issuer.add_key("curve", CURVE)


@pytest.fixture(scope="module")
def web(issuer: FakeIssuer, web_database: Database) -> Iterator[HttpServer]:
    words = ("--issuer", issuer.url, "--url", RESOURCE, "--allowed-origin", "https://app.example.org")
    with serving_http(*words, database_url=web_database.url, embedder="none:") as server:
        yield server


def signed(
    issuer: FakeIssuer, *, key: Any = RSA, kid: str | None = "one", algorithm: str = "RS256", **claims: Any
) -> str:
    """Return a token; a claim that is None is left out."""
    right = {
        "iss": issuer.url,
        "aud": RESOURCE,
        "sub": "mara",
        "exp": int(time.time()) + 300,
        "scope": "memory:read memory:write",
    }
    outcome = {name: value for name, value in (right | claims).items() if value is not None}
    return jwt.encode(outcome, key, algorithm, headers={} if kid is None else {"kid": kid})


def asked(web: HttpServer, token: str, method: str = "tools/list", **params: Any) -> httpx.Response:
    headers, body = modern(method, **params)
    return httpx.post(web.url, headers={**headers, "authorization": f"Bearer {token}"}, json=body, timeout=PATIENCE_S)


async def test_a_token_of_the_issuer_leads_to_a_namespace_of_its_subject(
    web: HttpServer, web_database: Database, issuer: FakeIssuer
) -> None:
    async with client_of(web, signed(issuer, sub="mara")) as mara, client_of(web, signed(issuer, sub="jonas")) as jonas:
        await remember(mara, "Mara's blood group is zero.")

        assert (await call(jonas, "search_memories"))["results"] == []

    rows = web_database.rows("SELECT content FROM memories", namespace="oauth:mara")
    assert rows == [{"content": "Mara's blood group is zero."}]


async def test_an_address_that_the_issuer_has_not_verified_leads_to_nobodys_memories(issuer: FakeIssuer) -> None:
    known = Issuer(Trust(issuer.url, RESOURCE, namespace_claim="email"))
    address = "mara@example.org"
    for unverified in (None, False, "true", 1):
        assert await known.verify(signed(issuer, email=address, email_verified=unverified)) is None
    bearer = await known.verify(signed(issuer, email=address, email_verified=True))
    assert bearer is not None
    assert bearer.namespace == "oauth:mara@example.org"


@pytest.mark.parametrize(
    "claims",
    [
        {"key": CURVE, "kid": "curve", "algorithm": "ES256"},
        {"aud": ["https://other.example.org", RESOURCE]},
        {"scope": None, "scp": ["memory:read"]},
    ],
)
def test_other_ways_to_say_the_same_are_accepted(web: HttpServer, issuer: FakeIssuer, claims: dict[str, Any]) -> None:
    assert asked(web, signed(issuer, **claims)).status_code == 200


def unsigned(issuer: FakeIssuer) -> str:
    return signed(issuer, key=None, algorithm="none")


def signed_with_the_public_key(issuer: FakeIssuer) -> str:
    """Return what a verifier accepts that lets the token choose between signature and shared secret."""
    pem = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head, body = (part.rstrip(b"=").decode() for part in (
        base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}'),
        base64.urlsafe_b64encode(json.dumps({"iss": issuer.url, "aud": RESOURCE, "sub": "mara", "exp": 4_000_000_000, "scope": "memory:write"}).encode()),
    ))  # fmt: skip
    import hashlib
    import hmac

    seal = base64.urlsafe_b64encode(hmac.digest(pem, f"{head}.{body}".encode(), hashlib.sha256)).rstrip(b"=").decode()
    return f"{head}.{body}.{seal}"


WRONG: dict[str, Callable[[FakeIssuer], str]] = {
    "meant for another": lambda issuer: signed(issuer, aud="https://other.example.org/mcp"),
    "meant for nobody": lambda issuer: signed(issuer, aud=None),
    "of another issuer": lambda issuer: signed(issuer, iss="https://evil.example.org"),
    "expired": lambda issuer: signed(issuer, exp=int(time.time()) - 60),
    "without an end": lambda issuer: signed(issuer, exp=None),
    "not good yet": lambda issuer: signed(issuer, nbf=int(time.time()) + 3_600),
    "of nobody": lambda issuer: signed(issuer, sub=None),
    "of somebody unprintable": lambda issuer: signed(issuer, sub="a\nb"),
    "of somebody with a very long name": lambda issuer: signed(issuer, sub="x" * 200),
    "signed by somebody else": lambda issuer: signed(issuer, key=OTHER),
    "with an unknown key": lambda issuer: signed(issuer, kid="two"),
    "with no key named where there are several": lambda issuer: signed(issuer, kid=None),
    "with the key of another algorithm": lambda issuer: signed(issuer, kid="curve"),
    "unsigned": unsigned,
    "signed with the public key as a secret": signed_with_the_public_key,
    "cut off": lambda issuer: signed(issuer)[:-8],
    "changed": lambda issuer: signed(issuer).replace(".", ".e30", 1),
    "no token at all": lambda _: "a.b.c",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_token_that_is_not_right_is_refused(web: HttpServer, issuer: FakeIssuer, what: str) -> None:
    answer = asked(web, WRONG[what](issuer))

    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_scopes_decide_what_a_token_may_do(web: HttpServer, issuer: FakeIssuer) -> None:
    nothing = asked(web, signed(issuer, scope="openid"))
    reader = signed(issuer, scope="memory:read")
    writes = asked(web, reader, "tools/call", name="create_memory", arguments={"content": "x"})

    assert nothing.status_code == writes.status_code == 403
    for refusal in (nothing, writes):  # a client asks for exactly what it is told of
        assert 'error="insufficient_scope", scope="memory:read memory:write"' in refusal.headers["www-authenticate"]
    assert asked(web, reader).status_code == 200


async def test_scopes_name_the_shared_spaces_that_a_person_of_the_issuer_may_use(
    web: HttpServer, web_database: Database, issuer: FakeIssuer
) -> None:
    store = Store(Settings(database_url=web_database.url, embedder="none:"))
    await store.open()
    rosa, otto = [await persons.add(store, name, f"oauth:{name.lower()}") for name in ("Rosa", "Otto")]
    yard = await membership.create(store, "Yard", rosa)
    await membership.put(store, yard.id, otto, Role.WRITE, by=rosa)
    await store.close()
    scope = "memory:read memory:write space:Yard"
    own, reads = signed(issuer, sub="otto"), signed(issuer, sub="otto", scope=f"{scope}:read")

    async with client_of(web, signed(issuer, sub="rosa", scope=scope)) as client:
        await call(client, "create_memory", content="The gate of the yard sticks.", space="Yard")
    async with client_of(web, reads) as client:
        [hit] = (await call(client, "search_memories", query="gate"))["results"]
        assert (hit["space"], hit["author"]) == ("Yard", "Rosa")
        assert (await refused(client, "create_memory", content="Oil it.", space="Yard"))["code"] == "NOT_ALLOWED"
    async with client_of(web, own) as client:
        assert (await call(client, "search_memories", query="gate"))["results"] == []
    async with client_of(web, signed(issuer, sub="nobody", scope=scope)) as client:
        assert (await refused(client, "search_memories", query="gate", space="Yard"))["code"] == "NOT_FOUND"


async def test_whoever_the_issuer_names_becomes_a_person_once_and_nobody_by_anothers_name(
    issuer: FakeIssuer, web_database: Database
) -> None:
    words = ("--issuer", issuer.url, "--url", RESOURCE, "--person-claim", "name")
    store = Store(Settings(database_url=web_database.url, embedder="none:"))
    await store.open()
    rosa = await persons.add(store, "Rosa Falk", "oauth:rosa-falk")
    pond = await membership.create(store, "Pond", rosa)
    with serving_http(*words, database_url=web_database.url, embedder="none:") as server:
        scope = "memory:read space:Pond"
        for _ in range(2):
            assert asked(server, signed(issuer, sub="nils", name="Nils Holm", scope=scope)).status_code == 200
        assert asked(server, signed(issuer, sub="thief", name="rosa  falk", scope=scope)).status_code == 200
        nils = await persons.of_namespace(store, "oauth:nils")
        assert nils is not None
        assert nils.name == "Nils Holm"
        assert await persons.of_namespace(store, "oauth:thief") is None
        async with client_of(server, signed(issuer, sub="nils", name="Otto", scope=scope)) as client:
            assert (await refused(client, "search_memories", query="fish", space="Pond"))["code"] == "NOT_FOUND"
        await membership.put(store, pond.id, nils, Role.READ, by=rosa)
        async with client_of(server, signed(issuer, sub="nils", name="Otto", scope=scope)) as client:
            assert (await call(client, "search_memories", query="fish", space="Pond"))["results"] == []
    assert [one.name for one in await persons.listed(store) if one.namespace == "oauth:nils"] == ["Nils Holm"]
    await store.close()


def test_a_client_finds_the_issuer_from_the_refusal(web: HttpServer, issuer: FakeIssuer) -> None:
    headers, body = modern("tools/list")
    refusal = httpx.post(web.url, headers=headers, json=body).headers["www-authenticate"]
    outcome = httpx.get(web.base + "/.well-known/oauth-protected-resource/mcp").json()

    assert 'resource_metadata="https://memory.example.org/.well-known/oauth-protected-resource/mcp"' in refusal
    assert 'scope="memory:read memory:write"' in refusal
    assert outcome["resource"] == RESOURCE
    assert outcome == httpx.get(web.base + "/.well-known/oauth-protected-resource").json()
    assert outcome["authorization_servers"] == [issuer.url]
    assert outcome["scopes_supported"] == ["memory:read", "memory:write"]


def test_a_client_in_a_browser_may_ask_where_to_sign_in_and_read_the_refusal(web: HttpServer) -> None:
    page = {"origin": "https://app.example.org", "access-control-request-method": "GET"}
    for path in ("", "/mcp"):
        asks = httpx.options(f"{web.base}/.well-known/oauth-protected-resource{path}", headers=page)
        assert (asks.status_code, asks.headers["access-control-allow-origin"]) == (204, "*")
        assert "mcp-protocol-version" in asks.headers["access-control-allow-headers"]
    headers, body = modern("tools/list")
    refused = httpx.post(web.url, headers=headers | {"origin": "https://app.example.org"}, json=body)

    assert refused.status_code == 401
    assert "www-authenticate" in refused.headers["access-control-expose-headers"]
    assert refused.json()["error"]["message"]


def test_our_own_tokens_are_good_beside_the_issuers(web: HttpServer) -> None:
    assert asked(web, web.token()).status_code == 200


async def test_keys_are_fetched_once_and_again_when_a_new_one_is_used(
    issuer: FakeIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checking = Issuer(Trust(issuer.url, RESOURCE))
    issuer.asked.clear()
    assert all([await checking.verify(signed(issuer)) for _ in range(3)])
    assert issuer.asked.count("/realm/keys") == 1

    issuer.add_key("new", OTHER)
    try:
        assert await checking.verify(signed(issuer, key=OTHER, kid="new")) is None  # so soon nobody asks again
        monkeypatch.setattr("pgengram.mcp.http.oauth.ASK_AGAIN_S", 0.0)
        assert await checking.verify(signed(issuer, key=OTHER, kid="new")) is not None
    finally:
        del issuer.keys["new"]


@pytest.mark.parametrize(
    "address", ["http://issuer.example.org", "ftp://127.0.0.1", "https://i.example.org?x=1", "issuer"]
)
def test_an_issuer_must_be_reached_safely(address: str) -> None:
    with pytest.raises(InvalidInput):
        Trust(address, RESOURCE)
