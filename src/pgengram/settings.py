"""Settings: environment variables that begin with PGENGRAM_, read once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from pgengram.data_folder import default_data_folder
from pgengram.errors import InvalidInput

PREFIX = "PGENGRAM_"
TOOLSETS_BY_NAME_ONLY = ("hosts", "card")  # not of `all`: their tools say what others say already
TOOLSETS = ("core", "review", "graph", "maintenance", "clusters", "working", "identity")
ESSENTIAL = "essential"  # the five of the core that matter most, listed as briefly as possible
COMPAT = ("agi", "session-continuity", "skynet", "ownsona", "crow", "mcp-memory", "mcp-memory-service", "basic-memory")
SECRETS = ("reject", "redact")
ANSWERS = ("short", "full")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
MAX_BACKUPS = 3_650
USUAL_BACKUPS = 7  # a week: long enough to notice what went wrong


def _setting(default: str, about: str) -> Any:
    return field(default=default, metadata={"about": about})


def _check_choice(name: str, value: str, allowed: Sequence[str], rest: str = "") -> None:
    if value not in allowed:
        or_empty = "empty or " if "" in allowed else ""
        choices = ", ".join(filter(None, allowed))
        raise InvalidInput(f"{PREFIX}{name.upper()} must be {or_empty}one of {choices}{rest}.")


@dataclass(frozen=True)
class Settings:
    """Everything that can be set from outside; each field is the variable PGENGRAM_ + its name in capitals."""

    database_url: str = _setting(
        "", "PostgreSQL to use, as a postgresql:// URL. Empty: an embedded one in the data folder."
    )
    read_url: str = _setting("", "A streaming replica of that PostgreSQL, for searches while it keeps up. Empty: none.")
    data_dir: str = _setting("", "Folder of the embedded PostgreSQL. Empty: the usual per-user data folder.")
    embedder: str = _setting(
        "builtin:",
        "For a new store: `builtin:`, `onnx:FOLDER`, `openai+http(s)://host/v1#model`; or `none:` for "
        "text search only.",
    )
    embedder_api_key: str = _setting("", "Key sent to an `openai+…` embedder.")
    namespace: str = _setting("default", "Whose memories these are.")
    spaces: str = _setting(
        "",
        "Shared spaces that the assistant may use, comma-separated; `NAME:read` for one that it may only read. "
        "Empty: none.",
    )
    project: str = _setting("", "Project being worked on, or `off` for none. Empty: that of the folder.")
    toolsets: str = _setting(
        "core,review",
        "Which groups of tools to list, comma-separated: `core`, `review`, `graph`, `maintenance`, `clusters`, "
        "`working`, `identity`, or `all`; or `essential`, five tools of the core. `hosts` adds the `search` and "
        "`fetch` that ChatGPT calls and has when it signs in, `card` the card in the chat that every program then has.",
    )
    compat: str = _setting(
        "",
        f"Offer another memory server's tools instead: {', '.join(f'`{name}`' for name in COMPAT[:-1])} "
        f"or `{COMPAT[-1]}`.",
    )
    secrets: str = _setting(
        "reject", "A text with a password, key or token: `reject` it, or `redact` the secret and store the rest."
    )
    answers: str = _setting("short", "What tools answer: `short`, what a language model needs, or `full`, every field.")
    backup_days: str = _setting(
        "",
        "How many daily backups are kept, beside the last of each of four weeks; 0 makes none. Empty: 7 of the "
        "embedded PostgreSQL, 0 of one of your own.",
    )
    log_level: str = _setting(
        "WARNING", "What is logged to stderr: DEBUG, INFO, WARNING or ERROR; with `,json` as JSON."
    )

    def __post_init__(self) -> None:
        if not 1 <= len(self.namespace) <= 128:
            raise InvalidInput("PGENGRAM_NAMESPACE must have 1 to 128 characters.")
        if self.namespace.startswith("space:"):
            raise InvalidInput(
                "PGENGRAM_NAMESPACE cannot begin with space:.", "Name a shared space in PGENGRAM_SPACES."
            )
        level = self.log_level.upper().removesuffix(",JSON")
        _check_choice("log_level", level, LOG_LEVELS, ", optionally followed by ,json")
        _check_choice("compat", self.compat, ("", *COMPAT))
        _check_choice("secrets", self.secrets, SECRETS)
        _check_choice("answers", self.answers, ANSWERS)
        if self.backup_days and (not self.backup_days.isdecimal() or int(self.backup_days) > MAX_BACKUPS):
            raise InvalidInput(f"PGENGRAM_BACKUP_DAYS must be a number from 0 to {MAX_BACKUPS}.")
        unknown = self.toolset_names - {*TOOLSETS, *TOOLSETS_BY_NAME_ONLY, ESSENTIAL}
        if unknown or not self.toolset_names:
            raise InvalidInput(f"PGENGRAM_TOOLSETS: choose from {', '.join(TOOLSETS)}, all or {ESSENTIAL}.")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read the settings from `environ` (the process's by default).

        Raises:
            InvalidInput: a value is not allowed, or a PGENGRAM_ variable is not known.
        """
        source = os.environ if environ is None else environ
        known = {PREFIX + f.name.upper(): f.name for f in fields(cls)}
        unknown = sorted(
            name for name in source if name.startswith(PREFIX) and name not in known and "_TEST_" not in name
        )
        if unknown:
            raise InvalidInput(f"Unknown setting {', '.join(unknown)}.", f"Use one of: {', '.join(known)}.")
        return cls(**{name: source[variable] for variable, name in known.items() if source.get(variable)})

    def with_own(self, environ: Mapping[str, str], names: Iterable[str]) -> Settings:
        """Return these settings, but some variables as another program's environment has them, or at their defaults."""
        usual = Settings()
        fields_ = {name: name.removeprefix(PREFIX).lower() for name in names}
        return replace(self, **{one: environ.get(name) or getattr(usual, one) for name, one in fields_.items()})

    @property
    def toolset_names(self) -> frozenset[str]:
        """The names in `toolsets`; `all` stands for every one."""
        names = frozenset(name.strip() for name in self.toolsets.split(",") if name.strip())
        return frozenset(TOOLSETS) | names - {"all"} if "all" in names else names

    @property
    def short_answers(self) -> bool:
        """Whether answers are short; another server's tools answer as that server does."""
        return self.answers == "short" and not self.compat

    @property
    def has_default_embedder(self) -> bool:
        """Whether no other embedder was chosen; another may be one that cannot be used."""
        return self.embedder == type(self)().embedder

    @property
    def backups_kept(self) -> int:
        """How many daily backups are kept; 0 when none are made."""
        return int(self.backup_days or (0 if self.database_url else USUAL_BACKUPS))

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that give these settings; what is at its default is left out."""
        usual = asdict(Settings())
        return {PREFIX + name.upper(): value for name, value in asdict(self).items() if value != usual[name]}

    @property
    def data_path(self) -> Path:
        """The folder of the embedded server, absolute."""
        return Path(self.data_dir).expanduser().absolute() if self.data_dir else Path(default_data_folder())


def spaces_named(written: Iterable[str]) -> dict[str, Literal["read", "write"]]:
    """Return the names of shared spaces, each with what may be done there, from `NAME` and `NAME:read`."""
    found: dict[str, Literal["read", "write"]] = {}
    for one in filter(None, map(str.strip, written)):
        name, _, right = one.rpartition(":")
        found[name if name and right == "read" else one] = "read" if name and right == "read" else "write"
    return found


def environment_without_settings() -> dict[str, str]:
    """Return the environment of this process without settings, for a program that gets others."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
