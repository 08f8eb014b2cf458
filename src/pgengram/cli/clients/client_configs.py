"""The programs that assistants run in: where each keeps its servers, in which form, and how ours gets in and out."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from pgengram.cli.clients import mcp_client
from pgengram.data_folder import make_data_folder
from pgengram.embedders import spelled
from pgengram.errors import InvalidInput
from pgengram.settings import PREFIX, Settings

Entry = dict[str, Any]

NAME: Final = "memory"  # of our entry, unless another is chosen
KERNEL: Final = Path("/proc/version")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a client writes an entry: its words for the command, its arguments and variables, and what else it wants.

    Without a word for the arguments, the command is a list that holds them too.
    """

    command: str = "command"
    args: str = "args"
    env: str = "env"
    extra: Mapping[str, Any] = field(default_factory=dict)


PLAIN: Final = Shape()
TYPED: Final = Shape(extra={"type": "stdio"})
LOCAL: Final = Shape(args="", env="environment", extra={"type": "local", "enabled": True})
EXTENSION: Final = Shape(
    command="cmd",
    env="envs",
    extra={
        "type": "stdio", "name": "pgengram", "description": "Long-term memory", "enabled": True, "timeout": 300,
        "args": [],
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Client:
    """One program.

    Args:
        name: what a person types.
        title: what it calls itself.
        file: its user's own file; `~` is the home folder, `{apps}` where programs keep settings, `{config}` ~/.config.
        then: what is to be done afterwards.
        holder: the name below which its servers stand.
        shared: its file in a project's folder, from there; empty when it has none.
        form: the language of its file.
        shape: how it writes an entry.
        own: how many folders above the file belong to the program; 0 when only the file shows that it is installed.
        windows: the file on Windows, where that is another one.
        moved_by: the environment variable that names the file's folder when that is another one.
        instead: another name of the file, taken if a file of that name is there.
        packaged: the file of the build that Windows keeps in a folder of its own, which reads no other; `*` is part of
            that folder's name.
        windowed: whether it is a program with windows, which people of WSL run on Windows.
        maker: what people call it, too, after its maker or what it is part of.
    """

    name: str
    title: str
    file: str
    then: str
    holder: str = "mcpServers"
    shared: str = ""
    form: Literal["json", "toml", "yaml"] = "json"
    shape: Shape = PLAIN
    own: int = 1
    windows: str = ""
    moved_by: str = ""
    instead: str = ""
    packaged: str = ""
    windowed: bool = False
    maker: str = ""

    def path(self, folder: Path | None = None) -> Path:
        """Return the file of the user, or of the project in `folder`.

        Raises:
            InvalidInput: the client has no file for a project, or the folder is not there.
        """
        if folder is None:
            return self._of_user()
        if not self.shared:
            raise InvalidInput(f"{self.title} has no project file.", "Leave out --folder.")
        if not folder.is_dir():
            raise InvalidInput(f"There is no folder {folder}.")
        return folder.absolute() / self.shared

    def is_installed(self) -> bool:
        """Whether the program has left traces on this machine."""
        path = self.path()
        return path.exists() or (self.own > 0 and path.parents[self.own - 1].is_dir())

    def runs_on_windows(self) -> bool:
        """Whether this is the Linux within Windows, and the program is one of Windows that reads nothing here."""
        return self.windowed and is_wsl() and not self.is_installed()

    def unpackaged(self) -> Path | None:
        """Return the file that the build without a package reads, where another one is installed; else None."""
        return self._usual() if self._packaged() else None

    def _packaged(self) -> Path | None:
        if not self.packaged or sys.platform != "win32":
            return None
        folder, _, rest = self.packaged.partition("*")
        holder, begin = folder.rsplit("/", 1)
        found = [one for one in _local_folder().joinpath(holder).glob(f"{begin}*") if one.is_dir()]
        newest = max(found, key=lambda one: one.stat().st_mtime, default=None)
        return newest / rest.lstrip("/") if newest else None

    def _of_user(self) -> Path:
        return self._packaged() or self._usual()

    def _usual(self) -> Path:
        where = self.windows if self.windows and sys.platform == "win32" else self.file
        root, _, rest = where.partition("/")
        path = FOLDERS[root]() / rest
        if moved := os.environ.get(self.moved_by):
            path = Path(moved) / path.name
        other = path.with_name(self.instead or path.name)
        return other if other.exists() else path


def _programs_folder() -> Path:
    """Return where this system keeps what programs with windows remember of their settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return _config_folder()


def _local_folder() -> Path:
    return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")


def is_wsl() -> bool:
    """Whether this is the Linux within Windows (WSL)."""
    try:
        return sys.platform == "linux" and "microsoft" in KERNEL.read_text("utf-8").lower()
    except OSError:
        return False


def _config_folder() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


FOLDERS: Final[dict[str, Callable[[], Path]]] = {"~": Path.home, "{apps}": _programs_folder, "{config}": _config_folder}
_ROO: Final = "{apps}/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"

# To add a client: one line here. `python tests/reference.py` writes docs/reference/clients.md from it.
CLIENTS: Final = {
    client.name: client
    for client in (
        Client("claude-desktop", "Claude Desktop", "{apps}/Claude/claude_desktop_config.json", "Quit Claude Desktop completely and start it again.", packaged="Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json", windowed=True, maker="claude"),
        Client("claude-code", "Claude Code", "~/.claude.json", "Start a new session; /mcp shows the server.", shared=".mcp.json", shape=TYPED, own=0, moved_by="CLAUDE_CONFIG_DIR", maker="claude"),
        Client("cursor", "Cursor", "~/.cursor/mcp.json", "Restart Cursor; Settings → MCP shows the server.", windowed=True, shared=".cursor/mcp.json"),
        Client("vscode", "Visual Studio Code", "{apps}/Code/User/mcp.json", "Run “MCP: List Servers” and start it.", windowed=True, holder="servers", shared=".vscode/mcp.json", shape=TYPED, maker="copilot"),
        Client("codex", "Codex", "~/.codex/config.toml", "Start a new session; /mcp shows the server.", holder="mcp_servers", form="toml", moved_by="CODEX_HOME"),
        Client("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", "Restart Windsurf.", windowed=True),
        Client("zed", "Zed", "{config}/zed/settings.json", "The agent panel's settings show the server.", windowed=True, holder="context_servers", windows="{apps}/Zed/settings.json", shared=".zed/settings.json"),
        Client("gemini-cli", "Gemini CLI", "~/.gemini/settings.json", "Start a new session; /mcp shows the server.", shared=".gemini/settings.json", maker="gemini"),
        Client("cline", "Cline", "~/.cline/data/settings/cline_mcp_settings.json", "Cline's MCP Servers panel shows the server.", own=3),
        Client("roo-code", "Roo Code", _ROO, "Roo Code's MCP settings show the server.", shared=".roo/mcp.json", own=2),
        Client("kilo-code", "Kilo Code", "{config}/kilo/kilo.json", "Restart the editor; Settings → Agent Behaviour → MCP Servers shows the server.", holder="mcp", shape=LOCAL, shared=".kilo/kilo.json", instead="kilo.jsonc"),
        Client("continue", "Continue", "~/.continue/mcpServers/pgengram.json", "Reload the editor's window.", shared=".continue/mcpServers/pgengram.json", own=2),
        Client("junie", "JetBrains Junie", "~/.junie/mcp/mcp.json", "Settings → Tools → Junie → MCP Settings shows the server.", shared=".junie/mcp/mcp.json", own=2, maker="jetbrains"),
        Client("lm-studio", "LM Studio", "~/.lmstudio/mcp.json", "Switch the server on in the Program tab.", windowed=True),
        Client("goose", "Goose", "{config}/goose/config.yaml", "Start a new session.", holder="extensions", form="yaml", shape=EXTENSION, windows="{apps}/Block/goose/config/config.yaml"),
        Client("amazon-q", "Amazon Q Developer CLI", "~/.aws/amazonq/mcp.json", "Start a new session; /tools shows the server.", shared=".amazonq/mcp.json", maker="amazon"),
        Client("opencode", "opencode", "{config}/opencode/opencode.json", "Start a new session.", holder="mcp", shape=LOCAL, shared="opencode.json", instead="opencode.jsonc"),
        Client("warp", "Warp", "~/.warp/.mcp.json", "Settings → Agents → MCP servers shows the server.", windowed=True, shared=".warp/.mcp.json"),
    )
}  # fmt: skip
ANY: Final = Client("any", "any other client", "~/mcp.json", "")
# They run in a browser or on a phone, and can start no program here.
ONLINE: Final = {
    "chatgpt": "ChatGPT",
    "claude.ai": "claude.ai",
    "le-chat": "Le Chat",
    "grok": "Grok",
    "perplexity": "Perplexity",
}


def meant(word: str) -> list[str]:
    """Return the clients that a person means: the one of that name, else those that the word is the maker of.

    Where several are, only those that are installed, if any is.

    Raises:
        InvalidInput: the program runs elsewhere, or there is no such client.
    """
    asked = word.lower()
    if title := ONLINE.get(asked):
        raise InvalidInput(
            f"{title} can't start a program on this machine.",
            "It needs a server that it can reach: `pgengram serve --http` behind an https:// address of your own.",
        )
    named = [name for name, client in CLIENTS.items() if asked in (name, client.maker, client.title.lower())]
    installed = [name for name in named if CLIENTS[name].is_installed()]
    return installed or named


# ---------------------------------------------------------------------------------------------------------- our entry


def own_entry(settings: Settings) -> Entry:
    """Return how to start this very program with `settings`: an absolute path, and what is not at its default."""
    whole = replace(
        settings, data_dir=str(settings.data_path) if settings.data_dir else "", embedder=spelled(settings.embedder)
    )
    return mcp_client.server_entry(whole)


def through_wsl(entry: Entry) -> Entry:
    """Return the entry with which a program of Windows starts what is in this Linux; it passes no environment on."""
    variables = [f"{name}={value}" for name, value in (entry.get("env") or {}).items()]
    distribution = os.environ.get("WSL_DISTRO_NAME")
    apart = [*(["--distribution", distribution] if distribution else []), "--exec", "env", *variables]
    return {"command": "wsl.exe", "args": [*apart, entry["command"], *entry.get("args", [])]}


def client_form(client: Client, entry: Entry) -> Entry:
    """Return the entry as this client has it."""
    shape, args = client.shape, entry.get("args", [])
    command = entry["command"] if shape.args else [entry["command"], *args]
    made = {**shape.extra, shape.command: command}
    if shape.args and args:
        made[shape.args] = args
    if entry.get("env"):
        made[shape.env] = entry["env"]
    return made


def read_entry(client: Client, there: object) -> Entry:
    """Return what an entry of a client starts, in the words of most clients; what is not an entry is an empty one."""
    if not isinstance(there, Mapping):
        return {}
    shape, words = client.shape, there.get(client.shape.command)
    if not shape.args and isinstance(words, list) and words:
        made: Entry = {"command": words[0], "args": words[1:]}
    else:
        made = {"command": words, "args": there.get(shape.args) or []}
    return {**made, "env": there.get(shape.env) or {}}


def is_ours(client: Client, there: object) -> bool:
    """Whether an entry of a client starts pgengram: directly, as a module, or through something that runs packages."""
    entry = read_entry(client, there)
    if not isinstance(entry.get("command"), str):
        return False
    program = re.split(r"[\\/]", entry["command"])[-1].lower().removesuffix(".exe")
    arguments = entry["args"] if isinstance(entry["args"], list) else []
    packages = [re.split(r"[=<>@\[]", str(one))[0] for one in arguments]
    return program == "pgengram" or "pgengram" in packages


def secrets_of(*entries: Entry) -> list[str]:
    """Return what in entries is for no eye but the client's: a key, and the password of a database."""
    return [
        text for entry in entries for one in _secrets(entry.get("env") or {}) for text in {one, quote(one, safe="")}
    ]


def _secrets(env: Mapping[str, Any]) -> list[str]:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    url = str(env.get(PREFIX + "DATABASE_URL", ""))
    try:
        password = str(conninfo_to_dict(url).get("password") or "") if url else ""
    except (ProgrammingError, UnicodeDecodeError):  # whatever it is, it may hold one
        password = url
    return [one for one in (str(env.get(PREFIX + "EMBEDDER_API_KEY", "")), password) if one]


def install_link(client: Client, name: str, entry: Entry, *, web: bool = False) -> str:
    """Return the address that has a client offer to install the entry; with `web` one that pages may show.

    Raises:
        InvalidInput: the client follows no such address.
    """
    config = json.dumps(client_form(client, entry), separators=(",", ":"), ensure_ascii=False)
    if client.name == "cursor":
        query = urlencode({"name": name, "config": base64.b64encode(config.encode()).decode()})
        page = "https://cursor.com/en/install-mcp" if web else "cursor://anysphere.cursor-deeplink/mcp/install"
        return f"{page}?{query}"
    if client.name == "vscode":
        if web:
            return f"https://vscode.dev/redirect/mcp/install?name={quote(name)}&config={quote(config, safe='')}"
        whole = json.dumps({"name": name, **client_form(client, entry)}, separators=(",", ":"), ensure_ascii=False)
        return f"vscode:mcp/install?{quote(whole, safe='')}"
    raise InvalidInput(f"{client.title} doesn't support install links.", "--link works for cursor and vscode.")


FILE: Final = "connected.json"  # in the data folder

Connection = tuple[str, Path, str]  # the client's name, its file, and what it calls our entry


def connections_made(settings: Settings) -> list[Connection]:
    """Return the clients that were connected, by the order of that; none where nothing can be read."""
    try:
        rows = json.loads((settings.data_path / FILE).read_text("utf-8"))
        return [(str(client), Path(path), str(name)) for client, path, name in rows]
    except (OSError, ValueError, TypeError):
        return []


def note_connected(settings: Settings, client: str, path: Path, name: str) -> None:
    """Note that a client was connected."""
    one = (client, path.absolute(), name)
    _write_record(settings, [*(other for other in connections_made(settings) if other != one), one])


def note_disconnected(settings: Settings, client: str, path: Path, name: str) -> None:
    """Note that a client was disconnected, or is to be forgotten."""
    before, one = connections_made(settings), (client, path.absolute(), name)
    if one in before:
        _write_record(settings, [other for other in before if other != one])


def _write_record(settings: Settings, connections: list[Connection]) -> None:
    """Keep the list for its owner; without a data folder that can be written, doctor says less."""
    path = settings.data_path / FILE
    with contextlib.suppress(OSError):
        make_data_folder(str(settings.data_path))
        rows = [[client, str(file), name] for client, file, name in connections]
        with open(f"{path}.new", "w", encoding="utf-8", opener=_private_opener) as written:
            json.dump(rows, written, indent=1)
        os.replace(f"{path}.new", path)


def _private_opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
