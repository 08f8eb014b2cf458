"""Connecting an assistant by typing, in a home folder of the test's own."""

from __future__ import annotations

import base64
import json
import math
import os
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from helpers import Database, diagonal
from machine import answered, exit_code, what_comes
from pgengram.cli.app import app
from pgengram.cli.clients import client_configs as c
from pgengram.cli.clients import config_edits, file_edits, mcp_client
from pgengram.runtime import operating_system
from windows_like import refused

OURS = {"command": "/old/place/pgengram"}
READ = {"json": file_edits.parse_jsonc, "toml": tomllib.loads, "yaml": file_edits.parse_yaml}
# What a person may have in the file of each form, with comments, blanks and other servers.
WRITTEN = {
    "json": '{\n    // mine\n    "%s": {\n\t"github": {"command": "gh"}, /* keep */\n    },\n}\n',
    "toml": "# mine\n\n[%s.github]  # keep\ncommand = 'gh'\n",
    "yaml": "# mine\nmodel: big\n%s:\n    # keep\n    github:\n        cmd: gh\n        args:\n        - --x\nother: {a: 1}\n",
}
NO_SERVERS = {"json": '{"theme":"dark"}', "toml": "theme = 'dark'", "yaml": "theme: dark"}
COMMENTED = """\
{
    // my servers
    "mcpServers": {
        "github": {"command": "gh", "args": ["--x",]}, /* keep */
        // "off": {},
    },
    "theme": "dark", // and this
}
"""
CODEX = """\
# mine
model = "big"

[mcp_servers.github]   # keep
command = "gh"

[other]
moment = 2026-01-01
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("USERPROFILE", str(place))
    monkeypatch.setenv("APPDATA", str(place / "AppData"))
    monkeypatch.setattr("pgengram.settings.default_data_folder", lambda: str(tmp_path / "data"))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return place


def typed(*words: str, expect: int = 0, settings: dict[str, str] | None = None, types: str | None = None) -> Result:
    result = CliRunner().invoke(app, [*words], env=settings, input=types)
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def file_of(client: str, text: str | None = None) -> Path:
    path = c.CLIENTS[client].path()
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return path


def servers(client: str) -> dict[str, Any]:
    text = file_of(client).read_text(encoding="utf-8")
    return dict(READ[c.CLIENTS[client].form](text)[c.CLIENTS[client].holder])


@pytest.mark.parametrize("client", c.CLIENTS)
def test_a_client_is_given_the_absolute_path_of_this_command_and_gives_it_back(client: str) -> None:
    answer = typed("connect", client, "--yes").output

    entry = c.read_entry(c.CLIENTS[client], servers(client)["memory"])
    assert Path(entry["command"]).is_absolute()
    assert Path(entry["command"]).exists()
    assert entry["args"] == []
    assert str(file_of(client)) in answer
    assert "already connected" in typed("connect", client).output

    typed("disconnect", client, "--yes")
    assert not file_of(client).exists()


@pytest.mark.parametrize(("client", "texts"), diagonal(c.CLIENTS, [WRITTEN, NO_SERVERS]))
def test_the_file_of_every_client_is_given_back_byte_for_byte_without_a_trace_beside_it(
    client: str, texts: dict[str, str]
) -> None:
    one = c.CLIENTS[client]
    path = file_of(client, texts[one.form].replace("%s", one.holder))
    before = path.read_bytes()

    typed("connect", client, "--yes", settings={"PGENGRAM_NAMESPACE": "work"})
    connected = path.read_bytes()
    entry = c.read_entry(one, servers(client)["memory"])
    typed("disconnect", client, "--yes")

    assert entry["env"] == {"PGENGRAM_NAMESPACE": "work"}
    assert all(line in connected.splitlines() for line in before.splitlines() if b"dark" not in line)
    assert path.read_bytes() == before
    assert [*path.parent.iterdir()] == [path]


def test_clients_that_write_an_entry_in_their_own_way_get_it_in_that_way() -> None:
    for client in ("claude-code", "opencode", "goose"):
        typed("connect", client, "--yes", settings={"PGENGRAM_NAMESPACE": "work"})
    own = str(c.read_entry(c.CLIENTS["claude-code"], servers("claude-code")["memory"])["command"])
    env = {"PGENGRAM_NAMESPACE": "work"}

    assert servers("claude-code")["memory"] == {"type": "stdio", "command": own, "env": env}
    assert servers("opencode")["memory"] == {"type": "local", "enabled": True, "command": [own], "environment": env}
    assert servers("goose")["memory"].items() >= {"type": "stdio", "cmd": own, "args": [], "envs": env}.items()


def test_an_entry_that_goose_has_written_anew_is_found_changed_and_removed() -> None:
    text = (
        "extensions:\n  memory:\n    type: stdio\n    cmd: /old/pgengram\n    args: []\n  other:\n    type: builtin\n"
    )
    file_of("goose", text)

    typed("connect", "goose", "--yes")
    assert servers("goose")["memory"]["cmd"] != "/old/pgengram"
    typed("disconnect", "goose", "--yes")
    assert file_of("goose").read_text(encoding="utf-8") == "extensions:\n  other:\n    type: builtin\n"


def test_the_assistants_that_are_installed_are_found_and_connected_together() -> None:
    file_of("cursor", "{}")
    file_of("junie").parents[1].mkdir(parents=True)
    file_of("zed").parent.mkdir(parents=True)

    rows = {row["client"]: row["installed"] for row in json.loads(typed("connect", "--json").output)}
    offered = typed("connect").output
    typed("connect", "all", "--yes")
    again = typed("connect", "all", "--yes").output

    assert {name for name, found in rows.items() if found} == {"cursor", "junie", "zed"}
    assert "Not found: claude-desktop" in offered
    assert all("memory" in servers(client) for client in ("cursor", "junie", "zed"))
    assert not file_of("gemini-cli").parent.exists()
    assert "Nothing to connect" in again


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminal")
@pytest.mark.parametrize(
    ("answer", "connected"),
    [
        ("2\n", {"zed"}),
        ("3\ncurser\nall\n", {"cursor", "zed"}),
        ("\n", set()),
        pytest.param("cursor\n", {"cursor"}, marks=pytest.mark.nightly),
    ],
)
def test_a_person_is_asked_which_of_the_installed_ones_to_connect(home: Path, answer: str, connected: set[str]) -> None:
    file_of("cursor", "{}")
    file_of("zed", "{}")
    typed_in_a_terminal(home, answer + "y\n" * len(connected))

    assert {one for one in ("cursor", "zed") if "memory" in file_of(one).read_text(encoding="utf-8")} == connected


def typed_in_a_terminal(home: Path, keys: str) -> None:
    """Type into `pgengram connect` where it sees a terminal, until it ends."""
    import os
    import pty

    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(sys.executable, [sys.executable, "-m", "pgengram", "connect"], {**os.environ, "HOME": str(home)})
    os.write(terminal, keys.encode())
    shown = b"".join(what_comes(terminal))
    os.close(terminal)
    assert exit_code(pid) == 0, shown.decode()


def test_only_the_newest_backups_are_kept() -> None:
    path = file_of("cursor", '{"mcpServers": {"a": {"command": "x"}}}')

    for number in range(6):
        typed("connect", "cursor", "--yes", settings={"PGENGRAM_NAMESPACE": f"n{number}"})

    assert len(config_edits.backups(path)) == 3
    assert len([*path.parent.iterdir()]) == 4


def test_what_a_person_wrote_stays_byte_for_byte_with_comments_and_trailing_commas() -> None:
    path = file_of("cursor", COMMENTED)

    typed("connect", "cursor", "--yes")
    connected = path.read_text(encoding="utf-8")
    typed("disconnect", "cursor", "--yes")

    old, new = COMMENTED.splitlines(), connected.splitlines()
    assert [line for line in new if line in old] == old
    assert "memory" in servers_of(connected)
    assert path.read_bytes() == COMMENTED.encode()


def servers_of(text: str) -> dict[str, Any]:
    return dict(file_edits.parse_jsonc(text)["mcpServers"])


def test_the_toml_of_codex_keeps_its_comments_and_its_other_tables() -> None:
    path = file_of("codex", CODEX)

    typed("connect", "codex", "--yes")
    assert path.read_text(encoding="utf-8").startswith(CODEX)
    typed("connect", "codex", "--yes", settings={"PGENGRAM_NAMESPACE": "work"})
    assert servers("codex")["memory"]["env"] == {"PGENGRAM_NAMESPACE": "work"}
    typed("disconnect", "codex", "--yes")

    assert path.read_text(encoding="utf-8") == CODEX


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{"mcpServers": {'),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", "[]"),
        ("vscode", '{"servers": {"a": nope}}'),
        ("codex", "[mcp_servers\n"),
        ("goose", "extensions: {a: {cmd: x}}\n"),
        ("goose", "extensions: [\n"),
        ("goose", "extensions:\n  - a\n"),
        ("codex", 'mcp_servers = {a = {command = "a"}}\n'),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_as_it_is_with_a_reason(client: str, text: str) -> None:
    path = file_of(client, text)

    result = CliRunner().invoke(app, ["connect", client, "--yes"])

    assert result.exit_code in (1, 2)
    assert path.name in result.output.replace("\n", "")
    assert "Traceback" not in result.output
    assert path.read_text(encoding="utf-8") == text
    assert [*path.parent.iterdir()] == [path]


def test_a_backup_is_kept_and_the_mode_of_the_file() -> None:
    path = file_of("claude-code", '{"numStartups": 7}')
    path.chmod(0o640)

    answer = json.loads(typed("connect", "claude-code", "--yes", "--json").output)

    assert Path(answer["backup"]).read_text(encoding="utf-8") == '{"numStartups": 7}'
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o777 == 0o640
    assert file_edits.parse_jsonc(path.read_text(encoding="utf-8"))["numStartups"] == 7


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_into_somebodys_dotfiles_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_text("{}", encoding="utf-8")
    path = file_of("cursor")
    path.parent.mkdir(parents=True)
    path.symlink_to(kept)

    typed("connect", "cursor", "--yes")

    assert path.is_symlink()
    assert "memory" in servers_of(kept.read_text(encoding="utf-8"))


def test_a_file_that_the_client_holds_open_is_written_when_it_lets_go(monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of("cursor", "{}")
    monkeypatch.setattr(operating_system, "PATIENCE_S", 60.0)
    monkeypatch.setattr(os, "replace", refused(os.replace, 9, when=lambda _, target: target == path))

    typed("connect", "cursor", "--yes")

    assert "memory" in servers("cursor")


def test_a_file_that_the_client_does_not_let_go_stays_as_it_was_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = file_of("cursor", "{}")
    monkeypatch.setattr(operating_system, "PATIENCE_S", 0.0)
    monkeypatch.setattr(os, "replace", refused(os.replace, math.inf, when=lambda _, target: target == path))

    answer = " ".join(typed("connect", "cursor", "--yes", expect=1).output.split())

    assert "used by another process" in answer
    assert "Quit the program that has it open" in answer
    assert path.read_text(encoding="utf-8") == "{}"
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.skipif(sys.platform != "win32", reason="elsewhere an open file can be replaced")
def test_a_file_that_is_really_open_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_of("cursor", "{}")
    monkeypatch.setattr(operating_system, "PATIENCE_S", 1.0)

    with path.open():
        answer = typed("connect", "cursor", "--yes", expect=1).output

    assert "Quit the program that has it open" in " ".join(answer.split())
    typed("connect", "cursor", "--yes")


def test_the_command_is_found_where_a_python_without_virtual_environment_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "Scripts"
    scripts.mkdir()
    (scripts / mcp_client.PROGRAM).touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _, scheme: str(scripts if "user" in scheme else tmp_path))

    typed("connect", "cursor", "--yes")

    assert servers("cursor")["memory"]["command"] == str(scripts / mcp_client.PROGRAM)


def test_nothing_is_written_unless_somebody_agrees() -> None:
    result = typed("connect", "cursor", expect=2)

    assert "--yes" in result.output
    assert not file_of("cursor").exists()


def test_another_server_of_that_name_is_not_overwritten() -> None:
    path = file_of("cursor", '{"mcpServers": {"memory": {"command": "npx", "args": ["server-memory"]}}}')
    before = path.read_bytes()

    assert "--name" in typed("connect", "cursor", "--yes", expect=1).output
    assert "a different server" in typed("disconnect", "cursor", "--yes", expect=1).output
    assert path.read_bytes() == before
    typed("connect", "cursor", "--yes", "--name", "pgengram")
    assert [*servers("cursor")] == ["memory", "pgengram"]


def test_an_entry_of_ours_is_brought_up_to_date_and_keeps_what_was_added_to_it() -> None:
    added = {"env": {"OTHER": "1", "PGENGRAM_NAMESPACE": "old"}, "disabled": False}
    file_of("cursor", json.dumps({"mcpServers": {"memory": OURS | added}}))

    typed("connect", "cursor", "--yes", settings={"PGENGRAM_NAMESPACE": "new"})

    entry = servers("cursor")["memory"]
    assert entry["command"] != OURS["command"]
    assert entry["disabled"] is False
    assert entry["env"] == {"OTHER": "1", "PGENGRAM_NAMESPACE": "new"}


def test_settings_go_along_and_secrets_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = "postgresql://ada:s3cr%23t@db.example.org/memo"
    answer = typed("connect", "cursor", "--yes", settings={"PGENGRAM_DATABASE_URL": url, "PGENGRAM_DATA_DIR": "mine"})

    assert "s3cr" not in answer.output
    assert servers("cursor")["memory"]["env"] == {
        "PGENGRAM_DATABASE_URL": url,
        "PGENGRAM_DATA_DIR": str(tmp_path / "mine"),
    }
    assert "s3cr" not in typed("disconnect", "cursor", "--yes").output
    refused = typed("connect", "cursor", "--folder", ".", "--yes", expect=2, settings={"PGENGRAM_DATABASE_URL": url})
    assert "password" in refused.output
    assert not (tmp_path / ".cursor").exists()


KEYS_OF_OTHERS = {
    "json": '{{"{holder}": {{"gh": {{"args": ["--key", "sk-{one}"], "env": {{"T": "sk-{two}"}}}}}}, "apiKey": "sk-{three}"}}',
    "toml": 'key = "sk-{three}"\n# sk-{two}\n[{holder}.gh]\nargs = ["sk-{one}"]\nenv = {{ T = "sk-{two}" }}\n',
    "yaml": "key: sk-{three}\n{holder}:\n  gh:\n    args: ['--key', sk-{one}]\n    env:\n      T: sk-{two} # sk-{one}\n",
}


def _laid_out(text: str, layout: str) -> str:
    """Return JSON as its author may have broken it into lines: one, one for each value, or one for each server."""
    if layout == "one line":
        return text
    if layout == "pretty":
        return json.dumps(json.loads(text), indent=2)
    (holder, servers), *others = json.loads(text).items()
    each = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in servers.items())
    more = "".join(f",\n  {json.dumps(name)}: {json.dumps(value)}" for name, value in others)
    return f"{{\n  {json.dumps(holder)}: {{\n{each}{',' if layout == 'comma' else ''}\n  }}{more}\n}}\n"


@given(
    st.sampled_from(sorted(c.CLIENTS)),
    st.sampled_from(["one line", "pretty", "a line each", "comma"]),
    st.integers(0, 10**9),
)
def test_the_keys_of_other_servers_are_in_no_printed_change(client: str, layout: str, number: int) -> None:
    chosen = c.CLIENTS[client]
    keys = {"one": number, "two": number + 1, "three": number + 2}
    text = KEYS_OF_OTHERS[chosen.form].format(holder=chosen.holder, **keys)
    if chosen.form == "json":
        text = _laid_out(text, layout)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings"
        path.write_text(text, encoding="utf-8")
        connected = config_edits.connecting_edit(chosen, path, "memory", {"command": "/bin/pgengram"})
        path.write_bytes(connected.after or b"")
        printed = [*connected.diff(), *config_edits.disconnecting_edit(chosen, path, "memory").diff()]

    assert "/bin/pgengram" in "\n".join(printed)
    assert [line for line in printed if "sk-" in line] == []


def test_assistants_are_known_by_the_names_that_people_use() -> None:
    file_of("claude-code", "{}")
    file_of("vscode").parent.mkdir(parents=True)

    typed("connect", "claude", "--yes")
    typed("connect", "Copilot", "--yes")

    assert "memory" in servers("claude-code")
    assert "memory" in servers("vscode")
    file_of("claude-desktop", "{}")
    assert "claude-desktop or claude-code" in typed("connect", "claude", "--yes", expect=2).stderr
    assert "can't start a program on this machine" in typed("connect", "ChatGPT", expect=2).stderr


def test_all_assistants_are_disconnected_together() -> None:
    for client in ("cursor", "zed"):
        file_of(client, "{}")
    typed("connect", "all", "--yes")

    typed("disconnect", "all", "--yes")

    assert [file_of(client).read_text(encoding="utf-8") for client in ("cursor", "zed")] == ["{}", "{}"]
    assert "Nothing to disconnect" in typed("disconnect", "all", "--yes").output


def test_a_projects_own_file_is_written_when_a_folder_is_named(tmp_path: Path) -> None:
    typed("connect", "vscode", "--folder", str(tmp_path), "--yes")

    written = json.loads((tmp_path / ".vscode" / "mcp.json").read_text(encoding="utf-8"))
    assert [*written["servers"]] == ["memory"]
    assert "has no project file" in typed("connect", "codex", "--folder", str(tmp_path), expect=2).output


def test_any_other_client_is_shown_what_to_put_in() -> None:
    printed = CliRunner().invoke(app, ["connect", "any"])

    assert json.loads(printed.stdout)["mcpServers"]["memory"]["command"]


@pytest.mark.parametrize("command", ["connect", "disconnect"])
def test_a_client_that_is_misspelt_is_refused_with_a_suggestion(command: str) -> None:
    refused = typed(command, "claude-dekstop", "--yes", expect=2)

    assert "Did you mean claude-desktop?" in refused.stderr.replace("\n", " ")
    assert refused.stdout == ""
    assert "Use one of claude-desktop" in typed(command, "notepad", expect=2).stderr


def test_printing_changes_nothing() -> None:
    for client in c.CLIENTS:
        printed = CliRunner().invoke(app, ["connect", client, "--print"]).stdout
        assert "memory" in READ[c.CLIENTS[client].form](printed)[c.CLIENTS[client].holder]
        assert not file_of(client).exists()


def test_links_hold_the_entry_that_would_be_written() -> None:
    cursor = urlsplit(typed("connect", "cursor", "--link").output.strip())
    vscode = typed("connect", "vscode", "--link").output.strip()

    answer = parse_qs(cursor.query)
    assert cursor.scheme == "cursor"
    assert answer["name"] == ["memory"]
    entry = json.loads(base64.b64decode(answer["config"][0]))
    assert Path(entry["command"]).is_absolute()
    prefix, _, config = vscode.partition("?")
    assert prefix == "vscode:mcp/install"
    assert json.loads(unquote(config)) == {"name": "memory", "type": "stdio", **entry}
    assert "support install links" in typed("connect", "codex", "--link", expect=2).output


def test_the_list_tells_what_is_connected() -> None:
    typed("connect", "codex", "--yes")

    rows = {row["client"]: row for row in json.loads(typed("connect", "--json").output)}

    assert [*rows] == [*c.CLIENTS]
    assert {name for name, row in rows.items() if row["connected_as"]} == {"codex"}


def test_the_doctor_starts_what_is_connected_as_the_client_would_and_says_what_does_not_work(
    database: Database,
) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2"
    somewhere = {"PGENGRAM_DATABASE_URL": database.url, "PGENGRAM_EMBEDDER": "none:"}
    typed("add", "Zoë keeps the spare key.", settings=somewhere)
    typed("connect", "codex", "--yes", settings=somewhere)
    typed("connect", "claude-code", "--yes", settings={"PGENGRAM_DATABASE_URL": nowhere, "PGENGRAM_EMBEDDER": "none:"})
    file_of("cursor", json.dumps({"mcpServers": {"memory": OURS}}))
    talker = {"command": sys.executable, "args": ["-c", "print('Welcome!')", "pgengram"]}
    file_of("vscode", json.dumps({"servers": {"memory": talker}}))

    findings = {
        one["what"]: one for one in answered("doctor", "--json", expect=1, database_url=nowhere, embedder="none:")
    }

    assert findings["Codex"]["ok"] is True
    assert "1 memory" in findings["Codex"]["seen"]
    assert findings["Claude Code"]["ok"] is False
    assert "not its store" in findings["Claude Code"]["seen"]
    assert findings["Cursor"]["ok"] is False
    assert "pgengram connect cursor" in findings["Cursor"]["repair"]
    assert "something other than MCP" in findings["Visual Studio Code"]["seen"]


# What a client may have written: gaps, comments, nesting, trailing commas.
gaps = st.sampled_from(["", " ", "\n", "\n  ", ' // c, "{\n', '/* } " */', "/* a\n b */", "\t", "\r\n   "])
names = st.sampled_from(["a", "b", "memory", "mcpServers", 'é"x', "//"])
scalars = st.sampled_from(["1", "-2.5e3", "true", "null", '"// no"', '"\\" {"', "[]", "{}", "[1, 2,]", "[ /*x*/ ]"])


@st.composite
def objects(draw: st.DrawFn, depth: int = 0) -> str:
    text = "{"
    number = draw(st.integers(0, 3))
    for place in range(number):
        name = draw(names)
        nested = (depth == 0 and name == "mcpServers") or (depth < 2 and draw(st.booleans()))
        value = draw(objects(depth + 1)) if nested else draw(scalars)
        text += "".join([draw(gaps), json.dumps(name), draw(gaps), ":", draw(gaps), value, draw(gaps)])
        if place < number - 1 or draw(st.booleans()):
            text += ","
    return text + draw(gaps) + "}"


@given(text=objects())
def test_an_edit_changes_one_member_and_nothing_else(text: str) -> None:
    path, value = ("mcpServers", "memory"), {"command": "/x", "env": {"A": "1"}}
    expected = file_edits.parse_jsonc(text)
    expected.setdefault("mcpServers", {})["memory"] = value

    written = file_edits.with_entry(text, path, value)
    assert file_edits.parse_jsonc(written) == expected
    del expected["mcpServers"]["memory"]
    assert file_edits.parse_jsonc(file_edits.without_entry(written, path)) == expected
