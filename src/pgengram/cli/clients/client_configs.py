"""The programs that assistants run in: where each keeps its servers, in which form, and how ours gets in and out
again.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode

from pgengram.cli.clients import mcp_client
from pgengram.embedders import spelled
from pgengram.errors import InvalidInput
from pgengram.settings import PREFIX, Settings

Entry = dict[str, Any]

NAME: Final = "memory"  # of our entry, unless another is chosen


@dataclass(frozen=True, slots=True)
class Client:
    """One program.

    Args:
        name: what a person types.
        title: what it calls itself.
        form: the language of its file.
        holder: the name below which its servers stand.
        place: returns its user's own file.
        shared: its file in a project's folder, from there; empty when it has none.
        typed: whether an entry says that it is started and talked to over a pipe.
        then: what is to be done afterwards.
    """

    name: str
    title: str
    form: Literal["json", "toml"]
    holder: str
    place: Callable[[], Path]
    then: str
    shared: str = ""
    typed: bool = False

    def path(self, folder: Path | None = None) -> Path:
        """Return the file of the user, or of the project in `folder`.

        Raises:
            InvalidInput: the client has no file for a project, or the folder is not there.
        """
        if folder is None:
            return self.place()
        if not self.shared:
            raise InvalidInput(f"{self.title} has no file for a project.", "Leave out --folder.")
        if not folder.is_dir():
            raise InvalidInput(f"There is no folder {folder}.")
        return folder.absolute() / self.shared


def _programs_folder() -> Path:
    """Return where this system keeps what programs with windows remember of their settings."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _moved(variable: str, usual: str) -> Path:
    """Return a folder that an environment variable may move away from its usual place below the home folder."""
    return Path(os.environ.get(variable) or Path.home() / usual)


CLIENTS: Final = {
    client.name: client
    for client in (
        Client(
            "claude-desktop", "Claude Desktop", "json", "mcpServers",
            lambda: _programs_folder() / "Claude" / "claude_desktop_config.json",
            "Quit Claude Desktop completely and start it again.",
        ),
        Client(
            "claude-code", "Claude Code", "json", "mcpServers",
            lambda: _moved("CLAUDE_CONFIG_DIR", "") / ".claude.json",
            "Start a new session; /mcp shows the server.",
            shared=".mcp.json", typed=True,
        ),
        Client(
            "cursor", "Cursor", "json", "mcpServers",
            lambda: Path.home() / ".cursor" / "mcp.json",
            "Start Cursor again; Settings → MCP shows the server.",
            shared=".cursor/mcp.json",
        ),
        Client(
            "vscode", "Visual Studio Code", "json", "servers",
            lambda: _programs_folder() / "Code" / "User" / "mcp.json",
            "Run “MCP: List Servers” and start it.",
            shared=".vscode/mcp.json", typed=True,
        ),
        Client(
            "codex", "Codex", "toml", "mcp_servers",
            lambda: _moved("CODEX_HOME", ".codex") / "config.toml",
            "Start a new session; /mcp shows the server.",
        ),
    )
}  # fmt: skip
ANY: Final = Client("any", "any other client", "json", "mcpServers", Path, "")


# ---------------------------------------------------------------------------------------------------------- our entry


def own_entry(settings: Settings) -> Entry:
    """Return how to start this very program with `settings`: an absolute path, and what is not at its default."""
    whole = replace(
        settings,
        data_dir=str(settings.data_path) if settings.data_dir else "",
        embedder=spelled(settings.embedder),
    )
    return mcp_client.entry(whole)


def is_ours(entry: object) -> bool:
    """Whether an entry of a client starts pgengram: directly, as a module, or through something that runs packages."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("command"), str):
        return False
    program = re.split(r"[\\/]", entry["command"])[-1].lower().removesuffix(".exe")
    arguments = entry.get("args") if isinstance(entry.get("args"), list) else []
    packages = [re.split(r"[=<>@\[]", str(one))[0] for one in arguments or []]
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
    except ProgrammingError:  # whatever it is, it may hold one
        password = url
    return [one for one in (str(env.get(PREFIX + "EMBEDDER_API_KEY", "")), password) if one]


def link(client: Client, name: str, entry: Entry, *, web: bool = False) -> str:
    """Return the address that has a client offer to install the entry; with `web` one that pages may show.

    Raises:
        InvalidInput: the client follows no such address.
    """
    config = json.dumps(written(client, entry), separators=(",", ":"), ensure_ascii=False)
    if client.name == "cursor":
        query = urlencode({"name": name, "config": base64.b64encode(config.encode()).decode()})
        page = "https://cursor.com/en/install-mcp" if web else "cursor://anysphere.cursor-deeplink/mcp/install"
        return f"{page}?{query}"
    if client.name == "vscode":
        if web:
            return f"https://vscode.dev/redirect/mcp/install?name={quote(name)}&config={quote(config, safe='')}"
        whole = json.dumps({"name": name, **written(client, entry)}, separators=(",", ":"), ensure_ascii=False)
        return f"vscode:mcp/install?{quote(whole, safe='')}"
    raise InvalidInput(f"{client.title} follows no install links.", "cursor and vscode do.")


def written(client: Client, entry: Entry) -> Entry:
    """Return the entry as this client has it."""
    return {"type": "stdio", **entry} if client.typed else dict(entry)
