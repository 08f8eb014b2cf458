"""The guide for a team, walked by two people of one server: each command as it is printed there, each with a home and a client."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import PATIENCE_S, Database, call, connected, environment

GUIDE = (Path(__file__).parents[2] / "docs" / "how-to" / "share-with-a-team.md").read_text(encoding="utf-8")
ID = "4f0c2a9b"  # of a memory, as the guide names one
SECRET = "My own birthday is in May."
KEY = "The spare key is under the green pot."

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a person's terminal is a pseudo terminal here")


class Walk:
    """The commands of the guide, typed one after the other at a terminal of whoever it is about."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._url, self._folder = database.url, folder
        blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
        self._commands = [line for block in blocks for line in block.splitlines() if line]
        self.typed = 0

    def settings(self, person: str, **more: str) -> dict[str, str]:
        return {
            "database_url": self._url,
            "embedder": "none:",
            "namespace": person,
            "data_dir": str(self._folder / person),
        } | more

    def type(self, command: str, person: str, says: str = "") -> str:
        """Type a command; `says` is what the person answers."""
        words = shlex.split(command)
        named = dict(word.split("=", 1) for word in words if word.startswith("PGENGRAM_"))
        assert words[len(named)] == "pgengram"
        env = environment(**self.settings(person)) | named
        mine, its = os.openpty()
        os.write(mine, f"{says}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "pgengram", *words[len(named) + 1 :]], stdin=its, env=env, cwd=self._folder,
            capture_output=True, encoding="utf-8", timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        os.close(mine)
        os.close(its)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout + done.stderr

    def next(self, begins: str, person: str, says: str = "", **put: str) -> str:
        """Type the next command of the guide, which begins so."""
        command = self._commands[self.typed]
        self.typed += 1
        assert begins in command
        return self.type(command.replace(ID, put.get("id", ID)), person, says)

    @property
    def is_done(self) -> bool:
        return self.typed == len(self._commands)


@pytest.fixture
def walk(database: Database, tmp_path: Path) -> Walk:
    return Walk(database, tmp_path)


async def test_two_people_walk_the_guide_for_a_team_with_a_client_each(walk: Walk) -> None:
    walk.next("person add Mara", "owner")
    walk.next("person add Ben", "owner")
    walk.next("space create Kitchen", "owner")
    walk.next("space add Kitchen Ben", "owner")
    walk.type("pgengram space create Garden", "mara")
    walk.type("pgengram space add Garden Ben --role write", "mara")
    assert "pgt_" in walk.next("token create", "owner")
    [printed] = re.findall(r"^```json\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    env = json.loads(printed)["env"]

    async with (
        connected(**walk.settings(env["PGENGRAM_NAMESPACE"], spaces=env["PGENGRAM_SPACES"])) as ben,
        connected(**walk.settings("mara", spaces="Kitchen, Garden")) as mara,
    ):
        key = (await call(mara, "create_memory", content=KEY))["memory_id"]
        await call(mara, "create_memory", content=SECRET)
        assert (await call(ben, "search_memories", query="spare key birthday"))["results"] == []

        shown = walk.next("space share", "mara", says="y", id=key)
        assert KEY in shown
        assert "2 people will see it: Mara, Ben." in shown
        [hit] = (await call(ben, "search_memories", query="spare key birthday"))["results"]
        assert (hit["content"], hit["space"], hit["author"]) == (KEY, "Kitchen", "Mara")

        walk.next("--space Kitchen add", "mara")
        assert "oven" in walk.next("--space Kitchen search", "mara")
        walk.next("--space Kitchen export --mine", "mara")
        assert walk.is_done, "the guide has a command that nobody walks"
        assert len((await call(ben, "search_memories", query="oven key"))["results"]) == 2

        [withdraw] = re.findall(rf"`(pgengram space withdraw {ID} [^`]+)`", GUIDE)
        walk.type(withdraw.replace(ID, key), "mara")
        assert [hit["content"] for hit in (await call(ben, "search_memories", query="oven key"))["results"]] == [
            "The oven runs ten degrees hot."
        ]
        walk.type("pgengram space remove Kitchen Ben", "mara")
        assert (await call(ben, "search_memories", query="oven key"))["results"] == []
        assert KEY in str(await call(mara, "search_memories", query="spare key"))
