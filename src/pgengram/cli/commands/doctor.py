"""`pgengram doctor`: every part checked in the order in which they depend on each other."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import psycopg
import typer
from rich.markup import escape

from pgengram import __version__
from pgengram.cli.clients import client_configs as c
from pgengram.cli.clients import config_edits
from pgengram.cli.clients.connecting import our_entries
from pgengram.cli.clients.mcp_client import Handshake, shake_hands
from pgengram.cli.commands.stats import backups_row, rights_row
from pgengram.cli.options import AsJson
from pgengram.cli.runtime import command, print_json, say, screen
from pgengram.embedders import Passage
from pgengram.errors import InvalidInput, PgengramError, Unreachable
from pgengram.inputs import NewMemory, Question
from pgengram.postgres import binaries
from pgengram.runtime import process_setup
from pgengram.service.manager import MemoryManager
from pgengram.settings import Settings
from pgengram.store.maintenance import namespaces
from pgengram.store.memory import completeness

Seen = tuple[str, bool, str, str]  # a client's title, whether its command works, what was seen, the repair


PROBE: Final = "The doctor's thermometer hangs beside the blue door of the greenhouse."
REPLICA: Final = (
    "Until then searches go to the primary. Check PGENGRAM_READ_URL, and on the replica pg_stat_wal_receiver."
)
SAYS_MORE: Final = "; `pgengram doctor` says more"  # as the errors have it
PROBE_QUESTION: Final = "Where can I find the instrument that measures how warm it is?"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing checked: whether it is well, what was seen, and how to repair it."""

    what: str
    ok: bool
    seen: str
    repair: str = ""


@command
async def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Make memories whole that were written or changed by plain SQL.")
    ] = False,
    public: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Instead, check the address of `serve --sign-in`: name, certificate, metadata, challenge.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Checks everything from the binaries to storing and finding a memory, then starts each connected entry as its
    assistant would.

    Example: `pgengram doctor --public https://memory.example.org/mcp`
    """
    if public:
        from pgengram.cli.store.public_address import PublicAddress

        findings = [Finding(*seen) async for seen in PublicAddress(public).findings()]
    else:
        findings = await _of_everything(repair=repair)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            _print_finding(finding)
    return 0 if all(finding.ok for finding in findings) else 1


async def _of_everything(*, repair: bool) -> list[Finding]:
    findings = [finding async for finding in _findings(Settings.from_environment(), repair=repair)]
    return findings + (
        [Finding(*seen) async for seen in connected_clients()]
        or [Finding("Assistants", ok=True, seen="none is connected; run `pgengram connect`")]
    )


def _print_finding(finding: Finding) -> None:
    right = "[yellow]![/yellow]" if finding.repair else "[green]✓[/green]"
    mark = right if finding.ok else "[red]✗[/red]"
    screen.print(f"{mark} [bold]{finding.what}[/bold]  {escape(finding.seen)}", highlight=False, soft_wrap=True)
    if finding.repair:
        say(f"  → {finding.repair}")


async def _findings(settings: Settings, *, repair: bool) -> AsyncIterator[Finding]:
    yield Finding(
        "Program", ok=True, seen=f"pgengram {__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    if process_setup.NEEDED:
        lacking = ", ".join(process_setup.missing_libraries())
        yield Finding(
            "Visual C++ runtime",
            ok=not lacking,
            seen=f"{lacking} cannot be loaded" if lacking else "installed",
            repair=process_setup.INSTALL if lacking else "",
        )
    what = "Settings"
    manager = None
    try:
        manager = MemoryManager(replace(settings, namespace=f"doctor-{secrets.token_hex(8)}"))  # nobody's
        yield Finding(what, ok=True, seen=_store_place(settings))
        what = "Database"
        started = time.perf_counter()
        await manager.ready()
        seen = await manager.store.database.describe()
        yield Finding(what, ok=True, seen=f"{seen}, ready in {time.perf_counter() - started:.2f} s")
        yield _age(settings, seen)
        yield _row_level_security(manager)
        yield Finding(*await rights_row(manager.store.database))
        yield Finding(*await backups_row(settings, manager.store.database.url))
        if (replica := manager.store.replica) is not None:
            what = "Replica"
            await manager.search_memories(Question(query=""))  # whatever there is: it is asked where a search is
            yield Finding(what, ok=replica.is_used, seen=replica.state, repair="" if replica.is_used else REPLICA)
        what = "Embedder"
        yield await _embedder(manager)
        if moving := await manager.models.move():
            yield Finding("Move to another model", ok=True, seen=moving)
        what = "Memory"
        yield await _stored_and_found(manager)
        what = "All memories"
        yield await _all_memories(manager, repair=repair)
        what = "Index"
        yield await _index_finding(manager)
    except PgengramError as error:
        seen = " ".join([error.message, *_database_reasons(error)])
        yield Finding(what, ok=False, seen=seen, repair=error.hint.replace(SAYS_MORE, ""))
    finally:
        if manager is not None:
            await _leave_no_trace(manager)
            await manager.close()


async def _leave_no_trace(manager: MemoryManager) -> None:
    """Take the doctor's own namespace away; what failed before was told, and nothing is there to be taken then."""
    with contextlib.suppress(PgengramError):
        await namespaces.take_away_namespace(manager.store.database, manager.settings.namespace, listed=False)


def _database_reasons(error: PgengramError) -> list[str]:
    """Return what PostgreSQL said besides, for the eyes of whoever calls the doctor."""
    cause = error.__cause__
    if isinstance(error, Unreachable) or not isinstance(cause, psycopg.Error):
        return []
    return [" ".join((cause.diag.message_primary or str(cause)).split())]


def _store_place(settings: Settings) -> str:
    place = "PGENGRAM_DATABASE_URL" if settings.database_url else f"embedded PostgreSQL in {settings.data_path}"
    return f"{place}, namespace {settings.namespace}, embedder {settings.embedder.partition('#')[0]}"


def _age(settings: Settings, seen: str) -> Finding:
    """Say which fixes of PostgreSQL the server lacks, which is an embedded one or somebody's; a warning, no failure."""
    version = seen.removeprefix("PostgreSQL ").partition(",")[0]
    repair = binaries.UPDATE[not settings.database_url] if binaries.missing_release(version) else ""
    return Finding("Fixes", ok=True, seen=binaries.said(version), repair=repair)


def _row_level_security(manager: MemoryManager) -> Finding:
    role = manager.store.database.role
    held = f"enforced for the role {role}" if role != "none" else "enforced for the login itself"
    return Finding("Row-level security", ok=True, seen=held)


async def _embedder(manager: MemoryManager) -> Finding:
    await manager.current_model()
    if manager.embedder is None:
        return Finding("Embedder", ok=True, seen="none: memories are found by their words only")
    started = time.perf_counter()
    vector = await manager.embedder.query(PROBE_QUESTION)
    seen = f"{manager.embedder.name}, {len(vector)} dimensions, first vector in {time.perf_counter() - started:.2f} s"
    if difference := (await manager.models.state()).get("setting"):
        seen = f"{seen}. {difference}"
    return Finding("Embedder", ok=True, seen=seen)


async def _all_memories(manager: MemoryManager, *, repair: bool) -> Finding:
    """Say which memories, of all namespaces, lack what they are found by; make them whole if that is asked for."""
    model = await manager.current_model()
    model_id = None if model is None else model.id
    database = manager.store.database
    if not repair:
        found = await completeness.find_defects(database, model_id)
        how = "Run `pgengram doctor --repair`; it changes no text." if found.incomplete else ""
        return Finding("All memories", ok=not found.incomplete, seen=str(found), repair=how)

    async def embed(texts: Sequence[str]) -> Sequence[Passage]:
        return (await manager.models.passages(texts)).vectors

    found = await completeness.complete_memories(database, model_id, embed)
    left = " ".join(found.left)
    seen = f"{found}; {found.incomplete - found.left.total():,} were made whole" if found.incomplete else str(found)
    hint = "Forget one of each two with `pgengram forget`, then repeat this." if left else ""
    return Finding("All memories", ok=not left, seen=" ".join(filter(None, (f"{seen}.", left))), repair=hint)


async def _index_finding(manager: MemoryManager) -> Finding:
    """Say how searches by meaning go, and what is amiss with their index."""
    state = await manager.index()
    if state is None:
        return Finding("Index", ok=True, seen="none: there is no embedder")
    wrong, repair = state.problem or ("", "")
    seen = "; ".join(filter(None, (str(state), wrong)))
    return Finding("Index", ok=not repair, seen=seen, repair=repair)


async def _stored_and_found(manager: MemoryManager) -> Finding:
    """Store a memory in a namespace of its own, find it in other words, and erase it again."""
    stored = await manager.create_memory(NewMemory(content=PROBE))
    try:
        query = PROBE_QUESTION if manager.embedder else PROBE
        found = await manager.search_memories(Question(query=query))
    finally:
        await manager.erase([stored.memory_id], trace=False)
    if any(hit["id"] == stored.memory_id for hit in found.results):
        return Finding("Memory", ok=True, seen="stored, found by different words, and erased")
    return Finding(
        "Memory",
        ok=False,
        seen="stored but not found",
        repair="Please report this with the output of `pgengram doctor`.",
    )


async def connected_clients() -> AsyncIterator[Seen]:
    """Yield what is to be said of each client that has, or should have, an entry of ours."""
    for client in c.CLIENTS.values():
        path = client.path()
        try:
            entries = config_edits.found_in(client, path)
        except InvalidInput as error:
            if b"pgengram" in (path.read_bytes() if path.is_file() else b""):  # else it has no entry of ours
                repair = f"Repair the file; until then {client.title} starts no server."
                yield client.title, False, error.message, repair
            continue
        for name, entry in entries.items():
            seen = await asyncio.to_thread(shake_hands, entry)
            yield (
                client.title,
                seen.ok,
                f"{_what_was_seen(name, entry, seen)}, in {path}",
                _client_repair(client, name, seen),
            )
    for one in (*_lost_entries(), *_stale_entries()):
        yield one


def _lost_entries() -> Iterator[Seen]:
    """Yield the clients whose entry is gone without `pgengram disconnect`."""
    for client, path, name in _lost():
        again = f"`pgengram connect {client.name}{'' if name == c.NAME else f' --name {name}'}`"
        yield (
            client.title,
            False,
            f"{name} was connected, and is no longer in {path}: {client.title} or another program has rewritten it",
            f"Quit {client.title} completely and run {again}; `pgengram disconnect {client.name}` if you removed it.",
        )


def _stale_entries() -> Iterator[Seen]:
    """Yield the clients whose entry is only where an older build of them looked."""
    for client in c.CLIENTS.values():
        stale = client.unpackaged()
        if stale is not None and our_entries(client, stale) and not our_entries(client, client.path()):
            yield (
                client.title,
                False,
                f"connected in {stale}, which the installed build doesn't read",
                f"Run `pgengram connect {client.name}`, which writes {client.path()}.",
            )


def _lost() -> list[tuple[c.Client, Path, str]]:
    """Return the entries that were connected and are no longer there, but for those of projects that were removed."""
    return [
        (c.CLIENTS[client], path, name)
        for client, path, name in c.connections_made(Settings.from_environment())
        if client in c.CLIENTS and path.parent.is_dir() and our_entries(c.CLIENTS[client], path) == []
    ]


def _what_was_seen(name: str, entry: c.Entry, seen: Handshake) -> str:
    command = entry["command"]
    text = f"{name}: {seen.seen}, {command}" if seen.ok else f"{name}: {command} {seen.seen}"
    other = seen.version not in ("", __version__)
    return f"{text} (version {seen.version}, this is {__version__})" if other else text


def _client_repair(client: c.Client, name: str, seen: Handshake) -> str:
    if seen.ok:
        return ""
    if seen.version:
        return 'Correct the settings of the store in its "env".'
    return f"Run `pgengram connect {client.name}{'' if name == c.NAME else f' --name {name}'}`."
