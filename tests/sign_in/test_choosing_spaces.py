"""A person sees whose memories and which shared spaces a program will have, and leaves some out."""

from __future__ import annotations

import re

import httpx
import pytest
from http_server import HttpServer, outcome
from signing_in import PAGE_HEADERS, Pair, Program, hidden

from helpers import Database
from pgengram.errors import Conflict
from pgengram.store import membership, persons
from pgengram.store.connection.database import Role
from pgengram.store.persons import Right
from pgengram.store.store import Store


async def send(program: Program, page: httpx.Response, **form: str) -> httpx.Response:
    """Answer a page with a form of one's own."""
    form = {"request": hidden(page), "decision": "allow", "may_write": "yes", **form}
    headers = {"origin": program.base, **PAGE_HEADERS}
    return await program.browser.post(f"{program.base}/oauth/authorize", data=form, headers=headers)


def offered(page: httpx.Response) -> dict[str, tuple[int, str]]:
    """Return the spaces that a page offers, by name: key and right."""
    found = re.findall(r'name="space-(\d+)".*?<strong>(.*?)</strong>: (.*?),', page.text)
    return {name: (int(key), right) for key, name, right in found}


def granted(database: Database) -> tuple[str, str, dict[str, Right]]:
    """Return namespace, scope and spaces of the newest connection."""
    rows = database.as_login("SELECT namespace, scope, spaces FROM oauth_grants ORDER BY created_at DESC LIMIT 1")
    return rows[0]  # type: ignore[return-value]


async def test_a_person_chooses_among_the_spaces_that_they_are_in_and_gets_no_others(
    web: HttpServer, pair: Pair, shared_store: Store, signing_database: Database
) -> None:
    store = shared_store
    mara, ben = await persons.add(store, "Mara"), await persons.add(store, "Ben")
    kitchen = await membership.create(store, "Kitchen", ben)
    garden = await membership.create(store, "Garden", mara)
    cellar = await membership.create(store, "Cellar", ben)
    await membership.put(store, kitchen.id, mara, Role.READ, by=ben)

    program = Program(web.base)
    page = await send(program, await program.page(), code=await pair("Mara"))
    assert offered(page) == {"Kitchen": (kitchen.id, "read only"), "Garden": (garden.id, "read and write")}
    assert "<dd>Mara</dd>" in page.text
    assert "Cellar" not in page.text
    forged = {f"space-{one.id}": "yes" for one in (garden, cellar)}
    assert (await send(program, page, step="choose", **forged)).status_code == 303
    assert granted(signing_database) == ("Mara", "read-write", {str(garden.id): "write"})
    assert (await send(program, page, step="choose", **forged)).status_code == 400, "once"

    limited: dict[int, Right] = {garden.id: "read"}
    page = await send(program, await program.page(), code=await pair("Mara", spaces=limited))
    assert offered(page) == {"Garden": (garden.id, "read only")}
    assert (await send(program, page, code="")).status_code == 200, (
        "sent twice, it is asked again and nothing is allowed"
    )
    await membership.remove(store, kitchen.id, mara, by=ben)
    both = {f"space-{one.id}": "yes" for one in (garden, kitchen)}
    assert (await send(program, page, step="choose", **both)).status_code == 303
    assert granted(signing_database)[2] == {str(garden.id): "read"}

    page = await send(program, await program.page(), code=await pair("Mara", may_write=False))
    assert offered(page) == {"Garden": (garden.id, "read only")}
    assert (await send(program, page, decision="deny")).headers["location"].count("access_denied") == 1
    assert (await send(program, page, step="choose")).status_code == 400
    page = await send(program, await program.page(), step="choose", **both)
    assert "tries left" in page.text, "nobody chooses before they have shown who they are"


async def test_somebody_new_becomes_a_person_when_they_type_their_code(
    web: HttpServer, signing_database: Database, shared_store: Store
) -> None:
    made = outcome("pair", "--person", "Dora", **web.settings)
    assert (made["person"], made["namespace"]) == ("Dora", "Dora")
    assert not [one for one in await persons.listed(shared_store) if one.name == "Dora"]
    program = Program(web.base)
    assert (await send(program, await program.page(), code=made["code"])).status_code == 303
    [dora] = [one for one in await persons.listed(shared_store) if one.name == "Dora"]
    assert (dora.namespace, granted(signing_database)[0]) == ("Dora", "Dora")
    again = outcome("pair", "--person", "dora", **web.settings)
    assert (await send(program, await program.page(), code=again["code"])).status_code == 303
    assert len([one for one in await persons.listed(shared_store) if one.name == "Dora"]) == 1

    with pytest.raises(Conflict):
        await persons.add(shared_store, "Somebody", "Dora")
    late = outcome("pair", "--person", "Emil", **web.settings)
    await persons.add(shared_store, "emil", "elsewhere")
    refused = await send(program, await program.page(), code=late["code"])
    assert (refused.status_code, "There is a person called" in refused.text) == (400, True)
    assert granted(signing_database)[0] == "Dora"
