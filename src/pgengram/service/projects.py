"""The names of projects: each keeps its own for as long as it exists, and a person may give it others.

They are in `projects.json` of the data folder, for each namespace the aliases, which a person edits, and the projects
that were seen, by what they are known by.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pgengram.data_folder import make_data_folder
from pgengram.errors import InvalidInput
from pgengram.postgres.process_locks import Lock
from pgengram.runtime.operating_system import rename
from pgengram.runtime.projects import Project, Sighting, has_moved, is_worked_in, project_of, sighting_of
from pgengram.settings import Settings
from pgengram.store.reading.names import folded_name

log = logging.getLogger(__name__)

FILE: Final = "projects.json"
LOCK: Final = "projects.lock"
LOCK_S: Final = 2.0
MOST_SEEN: Final = 4_000  # remotes and places; the oldest are dropped


def instruction(project: Project) -> str:
    """Say to a model how memories are told to be of a project."""
    part = f", collection={project.collection} too if it is only about that part" if project.collection else ""
    return f"What is only about this project belongs to project={project.name}{part}."


@dataclass(slots=True)
class Names:
    """What is known about the names of one namespace's projects.

    Args:
        aliases: from each alias to the project that it stands for, which is not an alias itself.
        seen: from each remote and place to the project's name, the oldest first.
    """

    aliases: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)

    def meant(self, name: str) -> str:
        """Return the project that a name stands for: itself unless it is an alias."""
        folded = folded_name(name)
        return next((project for alias, project in self.aliases.items() if folded_name(alias) == folded), name)

    def all_of(self, name: str) -> list[str]:
        """Return all names of the project that a name stands for, its own first."""
        project = self.meant(name)
        return [project, *(alias for alias, one in self.aliases.items() if folded_name(one) == folded_name(project))]

    def in_small_letters(self, name: str | None) -> list[str] | None:
        """Return all names of the project that a name stands for, in small letters; None for no name."""
        return [one.lower() for one in self.all_of(name)] if name else None

    def known(self, sighting: Sighting) -> str | None:
        """Return what a project was called before."""
        return next((self.seen[key] for key in sighting.keys if key in self.seen), None)

    def holders(self, name: str) -> list[str]:
        """Return by what the project of a name is known."""
        return [key for key, one in self.seen.items() if folded_name(one) == folded_name(name)]

    def see(self, sighting: Sighting) -> str:
        """Note a project, and return its name: the shortest that no other has that still exists."""
        name = self.known(sighting)
        if name is None:
            free = (one for one in sighting.names() if all(map(has_moved, self.holders(one))))
            name = next(free, "/".join(sighting.parts))
            for key in self.holders(name):
                del self.seen[key]  # of a folder that was moved or removed
        self.seen = {**dict.fromkeys(sighting.keys, name), **self.seen}
        for key in sighting.keys:  # last, as the newest
            self.seen[key] = self.seen.pop(key)
        self.seen = dict(islice(self.seen.items(), max(0, len(self.seen) - MOST_SEEN), None))
        return name


class Projects:
    """The projects of one namespace.

    Args:
        settings: whose projects, in which data folder, and perhaps a project that is fixed.
    """

    def __init__(self, settings: Settings) -> None:
        self._file: Path = settings.data_path / FILE
        self._namespace = settings.namespace
        self._fixed = settings.project
        self._read: tuple[tuple[int, int] | None, Names] = (None, Names())

    def of(self, folder: str) -> Project | None:
        """Return the project of a folder under its lasting name; None for a folder that is nobody's."""
        sighting = None if self._fixed else sighting_of(folder)
        if sighting is None:
            return project_of("", self._fixed)
        names = self.names()
        name = names.known(sighting)
        if name is None or not all(key in names.seen for key in sighting.keys):
            try:
                with self._edited() as names:
                    name = names.see(sighting)
            except (OSError, InvalidInput) as error:
                log.warning("the project of %s is called by its folder: %s", folder, error)
                name = name or next(sighting.names())
        return Project(names.meant(name), sighting.collection)

    def worked_on(self, folder: str) -> Project | None:
        """Return the project of the folder that a program was started in; None where that is nobody's work."""
        return self.of(folder) if self._fixed or (folder and is_worked_in(folder)) else None

    def names(self) -> Names:
        """Return what is known; nothing while the file cannot be read, which is logged."""
        try:
            found = os.stat(self._file)
        except OSError:
            return Names()
        version = (found.st_mtime_ns, found.st_size)
        if version != self._read[0]:
            try:
                names = self._names_in(self._loaded())
            except (OSError, InvalidInput) as error:
                log.warning("names of projects are ignored: %s", error)
                names = Names()
            self._read = (version, names)
        return self._read[1]

    def alias(self, alias: str, project: str) -> None:
        """Let a name stand for a project from now on; what stood for it stands for the project, too.

        Raises:
            InvalidInput: both are the same, or the file cannot be read.
        """
        with self._edited() as names:
            target = names.meant(project)
            if folded_name(alias) == folded_name(target):
                raise InvalidInput(f"{alias} can't be an alias of itself.", "Name two different projects.")
            names.aliases = {
                one: target if folded_name(meant) == folded_name(alias) else meant
                for one, meant in names.aliases.items()
                if folded_name(one) != folded_name(alias)
            } | {alias: target}

    def unalias(self, alias: str) -> str:
        """Let an alias be a name of its own again; return what it stood for.

        Raises:
            InvalidInput: it is none, or the file cannot be read.
        """
        with self._edited() as names:
            found = next((one for one in names.aliases if folded_name(one) == folded_name(alias)), None)
            if found is None:
                raise InvalidInput(f"{alias} is not an alias.", "`pgengram projects list` shows the aliases.")
            return names.aliases.pop(found)

    def rename(self, old: str, new: str) -> None:
        """Call a project otherwise; its old name stays an alias.

        Raises:
            InvalidInput: another project has the name, or the file cannot be read.
        """
        with self._edited() as names:
            project, others = names.meant(old), names.holders(new)
            if folded_name(project) != folded_name(new) and (others or names.meant(new) != new):
                hint = f"Make one an alias of the other instead: pgengram projects alias {old} {new}"
                raise InvalidInput(f"A project named {new} already exists.", hint)
            for key in names.holders(project):
                names.seen[key] = new
            kept = [one for one in names.all_of(project) if folded_name(one) != folded_name(new)]
            names.aliases |= dict.fromkeys(kept, new)

    def forget(self) -> None:
        """Forget all names of the namespace, which is being erased."""
        if self._file.exists():
            with self._edited() as names:
                names.aliases, names.seen = {}, {}

    def _loaded(self) -> dict[str, Any]:
        try:
            found = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InvalidInput(f"{self._file} is not JSON: {error}.", "Repair it, or remove it.") from None
        return found if isinstance(found, dict) else {}

    def _names_in(self, loaded: dict[str, Any]) -> Names:
        """Return the names of the namespace. A person may have edited them, so all but texts are passed over."""
        own = loaded.get(self._namespace)
        parts = [own.get(part) for part in ("aliases", "seen")] if isinstance(own, dict) else []
        texts = [
            {key: value for key, value in part.items() if isinstance(value, str)} if isinstance(part, dict) else {}
            for part in parts
        ]
        return Names(*texts)

    @contextmanager
    def _edited(self) -> Iterator[Names]:
        """Yield the names to be changed, and write them; nobody else changes them meanwhile."""
        make_data_folder(str(self._file.parent))
        lock = Lock(str(self._file.parent), LOCK)
        if not lock.take(LOCK_S):
            raise OSError(f"another program holds {lock.path}")
        try:
            loaded = self._loaded()
            names = self._names_in(loaded)
            yield names
            loaded[self._namespace] = {"aliases": names.aliases, "seen": names.seen}
            new = self._file.with_name(f"{FILE}.new")
            new.write_text(json.dumps(loaded, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
            new.chmod(0o600)
            rename(new, self._file)
        finally:
            lock.release()
