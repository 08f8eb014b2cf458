"""A store of an earlier release is brought up to date with all its rows; one from before the first release is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Database, connected, database_of, diagonal, on_citus, remember
from later_version import LATER, later_version
from machine import pgengram
from pgengram.errors import NotReady
from pgengram.store.schema import migrate

FIRST = "0001"
TODAY = migrate.newest_version()
OF_ALL = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"


def counts(database: Database) -> dict[str, int]:
    return {name: database.as_login(f"SELECT count(*) FROM {name}")[0][0] for (name,) in database.as_login(OF_ALL)}


@pytest.mark.shows(44)
async def test_a_store_is_brought_up_to_date_with_all_its_rows(blank: Database, tmp_path: Path) -> None:
    async with connected(database_url=blank.url, embedder="none:") as client:
        id_ = await remember(client, "Jonas is allergic to peanuts.", tags=["work"])
    before = counts(blank)

    with later_version(tmp_path):
        assert not migrate.state(blank.url).ready
        assert migrate.migrate(blank.url) == TODAY
        assert migrate.state(blank.url).ready

    assert migrate.state(blank.url).version == LATER
    assert counts(blank) == before
    assert blank.as_login("SELECT id::text, mood_count FROM memories") == [(id_, 7)]
    with pytest.raises(NotReady, match=f"newer pgengram .schema {LATER}"):
        migrate.migrate(blank.url)


@pytest.mark.skipif(on_citus(), reason="A spread store is migrated in tests/cluster.")
async def test_a_store_of_the_first_schema_keeps_its_rows_and_notes_imports_from_then_on(
    blank: Database, tmp_path: Path
) -> None:
    migrate.migrate(blank.url, FIRST)
    blank.as_login(
        "INSERT INTO namespaces (name) VALUES ('default')",
        """INSERT INTO memories (namespace_id, id, type, content, content_hash, valid_from)
           SELECT id, gen_random_uuid(), 'semantic', 'Jonas is allergic to peanuts.', '', now() FROM namespaces""",
    )
    before = counts(blank)

    assert migrate.migrate(blank.url) == FIRST

    assert {name: counts(blank)[name] for name in before} == before
    assert counts(blank).keys() - before.keys() == {"memory_imports", "imported_memories", "imported_turns"}
    path = tmp_path / "notes.jsonl"
    path.write_text('{"content": "The gate is green."}', encoding="utf-8")
    pgengram("import", str(path), database_url=blank.url, embedder="none:")
    assert counts(blank)["imported_memories"] == 1


@pytest.mark.parametrize(
    ("version_table", "as_it_was"),
    diagonal(
        ["pgengram_version", "alembic_version"],
        ["ALTER TABLE memories RENAME speaker_key TO voice", "ALTER TABLE conversation_turns DROP id"],
    ),
)
def test_a_store_from_before_the_first_release_is_refused_with_the_way_to_bring_it(
    blank: Database, version_table: str, as_it_was: str
) -> None:
    migrate.make_new(blank.url)
    blank.as_login(as_it_was)
    if version_table == "alembic_version":
        blank.as_login("ALTER TABLE pgengram_version RENAME TO alembic_version")
    before = counts(blank)

    for command in (["migrate"], ["search", "peanuts"]):
        said = " ".join(pgengram(*command, database_url=blank.url, embedder="none:", expect=1).stderr.split())
        assert "from before the first release" in said
        assert "`pgengram export memories.jsonl` with that build" in said
        assert "new database" in said
    assert counts(blank) == before


async def test_the_export_of_a_store_from_before_the_first_release_is_imported(
    blank: Database, postgres: str, template: str, tmp_path: Path
) -> None:
    path = tmp_path / "memories.jsonl"
    with database_of(postgres, template) as former:
        async with connected(database_url=former.url, embedder="none:") as client:
            await remember(client, "The gate is green.", speaker="Ada", session_id="s-1")
        pgengram("export", str(path), database_url=former.url, embedder="none:")
        words = "SELECT id, content, speaker_key, turn_features FROM memories"
        before = former.as_login(words)
    text = path.read_text(encoding="utf-8")
    assert '"speaker_key"' in text
    path.write_text(text.replace('"speaker_key"', '"voice"').replace('"turn_features"', '"traits"'), encoding="utf-8")

    pgengram("import", str(path), database_url=blank.url, embedder="none:")

    assert blank.as_login(words) == before
