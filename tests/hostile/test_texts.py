"""Any text comes back byte for byte from wherever it was written, or is refused with a reason and changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mcp import Client

from helpers import call, diagonal, read, remember

SERVER = {"toolsets": "all", "embedder": "none:"}
AROUND = " \t\r\n"  # white space that goes with whatever stands inside it
TEXTS = {
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "compatibility": "\ufb01 \u2460 \uff21 \u212b",
    "turkish and german": "\u0130I\u0131i \u00df\u1e9e",
    "windows lines": "one\r\ntwo\rthree\n",
    "white space around": "  \t x \u00a0\u3000 ",
    "line separators": "a\u2028b\u2029c\u0085d\x0be\x0cf",
    "byte order mark": "\ufeffx\ufeff",
    "zero width": "a\u200bb\u200cc\u200dd\u2060e\u00adf",
    "right to left": "\u202eabc\u202c \u2067\u05d0\u05d1\u2069 \u061c",
    "tag characters": "x\U000e0001\U000e0041\U000e007f",
    "emoji": "👨\u200d👩\u200d👧 \U0001f1e9\U0001f1ea 🏳\ufe0f\u200d🌈",
    "beyond the first plane": "\U0001d4b3 \U00020000 \U0010fffd",
    "no characters": "\ufffe\uffff\ufdd0",
    "replacement": "\ufffd",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x9b31m\x1b[2J",
    "many accents": "x" + "\u0301" * 200,
    "quotes and escapes": """'"\\`$$%s%(id)s{0}${x}\\u0000\\x00\\n\\\\""",
    "markup": "</memories><script>alert(1)</script><!-- -->&amp;]]>",
    "words of query languages": "a & b | !c <-> d:* ' OR 1=1 --",
    "looks like json": '{"a": [1, null, NaN]}',
}
TELLING = {"decomposed", "windows lines", "beyond the first plane", "controls", "quotes and escapes"}  # for every place
UNSTORABLE = {"nul": "a\0b", "nul at the end": "ab\0", "nul alone": "\0"}


# -- every place that holds text: how it is written, and how it is read ------------------------------------------------


async def of_content(client: Client, text: str) -> Any:
    return (await read(client, await remember(client, text)))["content"]


async def of_content_in_a_batch(client: Client, text: str) -> Any:
    stored = await call(client, "create_memories", items=[{"content": text}], atomic=True)
    return (await read(client, stored["results"][0]["memory_id"]))["content"]


async def of_a_changed_content(client: Client, text: str) -> Any:
    id_ = await remember(client, "Before.")
    await call(client, "update_memory", id=id_, content=text)
    return (await read(client, id_))["content"]


async def of_metadata(client: Client, text: str) -> Any:
    id_ = await remember(client, "Said.", metadata={"note": text, "list": [text], text: 1})
    answer = (await read(client, id_))["metadata"]
    assert answer == {"note": text, "list": [text], text: 1}
    return answer["note"]


async def of_changed_metadata(client: Client, text: str) -> Any:
    id_ = await remember(client, "Said.", type="episodic")
    await call(client, "update_memory", id=id_, metadata={"context": {text: text}, "note": text})
    answer = await read(client, id_)
    assert answer["metadata"]["note"] == text
    [value] = answer["detail"]["context"].values()
    return value


async def of_names(client: Client, text: str) -> Any:
    names = ("source", "source_provider", "session_id", "speaker", "user", "project", "collection")
    answer = await read(client, await remember(client, "Said.", **dict.fromkeys(names, text)))
    assert {answer[name] for name in names} == {text.strip(AROUND)}
    return answer["speaker"]


async def of_sources(client: Client, text: str) -> Any:
    id_ = await remember(client, "Said.", sources=[{"ref": text, "label": text}])
    [source] = (await read(client, id_))["sources"]
    assert source["ref"] == text
    return source["label"]


async def of_a_reason(client: Client, text: str) -> Any:
    id_ = await remember(client, "Over.")
    await call(client, "forget_memories", ids=[id_], reason=text)
    return (await read(client, id_))["reason"]


async def of_an_edge(client: Client, text: str) -> Any:
    one, other = await remember(client, "One."), await remember(client, "Other.")
    await call(client, "link_memories", from_id=one, to_ids=[other], properties={"why": text})
    [memory] = (await call(client, "get_memories", ids=[one], include=["relations"]))["memories"]
    return memory["relations"][0]["properties"]["why"]


async def of_history(client: Client, text: str) -> Any:
    id_ = await remember(client, text)
    await call(client, "update_memory", id=id_, content="After.")
    [memory] = (await call(client, "get_memories", ids=[id_], include=["history"]))["memories"]
    [change] = [one for one in memory["history"] if one["operation"] == "update"]
    return change["changes"]["content"][0]


async def of_a_failure(client: Client, text: str) -> Any:
    id_ = await remember(client, "How to.", type="procedural")
    await call(client, "update_memory", id=id_, outcome="failure", failure_point=text)
    return (await read(client, id_))["detail"]["failure_points"][0]


async def of_a_cluster(client: Client, text: str) -> Any:
    made = await call(client, "create_memory_cluster", name=text, description=text, emotional_signature={"x": text})
    [cluster] = (await call(client, "get_memory_clusters", ids=[made["cluster"]["id"]]))["clusters"]
    assert cluster["description"] == text
    assert cluster["emotional_signature"] == {"x": text}
    return cluster["name"]


async def of_a_changed_cluster(client: Client, text: str) -> Any:
    made = await call(client, "create_memory_cluster", name="Before")
    await call(client, "update_cluster_members", cluster_id=made["cluster"]["id"], name=text, description=text)
    [cluster] = (await call(client, "get_memory_clusters", ids=[made["cluster"]["id"]]))["clusters"]
    assert cluster["description"] == text
    return cluster["name"]


async def of_a_note(client: Client, text: str) -> Any:
    await call(client, "create_working_memory", content=text, context={"for": text})
    [note] = (await call(client, "get_working_memories"))["memories"]
    assert note["context"] == {"for": text}
    return note["content"]


async def of_what_notes_became(client: Client, text: str) -> Any:
    note = (await call(client, "create_working_memory", content="Note."))["memory_id"]
    made = await call(client, "consolidate_working_memory", ids=[note], content=text)
    return (await read(client, made["memory_id"]))["content"]


async def of_a_belief(client: Client, text: str) -> Any:
    await call(client, "record_belief", belief=text, details={"why": text})
    [belief] = (await call(client, "get_worldview"))["beliefs"]
    assert belief["details"] == {"why": text}
    return belief["belief"]


async def of_an_identity(client: Client, text: str) -> Any:
    await call(client, "record_identity", self_concept=text, purpose_framework=[text])
    answer = (await call(client, "get_identity_core"))["identity"]
    assert answer["purpose_framework"] == [text]
    return answer["self_concept"]


PLACES: list[Callable[[Client, str], Awaitable[Any]]] = [
    of_content, of_content_in_a_batch, of_a_changed_content, of_metadata, of_changed_metadata, of_names, of_sources, of_a_reason,
    of_an_edge, of_history, of_a_failure, of_a_cluster, of_a_changed_cluster, of_a_note, of_what_notes_became, of_a_belief,
    of_an_identity,
]  # fmt: skip

WHOLE = (
    of_metadata,
    of_changed_metadata,
    of_an_edge,
    of_an_identity,
)  # values of JSON; elsewhere white space around goes


@pytest.mark.parametrize(
    ("place", "text"),
    [
        pytest.param(
            place, text, id=f"{name}-{place.__name__}",
            marks=() if place is of_content or name in TELLING else pytest.mark.nightly,
        )
        for name, text in TEXTS.items() for place in PLACES
    ],
)  # fmt: skip
async def test_text_comes_back_byte_for_byte(
    client: Client, place: Callable[[Client, str], Awaitable[Any]], text: str
) -> None:
    assert await place(client, text) == (text if place in WHOLE else text.strip(AROUND))


@pytest.mark.parametrize(("place", "name"), diagonal(PLACES, UNSTORABLE))
async def test_text_that_cannot_be_kept_is_refused_with_a_reason(
    client: Client, place: Callable[[Client, str], Awaitable[Any]], name: str
) -> None:
    with pytest.raises(AssertionError, match=r"INVALID_INPUT.*NUL character"):
        await place(client, UNSTORABLE[name])
