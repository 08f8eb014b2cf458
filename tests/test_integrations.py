"""What stands beside the package: its entry in the registry, the bundle, the plugin, the rules and the links."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import typer

from pgengram import __version__
from pgengram.cli.app import app
from pgengram.cli.clients import client_configs as c
from pgengram.errors import InvalidInput
from pgengram.service.manager import MemoryManager
from pgengram.settings import PREFIX, Settings

ROOT = Path(__file__).parents[1]
INTEGRATIONS = ROOT / "integrations"
PLUGIN = INTEGRATIONS / "claude-code"
README = (ROOT / "README.md").read_text(encoding="utf-8")
HOW_TO = (ROOT / "docs" / "how-to" / "connect-a-client.md").read_text(encoding="utf-8")
REGISTRY_LONGEST = 100  # characters of a description that the registry takes
LINKED = {"command": "pgengram"}  # a page cannot know where the command lies


def read(*path: str) -> Any:
    return json.loads(ROOT.joinpath(*path).read_text(encoding="utf-8"))


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def release(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, "packaging/release.py", *words]
    return subprocess.run(script, cwd=checkout, capture_output=True, text=True, encoding="utf-8", check=False)


def test_every_version_and_every_name_of_the_repository_is_the_same() -> None:
    told = release(ROOT, "check", "v0.0.0").stderr

    assert told == f"The tag is v0.0.0, the version {__version__}.\n"


def test_a_release_has_its_version_and_its_repository_in_every_file_and_its_notes_from_the_changelog(
    tmp_path: Path,
) -> None:
    spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for file in {*script.VERSIONS, *script.REPOSITORIES, "packaging/release.py", "CHANGELOG.md"}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)

    assert release(tmp_path, "name", "fern/hollow").returncode == 0
    assert release(tmp_path, "prepare", "7.8.9rc1").returncode == 0

    assert release(tmp_path, "check", "v7.8.9rc1").returncode == 0
    assert release(tmp_path, "check", "v7.8.9").returncode == 1
    everything = "".join((tmp_path / file).read_text(encoding="utf-8") for file in script.REPOSITORIES)
    assert everything.count("fern/hollow") == 9
    assert "pgengram/pgengram" not in everything
    assert "### Added" in release(tmp_path, "notes").stdout
    (tmp_path / "server.json").write_text((tmp_path / "server.json").read_text().replace("7.8.9rc1", "7.8.8", 1))
    assert "server.json" in release(tmp_path, "check", "v7.8.9rc1").stderr


def test_the_registrys_entry_is_short_enough_and_the_readme_bears_its_name() -> None:
    server = read("server.json")

    assert len(server["description"]) <= REGISTRY_LONGEST
    assert re.findall(r"<!-- mcp-name: (\S+) -->", README) == [server["name"]]
    assert server["packages"][0]["identifier"] == project()["name"]


def test_the_registrys_entry_describes_settings_as_they_are_and_marks_the_secret_ones() -> None:
    variables = read("server.json")["packages"][0]["environmentVariables"]
    known = {PREFIX + field.name.upper(): field for field in fields(Settings)}

    assert variables
    for one in variables:
        setting = known[one["name"]]
        assert one["description"] == setting.metadata["about"].replace("`", "")
        assert one.get("default", "") == setting.default
    assert {one["name"] for one in variables if one.get("isSecret")} == {
        "PGENGRAM_DATABASE_URL",
        "PGENGRAM_EMBEDDER_API_KEY",
    }


def test_the_bundle_passes_settings_that_exist_and_keeps_the_secret_one() -> None:
    manifest = read("integrations", "mcpb", "manifest.json")
    known = {PREFIX + field.name.upper() for field in fields(Settings)}
    env = manifest["server"]["mcp_config"]["env"]

    assert set(env) <= known
    assert {value.removeprefix("${user_config.").rstrip("}") for value in env.values()} == set(manifest["user_config"])
    assert manifest["user_config"]["database_url"]["sensitive"] is True
    assert (INTEGRATIONS / "mcpb" / manifest["server"]["entry_point"]).exists()


def test_the_plugins_hooks_call_commands_that_exist() -> None:
    hooks = read("integrations", "claude-code", "hooks", "hooks.json")["hooks"]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]

    assert set(hooks) == {"SessionStart", "UserPromptSubmit", "PreCompact"}
    for group in (one for groups in hooks.values() for one in groups):
        for hook in group["hooks"]:
            program, name, client, *options = hook["command"].split()
            assert options == ["--recall"]  # conversations are kept for whoever asks for it
            assert program == "pgengram"
            assert name in known
            assert client in c.CLIENTS


def test_the_plugin_is_the_one_its_marketplace_offers() -> None:
    [offered] = read("integrations", "claude-code", ".claude-plugin", "marketplace.json")["plugins"]
    plugin = read("integrations", "claude-code", ".claude-plugin", "plugin.json")

    assert (offered["name"], offered["description"]) == (plugin["name"], plugin["description"])
    assert (PLUGIN / offered["source"]).resolve() == PLUGIN


@pytest.mark.parametrize("page", sorted(INTEGRATIONS.rglob("*.md*")), ids=lambda page: page.name)
def test_rules_and_commands_name_tools_that_exist(page: Path) -> None:
    tools = {tool.name for tool in MemoryManager(Settings(embedder="none:")).tools}
    named = set(re.findall(r"\b\w+_(?:memory|memories|context)\b", page.read_text(encoding="utf-8")))

    assert named <= tools


def test_cursors_rules_are_those_of_every_assistant() -> None:
    rules = (INTEGRATIONS / "AGENTS.md").read_text(encoding="utf-8")
    _, front, body = (INTEGRATIONS / "cursor" / "rules" / "memory.mdc").read_text(encoding="utf-8").split("---\n", 2)

    assert "alwaysApply: true" in front
    assert body.strip() == rules.strip()


@pytest.mark.parametrize("name", ["cursor", "vscode"])
def test_the_links_that_install_are_those_that_the_command_makes(name: str) -> None:
    host = {"cursor": "cursor.com", "vscode": "vscode.dev"}[name]
    [link] = re.findall(rf"\]\((https://{host}/[^)\s]+)\)", HOW_TO)
    answer = parse_qs(urlsplit(link).query)
    config = base64.b64decode(answer["config"][0]).decode() if name == "cursor" else answer["config"][0]

    assert link == c.install_link(c.CLIENTS[name], c.NAME, LINKED, web=True)
    assert json.loads(config)["command"] == "pgengram"


def test_the_image_runs_without_root_keeps_everything_in_one_volume_and_has_a_health_check() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    last = text.rpartition("\nFROM ")[2]
    users = re.findall(r"^USER (\S+)$", last, re.MULTILINE)
    copied = [one for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for one in line.split()[:-1]]

    assert users == ["memory"]
    assert re.search(r"useradd .*\bmemory\b", last)
    assert re.findall(r"^VOLUME (\S+)$", last, re.MULTILINE) == ["/data"]
    assert "PGENGRAM_DATA_DIR=/data/" in last
    assert "STOPSIGNAL SIGTERM" in last
    assert "/ready" in last.partition("HEALTHCHECK")[2]
    assert f'io.modelcontextprotocol.server.name="{read("server.json")["name"]}"' in last
    assert copied
    assert all((ROOT / one).exists() for one in copied)
    kept = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{one}" for one in copied} <= set(kept)


def test_a_pod_gets_no_variables_that_a_service_of_our_name_would_add_and_we_would_refuse() -> None:
    text = (ROOT / "docs" / "how-to" / "run-as-a-service.md").read_text(encoding="utf-8")
    [pod] = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    with pytest.raises(InvalidInput, match="PGENGRAM_SERVICE_HOST"):
        Settings.from_environment({"PGENGRAM_SERVICE_HOST": "10.96.0.7"})
    assert re.search(r"^enableServiceLinks: false\b", pod, re.MULTILINE)


def test_compose_starts_a_database_of_the_version_that_is_asked_for_and_citus_takes_its_pgvector_from_the_same_image() -> (
    None
):
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    services = dict(
        re.findall(
            r"^  (\w+):.*?\n((?:    .*\n|\n)+)",
            text.partition("\nservices:\n")[2].partition("\nconfigs:\n")[0],
            re.MULTILINE,
        )
    )

    assert [name for name, service in services.items() if "profiles:" not in service and "<<" not in service] == ["db"]
    assert "image: &postgres pgvector/pgvector:pg${PGENGRAM_POSTGRES:-18}" in services["db"]
    assert "image: *postgres" in services["replica"]
    assert {
        one.removesuffix("-bookworm") for one in re.findall(r"pgvector/pgvector:(\S+)", services["coordinator"])
    } == {"pg17"}
    ci = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert {*re.findall(r'postgres: "(\d+)"', ci)} == {"15", "16", "17", "18"}
    up = "docker compose up --detach --wait\n"
    assert up in text
    assert up in ci
    assert up in (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_health_check_of_the_image_is_a_program_that_runs() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    command = json.loads(re.findall(r"^    CMD (\[.*\])$", text, re.MULTILINE)[0])

    compile(command[2], "Dockerfile", "exec")
    assert command[:2] == ["python", "-c"]
