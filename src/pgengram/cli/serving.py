"""`pgengram serve` and `pgengram token`: memories for clients that come over HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from rich.table import Table
from rich.text import Text

from pgengram.cli import AsJson, app, command, notes, screen
from pgengram.errors import InvalidInput
from pgengram.settings import Settings

if TYPE_CHECKING:
    from pgengram.store.clients.tokens import AccessToken

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
ANY_ADDRESS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - named in order to be told apart

token_app = typer.Typer(help="Tokens of clients that come over HTTP.", no_args_is_help=True)
app.add_typer(token_app, name="token")


Http = Annotated[bool, typer.Option("--http", help="Over HTTP. Without a command pgengram serves over stdio.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65_535)]
Url = Annotated[str, typer.Option(help="Address as clients know it, such as https://memory.example.org/mcp.")]
AllowedHost = Annotated[
    list[str] | None, typer.Option(help="A name under which clients may reach the server. Repeatable.")
]
AllowedOrigin = Annotated[
    list[str] | None,
    typer.Option(help="A web page's origin that may call, such as https://app.example.org. Repeatable."),
]
Certfile = Annotated[Path | None, typer.Option(help="Certificate chain, for TLS.", exists=True, dir_okay=False)]
Keyfile = Annotated[Path | None, typer.Option(help="The certificate's key.", exists=True, dir_okay=False)]
NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Serve every program of this machine without a token; on loopback only.")
]
Rate = Annotated[int, typer.Option(help="Calls a minute for each token.", min=1)]
Patience = Annotated[float, typer.Option(help="Seconds in which a request must have arrived.", min=0.1)]
Issuer = Annotated[str, typer.Option(help="OAuth issuer whose tokens are accepted too.")]
Audience = Annotated[str, typer.Option(help="What such a token must be meant for; by default the --url.")]
ReadScope = Annotated[str, typer.Option(help="Scope of such a token that may read.")]
WriteScope = Annotated[str, typer.Option(help="Scope of such a token that may also write.")]
NamespaceClaim = Annotated[str, typer.Option(help="Claim of such a token that names the namespace.")]
NamespacePrefix = Annotated[str, typer.Option(help="What stands before that claim in the namespace's name.")]


@app.command()
@command
async def serve(
    http: Http = False,
    host: Host = "127.0.0.1",
    port: Port = 8811,
    url: Url = "",
    allowed_host: AllowedHost = None,
    allowed_origin: AllowedOrigin = None,
    certfile: Certfile = None,
    keyfile: Keyfile = None,
    no_auth: NoAuth = False,
    rate: Rate = 600,
    patience: Patience = 20.0,
    issuer: Issuer = "",
    audience: Audience = "",
    read_scope: ReadScope = "memory:read",
    write_scope: WriteScope = "memory:write",
    namespace_claim: NamespaceClaim = "sub",
    namespace_prefix: NamespacePrefix = "oauth:",
) -> None:
    """Serve MCP to clients that come over the network.

    Each needs a token that `pgengram token create` has made.

    Example: `pgengram serve --http --host 192.0.2.7 --certfile cert.pem --keyfile key.pem`
    """
    from pgengram.mcp.http.requests import Rules
    from pgengram.mcp.http.server import serve_http
    from pgengram.mcp.http.sockets import bound, is_loopback
    from pgengram.mcp.oauth import Trust
    from pgengram.runtime import telemetry

    local = is_loopback(host)
    certificate = None if certfile is None or keyfile is None else (certfile, keyfile)
    _refuse(http=http, half=(certfile is None) is not (keyfile is None), open_door=no_auth and not local)
    if issuer and (no_auth or not (url or audience)):
        raise InvalidInput("--issuer needs --url, and no --no-auth.")
    names = (read_scope, write_scope, namespace_claim, namespace_prefix)
    rules = Rules(
        hosts=_hosts(host, url, allowed_host or [], local=local),
        origins=frozenset(origin.rstrip("/").lower() for origin in allowed_origin or []),
        authenticate=not no_auth,
        trust=Trust(issuer, audience or url, *names) if issuer else None,
        resource=url or audience,
        calls_per_minute=rate,
        patience_s=patience,
    )
    telemetry.start()
    announce = partial(_announce, naked=not local and certificate is None)
    await serve_http(Settings.from_environment(), rules, bound(host, port), certificate=certificate, announce=announce)


def _refuse(*, http: bool, half: bool, open_door: bool) -> None:
    if not http:
        raise InvalidInput("Say --http.", "Without any command pgengram serves over stdin and stdout.")
    if half:
        raise InvalidInput("--certfile and --keyfile go together.")
    if open_door:
        raise InvalidInput(
            "Beyond this machine nobody is served without a token.",
            "Leave out --no-auth and make tokens with `pgengram token create`.",
        )


def _announce(address: str, *, naked: bool) -> None:
    notes.print(f"pgengram serves MCP at {address}", highlight=False, soft_wrap=True)
    if naked:
        notes.print("Without TLS tokens can be read on the way: give --certfile, or put a TLS proxy before it.")


def _hosts(host: str, url: str, allowed: Sequence[str], *, local: bool) -> frozenset[str]:
    """Return the names under which clients may reach the server.

    Raises:
        InvalidInput: it listens on every address and none is named.
    """
    named = {name.strip("[]").lower() for name in allowed}
    if url:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput("--url must be an http:// or https:// URL.")
        named.add(parts.hostname.lower())
    if host not in ANY_ADDRESS:
        named.add(host.lower())
    elif not named:
        raise InvalidInput(
            f"On {host or 'every address'} it must be known by which names clients come.",
            "Give --allowed-host or --url: whatever else stands in the header Host is turned away.",
        )
    return frozenset({*named, *(LOOPBACK if local else ())})


@token_app.command(name="create")
@command
async def create_token(
    name: Annotated[str, typer.Argument(help="Who it is for; the history names it.")],
    namespace: Annotated[
        str, typer.Option(help="Whose memories it leads to; by default those of PGENGRAM_NAMESPACE.")
    ] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="May search and read, and nothing else.")] = False,
    days: Annotated[
        float | None, typer.Option(help="How long it is good; without, until it is revoked.", min=0)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and show it: this once, as only a hash of it is kept.

    Example: `pgengram token create "Mara's laptop" --namespace mara --days 90`
    """
    from pgengram.store.clients import tokens
    from pgengram.store.store import Store

    settings = Settings.from_environment()
    store = Store(settings)
    try:
        made, told = await tokens.create(
            store,
            name,
            namespace or settings.namespace,
            "read-only" if read_only else "read-write",
            None if days is None else timedelta(days=days),
        )
    finally:
        await store.close()
    if as_json:
        screen.print_json(json.dumps({"token": made, **_shown(told)}))
        return
    screen.print(made, highlight=False, soft_wrap=True)
    until = "until it is revoked" if told.expires_at is None else f"until {told.expires_at:%Y-%m-%d %H:%M} UTC"
    notes.print(
        f"This is shown once. Good {until}, {told.scope}, for the namespace {told.namespace}.",
        highlight=False,
        markup=False,
    )


@token_app.command(name="list")
@command
async def list_tokens(as_json: AsJson = False) -> None:
    """Show every token there is or was, without its secret.

    Example: `pgengram token list --json`
    """
    from pgengram.store.clients import tokens
    from pgengram.store.store import Store

    store = Store(Settings.from_environment())
    try:
        found = [_shown(one) for one in await tokens.list_all(store)]
    finally:
        await store.close()
    if as_json:
        screen.print_json(json.dumps({"tokens": found}))
        return
    if not found:
        screen.print("There is no token yet: `pgengram token create NAME` makes one.", markup=False, highlight=False)
        return
    table = Table("id", "name", "namespace", "scope", "state", "created", "expires", "last used")
    for one in found:
        moments = (str(one[key] or "–")[:16].replace("T", " ") for key in ("created_at", "expires_at", "last_used_at"))
        table.add_row(*map(Text, (one["id"], one["name"], one["namespace"], one["scope"], one["state"], *moments)))
    screen.print(table)


@token_app.command(name="revoke")
@command
async def revoke_token(
    id: Annotated[str, typer.Argument(help="As `pgengram token list` shows it.")], as_json: AsJson = False
) -> None:
    """Make a token worthless, at once and for good.

    Example: `pgengram token revoke 4f0c2a9be1d3`
    """
    from pgengram.store.clients import tokens
    from pgengram.store.store import Store

    store = Store(Settings.from_environment())
    try:
        told = await tokens.revoke(store, id)
    finally:
        await store.close()
    if as_json:
        screen.print_json(json.dumps(_shown(told)))
        return
    screen.print(f"{told.name} is revoked.", highlight=False, markup=False)


def _shown(told: AccessToken) -> dict[str, Any]:
    moments = {
        name: None if (at := getattr(told, name)) is None else at.isoformat(timespec="seconds")
        for name in ("created_at", "expires_at", "last_used_at", "revoked_at")
    }
    kept = {name: getattr(told, name) for name in ("id", "name", "namespace", "scope", "state")}
    return {**kept, **moments}
