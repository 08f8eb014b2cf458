"""What comes from others is bounded, pinned by its hash, and named by what it is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
WORKFLOWS = [file.read_text(encoding="utf-8") for file in (ROOT / ".github" / "workflows").glob("*.yml")]


def test_every_dependency_has_a_lowest_and_a_highest_version() -> None:
    groups = PROJECT["project"]["optional-dependencies"].values()
    wanted = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["build-system"]["requires"],
        *(one for group in groups for one in group),
    ]

    for one in wanted:
        assert re.fullmatch(r"[\w.-]+(\[[\w,]+\])?>=[\d.]+,<[\d.]+", one), one


def test_every_dependency_is_pinned_with_its_hashes() -> None:
    pins = re.findall(
        r"^([\w.-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", PINS, re.MULTILINE
    )
    names = {name.lower().replace("_", "-") for name, _, _ in pins}

    assert len(pins) == len(re.findall(r"^[\w.-]+==", PINS, re.MULTILINE))
    assert "://" not in re.sub(r"^#.*$", "", PINS, flags=re.MULTILINE)
    for one in PROJECT["project"]["dependencies"]:
        assert re.split(r"[\[>]", one)[0].lower() in names, one


def test_every_action_of_a_workflow_is_named_by_its_commit() -> None:
    for text in WORKFLOWS:
        used = re.findall(r"uses: (\S+)", text)
        assert used
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used), used
        assert "permissions:\n  contents: read" in text
