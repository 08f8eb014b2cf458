"""`pgengram conversations` and `pgengram receipts`: what hooks keep, and what they have put before a model."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from pgengram import fields as f
from pgengram.cli.help import Commands
from pgengram.cli.options import AsJson, Limit, OfProject, Yes
from pgengram.cli.output import plain_table, print_stored
from pgengram.cli.quick import ORIGIN
from pgengram.cli.runtime import (
    FAILED,
    answer_of,
    call_tool,
    command,
    confirm,
    opened_manager,
    print_answer,
    print_json,
    say,
    screen,
)
from pgengram.errors import InvalidInput, NotFound
from pgengram.ids import short
from pgengram.service.answers import said
from pgengram.service.conversations import Conversations
from pgengram.text.markdown import one_line
from pgengram.text.shown import counted

OfClient = Annotated[str | None, typer.Option(help="Only this assistant, such as claude-code.")]
EXCERPT = 120  # characters
SUGGESTED = 300  # characters of what may be worth a memory
conversations = Commands("Show or erase the conversations that hooks keep.")


@conversations.command(name="list")
@command
async def list_conversations(project: OfProject = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List conversations, latest first.

    Example: `pgengram conversations list --project ark`
    """
    async with opened_manager() as manager:
        state = await Conversations(manager).state()
        found = await Conversations(manager).listed({"project": project}, limit=limit)
    if as_json:
        print_json({**state, "conversations": found})
        return
    table = plain_table("", "conversation", "client", "project", "last", "turns", "begins")
    for one in found:
        begins = one_line(one["begins"] or "")
        cells = (one["conversation"], one["client"], one["project"] or "–", one["at"][:16].replace("T", " "))
        table.add_row(*map(Text, (*cells, str(one["turns"]), begins)))
    if found:
        screen.print(table)
    say(_state_line(state))


@conversations.command()
@command
async def show(
    conversation: Annotated[str, typer.Argument(help="Its id, or the first characters of it.")], as_json: AsJson = False
) -> None:
    """Print a conversation word for word.

    Example: `pgengram conversations show 002a1176`
    """
    async with opened_manager() as manager:
        turns = await Conversations(manager).turns(conversation)
    if not turns:
        raise NotFound("conversation", conversation, "Use `pgengram conversations list` to find the right one.")
    if as_json:
        print_json({"turns": turns})
        return
    for turn in turns:
        screen.print(Text(f"{turn['role']}  {turn['time'][:16].replace('T', ' ')}", style="dim"))
        say(f"{turn['text']}\n")


@conversations.command()
@command
async def suggest(
    project: OfProject = None,
    client: OfClient = None,
    skip: Annotated[int, typer.Option(help="How many to pass over.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Show five things you said that no memory has yet, and ask which to remember.

    Examples: `pgengram conversations suggest`, `pgengram conversations suggest --client chatgpt --skip 5`
    """
    where = {"project": project, "client": client}
    async with opened_manager() as manager:
        found, in_all = await said.worth_remembering(manager, where, skip=skip)
        if as_json:
            print_json({"in_all": in_all, "turns": found})
            return
        for number, one in enumerate(found, 1):
            beside = " · ".join(filter(None, (one["time"][:10], one["client"], one["project"])))
            screen.print(
                Text.assemble((f"{number}  ", "cyan"), one_line(one["text"])[:SUGGESTED], (f"  {beside}", "dim"))
            )
        for one in _picked(found) if sys.stdin.isatty() and found else ():
            given = {"content": one["text"], "project": one["project"], "occurred_at": one["time"], **ORIGIN}
            given["sources"] = [{"kind": "conversation", "ref": one["cite"], "label": one["client"]}]
            print_stored((await call_tool(manager, "create_memory", given)).model_dump())
    if left := in_all - skip - len(found):
        say(f"{left:,} more: pgengram conversations suggest --skip {skip + len(found)}")
    elif not in_all:
        say("Nothing that no memory has yet.")


def _picked(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those that a person names by their numbers."""
    answer = answer_of(
        lambda: str(typer.prompt("Remember which? (such as 1 3; Enter for none)", default="", show_default=False))
    )
    numbers = answer.replace(",", " ").split()
    if wrong := [one for one in numbers if not (one.isdecimal() and 1 <= int(one) <= len(found))]:
        raise InvalidInput(f"{wrong[0]!r} is none of the numbers.", "Nothing was stored.")
    return [found[int(one) - 1] for one in dict.fromkeys(numbers)]


@conversations.command()
@command
async def on(
    days: Annotated[
        int | None,
        typer.Option(help="How long to keep them; older turns are erased at once.", min=1, max=f.MAX_KEEP_DAYS),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep conversations from now on; this is the default.

    Example: `pgengram conversations on --days 30`
    """
    await _set_keeping(keeps=True, keep_days=days, as_json=as_json)


@conversations.command()
@command
async def off(as_json: AsJson = False) -> None:
    """Stop keeping conversations. Those kept so far stay until they expire or you erase them.

    Example: `pgengram conversations off`
    """
    await _set_keeping(keeps=False, as_json=as_json)


@conversations.command()
@command
async def erase(
    conversation: Annotated[str | None, typer.Option(help="Only this conversation, by its full id.")] = None,
    client: OfClient = None,
    project: OfProject = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Permanently erase conversations: all, or those of one assistant or project. Memories stay.

    Example: `pgengram conversations erase --project ark`
    """
    where = {"conversation": conversation, "client": client, "project": project}
    named = [f"{name} {value}" for name, value in where.items() if value]
    if not confirm(f"Erase the conversations of {' and '.join(named) or 'everybody and everything'}?", yes=yes):
        return FAILED
    async with opened_manager() as manager:
        erased = await Conversations(manager).erase(where)
    print_answer(f"{counted(erased, 'turn', 'turns')} erased.", {"erased": erased}, as_json=as_json)
    return 0


@command
async def receipts(
    conversation: Annotated[str | None, typer.Option(help="Only this conversation.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Says when and why, what that cost, and whether the memory was used since.

    Examples: `pgengram receipts`, `pgengram receipts --limit 100 --json`
    """
    async with opened_manager() as manager:
        rows = await Conversations(manager).receipts(conversation, limit=limit, chars=EXCERPT)
    if as_json:
        print_json(
            {"receipts": [{**row, "memory_id": str(row["memory_id"]), "at": f.as_utc(row["at"])} for row in rows]}
        )
        return
    if not rows:
        say(
            "No receipts yet. Hooks write one each time they give memories to a model: "
            "pgengram connect claude-code --hooks"
        )
        return
    table = plain_table("", "when", "event", "project", "memory", "score", "tokens", "ms", "used")
    for row in rows:
        says = Text.assemble((short(str(row["memory_id"])), "cyan"), f" {one_line(row['content'])}")
        score = "–" if row["score"] is None else f"{row['score']:.2f}"
        event = f"{row['client']} {row['event']}"
        moment = row["at"].astimezone().strftime("%Y-%m-%d %H:%M")
        used = "yes" if row["used"] else "no"
        table.add_row(moment, Text(event), Text(row["project"] or "–"), says, score, str(row["tokens"]),
                      str(row["milliseconds"]), used)  # fmt: skip
    screen.print(table)


async def _set_keeping(*, keeps: bool, keep_days: int | None = None, as_json: bool) -> None:
    async with opened_manager() as manager:
        await Conversations(manager).set_keeping(keeps=keeps, keep_days=keep_days)
        state = await Conversations(manager).state()
    print_answer(_state_line(state), state, as_json=as_json)


def _state_line(state: dict[str, Any]) -> str:
    hooks = f"keep conversations for {state['keep_days']} days" if state["kept"] else "keep no conversations"
    number = counted(state["conversations"], "conversation", "conversations")
    held = f"{number} with {counted(state['turns'], 'turn', 'turns')} so far" if state["conversations"] else "None yet"
    return f"{held}. Hooks {hooks}; imported ones stay until you erase them."
