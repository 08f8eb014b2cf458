"""`pgengram serve` and `pgengram call`: the tools over HTTP, and one of them called by typing."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys
import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from pgengram.cli.help import NAME_VALUE
from pgengram.cli.options import AsJson
from pgengram.cli.runtime import (
    command,
    known_word,
    name_value,
    opened_manager,
    print_json,
    print_line,
    print_note,
    say,
)
from pgengram.errors import InvalidInput
from pgengram.runtime import hook_client
from pgengram.settings import Settings

if TYPE_CHECKING:
    from pgengram.mcp.http.doors import PagesOf
    from pgengram.mcp.http.oauth import Trust
    from pgengram.mcp.http.requests import Network


LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
ANY_ADDRESS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - named in order to be told apart

Http = Annotated[bool, typer.Option("--http", help="Serve over HTTP.")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65_535)]
Url = Annotated[str, typer.Option(help="Address for clients, such as https://memory.example.org/mcp.")]
AllowedHost = Annotated[list[str] | None, typer.Option(help="A host name that clients may use. Repeatable.")]
AllowedOrigin = Annotated[
    list[str] | None,
    typer.Option(help="Origin of a web page that may call it, such as https://app.example.org. Repeatable."),
]
Certfile = Annotated[Path | None, typer.Option(help="Certificate chain, for TLS.", exists=True, dir_okay=False)]
Keyfile = Annotated[Path | None, typer.Option(help="The certificate's key.", exists=True, dir_okay=False)]
SignInHere = Annotated[
    bool, typer.Option("--sign-in", help="Let programs and your phone sign in, with your yes to each; needs --url.")
]
NoRegister = Annotated[
    bool,
    typer.Option("--no-register", help="Refuse programs that only register themselves, as Cursor and Gemini CLI do."),
]
PinnedOnly = Annotated[bool, typer.Option("--known-clients-only", help="Fetch no documents about unknown programs.")]
SignInRate = Annotated[
    int, typer.Option(help="Sign-in pages per minute and address; behind a proxy, of all together.", min=1)
]
TrustedProxy = Annotated[
    list[str] | None,
    typer.Option(help="Address or network of your proxy, whose X-Forwarded-For is believed. Repeatable."),
]
NoAuth = Annotated[
    bool, typer.Option("--no-auth", help="Accept every program of this machine without a token; loopback only.")
]
Rate = Annotated[int, typer.Option(help="Calls per minute and token; each 2,000 bytes count as one more.", min=1)]
Patience = Annotated[float, typer.Option(help="Seconds within which a request must arrive.", min=0.1)]
Issuer = Annotated[str, typer.Option(help="OAuth issuer whose tokens are also accepted.")]
Audience = Annotated[str, typer.Option(help="Audience that such a token must have; by default the --url.")]
ReadScope = Annotated[str, typer.Option(help="Scope that lets such a token read.")]
WriteScope = Annotated[str, typer.Option(help="Scope that also lets such a token write.")]
NamespaceClaim = Annotated[str, typer.Option(help="Its claim that names the namespace.")]
NamespacePrefix = Annotated[str, typer.Option(help="Prefix of the namespace, before that claim.")]
PersonClaim = Annotated[str, typer.Option(help="Its claim that names the person somebody new becomes.")]


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
    sign_in: SignInHere = False,
    no_register: NoRegister = False,
    known_clients_only: PinnedOnly = False,
    sign_in_rate: SignInRate = 30,
    trusted_proxy: TrustedProxy = None,
    rate: Rate = 600,
    patience: Patience = 20.0,
    issuer: Issuer = "",
    audience: Audience = "",
    read_scope: ReadScope = "memory:read",
    write_scope: WriteScope = "memory:write",
    namespace_claim: NamespaceClaim = "sub",
    namespace_prefix: NamespacePrefix = "oauth:",
    person_claim: PersonClaim = "",
    as_json: AsJson = False,
) -> None:
    """Each client needs a token; create one with `pgengram token create`, or let programs sign in with --sign-in.

    Example: `pgengram serve --http --host 192.0.2.7 --certfile cert.pem --keyfile key.pem`
    """
    from pgengram.mcp.http.requests import Rules, SignIn
    from pgengram.mcp.http.server import bound, is_loopback, serve_http
    from pgengram.runtime import logs

    local = is_loopback(host)
    certificate = _certificate(certfile, keyfile)
    _check_options(http=http, sign_in=sign_in, url=url, no_auth=no_auth, local=local)
    networks = _networks(trusted_proxy)
    resource = url or audience
    rules = Rules(
        hosts=_hosts(host, url, allowed_host, local=local),
        origins=frozenset(origin.rstrip("/").lower() for origin in allowed_origin or []),
        authenticate=not no_auth,
        trust=_trust(
            issuer, audience or url, no_auth, read_scope, write_scope, namespace_claim, namespace_prefix, person_claim
        ),
        resource=resource.rstrip("/") if sign_in else resource,
        sign_in=SignIn(not no_register, not known_clients_only, sign_in_rate, networks) if sign_in else None,
        calls_per_minute=rate,
        patience_s=patience,
    )
    logs.start_telemetry()
    announce = partial(_announce, naked=not local and certificate is None, as_json=as_json)
    await serve_http(
        Settings.from_environment(),
        rules,
        bound(host, port),
        certificate=certificate,
        announce=announce,
        pages_of=_pages_maker() if sign_in else None,
    )


def _certificate(certfile: Path | None, keyfile: Path | None) -> tuple[Path, Path] | None:
    if (certfile is None) is not (keyfile is None):
        raise InvalidInput("--certfile and --keyfile must be given together.")
    return (certfile, keyfile) if certfile and keyfile else None


def _networks(given: Sequence[str] | None) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(one) for one in given or ())
    except ValueError as error:
        raise InvalidInput(f"--trusted-proxy: {error}.", "Example: --trusted-proxy 127.0.0.1") from None


def _pages_maker() -> PagesOf:
    from pgengram.ui.public import PublicPages

    return PublicPages


def _trust(issuer: str, audience: str, no_auth: bool, *names: str) -> Trust | None:
    from pgengram.mcp.http.oauth import Trust

    if issuer and (no_auth or not audience):
        raise InvalidInput("--issuer needs --url or --audience, and excludes --no-auth.")
    return Trust(issuer, audience, *names) if issuer else None


def _check_options(*, http: bool, sign_in: bool, url: str, no_auth: bool, local: bool) -> None:
    if sign_in and (no_auth or not url):
        raise InvalidInput(
            "--sign-in needs --url, and excludes --no-auth.", "Example: --url https://memory.example.org/mcp"
        )
    if not http:
        raise InvalidInput("Missing option --http.", "Without a command pgengram serves over stdin and stdout.")
    if no_auth and not local:
        raise InvalidInput(
            "Clients from other machines need a token.",
            "Leave out --no-auth and make tokens with `pgengram token create`.",
        )


def _announce(address: str, *, naked: bool, as_json: bool) -> None:
    print_note(f"pgengram serves MCP at {address}")
    if as_json:
        print_line({"url": address})
    if naked:
        print_note("Without TLS, tokens can be read in transit: use --certfile, or put a TLS proxy in front.")


def _hosts(host: str, url: str, allowed: Sequence[str] | None, *, local: bool) -> frozenset[str]:
    """Return the names under which clients may reach the server.

    Raises:
        InvalidInput: it listens on every address and none is named.
    """
    named = {name.strip("[]").lower() for name in allowed or ()}
    if url:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidInput("--url must be an http:// or https:// URL.")
        named.add(parts.hostname.lower())
    if host not in ANY_ADDRESS:
        named.add(host.lower())
    elif not named:
        raise InvalidInput(
            f"To listen on {host or 'every address'}, name the hosts that clients use.",
            "Give --allowed-host or --url: requests with another Host header are refused.",
        )
    return frozenset({*named, *(LOOPBACK if local else ())})


@command
async def call(
    tool: Annotated[str, typer.Argument(help="A tool's name, such as search_memories.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar=NAME_VALUE, help="Its arguments; lists and objects as JSON.")
    ] = None,
) -> int:
    """Example: `pgengram call search_memories query="where do we deploy?" limit=3`"""
    from pgengram.service.calls.arguments import Arguments

    given = dict(map(name_value, arguments or []))
    async with opened_manager() as manager:
        offers = {offered.name: offered for offered in manager.tools}
        answer = await Arguments(offers[known_word(tool, offers, "tool")]).read(given).run()
    print_json(answer)
    return 0 if answer.ok else 1


# Where windows can be; without one of them a browser would be one that takes the terminal.
WINDOWS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


@command
async def ui(
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.", min=0, max=65_535)] = 8822,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the link.")] = False,
    as_json: AsJson = False,
) -> None:
    """Opens in your browser, which stays signed in while the server runs, for 30 days at most. Other
    machines can't reach it; whoever opens the printed link first is signed in.

    Example: `pgengram ui --no-browser --port 8823`
    """
    from pgengram.ui.serving import serve_ui

    opening: set[asyncio.Task[None]] = set()

    async def open_(link: str) -> None:
        windows = sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in WINDOWS)
        if not windows or not await asyncio.to_thread(webbrowser.open, link):
            print_note("No browser could be opened: open the link yourself.")

    def announce(link: str, ran_before: bool) -> None:
        if as_json:
            print_line({"url": link})
        else:
            say(link)
        end = "The server runs already." if ran_before else "Stop the server with Ctrl+C."
        print_note(f"This link works once; the browser that opens it stays signed in. {end}")
        if not no_browser:
            opening.add(asyncio.create_task(open_(link)))

    await serve_ui(Settings.from_environment(), port, announce)
    await asyncio.gather(*opening)


SettingsFile = Annotated[Path | None, typer.Option(help="File with the store's settings, written by `connect`.")]


def hook(
    client: Annotated[str, typer.Argument(help="The assistant, such as claude-code.")],
    recall: Annotated[bool, typer.Option("--recall", help="Recall memories, but don't keep the conversation.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Reads an event as JSON from standard input and prints the answer. The exit code is always 0; `hooks.log` in the
    data folder has the errors.

    Example: `pgengram hook claude-code`
    """
    chosen = [*(["--recall"] if recall else []), *(["--settings", str(settings)] if settings else [])]
    raise typer.Exit(hook_client.main([client, *chosen]))
