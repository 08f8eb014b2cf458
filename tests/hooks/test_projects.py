"""Which project a folder belongs to, whatever way it was checked out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgengram.runtime.projects import Project, project_of

ORIGIN = "https://git.example.org/mara/Ark.git"


def git(folder: Path, *words: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    identity = ("-c", "user.name=Mara", "-c", "user.email=mara@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, origin: str = "", *, remote: str = "origin") -> Path:
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Begin")
    if origin:
        git(folder, "remote", "add", remote, origin)
    return folder


def at(folder: Path, fixed: str = "") -> Project | None:
    return project_of(str(folder), fixed)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "address",
    [
        ORIGIN, ORIGIN.removesuffix(".git"), f"{ORIGIN}/", "git@git.example.org:mara/Ark.git", "git.example.org:Ark",
        "ssh://git@git.example.org:2222/mara/Ark.git", "/srv/git/Ark.git", "file:///srv/git/Ark.git", r"C:\git\Ark.git",
        r"\\server\share\Ark.git", "../Ark.git", "C:Ark.git",
    ],
)  # fmt: skip
def test_a_project_is_called_what_its_remote_is_called(home: Path, address: str) -> None:
    assert at(repository(home / "checkout", address)) == Project("Ark")


def test_clones_and_worktrees_are_one_project_wherever_they_lie(home: Path) -> None:
    first = repository(home / "one", ORIGIN)
    git(first, "worktree", "add", "-q", str(home / "branch"))
    second = repository(home / "two", "git@git.example.org:mara/Ark.git")
    (second / "src").mkdir()

    assert {at(first), at(home / "branch"), at(second), at(second / "src")} == {Project("Ark")}


def test_a_worktree_of_a_repository_without_a_remote_is_called_as_the_main_one(home: Path) -> None:
    git(repository(home / "ark"), "worktree", "add", "-q", str(home / "elsewhere"))

    assert at(home / "elsewhere") == at(home / "ark") == Project("ark")


def test_worktrees_of_a_bare_repository_are_one_project(home: Path) -> None:
    repository(home / "seed")
    git(home, "clone", "-q", "--bare", str(home / "seed"), str(home / "ark.git"))
    git(home / "ark.git", "remote", "remove", "origin")
    git(home / "ark.git", "worktree", "add", "-q", str(home / "work"))

    assert at(home / "work") == at(home / "ark.git") == Project("ark")


def test_a_submodule_is_its_own_project(home: Path) -> None:
    outer = repository(home / "outer", ORIGIN)
    git(outer, "submodule", "add", "-q", str(repository(home / "Sails")), "parts/sails")

    assert at(outer / "parts" / "sails") == Project("Sails")
    assert at(outer / "parts") == Project("Ark")


@pytest.mark.parametrize(("remote", "name"), [("upstream", "Ark"), ("gitlab", "Ark")])
def test_a_remote_of_another_name_counts(home: Path, remote: str, name: str) -> None:
    assert at(repository(home / "checkout", ORIGIN, remote=remote)) == Project(name)


def test_of_several_remotes_the_usual_one_counts(home: Path) -> None:
    checkout = repository(home / "checkout", "https://git.example.org/jonas/fork.git", remote="fork")
    git(checkout, "remote", "add", "origin", ORIGIN)

    assert at(checkout) == Project("Ark")


def test_a_part_of_a_repository_that_holds_several_is_a_collection_of_it(home: Path) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    part = checkout / "services" / "pay"
    (part / "src").mkdir(parents=True)
    for folder in (checkout, part):
        (folder / "package.json").write_text("{}")

    assert at(part / "src") == Project("Ark", "services/pay")
    assert at(checkout / "services") == at(checkout) == Project("Ark")


def test_a_link_leads_to_the_project_it_points_at(home: Path) -> None:
    (home / "link").symlink_to(repository(home / "checkout", ORIGIN), target_is_directory=True)

    assert at(home / "link") == Project("Ark")


@pytest.mark.parametrize("layout", ["with a folder for git", "apart"])
def test_a_repository_is_called_by_the_folder_that_people_see(home: Path, layout: str) -> None:
    if layout == "apart":
        git(home / "ark", "init", "-q", "--separate-git-dir", str(home / "ark.git"))
    else:
        git(home / "ark", "clone", "-q", "--bare", str(repository(home / "seed")), ".bare")
        git(home / "ark" / ".bare", "remote", "remove", "origin")
        (home / "ark" / ".git").write_text("gitdir: ./.bare\n")
        git(home / "ark", "worktree", "add", "-q", "main")

    assert at(home / "ark") == Project("ark")
    assert layout == "apart" or at(home / "ark" / "main") == Project("ark")


def test_a_detached_head_and_a_shallow_clone_are_the_same_project(home: Path) -> None:
    first = repository(home / "one", ORIGIN)
    git(first, "checkout", "-q", "--detach")
    git(home, "clone", "-q", "--depth", "1", f"file://{first}", "two")
    git(home / "two", "remote", "set-url", "origin", ORIGIN)

    assert at(first) == at(home / "two") == Project("Ark")


def test_a_repository_inside_another_is_its_own(home: Path) -> None:
    outer = repository(home / "outer", ORIGIN)
    inner = repository(outer / "vendor" / "sails", "git@git.example.org:mara/sails.git")

    assert at(inner) == Project("sails")
    assert at(outer / "vendor") == Project("Ark")


def test_git_need_not_be_installed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    monkeypatch.setenv("PATH", str(home))

    assert at(checkout) == Project("Ark")


def test_settings_of_git_that_cannot_be_read_leave_the_name_of_the_folder(home: Path) -> None:
    checkout = repository(home / "checkout", ORIGIN)
    (checkout / ".git" / "config").unlink()
    (checkout / ".git" / "config").mkdir()  # a file of somebody else's would do, but not for root
    (home / "loop").mkdir()
    (home / "loop" / ".git").symlink_to(home / "loop" / ".git")

    assert at(checkout) == Project("checkout")
    assert at(home / "loop") == Project("loop")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (r"C:\Users\mara\work\Ark", "Ark"), ("c:/Users/mara/work/Ark", "Ark"), ("/c:/Users/mara/work/Ark", "Ark"),
        (r"\\server\share\Ark", "Ark"), (r"C:\Users\mara", None), ("C:\\", None), (r"\\server\share", None),
        ("Ark", None), ("./Ark", None),
    ],
)  # fmt: skip
@pytest.mark.skipif(sys.platform == "win32", reason="there the folder is one of this machine")
def test_a_folder_of_windows_is_called_by_its_name_wherever_the_server_runs(folder: str, name: str | None) -> None:
    assert project_of(folder) == (name and Project(name))


def test_a_folder_without_git_is_called_by_its_name_and_need_not_be_there(home: Path) -> None:
    (home / "notes").mkdir()

    assert at(home / "notes") == Project("notes")
    assert at(home / "notes" / "gone") == Project("gone")


def test_folders_that_hold_projects_are_none(home: Path) -> None:
    repository(home)  # as people keep their settings

    assert at(home) is None
    assert at(home / "tmp") is None
    assert at(home.parent) is None
    assert at(Path(home.anchor)) is None
    assert project_of("") is None
    assert at(home / "notes") == Project("notes")


def test_a_setting_names_the_project_or_switches_it_off(home: Path) -> None:
    checkout = repository(home / "checkout", ORIGIN)

    assert at(checkout, "Billing") == Project("Billing")
    assert at(checkout, "off") is None


def test_a_broken_repository_is_called_by_its_folder(home: Path) -> None:
    for name, text in (("empty", ""), ("lost", "gitdir: /nowhere/at/all"), ("odd", "gitdir: .")):
        (home / name).mkdir()
        (home / name / ".git").write_text(text)
    checkout = repository(home / "checkout", ORIGIN)
    (checkout / ".git" / "config").write_bytes(b"\xff[remote\n\x00")

    assert at(checkout) == Project("checkout")
    assert [at(home / name) for name in ("empty", "lost", "odd")] == [Project("empty"), Project("lost"), Project("odd")]
