"""The rules of shared spaces, one after the other, as the people in one meet them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import psycopg
import pytest
from sharing_team import Caller, PersonWhoAnswers, Team

from helpers import until
from pgengram.errors import Conflict, NotAllowed
from pgengram.service import spaces
from pgengram.store import membership
from pgengram.store.connection.database import Role
from pgengram.store.recovery import imports
from pgengram.transfer.importing import import_from

OVEN = "The oven in the shared kitchen runs ten degrees hot."
KEY = "Mara keeps the spare key under the blue pot."


@pytest.mark.shows(46)
async def test_personal_is_the_default_of_every_write(team: Team) -> None:
    await team.mara.remember(KEY)
    await team.mara.remember(OVEN, space="Kitchen")

    assert await team.ben.found("spare key") == []
    assert await team.ben.found("oven") == [OVEN]
    for tool in team.mara.registry.bindings.values():
        if tool.tool.name not in ("share_memories", "list_spaces"):
            assert "space" not in tool.listed["inputSchema"].get("required", [])


async def test_a_grant_opens_the_spaces_it_lists_and_no_new_ones(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")
    before = team.caller("ben", {})
    attic = await membership.create(team.home.store, "Attic", team.people["ben"])
    reads = team.caller("ben", {team.kitchen.id: "read"})

    assert await before.found("oven") == []
    assert "no space" in await before.refused("search_memories", query="oven", space="Kitchen")
    assert [one["name"] for one in (await reads.call("list_spaces"))["spaces"]] == ["Kitchen"]
    assert "NOT_ALLOWED" in await reads.refused("create_memory", content="Buy flour.", space="Kitchen")
    assert "NOT_FOUND" in await reads.refused("create_memory", content="Buy flour.", space="Attic")
    assert attic.id not in {one.id for one in await reads.spaces.listed()}


async def test_a_guest_reads_a_writer_corrects_and_takes_back_their_own_and_an_admin_decides(team: Team) -> None:
    hers = await team.mara.remember(OVEN, space="Kitchen")
    his = await team.ben.remember("Flour is on the top shelf.", space="Kitchen")

    for arguments in ({"id": hers, "importance": 0.9, "expected_version": 1}, {"id": hers, "status": "archived"}):
        assert "NOT_ALLOWED" in await team.cleo.refused("update_memory", space="Kitchen", **arguments)
    assert "NOT_ALLOWED" in await team.cleo.refused("forget_memories", ids=[hers], space="Kitchen")
    await team.ben.call(
        "update_memory", id=hers, content=OVEN.replace("ten", "twelve"), expected_version=1, space="Kitchen"
    )
    assert "NOT_ALLOWED" in await team.ben.refused("forget_memories", ids=[hers], space="Kitchen")
    assert "NOT_ALLOWED" in await team.ben.refused("forget_memories", ids=[hers], hard=True, space="Kitchen")
    assert "NOT_ALLOWED" in await team.ben.refused(
        "update_memory", id=hers, status="archived", expected_version=2, space="Kitchen"
    )
    [memory] = (await team.cleo.call("get_memories", ids=[hers], include=["history"]))["memories"]
    assert (memory["author"], [one.get("author") for one in memory["history"]]) == ("Mara", ["Ben", "Mara"])

    await team.ben.call("forget_memories", ids=[his], space="Kitchen")
    await team.mara.call("forget_memories", ids=[hers], space="Kitchen")
    assert await team.cleo.found("oven") == []


async def test_the_database_itself_lets_a_guest_change_nothing_and_a_writer_remove_only_their_own(team: Team) -> None:
    hers = await team.mara.remember(OVEN, space="Kitchen")
    his = await team.ben.remember("Flour is on the top shelf.", space="Kitchen")

    def as_person(name: str, statement: str) -> int:
        with psycopg.connect(team.database.url) as connection:
            for setting, value in (
                ("pgengram.namespace_id", team.kitchen.id),
                ("pgengram.person_id", team.people[name].id),
                ("role", "pgengram_app"),
            ):
                connection.execute("SELECT set_config(%s, %s, true)", [setting, str(value)])
            done = connection.execute(statement).rowcount
            connection.rollback()
            return done

    assert as_person("cleo", "SELECT * FROM memories") == 2
    assert as_person("cleo", "DELETE FROM memories") == as_person("cleo", "DELETE FROM memory_tags") == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        as_person("cleo", "UPDATE memories SET importance_ = 1".replace("importance_ = 1", "pinned = true"))
    assert as_person("ben", f"DELETE FROM memories WHERE id = '{hers}'") == 0
    assert as_person("ben", f"DELETE FROM memories WHERE id = '{his}'") == 1
    assert as_person("mara", "DELETE FROM memories") == 2
    assert as_person("dora", "SELECT * FROM memories") == 0


async def test_who_said_it_is_set_by_the_database_and_by_no_argument(team: Team) -> None:
    id_ = await team.ben.remember(
        "The fuse box is behind the fridge.",
        space="Kitchen",
        speaker="Mara",
        metadata={"person_id": 1, "author": "Mara"},
    )

    [memory] = (await team.cleo.call("get_memories", ids=[id_]))["memories"]
    assert (memory["author"], memory["space"]) == ("Ben", "Kitchen")
    assert team.database.as_login(f"SELECT person_id FROM memories WHERE id = '{id_}'")[0][0] == team.people["ben"].id


async def test_a_hit_names_its_space_and_author_and_ones_own_comes_before_a_copy(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")
    own = await team.ben.remember(OVEN)
    await team.mara.remember("Dora's cat is called Tom.", space="Kitchen")

    hits = (await team.ben.call("search_memories", query="oven hot"))["results"]
    assert [(hit["id"], hit.get("space")) for hit in hits] == [(own, None)]
    [hit] = (await team.ben.call("search_memories", query="cat Tom"))["results"]
    assert (hit["space"], hit["author"]) == ("Kitchen", "Mara")
    text = (await team.ben.call("recall_context", context="What is the cat of Dora called?"))["context"]
    assert "Shared in Kitchen:" in text
    assert "shared by Mara" in text
    assert await team.ben.found("oven cat", space="personal") == [OVEN]


@pytest.mark.shows(46)
async def test_sharing_copies_what_a_person_saw_and_the_copy_does_not_lead_back(team: Team) -> None:
    id_ = await team.mara.remember(KEY, user="Mara", speaker="Mara", project="home", source="diary")
    person = PersonWhoAnswers()

    answer = await team.mara.call("share_memories", person, ids=[id_], space="Kitchen")

    [question] = person.asked
    assert KEY in question
    assert "3 people will see it: Mara, Ben, Cleo." in question
    copy = answer["results"][0]["copy_id"]
    [memory] = (await team.ben.call("get_memories", ids=[copy], include=["history", "relations"]))["memories"]
    assert (memory["content"], memory["author"]) == (KEY, "Mara")
    assert not {"user", "speaker", "project", "source"} & set(memory)
    assert id_ not in json.dumps(memory)
    assert "NOT_FOUND" in await team.ben.refused("get_memories", ids=[id_])
    assert (await team.mara.call("get_memories", ids=[id_]))["memories"][0]["content"] == KEY


async def test_no_token_lets_a_model_say_yes_to_sharing(team: Team) -> None:
    id_ = await team.mara.remember(KEY)

    told = await team.mara.refused("share_memories", ids=[id_], space="Kitchen")
    assert "A person must agree" in told
    assert "pgengram space share" in told
    assert "confirm_token" not in team.mara.registry.bindings["share_memories"].listed["inputSchema"]["properties"]
    no = PersonWhoAnswers(agrees=False)
    assert "Cancelled" in await team.mara.refused("share_memories", no, ids=[id_], space="Kitchen")
    assert await team.ben.found("key") == []


async def test_what_changed_since_it_was_shown_is_not_shared(team: Team) -> None:
    id_ = await team.mara.remember(KEY)

    class Meanwhile(PersonWhoAnswers):
        async def ask(self, question: str, token: str) -> bool:
            await team.mara.call("update_memory", id=id_, content="Mara's alarm code is on the fridge.")
            return await super().ask(question, token)

    class Joins(PersonWhoAnswers):
        async def ask(self, question: str, token: str) -> bool:
            await membership.put(
                team.home.store, team.kitchen.id, team.people["dora"], Role.READ, by=team.people["mara"]
            )
            return await super().ask(question, token)

    for person in (Meanwhile(), Joins()):
        told = await team.mara.refused("share_memories", person, ids=[id_], space="Kitchen")
        assert "CONFIRM_REQUIRED" in told
    assert await team.ben.found("key alarm") == []


async def test_a_copy_that_nobody_changed_is_taken_back_and_another_stays(team: Team) -> None:
    yes = PersonWhoAnswers()
    ids = [await team.mara.remember(text) for text in (KEY, OVEN)]
    shared = await team.mara.call("share_memories", yes, ids=ids, space="Kitchen")
    [first, second] = [one["copy_id"] for one in shared["results"]]
    await team.ben.call("update_memory", id=second, add_tags=["heat"], expected_version=1, space="Kitchen")

    answer = await team.mara.call("share_memories", ids=ids, space="Kitchen", withdraw=True)

    assert answer["message"] == f"1 taken back. 1 stay, as others have changed them since: {ids[1]}."
    assert "NOT_FOUND" in await team.ben.refused("get_memories", ids=[first])
    assert await team.ben.found("oven") == [OVEN]
    assert await team.mara.found("key", space="personal") == [KEY]


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("Mara was diagnosed with asthma.", "health"),
        ("Bens Gehalt steigt im Mai.", "money"),
        ("La sœur de Cleo arrive demain.", "family"),
    ],
)
async def test_what_looks_personal_is_told_before_it_is_shared(team: Team, text: str, topic: str) -> None:
    person = PersonWhoAnswers(agrees=False)

    await team.mara.refused("share_memories", person, ids=[await team.mara.remember(text)], space="Kitchen")

    assert f"This looks personal ({topic})." in person.asked[0]


async def test_a_correction_names_the_version_it_was_made_from_and_two_writers_do_not_overwrite(team: Team) -> None:
    id_ = await team.mara.remember(OVEN, space="Kitchen")

    assert "expected_version=1" in await team.ben.refused("update_memory", id=id_, importance=0.9, space="Kitchen")
    texts = [OVEN.replace("ten", number) for number in ("eleven", "twelve")]
    answers = await asyncio.gather(
        *(
            caller.raw("update_memory", id=id_, content=text, expected_version=1, space="Kitchen")
            for caller, text in zip((team.mara, team.ben), texts, strict=True)
        )
    )
    assert sorted(answer["isError"] for answer in answers) == [False, True]
    other = await team.ben.remember("The oven in the shared kitchen is exact.", space="Kitchen")
    await team.ben.call("link_memories", from_id=id_, to_ids=[other], type="contradicts", space="Kitchen")
    [pair, *_] = (await team.cleo.call("review_memories", find=["contradictions"], space="Kitchen"))["findings"]
    assert {*pair["authors"]} == {"Mara", "Ben"}


async def test_whoever_leaves_or_is_removed_sees_nothing_from_the_next_statement_on(team: Team) -> None:
    await team.ben.remember(OVEN, space="Kitchen")
    assert await team.ben.found("oven") == [OVEN]

    await membership.remove(team.home.store, team.kitchen.id, team.people["ben"], by=team.people["mara"])

    assert await team.ben.found("oven") == []
    assert "NOT_FOUND" in await team.ben.refused("search_memories", query="oven", space="Kitchen")
    [hit] = (await team.cleo.call("search_memories", query="oven"))["results"]
    assert hit["author"] == "Ben", "what was shared stays with its name"


async def test_a_person_who_leaves_may_ask_not_to_be_named(team: Team) -> None:
    await team.ben.remember(OVEN, space="Kitchen")

    ben = team.people["ben"]
    await membership.remove(team.home.store, team.kitchen.id, ben, by=ben, anonymous=True)

    async def nameless() -> bool:
        [hit] = (await team.cleo.call("search_memories", query="oven"))["results"]
        return hit["author"] == "former member"

    await until(nameless)


async def test_an_erased_person_has_no_name_in_any_column_and_what_was_shared_stays(team: Team) -> None:
    await team.ben.remember("Ben's own secret recipe.")
    await team.ben.remember(OVEN, space="Kitchen", speaker="Ben")
    await spaces.erase_person(team.home.store, team.people["ben"])

    [hit] = (await team.cleo.call("search_memories", query="oven"))["results"]
    assert (hit["author"], "speaker" in hit) == ("former member", False)
    tables = [name for (name,) in team.database.as_login(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )]  # fmt: skip
    team.database.as_login("SELECT 1")
    with psycopg.connect(team.database.url) as connection:
        connection.execute("SELECT set_config('pgengram.maintenance', 'on', true)")
        for table in tables:
            rows = connection.execute(f"SELECT t::text FROM {table} t").fetchall()
            assert not [row for (row,) in rows if "ben" in row.lower()], table


async def test_the_last_admin_of_a_space_is_not_erased_and_nothing_else_of_theirs_is(team: Team) -> None:
    store, people = team.home.store, team.people
    await team.mara.remember(KEY)
    await membership.put(store, team.kitchen.id, people["ben"], Role.ADMIN, by=people["mara"])
    yard = await membership.create(store, "Yard", people["mara"])
    await membership.put(store, yard.id, people["cleo"], Role.WRITE, by=people["mara"])

    elsewhere: list[str] = []

    async def erase_elsewhere() -> None:
        elsewhere.append("erased")

    with pytest.raises(Conflict, match="last admin"):
        await spaces.erase_person(store, people["mara"], erase_elsewhere)

    assert elsewhere == [], "their other machines erase nothing either"

    assert await team.mara.found("key") == [KEY]
    assert {one.id for one in await team.mara.spaces.listed()} == {team.kitchen.id, yard.id}


async def test_a_deleted_space_is_gone_and_every_member_is_told_once(team: Team) -> None:
    await team.ben.remember(OVEN, space="Kitchen")
    with pytest.raises(NotAllowed):
        await spaces.delete_space(team.home.store, team.kitchen, team.people["ben"])

    await spaces.delete_space(team.home.store, team.kitchen, team.people["mara"])

    told = (await team.ben.call("recall_context", context="oven"))["note"]
    assert "The shared space 'Kitchen' was deleted" in told
    assert "Kitchen" not in str((await team.ben.call("recall_context", context="oven")).get("note"))
    assert team.database.as_login("SELECT count(*) FROM space_members")[0][0] == 0


async def test_the_last_admin_cannot_leave_and_the_owner_of_the_server_can_appoint_one(team: Team) -> None:
    store, kitchen, mara, ben = team.home.store, team.kitchen.id, team.people["mara"], team.people["ben"]

    with pytest.raises(Conflict, match="last admin"):
        await membership.remove(store, kitchen, mara, by=mara)
    with pytest.raises(Conflict, match="last admin"):
        await membership.put(store, kitchen, mara, Role.WRITE, by=mara)
    with pytest.raises(NotAllowed):
        await membership.put(store, kitchen, ben, Role.ADMIN, by=ben)
    await membership.put(store, kitchen, ben, Role.ADMIN, by=None)
    await membership.remove(store, kitchen, mara, by=ben)
    assert [one.name for one in await membership.members(store, kitchen) if one.until is None] == ["Ben", "Cleo"]


async def test_a_guest_strengthens_nothing_that_others_see(team: Team) -> None:
    id_ = await team.mara.remember(OVEN, space="Kitchen")
    strength = f"SELECT t::text FROM memory_activation t WHERE memory_id = '{id_}'"

    def seen() -> str:
        with psycopg.connect(team.database.url) as connection:
            connection.execute("SELECT set_config('pgengram.maintenance', 'on', true)")
            return str(connection.execute(strength).fetchall())

    before = seen()
    for _ in range(3):
        await team.cleo.call("search_memories", query="oven")
        await team.cleo.call("get_memories", ids=[id_], space="Kitchen")
        await team.cleo.call("recall_context", context="the oven")
    async with team.cleo.spaces.manager(team.kitchen) as manager:
        await manager.accesses.flush()
    assert seen() == before
    await team.ben.call("get_memories", ids=[id_], space="Kitchen")
    assert seen() != before


async def test_spaces_with_names_that_look_alike_are_shown_apart(team: Team) -> None:
    for name in ("Kitсhen", "Küche", "Kuche"):
        made = await membership.create(team.home.store, name, team.people["mara"])
        assert made.id

    shown = [one["name"] for one in (await team.mara.call("list_spaces"))["spaces"]]
    assert shown[0] == "Kitchen"
    assert len({name for name in shown if "(number " in name}) == 3
    with pytest.raises(Conflict):
        await membership.create(team.home.store, "KITCHEN ", team.people["ben"])


async def test_unknown_and_foreign_spaces_look_the_same(team: Team) -> None:
    for tool, given in (("search_memories", {"query": "x"}), ("create_memory", {"content": "Buy flour."})):
        texts = {
            (await team.dora.refused(tool, **given, space=name)).replace(name, "NAME") for name in ("Kitchen", "Cellar")
        }
        assert len(texts) == 1


async def test_a_refused_guest_can_write_once_an_admin_has_let_them_as_the_error_says(team: Team) -> None:
    told = await team.cleo.refused("create_memory", content="Buy flour.", space="Kitchen")
    assert "An admin of the space can let you write." in told

    await membership.put(team.home.store, team.kitchen.id, team.people["cleo"], Role.WRITE, by=team.people["mara"])

    assert (await team.cleo.call("create_memory", content="Buy flour.", space="Kitchen"))["created"]


async def test_whoever_has_the_login_sees_everything_and_the_owner_appoints_an_admin_of_any_space(team: Team) -> None:
    await team.mara.remember(OVEN, space="Kitchen")
    await team.dora.remember(KEY)

    with psycopg.connect(team.database.url) as connection:
        connection.execute("SELECT set_config('pgengram.maintenance', 'on', true)")
        assert {text for (text,) in connection.execute("SELECT content FROM memories")} == {OVEN, KEY}
    await membership.put(team.home.store, team.kitchen.id, team.people["dora"], Role.ADMIN, by=None)
    assert await team.dora.found("oven", space="Kitchen") == [OVEN]


async def test_nobody_but_an_admin_undoes_what_another_member_imported(team: Team, tmp_path: Path) -> None:
    path = tmp_path / "kitchen.jsonl"
    path.write_text(json.dumps({"content": OVEN}), encoding="utf-8")

    async def undo(caller: Caller) -> None:
        async with caller.spaces.manager(team.kitchen) as shared, shared.store.transaction() as tx:
            shown = await imports.planned_undo(tx, (await imports.find_import(tx))["id"])
            await imports.undo_as_shown(tx, shown.row["id"], shown.fingerprint)

    async with team.mara.spaces.manager(team.kitchen) as shared:
        await import_from(shared, "", str(path), dry_run=False, report=lambda *_: None)
    with pytest.raises(NotAllowed):
        await undo(team.ben)
    assert await team.ben.found("oven") == [OVEN]
    await undo(team.mara)

    assert await team.ben.found("oven") == []
