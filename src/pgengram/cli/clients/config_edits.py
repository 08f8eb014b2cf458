"""Our entry in the file of a client: put in, changed, or taken out again; all else in the file stays as it is."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pgengram.cli.clients import file_edits
from pgengram.cli.clients.client_configs import Client, Entry, client_form, is_ours, read_entry, secrets_of
from pgengram.errors import Conflict, InvalidInput
from pgengram.runtime.operating_system import rename

NAMES: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # one client refuses a server of any other name
CONTEXT: Final = 2  # lines around a change
KEPT: Final = 3  # earlier states of a file, kept beside it
STRUCTURE: Final = re.compile(
    r"[\s{}\[\](),:-]*|\s*\[[^\]#]*\]\s*|\s*(\"[^\"]*\"|[\w.-]+)\s*[:=]\s*[{\[]?\s*"
)  # a diff's line
NAMED: Final = re.compile(r"\s*(- )?(\"[^\"]*\"|'[^']*'|[\w.-]+)\s*[:=](?=\s)")
VALUE: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"',{}\[\]:=]+(?:[:=]+[^\s\"',{}\[\]:=]+)*")
NAMES_WHAT_FOLLOWS: Final = re.compile(r"\s*[:=]")
BOM: Final = "\ufeff"  # which some editors put first
HELD_OPEN: Final = "Nothing was changed. Quit the program that has it open, or make it writable, and call again."
BY_HAND: Final = "Nothing was changed. Repair the file, or add by hand what --print shows."


def snippet(client: Client, name: str, entry: Entry) -> str:
    """Return the entry as it is in a client's file that holds nothing else."""
    own = client_form(client, entry)
    if client.form == "toml":
        return _toml_block(client, name, own)
    if client.form == "yaml":
        return file_edits.with_yaml_entry("", client.holder, name, own).rstrip("\n")
    return json.dumps({client.holder: {name: own}}, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Edit:
    """What would become of a client's file; None stands for no file, `hidden` is for no eye, and a file that is wholly
    ours is not kept beside the new one.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    hidden: tuple[str, ...] = ()
    wholly_ours: bool = False

    @property
    def changes(self) -> bool:
        """Whether anything would be another than it is."""
        return (self.before or b"") != (self.after or b"")

    def diff(self) -> list[str]:
        """Return the change as lines of a unified diff, without what is hidden.

        Of what stays as it is only names are shown: another server's entry may hold keys, and somebody may look on.
        """
        old, new = ((one or b"").decode("utf-8", "replace").splitlines() for one in (self.before, self.after))
        lines = [*difflib.unified_diff(old, new, str(self.path), str(self.path), n=CONTEXT, lineterm="")]
        had, has = _value_counts(old), _value_counts(new)
        lines = lines[:2] + [
            _without_what_stays(_only_names(line), lambda value: had[value] == has[value]) for line in lines[2:]
        ]
        for secret in self.hidden:
            lines = [line.replace(secret, "•••") for line in lines]
        return lines


def _only_names(line: str) -> str:
    """Return a line of a diff; of one that stays as it is the name and the brackets, without values and comments."""
    if not line.startswith(" ") or STRUCTURE.fullmatch(line):
        return line
    named = NAMED.match(line)
    return f"{named[0]} …" if named else f"{line[: len(line) - len(line.lstrip())]}…"


def _without_what_stays(line: str, stays: Callable[[str], bool]) -> str:
    """Return a line that is removed or added; a value in it that the file has before and after becomes `…`.

    Editors move a comma or break a line, so the entry of another server may stand on a line that changes.
    """
    if line[:1] not in "-+":
        return line

    def shown(found: re.Match[str]) -> str:
        return "…" if stays(found[0]) and not NAMES_WHAT_FOLLOWS.match(found.string, found.end()) else found[0]

    return line[0] + VALUE.sub(shown, line[1:])


def _value_counts(lines: Iterable[str]) -> Counter[str]:
    """Count the quoted and bare words of a file."""
    return Counter(value for line in lines for value in VALUE.findall(line))


def connecting_edit(client: Client, path: Path, name: str, entry: Entry) -> Edit:
    """Return the edit that puts our entry in, or brings the one that is there up to date.

    What a person added to an entry of ours stays, and so do its variables that are not set now.

    Raises:
        InvalidInput: the file cannot be read.
        Conflict: another server has this name.
    """
    if not NAMES.fullmatch(name):
        raise InvalidInput(f"Not a name for a server: {name!r}", "Use letters, digits, - and _.")
    before, text = read_file(path)
    there = _servers(client, path, text).get(name)
    if there is not None and not is_ours(client, there):
        raise Conflict(
            f"{client.title} already has another server called {name!r}.",
            "Nothing was changed. Choose another name with --name, such as --name pgengram.",
        )
    wanted = _merged(client, there or {}, client_form(client, entry))
    edit = _checked_text(client, path, before, text, name, None if there == wanted else wanted, remove=False)
    return replace(edit, hidden=tuple(secrets_of(read_entry(client, there), read_entry(client, wanted))))


def disconnecting_edit(client: Client, path: Path, name: str) -> Edit:
    """Return the edit that takes our entry out; the file is as it was before it was connected, if that is known.

    Raises:
        InvalidInput: the file cannot be read.
        Conflict: there is no such entry, or it is not ours.
    """
    before, text = read_file(path)
    servers = _servers(client, path, text)
    ours = [one for one, entry in servers.items() if is_ours(client, entry)]
    if name not in ours:
        what = f"{name!r} is a different server" if name in servers else f"{client.title} is not connected as {name!r}"
        others = f"; pgengram is named {' or '.join(map(repr, ours))}" if ours else ""
        raise Conflict(f"{what}{others}.", "Nothing was changed. Name the server with --name.")
    edit = _checked_text(client, path, before, text, name, None, remove=True)
    for earlier in (*(backup.read_bytes() for backup in backups(path)), None):
        if _connected(client, path, earlier, name, servers[name]) == before:
            edit = replace(edit, after=earlier)
            break
    return replace(edit, hidden=tuple(secrets_of(read_entry(client, servers[name]))))


def _connected(client: Client, path: Path, earlier: bytes | None, name: str, entry: Entry) -> bytes | None:
    """Return what connecting makes of an earlier state of the file; None when that cannot be known."""
    try:
        text = (earlier or b"").decode()
        return (
            None
            if name in _servers(client, path, text)
            else _checked_text(client, path, earlier, text, name, entry, remove=False).after
        )
    except (UnicodeDecodeError, InvalidInput, Conflict):  # an earlier state that was broken
        return None


def backups(path: Path) -> list[Path]:
    """Return the files that are kept beside a client's file, the newest first."""
    path = path.resolve()
    kept = re.compile(re.escape(path.name) + r"\.\d{8}T\d{6}Z(-\d+)?\.bak")
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted((one for one in beside if kept.fullmatch(one.name)), key=lambda one: one.stat().st_mtime_ns)[::-1]


def found_in(client: Client, path: Path) -> dict[str, Entry]:
    """Return our entries in a client's file by their names, in the words of most clients; none without a file.

    Raises:
        InvalidInput: the file cannot be read.
    """
    _, text = read_file(path)
    servers = _servers(client, path, text).items()
    return {name: read_entry(client, entry) for name, entry in servers if is_ours(client, entry)}


def write_edit(edit: Edit) -> Path | None:
    """Put an edit into its file in one step, and return where the file as it was is kept.

    Mode and owner stay; where the file is a link, what it leads to is written. Of the files kept earlier the newest
    stay. A file that is as it was before it was connected needs none.

    Raises:
        Conflict: somebody changed the file meanwhile, or it cannot be written; it is as it was.
    """
    path = edit.path.resolve()
    try:
        return _replace(path, edit)
    except OSError as error:
        hint = HELD_OPEN if isinstance(error, PermissionError) else BY_HAND
        raise Conflict(f"{path}: {error.strerror or error}.", hint) from None


def _replace(path: Path, edit: Edit) -> Path | None:
    """Keep the file as it was beside it, and put the new one in its place."""
    if _bytes(path) != edit.before:
        raise Conflict(f"{path} was changed at the same time.", "Nothing was changed. Try again.")
    if edit.before is not None and not os.access(path, os.W_OK):
        raise Conflict(f"{path}: permission denied.", HELD_OPEN)
    path.parent.mkdir(parents=True, exist_ok=True)
    earlier = [one for one in backups(path) if one.read_bytes() == edit.after]
    backup = None if earlier else _backup(path, edit)
    try:
        _write_or_remove(path, edit.after)
    except PermissionError:
        if backup is not None:
            backup.unlink()
        raise
    for one in {*earlier, *backups(path)[KEPT:]}:
        one.unlink()
    return backup


def _backup(path: Path, edit: Edit) -> Path | None:
    """Keep what the file says, where somebody else wrote a part of it; return where."""
    if edit.before is None or edit.after is None or edit.wholly_ours:
        return None
    backup = _spare(path)
    _write_whole(backup, edit.before, like=path)
    return backup


def _write_or_remove(path: Path, content: bytes | None) -> None:
    """Write a file whole, or remove it if it has no content."""
    if content is None:
        path.unlink()
    else:
        _write_whole(path, content, like=path)


def _write_whole(path: Path, content: bytes, *, like: Path) -> None:
    """Write a file that is complete or not there, with mode and owner of another if that is there."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if like.exists():
            known = like.stat()
            Path(unfinished).chmod(known.st_mode & 0o7777)
            if sys.platform != "win32":
                with contextlib.suppress(PermissionError):  # only root may give a file to somebody else
                    os.chown(unfinished, known.st_uid, known.st_gid)
        rename(Path(unfinished), path)
    finally:
        Path(unfinished).unlink(missing_ok=True)


def _spare(path: Path) -> Path:
    """Return a name beside `path` that no file has."""
    stamp = f"{path.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    number, spare = 1, path.with_name(f"{stamp}.bak")
    while spare.exists():
        number += 1
        spare = path.with_name(f"{stamp}-{number}.bak")
    return spare


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def read_file(path: Path) -> tuple[bytes | None, str]:
    """Return what a client's file holds, None where there is none, and the same as text.

    Raises:
        InvalidInput: it cannot be read, or is not UTF-8.
    """
    try:
        before = _bytes(path)
        return before, (before or b"").decode()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}.", BY_HAND) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not in UTF-8.", BY_HAND) from None


def _servers(client: Client, path: Path, text: str) -> dict[str, Any]:
    """Return what a client's file says about servers, by their names."""
    whole = _parsed(client, path, text)
    servers = whole.get(client.holder, {}) if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        where = f"as {client.holder}" if isinstance(whole, dict) else "at the top level"
        raise InvalidInput(
            f"{path}: expected {'a JSON object' if client.form == 'json' else 'a table'} {where}.", BY_HAND
        )
    return servers


def _parsed(client: Client, path: Path, text: str) -> Any:
    try:
        if client.form == "toml":
            return tomllib.loads(text.removeprefix(BOM))
        return file_edits.parse_jsonc(text) if client.form == "json" else file_edits.parse_yaml(text)
    except InvalidInput as error:
        raise InvalidInput(f"{path} is not valid {client.form.upper()}: {error.message}.", BY_HAND) from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}.", BY_HAND) from None


def _merged(client: Client, there: Entry, wanted: Entry) -> Entry:
    shape = client.shape
    kept = {name: value for name, value in there.items() if name not in (shape.command, shape.args, shape.env)}
    env = {**(there.get(shape.env) or {}), **wanted.get(shape.env, {})}
    return {**kept, **wanted, **({shape.env: env} if env else {})}


def _checked_text(
    client: Client, path: Path, before: bytes | None, text: str, name: str, value: Entry | None, *, remove: bool
) -> Edit:
    """Return the edit, after the new text was read again and says exactly what it should."""
    if value is None and not remove:
        return Edit(path, before, before or b"")
    after = _text_after(client, path, text, name, value)
    expected = json.loads(json.dumps(_parsed(client, path, text), default=str))
    servers = expected.setdefault(client.holder, {})
    servers.pop(name, None)
    if value is not None:
        servers[name] = value
    try:
        really = json.loads(json.dumps(_parsed(client, path, after), default=str))
    except InvalidInput:
        really = {}
    if {client.holder: {}, **really} != expected:
        raise Conflict(f"{path} is written in a way that cannot be edited safely.", BY_HAND)
    return Edit(path, before, after.encode())


def _text_after(client: Client, path: Path, text: str, name: str, value: Entry | None) -> str:
    """Return the text of a file with an entry, or without it where `value` is None."""
    if client.form == "toml":
        mark = BOM if text.startswith(BOM) else ""
        return mark + _toml_edited(client, path, text.removeprefix(BOM), name, value)
    if client.form == "yaml":
        after = file_edits.without_yaml_entry(text, client.holder, name)
        return after if value is None else _with_block(client, path, after, name, value)
    if value is None:
        return file_edits.without_entry(text, (client.holder, name))
    return file_edits.with_entry(text, (client.holder, name), value)


def _with_block(client: Client, path: Path, text: str, name: str, value: Entry) -> str:
    try:
        return file_edits.with_yaml_entry(text, client.holder, name, value)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.message}.", BY_HAND) from None


def _toml_block(client: Client, name: str, entry: Entry) -> str:
    import tomlkit

    table = tomlkit.table()
    _update_toml(table, entry)
    whole = tomlkit.document()
    whole.add(client.holder, tomlkit.table(is_super_table=True).add(name, table))
    return tomlkit.dumps(whole).rstrip("\n")


def _toml_value(value: Any) -> Any:
    import tomlkit

    if not isinstance(value, dict):
        return value
    inline = tomlkit.inline_table()
    inline.update(value)
    return inline


def _update_toml(table: Any, entry: Entry) -> None:
    """Make a table say what an entry says; what it says already is not touched."""
    for key in [key for key in table if key not in entry]:
        del table[key]
    for key, value in entry.items():
        if table.get(key) != value:
            table[key] = _toml_value(value)


def _toml_edited(client: Client, path: Path, text: str, name: str, value: Entry | None) -> str:
    """Return the text with our table appended, changed in its place, or taken out; all else as it was."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    if name not in tomllib.loads(text).get(client.holder, {}) and value is not None:
        apart = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
        after = f"{text}{apart}{_toml_block(client, name, value)}\n"
    else:
        try:
            whole = tomlkit.parse(text)
            holder: Any = whole[client.holder]
            if value is None:
                del holder[name]
            else:
                _update_toml(holder[name], value)
            after = tomlkit.dumps(whole)
        except TOMLKitError as error:
            raise InvalidInput(f"{path} is not valid TOML: {error}.", BY_HAND) from None
        if value is None and not text.endswith("\n\n"):
            after = re.sub(r"\n(\r?\n)+$", "\n", after)  # the gap before a last table that is gone
    return re.sub(r"(?<!\r)\n", "\r\n", after) if "\r\n" in text else after
