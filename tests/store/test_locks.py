"""Advisory locks: every key stands in one module, and no two purposes share one."""

from __future__ import annotations

import re
from pathlib import Path

import pgengram
from pgengram.store.connection import locks

KEYS = {name: key for name, key in vars(locks).items() if isinstance(key, int)}


def test_no_two_purposes_share_a_key() -> None:
    assert len(KEYS) >= 11
    assert len(set(KEYS.values())) == len(KEYS)


def test_every_lock_is_taken_by_a_key_from_there() -> None:
    """Whatever takes a lock has its key as a parameter, never as a number or a word in the statement."""
    taken = re.compile(r"advisory_(?:xact_)?lock\(\s*(?!%|:key|\{\})")
    sources = Path(pgengram.__file__).parent.rglob("*.py")

    assert [path.name for path in sources if taken.search(path.read_text(encoding="utf-8"))] == []


def test_every_key_is_in_use() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in Path(pgengram.__file__).parent.rglob("*.py"))

    assert [name for name in KEYS if f"locks.{name}" not in sources] == []
