"""Which assistants run hooks, at which events, and how these get into their files and out again."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import platformdirs

from pgengram.cli.clients import config_edits, file_edits, mcp_client
from pgengram.cli.clients.config_edits import BY_HAND, Edit, backups
from pgengram.errors import Conflict, InvalidInput
from pgengram.local.events import FORMS
from pgengram.runtime import operating_system
from pgengram.settings import Settings

WINDOWS: Final = sys.platform == "win32"
FOLDERS: Final = {"cline": "Cline/Hooks"}  # below the folder of documents
EXECUTABLE: Final = 0o755
MADE_BY: Final = "# Made by `pgengram connect {client} --hooks`; `pgengram disconnect {client}` takes it away."
# Cline wants an answer whatever happens; the hook itself gives one as soon as it runs.
ANSWER: Final = '{"cancel": false}'
PLAIN: Final = re.compile(r"[\w.:/\\~+-]+")  # a word that no shell of Windows reads in another way, but for backslashes
BOM: Final = "\ufeff"  # without which Windows PowerShell reads a script in the code page


def connecting_scripts(client: str, words: list[str], *, recall: bool) -> list[Edit]:
    """Return the edits that write our scripts, and take away those that are not wanted any more.

    Args:
        client: one of `FOLDERS`.
        words: the command of our hook.
        recall: whether only the events at which memories are brought are asked for.

    Raises:
        Conflict: somebody else has a script for one of the events.
    """
    form = FORMS[client]
    wanted = _hook_script(client, words).encode()
    edits = []
    for event, kind in form.kinds.items():
        path = _path(client, event)
        before, text = config_edits.read_file(path)
        if before is not None and not _is_our_script(text, client):
            raise Conflict(
                f"{path} is another program's script, and each event can have only one.",
                f"Nothing was changed. Let it run `{shlex.join(words)}` with its standard input, too.",
            )
        edits.append(Edit(path, before, wanted if kind in form.listens or not recall else None, wholly_ours=True))
    return edits


def disconnecting_scripts(client: str) -> list[Edit]:
    """Return the edits that take our scripts away; none where there are none."""
    there = [(path, *config_edits.read_file(path)) for path in (_path(client, event) for event in FORMS[client].kinds)]
    return [
        Edit(path, before, None) for path, before, text in there if before is not None and _is_our_script(text, client)
    ]


def make_executable(edits: list[Edit]) -> None:
    """Let the scripts that were written be run."""
    for edit in edits:
        if edit.after is not None:
            edit.path.chmod(EXECUTABLE)


def folder_of(client: str) -> Path:
    """Return where the scripts of a client's user are; on Windows their documents may lie in OneDrive."""
    documents = platformdirs.user_documents_path() if WINDOWS else Path.home() / "Documents"
    return documents / FOLDERS[client]


def _path(client: str, event: str) -> Path:
    return folder_of(client) / (f"{event}.ps1" if WINDOWS else event)


def _hook_script(client: str, words: list[str]) -> str:
    """Return a script that runs our hook with its own standard input and output."""
    made_by = MADE_BY.format(client=client)
    if WINDOWS:
        command = " ".join(map(_powershell_text, words))
        return f"{BOM}{made_by}\n& {command}\nif (-not $?) {{ '{ANSWER}' }}\n"
    return f"#!/bin/sh\n{made_by}\n{shlex.join(words)} || echo '{ANSWER}'\n"


def _powershell_text(word: str) -> str:
    quoted = "'" + re.sub("(['‘’‚‛])", r"\1\1", word) + "'"  # PowerShell takes all of these for quotes
    return word if PLAIN.fullmatch(word) else quoted


def _is_our_script(text: str, client: str) -> bool:
    return "pgengram" in text and f" hook {client}" in text


HOLDER: Final = "hooks"  # what all of them call it


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one client.

    Args:
        file: the file of its user, below the home folder.
        events: for each kind of event what the client calls it.
        timeout: how long the client is to wait, in its own unit; 0 where it cannot be said.
        moved_by: the environment variable that names the file's folder when that is another one.
        grouped: whether a hook is in a group, which may have a matcher.
        extra: what each hook says, too.
        begins: what a new file holds beside the hooks.
        then: what is to be done afterwards.
    """

    file: str
    events: Mapping[str, str]
    timeout: int = 0
    moved_by: str = ""
    grouped: bool = True
    extra: Mapping[str, Any] = field(default_factory=lambda: {"type": "command"})
    begins: Mapping[str, Any] = field(default_factory=dict)
    then: str = ""

    @property
    def path(self) -> Path:
        """The file of the user."""
        moved = os.environ.get(self.moved_by) if self.moved_by else None
        usual = Path.home() / self.file
        return Path(moved) / usual.name if moved else usual


_CLAUDE: Final = {"start": "SessionStart", "prompt": "UserPromptSubmit"}
# To add a client: one line here, and one in local/events.py.
HOOKS: Final = {
    "claude-code": Hooks(
        ".claude/settings.json", {**_CLAUDE, "compact": "PreCompact", "turn": "Stop", "end": "SessionEnd"}, 5,
        moved_by="CLAUDE_CONFIG_DIR",
    ),
    "codex": Hooks(
        ".codex/hooks.json", {**_CLAUDE, "turn": "Stop", "end": "SessionEnd"}, 5, moved_by="CODEX_HOME",
        then="Start Codex, open /hooks and trust them; until then Codex does not run them.",
    ),
    "gemini-cli": Hooks(
        ".gemini/settings.json",
        {"start": "SessionStart", "prompt": "BeforeAgent", "turn": "AfterAgent", "end": "SessionEnd"}, 5_000,
    ),
    "cursor": Hooks(
        ".cursor/hooks.json",
        {"start": "sessionStart", "prompt": "beforeSubmitPrompt", "turn": "afterAgentResponse", "end": "sessionEnd"},
        5, grouped=False, extra={}, begins={"version": 1},
    ),
    "vscode": Hooks(".copilot/hooks/pgengram.json", {**_CLAUDE, "end": "Stop"}, 5, grouped=False),
    "windsurf": Hooks(
        ".codeium/windsurf/hooks.json", {"prompt": "pre_user_prompt", "turn": "post_cascade_response"}, grouped=False,
        extra={"show_output": False},
    ),
}  # fmt: skip


def refuse_unsupported_hooks(client: str) -> None:
    """Refuse a client whose hooks are not supported.

    Raises:
        InvalidInput: that is so.
    """
    supported = (*HOOKS, *FOLDERS)
    if client not in supported:
        raise InvalidInput(f"Hooks are not supported for {client}.", f"They are supported for {', '.join(supported)}.")


def then(client: str) -> str:
    """Return what is to be done after the hooks were connected."""
    return HOOKS[client].then if client in HOOKS else "Switch on “Enable Hooks” in Cline's feature settings."


def what_hooks_do(client: str, *, recall: bool) -> str:
    """Return what the hooks of a client do, as the end of a sentence.

    Raises:
        InvalidInput: they can only keep conversations, and are to recall alone.
    """
    if not FORMS[client].listens:
        if recall:
            raise InvalidInput(f"Hooks of {client} can't recall memories.", "--hooks keeps conversations.")
        return "keep conversations"
    return "bring memories" if recall else "bring memories and keep conversations"


def settings_file(client: str, settings: Settings) -> Path:
    """Return where the store's settings are kept for a client's hooks, which have no environment of their own."""
    return settings.data_path / f"hooks-{client}.json"


def connecting_hooks(client: str, settings: Settings, *, recall: bool) -> list[Edit]:
    """Return the edits that put our hooks into a client's file, beside those of others, or into its folder.

    Raises:
        InvalidInput: a file cannot be read, or the client's hooks are not supported.
        Conflict: a script of somebody else stands where ours has to.
    """
    refuse_unsupported_hooks(client)
    words = _command(client, settings, recall=recall)
    if client in FOLDERS:
        return connecting_scripts(client, words, recall=recall)
    hooks = HOOKS[client]
    before, text = config_edits.read_file(hooks.path)
    return [
        _checked_edit(hooks, before, _with_hooks(hooks, client, text, _groups(hooks, client, words, recall=recall)))
    ]


def disconnecting_hooks(client: str) -> list[Edit]:
    """Return the edits that take our hooks out; each file is as it was before, if that is known. None without hooks.

    Raises:
        InvalidInput: a file cannot be read.
    """
    if client in FOLDERS:
        return disconnecting_scripts(client)
    edit = _disconnecting(client) if client in HOOKS else None
    return [edit] if edit else []


def _disconnecting(client: str) -> Edit | None:
    hooks = HOOKS[client]
    before, text = config_edits.read_file(hooks.path)
    groups: dict[str, Any] = {}
    for event, there in _hook_groups(hooks, text).items():
        if (ours := next((one for one in there if _runs_our_hook(one, client)), None)) is not None:
            groups[event] = ours
    if not groups:
        return None
    for earlier in (*(backup.read_bytes() for backup in backups(hooks.path)), None):
        if _would_be(hooks, client, earlier, groups) == before:
            return Edit(hooks.path, before, earlier)
    return _checked_edit(hooks, before, _without_hooks(hooks, client, text))


def write_settings(client: str, settings: Settings) -> None:
    """Keep the settings of the store where the client's hooks read them, for nobody else's eyes."""
    path = settings_file(client, settings)
    if not settings.variables:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(_kept_environment(settings), file)


def _kept_environment(settings: Settings) -> dict[str, str]:
    folder = {"PGENGRAM_DATA_DIR": str(settings.data_path)} if settings.data_dir else {}
    return {**settings.variables, **folder}


def _command(client: str, settings: Settings, *, recall: bool) -> list[str]:
    """Return the command that is run at each event."""
    start = mcp_client.own_command()
    words = [start["command"], *start.get("args", ()), "hook", client, *(["--recall"] if recall else [])]
    return words + (["--settings", str(settings_file(client, settings))] if settings.variables else [])


def _groups(hooks: Hooks, client: str, words: Sequence[str], *, recall: bool) -> dict[str, dict[str, Any]]:
    """Return what is in the client's file for each event."""
    hook = {**hooks.extra, "command": _hook_command(words), **({"timeout": hooks.timeout} if hooks.timeout else {})}
    group = {HOLDER: [hook]} if hooks.grouped else hook
    listens: frozenset[str] = FORMS[client].listens
    return {name: group for kind, name in hooks.events.items() if kind in listens or not recall}


def _hook_command(words: Sequence[str]) -> str:
    """Return a command line for the shell in which a client runs hooks.

    On Windows that is Git Bash, PowerShell or cmd: the first takes a backslash away, the second takes a quoted program
    for a text. All three run a path with slashes and without spaces, which its short form is.
    """
    return " ".join(map(_for_any_shell, words)) if WINDOWS else shlex.join(words)


def _for_any_shell(word: str) -> str:
    if not PLAIN.fullmatch(word):
        folder, _, name = word.rpartition("\\")
        word = f"{operating_system.short_form(Path(folder))}\\{name}"  # the file may be written later
    slashed = word.replace("\\", "/")
    return slashed if PLAIN.fullmatch(word) else f'"{slashed}"'


def _with_hooks(hooks: Hooks, client: str, text: str, groups: Mapping[str, Mapping[str, Any]]) -> str:
    if hooks.begins and not text.strip():
        text = json.dumps(dict(hooks.begins), indent=2) + "\n"
    there = _hook_groups(hooks, text)
    for event in hooks.events.values():
        ours: list[Any] = []
        others: list[Any] = []
        for one in there.get(event, ()):
            (ours if _runs_our_hook(one, client) else others).append(one)
        wanted = [groups[event]] if event in groups else []
        if ours != wanted:  # else it stays where it is
            text = _with_others(text, event, [*others, *wanted])
    return text


def _without_hooks(hooks: Hooks, client: str, text: str) -> str:
    for event, groups in _hook_groups(hooks, text).items():
        others = [one for one in groups if not _runs_our_hook(one, client)]
        if len(others) < len(groups):
            text = _with_others(text, event, others)
    return text if _hook_groups(hooks, text) else file_edits.without_entry(text, (HOLDER,))


def _with_others(text: str, event: str, others: Sequence[Any]) -> str:
    if others:
        return file_edits.with_entry(text, (HOLDER, event), others)
    return file_edits.without_entry(text, (HOLDER, event))


def _would_be(
    hooks: Hooks, client: str, earlier: bytes | None, groups: Mapping[str, Mapping[str, Any]]
) -> bytes | None:
    """Return what connecting makes of an earlier state of the file; None when that cannot be known."""
    try:
        text = (earlier or b"").decode()
        if any(_runs_our_hook(one, client) for there in _hook_groups(hooks, text).values() for one in there):
            return None
        return _with_hooks(hooks, client, text, groups).encode()
    except (UnicodeDecodeError, InvalidInput):  # an earlier state that was broken
        return None


def _checked_edit(hooks: Hooks, before: bytes | None, after: str) -> Edit:
    """Return the edit, after the new text was read again and differs in hooks alone.

    Raises:
        Conflict: it would not.
    """
    rest = [file_edits.parse_jsonc(text) for text in ((before or b"").decode(), after)]
    for one in rest:
        one.pop(HOLDER, None)
    if rest[0] != rest[1] and (rest[0] or rest[1] != hooks.begins):
        raise Conflict(f"{hooks.path} is written in a way that cannot be edited safely.", BY_HAND)
    return Edit(hooks.path, before, after.encode())


def _hook_groups(hooks: Hooks, text: str) -> dict[str, list[Any]]:
    """Return the groups of hooks in a client's file by their events.

    Raises:
        InvalidInput: the file is not what it should be.
    """
    try:
        whole = file_edits.parse_jsonc(text)
    except InvalidInput as error:
        raise InvalidInput(f"{hooks.path} is not valid JSON: {error.message}.", BY_HAND) from None
    found = whole.get(HOLDER, {}) if isinstance(whole, dict) else None
    if not isinstance(found, dict) or not all(isinstance(one, list) for one in found.values()):
        raise InvalidInput(f"{hooks.path}: expected a JSON object of lists as {HOLDER}.", BY_HAND)
    return found


def _runs_our_hook(group: Any, client: str) -> bool:
    """Whether a group runs our hook for this client."""
    hooks = group.get(HOLDER, [group]) if isinstance(group, Mapping) else None
    lines = [str(one.get("command", "")) for one in hooks or () if isinstance(one, Mapping)]
    return any("pgengram" in line and f" hook {client}" in line for line in lines)
