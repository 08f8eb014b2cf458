"""A later version of pgengram, whose schema has a column more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgengram.store.schema import migrate

LATER = "9000"
NEXT = f"""
from pgengram.store.schema.migration_steps import run

revision = "{LATER}"
down_revision = "{migrate.newest_version()}"


def upgrade() -> None:
    run("ALTER TABLE memories ADD COLUMN mood_count integer NOT NULL DEFAULT 7")
"""


@contextmanager
def later_version(folder: Path) -> Iterator[None]:
    """Let this process be of that version."""
    shutil.copytree(migrate.migrations_folder(), folder / "migrations")
    (folder / "migrations" / "versions" / f"{LATER}_moods.py").write_text(NEXT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "migrations_folder", lambda: folder / "migrations")
        migrate.newest_version.cache_clear()
        yield
    migrate.newest_version.cache_clear()
