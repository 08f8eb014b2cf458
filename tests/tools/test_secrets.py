"""Passwords, keys, tokens and card numbers: refused wherever they stand, or taken out by choice."""

from __future__ import annotations

import base64
import json
import re
import string
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from helpers import Database, Served, call, connected, database_of, read, refused, remember, said
from pgengram.demo import load_corpus
from pgengram.errors import SecretRejected
from pgengram.inputs import Change, NewMemory
from pgengram.service import tools
from pgengram.service.manager import MemoryManager
from pgengram.service.tools import filter_fields
from pgengram.service.toolsets.working import NewWorking, Working
from pgengram.text.secrets import redacted, secrets_in, without_secrets

DICE = Random(42)
LETTERS = string.ascii_letters + string.digits


def made_of(length: int, alphabet: str = LETTERS) -> str:
    """Return characters by chance, a digit among the last."""
    return "".join(DICE.choice(alphabet) for _ in range(length - 2)) + "7a"


def hexadecimal(length: int) -> str:
    return made_of(length, "0123456789abcdef")


GITHUB = "ghp_" + made_of(36)
KEYS = {
    "openai": "sk-" + made_of(48),
    "openai project": "sk-proj-" + made_of(60) + "-_" + made_of(20),
    "anthropic": "sk-ant-api03-" + made_of(60),
    "openrouter": "sk-or-v1-" + hexadecimal(64),
    "github": GITHUB,
    "github oauth": "gho_" + made_of(36),
    "github user": "ghu_" + made_of(36),
    "github server": "ghs_" + made_of(36),
    "github refresh": "ghr_" + made_of(36),
    "github fine-grained": "github_pat_" + made_of(22) + "_" + made_of(59),
    "gitlab": "glpat-" + made_of(20),
    "aws id": "AKIA" + made_of(16, string.ascii_uppercase).upper(),
    "aws temporary id": "ASIA" + made_of(16, string.ascii_uppercase).upper(),
    "aws secret": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "slack bot": "xoxb-123456789012-1234567890123-" + made_of(24),
    "slack user": "xoxp-" + hexadecimal(40),
    "slack app": "xapp-1-A012345-" + hexadecimal(40),
    "slack webhook": "https://hooks.slack.com/services/T0123456/B0123456/" + made_of(24),
    "google": "AIza" + made_of(35),
    "google token": "ya29." + made_of(60),
    "google client": "GOCSPX-" + made_of(28),
    "stripe": "sk_live_" + made_of(24),
    "stripe restricted": "rk_live_" + made_of(24),
    "stripe webhook": "whsec_" + made_of(32),
    "hugging face": "hf_" + made_of(34),
    "npm": "npm_" + made_of(36),
    "pypi": "pypi-AgEIcHlwaS5vcmc" + made_of(60),
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + made_of(43),
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "pem without type": "-----BEGIN PRIVATE KEY-----\nMIIEvQ",
    "postgres url": "postgres://user:pass@host/db",
    "amqp url": "amqp://guest:gu3st@mq.example.org:5672/",
    "redis url": "redis://:s3cr3t@cache:6379/0",
    "mongodb url": "mongodb+srv://mira:Z7x!@cluster.example.org/app",
    "web address": "https://mira:hunter2@example.org/",
    "twilio": "SK" + hexadecimal(32),
    "sendgrid": "SG." + made_of(22) + "." + made_of(43),
    "azure storage": "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + made_of(86) + "==",
    "azure client": "abc8Q~" + made_of(34),
    "telegram": "123456789:AAH" + made_of(32),
    "discord": "MTIzNDU2Nzg5MDEyMzQ1Njc4.GaBcDe." + made_of(38),
    "digitalocean": "dop_v1_" + hexadecimal(64),
    "shopify": "shpat_" + hexadecimal(32),
    "square": "sq0atp-" + made_of(22),
    "mailgun": "key-" + hexadecimal(32),
    "mailchimp": hexadecimal(32) + "-us12",
    "doppler": "dp.pt." + made_of(43),
    "databricks": "dapi" + hexadecimal(32),
    "linear": "lin_api_" + made_of(40),
    "notion": "ntn_" + made_of(46),
    "notion, older": "secret_" + made_of(43),
    "vault": "hvs." + made_of(24),
    "terraform": made_of(14) + ".atlasv1." + made_of(67),
    "fly": "fo1_" + made_of(43),
    "supabase": "sbp_" + hexadecimal(40),
    "grafana": "glsa_" + made_of(32) + "_" + hexadecimal(8),
    "groq": "gsk_" + made_of(52),
    "docker": "dckr_pat_" + made_of(27),
    "bearer": "Authorization: Bearer " + made_of(40),
    "github app, since 2026": "ghs_1234567_eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJnaXRodWIifQ7a." + made_of(300),
    "gitlab feature flag": "glffct-" + made_of(20),
    "gitlab app": "gloas-" + made_of(64),
    "gitlab mail": "glimt-" + made_of(25),
    "gitlab workspace": "glwt-" + made_of(20),
    "gemini": "AQ.Ab8RN6" + made_of(44),
    "azure openai": made_of(52) + "JQQJ99BAACYeBjFX" + made_of(16),
    "azure openai by its name": "The Azure OpenAI key of the team: " + made_of(84),
    "bedrock": "ABSK" + made_of(128),
    "tailscale": "tskey-auth-" + made_of(17) + "-" + made_of(32),
    "langsmith": "lsv2_pt_" + hexadecimal(32) + "_" + hexadecimal(10),
    "langfuse": "sk-lf-8f14e45f-ceea-467a-9a36-dedd4bea2543",
    "pinecone": "pcsk_" + made_of(70),
    "1password": "ops_eyJ" + made_of(400),
    "resend": "re_" + made_of(8) + "_" + made_of(24),
    "together": "tgp_v1_" + made_of(43),
    "fireworks": "fw_" + made_of(24),
    "elevenlabs": "sk_" + hexadecimal(48),
    "tavily": "tvly-dev-" + made_of(32),
    "firecrawl": "fc-" + hexadecimal(32),
    "jina": "jina_" + made_of(60),
    "voyage": "pa-" + made_of(43),
    "vercel": "vcp_" + made_of(56),
    "netlify": "nfp_" + made_of(36),
    "cloudflare": "cfut_" + made_of(40),
    "neon": "napi_" + made_of(64, string.ascii_lowercase + string.digits),
    "posthog": "phx_" + made_of(43),
    "render": "rnd_" + made_of(28),
    "brevo": "xkeysib-" + hexadecimal(64) + "-" + made_of(16),
    "prefect": "pnu_" + made_of(36),
    "pulumi": "pul-" + hexadecimal(40),
    "e2b": "e2b_" + hexadecimal(40),
    "daytona": "dtn_" + hexadecimal(64),
    "honeycomb": "hcaik_" + made_of(58, string.ascii_lowercase + string.digits),
    "nuget": "oy2" + made_of(43, string.ascii_lowercase + string.digits),
    "jfrog": "AKCp" + made_of(69),
    "circleci": "CCIPAT_" + made_of(22) + "_" + hexadecimal(40),
    "hubspot": "pat-eu1-8f14e45f-ceea-467a-9a36-dedd4bea2543",
    "sonar": "squ_" + hexadecimal(40),
    "plaid": "access-production-8f14e45f-ceea-467a-9a36-dedd4bea2543",
    "dynatrace, of gitleaks": "dt0c01." + made_of(24).upper() + "." + made_of(64).upper(),
    "alibaba, of gitleaks": "LTAI" + made_of(20),
    "openshift, of gitleaks": "sha256~" + made_of(43),
    "putty": "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 1\n"
    + made_of(44)
    + "\nPrivate-MAC: 0a",
    "docker login": '{"auths": {"https://index.docker.io/v1/": {"auth": "bWFyYTpTMW5nZXJBdERhd24h"}}}',
    "card": "4111 1111 1111 1111",
    "card without spaces": "the card 4242424242424242, valid to 12/28",
    "amex": "3782 822463 10005",
}
ANNOUNCED = [
    "password: hunter2", "Password: Tr0ub4dor&3", "passwort: Sommer2024!", "The wifi password is hunter2.",
    "the password for the staging database is hunter2!", "DB_PASSWORD=s3cr3t!x", '{"password": "swordfish"}',
    "password: swordfish", "wifi password: correct-horse-battery-staple", "Passwort für das WLAN: Sommer2024", "pwd=abc12345;",
    "**Password:** hunter2", "The password is hunter2 and the user mira", 'Mira has the password "tigers4ever".', "My password's hunter2",
    "Server=db;User Id=sa;Password=P@ssw0rd!;", "password -> Tr0u(b4dor", "Username: admin / Password: admin123",
    "userPassword: Zx81kd!", "密码：hunter2x", "Login mira, password: hunter2, then the second factor",
    "curl -u mara:Tr0ub4dor https://example.org/api", "curl -s --user 'mara:hunter2x' -X POST https://example.org", "sshpass -p hunter2x ssh mara@host",
    "sshpass -v -p'hunter2x' scp a b", "mysql -u root -phunter2x harbour", "redis-cli -h cache -a hunter2x ping", "mongosh -u mara -p hunter2x db",
    "ldapsearch -x -D cn=admin -w hunter2x", "smbclient //server/share -U mara%hunter2x", "openssl rsa -in key.pem -passin pass:hunter2x",
    "machine api.example.org login mara password hunter2x", "machine api.example.org\n  login mara\n  password hunter2x", "default login mara password hunter2x",
    "TAVUS_TOKEN=8f14e45f-ceea-467a-9a36-dedd4bea2543", "export RAILWAY_TOKEN=8f14e45f-ceea-467a-9a36-dedd4bea2543",
    "api_key=8f14e45fceea167a5a36dedd4bea2543", "API key: 8f14e45f-ceea-467a-9a36-dedd4bea2543",
    'apiKey = "zaCELgL0imfnc8mVLWwsAawjYr4Rx"', "client_secret: Xq8Tz0PmW4rJ6sLk9Vb2", "access token: Xq8Tz0PmW4rJ6sLk9Vb2Nc7",
]  # fmt: skip
ORDINARY = """\
sk-learn-contrib-imbalanced is a package, sk-learn-contrib-imbalanced-0.12.3 its last release
01a1fc39-4afe-78fc-937c-e480e8d03e19
token: 01a1fc39-4afe-78fc-937c-e480e8d03e19
commit 8e3fbaa2c1d4e5f60718293a4b5c6d7e8f901234
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
ghcr.io/org/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
md5 8f14e45fceea167a5a36dedd4bea2543
the password is stored in the vault
password: <your password>
password: ****
password: xxxxxxxx
password: ${DB_PASSWORD}
password={{ vault.db }}
password = os.environ["DB"]
password=settings.db_password
password: str = Field(min_length=8)
password: https://vault.example.org/item/3
Password: required
Password policy: at least 12 characters, changed every 90 days
The password is 12 characters long.
The password is SHA256 hashed.
The password was changed on 2024-05-01.
Passwort: siehe Tresor
password manager: Bitwarden
The scan looks for `password:`; keys need a digit; a `redact` mode exists
"password":20786,"pasture":20787
const password = 'Password used to generate key';
Passwort: GitHub und GitLab haben dasselbe Verfahren
def pwd(self): 'Return the current folder'
the password is Argon2id-hashed
api_key=YOUR_API_KEY
API key: stored in 1Password under "OpenAI 2024"
access token: expires after 3600s
max_tokens=4096 and the tokenizer cl100k_base
Secret santa: Ines draws Tom
primary key: order_id; cache key: users:42:profile; idempotency key: order-2024-11-03-000123
session key: lecture-12-notes-2024
call +49 170 1234567 or 030-12345678
ISBN 978-3-16-148410-0, ISBN 9783161484100
2026-03-03T12:00:00Z, 20260303120000, 1763704894000
IBAN DE89 3704 0044 0532 0130 00
order 4539148803436468 and invoice 1234567890123456
https://example.org:8080/a@b?c=d#e
ssh://git@github.com:22/org/repo.git and git@github.com:org/repo.git
postgresql://localhost:5432/memo and postgresql://user@localhost/memo
postgres://user:<password>@host/db
ghp_ is the prefix of GitHub tokens, AKIA that of AWS
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
pk_live_51H8xYZabcdefghij is publishable
hf_hub_download(repo_id="bert-base-uncased")
npm_config_registry=https://registry.example.org
Bearer tokens are used
curl -u mara https://example.org asks for the password
curl -u "$USER:$PASS" https://example.org, curl -u user:<password> https://example.org
mysql -p asks for it; sshpass -p "$SSHPASS" reads it from the environment
machine learning: login with your account, the password is never sent
the chart's "auth": "oauth2" and "auth": "none"
npm_ and glpat- are prefixes, AQ. another, tskey-auth- one of Tailscale
re_sent_at, fw_update_2024, sk_buff and pa-risc-2.0, fc-list, vcs_root, napi_schedule_irqoff
AKIA IS THE PREFIX OF AMAZON WEB SERVICES AND ASIA THAT OF TEMPORARY ONES
ghp_ tokens have 40 characters since 2021, github_pat_ 93, and glpat- 26 or more
image: data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==
0.4242424242424242
MAC 00:1A:2B:3C:4D:5E, IPv6 2001:0db8:85a3::8a2e:0370:7334
Mira moved billing to Stripe on 3 March 2026, because only Stripe handles SEPA direct debit.""".splitlines()


@pytest.mark.parametrize("secret", KEYS.values(), ids=KEYS)
def test_every_sort_of_key_is_known_by_its_shape(secret: str) -> None:
    assert secrets_in(secret)
    assert secrets_in(f"On Monday Mira wrote ({secret}) to Tom.")


@pytest.mark.parametrize("text", ANNOUNCED)
def test_a_value_after_a_telling_word_is_a_secret(text: str) -> None:
    assert secrets_in(text)


@pytest.mark.parametrize("text", ORDINARY)
@pytest.mark.shows(6)
def test_ordinary_notes_hold_no_secret(text: str) -> None:
    assert secrets_in(text) == []
    assert secrets_in(f"- {text}\n- and so on") == []


# What a service's name shows is known in one piece only; of these the first piece shows the prefix, or the whole its form.
WRAPPED = [
    "anthropic", "openai project", "github", "github fine-grained", "github app, since 2026", "gitlab", "slack bot", "slack app", "google",
    "stripe", "hugging face", "npm", "pypi", "jwt", "digitalocean", "gemini", "bedrock", "tailscale", "langsmith", "pinecone", "1password",
    "vault", "notion", "linear", "groq", "sendgrid", "discord", "terraform", "jfrog", "openrouter", "fly", "azure openai", "telegram",
]  # fmt: skip
INVISIBLE = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u034f", "\U000e0041"]


@given(
    st.sampled_from(WRAPPED),
    st.integers(16, 60),
    st.sampled_from(["\n", "\r\n", "\n    ", " ", "\n> ", " │\n│ ", " \\\n  ", "\u00a0"]),
)
def test_a_key_is_known_however_a_terminal_wraps_it_or_a_space_splits_it(name: str, width: int, gap: str) -> None:
    key = KEYS[name]
    broken = gap.join(key[at : at + width] for at in range(0, len(key), width))
    clean, names = redacted(f"On Monday Mira wrote:\n{broken}\nThat was all.")

    assert names
    assert clean.startswith("On Monday Mira wrote:\n")
    assert clean.endswith("That was all.")
    assert key[len(key) // 2 :][:12] not in clean


@given(st.sampled_from(sorted(KEYS)), st.data())
def test_what_nobody_sees_hides_no_key(name: str, data: st.DataObject) -> None:
    key = KEYS[name]
    places = data.draw(st.sets(st.integers(1, len(key) - 1), min_size=1, max_size=5))
    hidden = "".join(f"{data.draw(st.sampled_from(INVISIBLE))}{c}" if at in places else c for at, c in enumerate(key))
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in key)

    assert secrets_in(f"On Monday Mira wrote ({hidden}) to Tom.")
    assert secrets_in(f"On Monday Mira wrote ({wide}) to Tom.")


ANNOUNCING = re.compile("pass|pw|key|token|secret|credential|login|bearer|auth|code|://|@", re.IGNORECASE)
WORDS = sorted(
    {word for memory in load_corpus().memories for word in memory.content.split() if not ANNOUNCING.search(word)}
)
HEX = "0123456789abcdef"
ORDINARY_PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(["ghp_", "glpat-", "sk-", "AKIA", "AIza", "eyJ", "xoxb-", "hf_", "npm_", "AQ.", "re_", "v2.0.1", "SHA256", "iPhone15", "UTF-8", "x86_64"]),
    st.text(HEX, min_size=40, max_size=40),
    st.text(HEX, min_size=64, max_size=64).map("sha256:{}".format),
    st.uuids().map(str),
    st.binary(min_size=60, max_size=90).map(lambda raw: f"data:image/png;base64,{base64.b64encode(raw).decode()}"),
    st.integers(0, 99_999).map("https://example.org/a/{}?page=2&lang=en".format),
)  # fmt: skip


@given(st.lists(ORDINARY_PIECES, min_size=2, max_size=30), st.sampled_from([" ", "\n", ", ", "\n> ", "; "]))
def test_ordinary_words_ids_hashes_and_images_pass_in_any_order(pieces: list[str], gap: str) -> None:
    assert secrets_in(gap.join(pieces)) == []


@given(st.sampled_from([*KEYS.values(), *ANNOUNCED]), st.text(max_size=20), st.text(max_size=20))
def test_what_was_redacted_is_clean(secret: str, before: str, after: str) -> None:
    clean, names = redacted(f"{before}\n{secret}\n{after}")  # digits beside it would make another number of it

    assert names
    assert secrets_in(clean) == []
    assert all(f"[redacted: {name}]" in clean for name in names)


@given(st.text())
def test_any_text_can_be_searched_for_secrets(text: str) -> None:
    assert all(0 <= found.start < found.end <= len(text) for found in secrets_in(text))


def test_a_letter_that_grows_in_lower_case_moves_no_place() -> None:
    clean, _ = redacted(f"İİİ password: hunter2x {GITHUB}")

    assert clean == "İİİ password: [redacted: password] [redacted: github token]"


# -- every field of every tool that writes --------------------------------------------------------------------------

FIELDS: dict[str, dict[str, Any]] = {
    "content": {"content": f"Mira's token is {GITHUB}."},
    "a tag": {"tags": ["fine", GITHUB]},
    "a metadata key": {"metadata": {GITHUB: 1}},
    "a metadata value": {"metadata": {"a": 1, "b": GITHUB}},
    "deep in metadata": {"metadata": {"a": [{"b": [0, None, {"c": GITHUB}]}]}},
    "a telling metadata key": {"metadata": {"wifi": {"password": "hunter2"}}},
    "a detail of the type": {"metadata": {"category": [GITHUB]}},
    "source": {"source": GITHUB},
    "source_provider": {"source_provider": GITHUB},
    "session_id": {"session_id": GITHUB},
    "speaker": {"speaker": GITHUB},
    "user": {"user": GITHUB},
    "project": {"project": GITHUB},
    "collection": {"collection": GITHUB},
}


def kept_anywhere(db: Database, secret: str) -> list[str]:
    """Return the tables in which a secret stands."""
    tables = [
        row["relname"]
        for row in db.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(memor|work|epis|sema|proc|stra)'"
        )
    ]
    return [
        name
        for name in tables
        if db.value(f'SELECT count(*) AS n FROM "{name}" t WHERE t::text LIKE %s', [f"%{secret}%"])
    ]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.shows(6)
async def test_a_secret_in_any_field_is_refused_and_neither_stored_nor_told(
    wordless: Served, field: str, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = await wordless.client.call_tool("create_memory", {"content": "A fact.", **FIELDS[field]})

    error = json.loads(said(answer))["error"]
    assert error["code"] == "SECRET_REJECTED"
    assert next(iter(FIELDS[field])) in error["message"]
    assert GITHUB not in said(answer)
    assert "hunter2" not in said(answer)
    assert wordless.db.value("SELECT count(*) AS n FROM memories") == 0
    assert kept_anywhere(wordless.db, GITHUB) == []
    assert GITHUB not in "".join(capfd.readouterr())


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.shows(6)
async def test_a_secret_in_any_field_of_an_update_is_refused(wordless: Served, field: str) -> None:
    id_ = await remember(wordless.client, "A fact.", tags=["fine"])
    before = await read(wordless.client, id_)

    error = await refused(wordless.client, "update_memory", id=id_, **FIELDS[field])

    assert error["code"] == "SECRET_REJECTED"
    after = await read(wordless.client, id_)
    assert (after["content"], after["tags"], after["version"]) == (before["content"], before["tags"], 1)
    assert kept_anywhere(wordless.db, GITHUB) == []


async def test_a_secret_in_a_reason_is_refused(wordless: Served) -> None:
    id_ = await remember(wordless.client, "A fact.")

    error = await refused(wordless.client, "forget_memories", ids=[id_], reason=f"It held {GITHUB}.")

    assert error["code"] == "SECRET_REJECTED"
    assert (await read(wordless.client, id_))["status"] == "active"


@pytest.mark.shows(6, 29)
async def test_an_item_with_a_secret_is_refused_in_its_place_and_spares_the_others(wordless: Served) -> None:
    items = [
        {"content": f"Fact {n}.", **(FIELDS[field] if n == 1 else {})} for n, field in enumerate(["", "a tag", ""])
    ]

    answer = await call(wordless.client, "create_memories", items=items)

    assert [result["ok"] for result in answer["results"]] == [True, False, True]
    assert answer["results"][1]["error"]["code"] == "SECRET_REJECTED"
    assert GITHUB not in json.dumps(answer)
    assert kept_anywhere(wordless.db, GITHUB) == []


async def test_a_secret_for_the_name_of_an_argument_is_not_echoed(wordless: Served) -> None:
    answer = await wordless.client.call_tool("create_memory", {"content": "A fact.", GITHUB: 1})

    assert answer.is_error
    assert GITHUB[:20] not in said(answer)


@pytest.mark.parametrize(
    "text",
    ["sk-learn-contrib-imbalanced", "the password is stored in the vault", "8e3fbaa2c1d4e5f60718293a4b5c6d7e8f901234"],
)
async def test_an_ordinary_note_is_stored(wordless: Served, text: str) -> None:
    id_ = await remember(wordless.client, text, tags=["sk-learn-contrib-imbalanced"], metadata={"ref": text})

    assert (await read(wordless.client, id_))["content"] == text


@pytest.mark.parametrize("key", ["id", "order_id", "orderId", "ORDER-ID"])
async def test_a_number_that_another_system_calls_an_id_is_no_card(wordless: Served, key: str) -> None:
    numbered = {"imported": {key: 4242424242424242}}
    await remember(wordless.client, "Order of a lamp.", metadata=numbered)
    error = await refused(wordless.client, "create_memory", content="A lamp.", metadata={"paid": 4242424242424242})
    assert error["code"] == "SECRET_REJECTED"


async def test_a_question_may_hold_a_secret_and_is_not_logged(
    wordless: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    await call(wordless.client, "search_memories", query=f"Where did I leave {GITHUB}?")

    assert GITHUB not in "".join(capfd.readouterr())


async def test_callers_in_this_process_are_refused_too(manager: MemoryManager) -> None:
    stored = await manager.create_memory(NewMemory(content="A fact."))

    with pytest.raises(SecretRejected):
        await manager.create_memory(NewMemory(content=f"Token {GITHUB}"))
    with pytest.raises(SecretRejected):
        await manager.update_memory(Change(id=stored.memory_id, tags=[GITHUB]))
    with pytest.raises(SecretRejected):
        await manager.forget_memories([stored.memory_id], f"It held {GITHUB}")


def test_an_argument_is_named_but_its_secret_is_not() -> None:
    with pytest.raises(SecretRejected) as caught:
        filter_fields({"context": {"deep": ["fine", GITHUB]}, "embedding": [0.5] * 384}, redact=False)

    assert "context" in caught.value.message
    assert GITHUB not in str(caught.value.as_dict())


# -- redacting by choice ---------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module")
async def redacting(postgres: str, template: str) -> AsyncIterator[Served]:
    """A server that stores texts without their secrets."""
    with database_of(postgres, template) as db:
        async with connected(database_url=db.url, embedder="none:", secrets="redact") as client:
            yield Served(client, db)


@pytest.mark.shows(6)
async def test_by_choice_the_secret_is_redacted_and_the_rest_stored(redacting: Served) -> None:
    answer = await call(
        redacting.client, "create_memory", content=f"Mira's token is {GITHUB}, for the build.",
        metadata={"login": {"password": "hunter2", "user": "mira"}}, importance=0,
    )  # fmt: skip

    assert answer["redacted"] == ["github token", "password"]
    memory = await read(redacting.client, answer["memory_id"])
    assert memory["content"] == "Mira's token is [redacted: github token], for the build."
    assert memory["metadata"] == {"login": {"password": "[redacted: password]", "user": "mira"}}
    assert memory["importance"] == 0
    assert kept_anywhere(redacting.db, GITHUB) == []


async def test_an_update_a_reason_and_an_item_are_redacted_and_the_answer_says_so(redacting: Served) -> None:
    id_ = await remember(redacting.client, "A fact to be changed.")

    changed = await call(redacting.client, "update_memory", id=id_, content="Now password: hunter2 holds.")
    gone = await call(redacting.client, "forget_memories", ids=[id_], reason=f"It held {GITHUB}.")
    many = await call(redacting.client, "create_memories", items=[{"content": "Fine."}, {"content": f"Token {GITHUB}"}])

    assert changed["redacted"] == ["password"]
    assert changed["memory"]["content"] == "Now password: [redacted: password] holds."
    assert gone["redacted"] == ["github token"]
    assert (await read(redacting.client, id_))["reason"] == "It held [redacted: github token]."
    assert [result.get("redacted") for result in many["results"]] == [None, ["github token"]]
    assert kept_anywhere(redacting.db, GITHUB) == []


async def test_a_text_that_is_too_long_once_redacted_is_refused(redacting: Served) -> None:
    content = "password: hunter2 ".ljust(16_000, "a")

    error = await refused(redacting.client, "create_memory", content=content)

    assert error["code"] == "INVALID_INPUT"


async def test_without_a_secret_nothing_is_said_of_redacting(redacting: Served) -> None:
    assert "redacted" not in await call(redacting.client, "create_memory", content="Nothing to hide.")


ONCE = "The greenhouse is watered on Mondays."
WAYS: dict[str, Any] = {
    "create_memory": lambda manager: manager.create_memory(NewMemory(content=ONCE)),
    "create_memories": lambda manager: manager.create_memories([{"content": ONCE}]),
    "create_working_memory": lambda manager: Working(manager).create_working_memory(NewWorking(content=ONCE)),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_content_is_searched_for_secrets_once(
    manager: MemoryManager, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    searched: list[Any] = []

    def noted(value: Any) -> tuple[Any, list[str]]:
        searched.append(value)
        return without_secrets(value)

    monkeypatch.setattr(tools, "without_secrets", noted)
    await WAYS[way](manager)

    assert sum(ONCE in str(value) for value in searched) == 1
