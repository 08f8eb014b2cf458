"""What comes from others is bounded, pinned by its hash, and named by what it is."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = (ROOT / "constraints.txt").read_text(encoding="utf-8")
WORKFLOWS = [file.read_text(encoding="utf-8") for file in (ROOT / ".github" / "workflows").glob("*.yml")]
OURS = (
    "--",
    ".",
    "dist/",
    "'.[",
    "build",
)  # options, this project, and what is taken from the files with checked hashes


def test_every_dependency_has_a_lowest_and_a_highest_version() -> None:
    groups = PROJECT["project"]["optional-dependencies"].values()
    wanted = [
        *PROJECT["project"]["dependencies"],
        *PROJECT["build-system"]["requires"],
        *(one for group in groups for one in group),
    ]

    for one in wanted:
        assert re.fullmatch(r"[\w.-]+(\[[\w,]+\])?>=[\d.]+,<[\d.]+(; [^;]+)?", one), one


@pytest.mark.parametrize(("bearer", "brought"), [("mcp", "python-multipart"), ("uvicorn", "h11")])
def test_what_is_used_with_another_library_comes_with_it(bearer: str, brought: str) -> None:
    wanted = [one for one in requires(bearer) or [] if "extra ==" not in one]

    assert any(re.fullmatch(rf"{brought}\b.*", one) for one in wanted), wanted


def test_every_dependency_is_pinned_with_its_hashes() -> None:
    pins = re.findall(
        r"^([\w.-]+)==(\S+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n?)+)", PINS, re.MULTILINE
    )
    names = {name.lower().replace("_", "-") for name, _, _ in pins}

    assert len(pins) == len(re.findall(r"^[\w.-]+==", PINS, re.MULTILINE))
    assert "://" not in re.sub(r"^#.*$", "", PINS, flags=re.MULTILINE)
    extras = PROJECT["project"]["optional-dependencies"].values()
    for one in [*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)]:
        assert re.split(r"[\[>]", one)[0].lower() in names, one


def test_every_action_of_a_workflow_is_named_by_its_commit() -> None:
    for text in WORKFLOWS:
        used = re.findall(r"uses: (\S+)", text)
        assert used
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used), used
        assert "permissions:\n  contents: read" in text


def parsed() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    return [yaml.safe_load(text) for text in WORKFLOWS]


def test_every_workflow_is_one_and_its_jobs_end() -> None:
    for workflow in parsed():
        assert True in workflow, "YAML reads `on` as a truth"
        assert "pull_request_target" not in workflow[True], "strangers' code would run with our rights"
        for job in workflow["jobs"].values():
            assert job["runs-on"]
            assert 0 < job["timeout-minutes"] <= 60
            assert all(("uses" in step) is not ("run" in step) for step in job["steps"])


def test_what_a_workflow_installs_from_elsewhere_is_bounded() -> None:
    installed = [
        word for text in WORKFLOWS for line in re.findall(r"pip\"? install ([^\n&]+)", text) for word in line.split()
    ]
    npm = [word for text in WORKFLOWS for line in re.findall(r"npx --yes (\S+)", text) for word in line.split()]

    others = [word for word in installed if not word.startswith(OURS) and word not in ("wheels", "wheels'")]
    assert others
    assert all(re.fullmatch(r"'[\w-]+>=[\d.]+,<[\d.]+'", word) for word in others), others
    assert all(re.fullmatch(r"@?[\w/-]+@\d+\.\d+\.\d+", word) for word in npm), npm


def test_only_a_tag_is_published_and_only_after_its_wheel_ran_on_every_platform() -> None:
    [jobs] = [workflow["jobs"] for workflow in parsed() if workflow["name"] == "release"]
    [platforms] = [workflow["jobs"]["embedded"] for workflow in parsed() if workflow["name"] == "ci"]
    rights = {name: job.get("permissions", {}) for name, job in jobs.items()}

    assert jobs["publish"]["if"] == "github.ref_type == 'tag'"
    assert {"build", "audit", "wheel"} <= {*jobs["publish"]["needs"]}
    assert jobs["wheel"]["strategy"]["matrix"]["os"] == platforms["strategy"]["matrix"]["os"]
    assert [name for name, granted in rights.items() if "id-token" in granted] == ["publish"]
    assert jobs["publish"]["environment"] == "pypi"
    assert not any("checkout" in step.get("uses", "") for step in jobs["publish"]["steps"]), (
        "its code would have our rights"
    )


def test_the_pins_are_audited_listed_and_checked_by_the_workflow() -> None:
    [jobs] = [workflow["jobs"] for workflow in parsed() if workflow["name"] == "ci"]
    runs = {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}

    assert "pip-audit --strict --require-hashes --disable-pip --requirement constraints.txt" in runs["audit"]
    assert 'cyclonedx-py" environment' in runs["wheel"]
    for name in ("database", "embedded", "wheel"):
        assert "pip download --require-hashes --only-binary :all: -r constraints.txt" in runs[name], name
