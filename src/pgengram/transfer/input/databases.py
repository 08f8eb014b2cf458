"""What other systems keep in SQLite databases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from pgengram.errors import InvalidInput
from pgengram.transfer.input.json_records import Broken

SQLITE: Final = b"SQLite format 3\0"  # as such a file begins


def read_only(path: Path) -> sqlite3.Connection:
    """Open a database so that nothing of it can change."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def schema_of(path: Path) -> bytes:
    """Return the statements that made a database's tables; nothing of what is none."""
    try:
        with closing(read_only(path)) as connection:
            rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    except sqlite3.DatabaseError:
        return b""
    return "\n".join(row[0] for row in rows).encode()


def damage_of(path: Path) -> str:
    """Return why nothing of a database can be read; empty where something can."""
    try:
        with closing(read_only(path)) as connection:
            connection.execute("SELECT name FROM sqlite_master").fetchall()
    except sqlite3.DatabaseError as error:
        return f"it is damaged ({error}); `sqlite3 FILE .recover | sqlite3 NEW` saves what is left"
    return ""


class Tables:
    """The tables of a SQLite database, read without changing it; what is damaged is told, and the rest is read.

    Args:
        path: where it can be opened.
        name: as a report calls it.
        faults: gets what can't be read.

    Raises:
        InvalidInput: the file is none, or its beginning is damaged.
    """

    def __init__(self, path: Path, name: str, faults: list[Broken]) -> None:
        self._path, self._name, self._faults = path, name, faults
        hint = "Give the path of the other system's database file."
        with path.open("rb") as opened:
            if opened.read(len(SQLITE)) != SQLITE:
                raise InvalidInput(f"{name} is not a SQLite database.", hint)
        if damage := damage_of(path):
            raise InvalidInput(f"{name}: {damage}.", "Nothing was imported.")
        with closing(read_only(path)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self.names = {row[0] for row in found}

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table in the order in which they were added; none when it is not there."""
        if table not in self.names:
            return []
        quoted = '"' + table.replace('"', '""') + '"'
        rows: list[dict[str, Any]] = []
        try:
            with closing(read_only(self._path)) as connection:
                connection.row_factory = sqlite3.Row
                connection.text_factory = lambda text: text.decode("utf-8", "replace")
                named = connection.execute(f"SELECT * FROM {quoted} LIMIT 0").description  # noqa: S608 - the file's own name
                order = "rowid" if not _without_rowid(connection, table) else f'"{named[0][0]}"'
                for row in connection.execute(f"SELECT * FROM {quoted} ORDER BY {order}"):  # noqa: S608
                    rows.append(dict(row))  # noqa: PERF401 - those before a damaged one are kept
        except sqlite3.Error as error:
            reason = f"the rest of it can't be read after {len(rows):,} rows: {error}"
            self._faults.append(Broken(f"{self._name}, table {table}", reason))
        return rows

    def needed(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Return all rows of a table that must be there, with these columns.

        Raises:
            InvalidInput: it is not.
        """
        rows = self.rows(table)
        if table not in self.names or any(rows and column not in rows[0] for column in columns):
            raise InvalidInput(
                f"{self._name} has no table {table} with {', '.join(columns)}.",
                "Give the path of the other system's database file.",
            )
        return rows


def _without_rowid(connection: sqlite3.Connection, table: str) -> bool:
    made = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", [table]).fetchone()
    return bool(made and made[0] and "WITHOUT ROWID" in made[0].upper())
