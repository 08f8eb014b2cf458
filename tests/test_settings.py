"""Settings: few, read once, and never half understood."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from helpers import PATIENCE_S, environment
from pgengram.errors import InvalidInput
from pgengram.settings import PREFIX, Settings
from reference import settings_table


def test_nothing_set_means_the_defaults() -> None:
    assert Settings.from_environment({}) == Settings()


def test_each_setting_is_read_from_its_variable() -> None:
    answer = {
        "database_url": "postgresql://db/x", "data_dir": "/data", "embedder": "none:", "embedder_api_key": "k",
        "namespace": "mira", "toolsets": "core", "log_level": "debug",
    }  # fmt: skip

    settings = Settings.from_environment({PREFIX + name.upper(): value for name, value in answer.items()})

    assert {name: getattr(settings, name) for name in answer} == answer


def test_a_variable_that_is_set_to_nothing_is_not_set() -> None:
    assert Settings.from_environment({"PGENGRAM_EMBEDDER": "", "PGENGRAM_NAMESPACE": ""}) == Settings()


def test_a_variable_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidInput, match="PGENGRAM_EMBEDER") as refused:
        Settings.from_environment({"PGENGRAM_EMBEDER": "none:"})

    assert "PGENGRAM_EMBEDDER" in refused.value.hint


def test_variables_of_others_are_none_of_ours() -> None:
    assert (
        Settings.from_environment({"PATH": "/bin", "XPGENGRAM_A": "1", "PGENGRAM_TEST_DATABASE_URL": "x"}) == Settings()
    )


def test_there_are_at_most_eleven_a_second_address_of_the_one_database_the_project_of_hooks_and_what_is_shared() -> (
    None
):
    assert len({field.name for field in fields(Settings)} - {"read_url", "project", "spaces"}) <= 11


@pytest.mark.parametrize(
    ("name", "value"),
    [("namespace", "n" * 129), ("log_level", "loud"), ("toolsets", "everything"), ("toolsets", ","), ("toolsets", "core,odd")],
)  # fmt: skip
def test_a_value_that_is_not_allowed_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=PREFIX + name.upper()):
        Settings.from_environment({PREFIX + name.upper(): value})


BAD = {
    "unknown": {"embeder": "none:"},
    "embedder": {"embedder": "magic:"},
    "embedder folder": {"embedder": "onnx:/nowhere/at/all"},
    "toolsets": {"toolsets": "odd"},
}


@pytest.mark.parametrize("settings", BAD.values(), ids=BAD.keys())
def test_a_server_with_a_bad_setting_says_so_on_stderr_and_ends(settings: dict[str, str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pgengram"],
        env=environment(data_dir=str(tmp_path), **settings),
        input="",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "PGENGRAM_" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_table_has_a_row_for_each_setting() -> None:
    rows = settings_table().splitlines()

    assert len(rows) == 2 + len(fields(Settings))
    assert all(f"`{PREFIX}{field.name.upper()}`" in row for field, row in zip(fields(Settings), rows[2:], strict=True))
