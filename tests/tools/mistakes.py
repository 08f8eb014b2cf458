"""Mistakes that a model makes when it calls the core tools, and what becomes of each.

`mistakes.json` holds the memories that are there before each call, and the cases. A case names what must be true when
the call is `accepted` (checks on the answer and on what is stored), the words that an answer must hold when it is
`refused` (a list of words means any of them), and the call to make `then`, which must succeed. In texts {boiler} stands
for the id of that memory, {boiler:23} for its first 23 and {boiler:-8} for its last eight characters, {BOILER} for
capitals.

Whatever happens, no other memory may be lost or changed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp import Client, MCPError
from mcp.types import TextContent

TABLE = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = TABLE["cases"]
ACCEPTED, RECOVERABLE = "accepted", "recoverable"
NEEDLESS = "refused needlessly"  # though it can only mean one thing
STUCK = "no way forward"  # refused without the words that lead on, or what it says does not help
WRONG = "silently wrong"  # taken, but not as it was meant
HARMFUL = "changed unasked"
PLACE = re.compile(r"\{(\w+)(?::(-?\d+))?\}")
WATCHED = (
    "type", "kind", "status", "content", "importance", "tags", "metadata", "pinned", "user", "project",
    "occurred_at", "expires_at",
)  # fmt: skip
READS = {"search_memories", "recall_context", "get_memories", "explore_memories", "memory_stats", "review_memories"}
ABSENT = (None, [], {}, "")
FIRST = 23  # characters at an id's beginning that no other shares; the first thirteen are the time, the same in a batch
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
Memory = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a call: one of the six words above, and why."""

    word: str
    why: str

    @property
    def good(self) -> bool:
        """Whether the caller has what it wanted or knows how to get it."""
        return self.word in (ACCEPTED, RECOVERABLE)


@dataclass(frozen=True, slots=True)
class Said:
    """One answer: whether the call was refused, its text, and the same as an object."""

    refused: bool
    text: str
    answer: dict[str, Any]


class Store:
    """A client's store that holds the memories of the table."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.ids: dict[str, str] = {}
        self.before: dict[str, Memory] = {}

    async def fill(self) -> None:
        """Store the memories of the table; the store must hold none."""
        told = await self.say("create_memories", {"items": list(TABLE["memories"].values())})
        results = told.answer["results"]
        self.ids = {key: one.get("memory_id") or one["id"] for key, one in zip(TABLE["memories"], results, strict=True)}
        await self.say("forget_memories", {"ids": [self.ids[key] for key in TABLE["forgotten"]]})
        for key, others in TABLE["linked"].items():
            to_ids = [self.ids[other] for other in others]
            await self.say("link_memories", {"from_id": self.ids[key], "to_ids": to_ids, "type": "depends_on"})
        self.before = await self.memories()
        whole = {tail(id_): id_ for id_ in self.before}
        self.ids = {key: whole[tail(id_)] for key, id_ in self.ids.items()}

    async def say(self, tool: str, arguments: dict[str, Any]) -> Said:
        """Call a tool and return what it answered."""
        try:
            answer = await self._client.call_tool(tool, arguments)
        except MCPError as error:
            return Said(True, str(error), {})
        [block] = answer.content
        assert isinstance(block, TextContent)
        told = answer.structured_content or json.loads(block.text)
        return Said(bool(answer.is_error) or told.get("ok") is False, block.text, told)

    async def memories(self) -> dict[str, Memory]:
        """Return all memories whole, by id."""
        found: dict[str, Memory] = {}
        for status in ("active", "invalidated"):
            listed = await self.say("search_memories", {"query": "", "limit": 100, "status": status, "detail": True})
            found |= {memory["id"]: memory for memory in listed.answer["results"]}
        return found

    def put_in(self, value: Any) -> Any:
        """Return a value of the table with ids in the places of names, and what is to be repeated repeated."""
        if isinstance(value, str):
            return PLACE.sub(self._id, value)
        if isinstance(value, list):
            return [self.put_in(one) for one in value]
        if isinstance(value, dict):
            if value.keys() == {"repeat", "times"}:
                return value["repeat"] * value["times"]
            return {name: self.put_in(one) for name, one in value.items()}
        return value

    def _id(self, place: re.Match[str]) -> str:
        name, length = place[1], place[2]
        if name == "secret":
            return SECRET
        id_ = self.ids[name.lower()]
        part = id_ if length is None else id_[: int(length)] if int(length) > 0 else id_[int(length) :]
        return part.upper() if name.isupper() else part

    def names_in(self, text: str) -> list[str]:
        """Return which memories of the table a text names by id: whole, or by its end or a long beginning."""
        return [key for key, id_ in self.ids.items() if id_[-8:] in text or id_[:FIRST] in text]


def tail(id_: str) -> str:
    """Return the digits by which ids are told apart, whether an answer gives them whole or not."""
    return id_[-8:]


def only_reads(case: dict[str, Any]) -> bool:
    """Whether the calls of a case leave the store as it is."""
    return {case["tool"], case.get("then", case)["tool"]} <= READS


async def judged(client: Client, case: dict[str, Any]) -> Verdict:
    """Make the call of a case in an empty store and return what became of it."""
    store = Store(client)
    await store.fill()
    return await judged_in(store, case)


async def judged_in(store: Store, case: dict[str, Any]) -> Verdict:
    """Make the call of a case in a store that holds the memories of the table and return what became of it."""
    told = await store.say(case["tool"], store.put_in(case["arguments"]))
    after = await store.memories()
    if told.refused:
        if touched := differing(store.before, after):
            return Verdict(HARMFUL, f"refused, but {touched}: {told.text}")
        return await _refused(store, case, told)
    if "accepted" not in case:
        harm = differing(store.before, after)
        return Verdict(HARMFUL if harm else WRONG, f"taken, though nothing fits; {harm} {told.text[:300]}")
    return await _accepted(store, case["accepted"], told, after)


async def _refused(store: Store, case: dict[str, Any], told: Said) -> Verdict:
    if "refused" not in case:
        return Verdict(NEEDLESS, told.text)
    if lacking := lacks(told.text, store.put_in(case["refused"])):
        return Verdict(STUCK, f"does not say {lacking}: {told.text}")
    if then := case.get("then"):
        after = await store.say(then["tool"], store.put_in(then["arguments"]))
        if after.refused:
            return Verdict(STUCK, f"what it says does not help: {after.text}")
    return Verdict(RECOVERABLE, told.text)


async def _accepted(store: Store, check: dict[str, Any], told: Said, after: dict[str, Memory]) -> Verdict:
    new = {id_: memory for id_, memory in after.items() if id_ not in store.before}
    meant = {store.ids[key] for key in [*check.get("forgotten", ()), *([check["of"]] if "of" in check else ())]}
    others = {id_: memory for id_, memory in store.before.items() if id_ not in meant}
    if harm := differing(others, {id_: after[id_] for id_ in others if id_ in after}):
        return Verdict(HARMFUL, harm)
    if "of" in check:
        read = await store.say("get_memories", {"ids": [store.ids[check["of"]]]})
        after = {**after, store.ids[check["of"]]: read.answer["memories"][0]}
    wrong = [*of_answer(store, check, told), *of_store(store, check, new, after), *await of_links(store, check)]
    return Verdict(WRONG, "; ".join(wrong)) if wrong else Verdict(ACCEPTED, told.text[:300])


def of_answer(store: Store, check: dict[str, Any], told: Said) -> list[str]:
    """Return what is wrong with the answer itself."""
    wrong = []
    named = store.names_in(told.text)
    if missing := set(check.get("found", ())) - set(named):
        wrong.append(f"{sorted(missing)} not found in {told.text[:200]}")
    if present := set(check.get("without", ())) & set(named):
        wrong.append(f"{sorted(present)} should not be there")
    results = told.answer.get("results", [])
    if "first" in check and store.names_in(json.dumps(results[:1])) != [check["first"]]:
        wrong.append(f"{check['first']} is not first")
    if len(results) > check.get("most", len(results)):
        wrong.append(f"{len(results)} results")
    if lacking := lacks(told.text, store.put_in(check.get("told", []))):
        wrong.append(f"does not say {lacking}: {told.text[:200]}")
    return wrong


def of_store(store: Store, check: dict[str, Any], new: dict[str, Memory], after: dict[str, Memory]) -> list[str]:
    """Return what is wrong with what is stored now."""
    wrong = []
    expected = check.get("stored", {})
    if "of" in check:
        wrong += unlike(after.get(store.ids[check["of"]], {}), store.put_in(expected))
    elif "stored" in check:
        if len(new) == 1:
            wrong += unlike(next(iter(new.values())), store.put_in(expected))
        else:
            wrong.append(f"{len(new)} memories were stored instead of one")
    if "contents" in check and sorted(check["contents"]) != sorted(map(content, new.values())):
        wrong.append(f"stored {sorted(map(content, new.values()))}")
    if not {"stored", "contents", "told"} & check.keys() and new:
        wrong.append(f"{len(new)} memories were stored")
    wrong += [f"{key} is not forgotten" for key in check.get("forgotten", ()) if not forgotten(after, store.ids[key])]
    return wrong


async def of_links(store: Store, check: dict[str, Any]) -> list[str]:
    """Return what is wrong with the links of a memory."""
    if "linked" not in check:
        return []
    one, *others = check["linked"]
    read = await store.say("get_memories", {"ids": [store.ids[one]], "include": ["relations"]})
    wanted = [f"{{{other}}}" if other in store.ids else other for other in others]
    lacking = lacks(json.dumps(read.answer["memories"][0].get("relations")), store.put_in(wanted))
    return [f"not linked: {lacking}"] if lacking else []


def forgotten(after: dict[str, Memory], id_: str) -> bool:
    """Whether a memory is there and forgotten."""
    return after.get(id_, {}).get("status") == "invalidated"


def content(memory: Memory) -> str:
    """Return what a memory says."""
    return str(memory.get("content", memory.get("text", "")))


def lacks(text: str, words: list[Any]) -> list[Any]:
    """Return those of the words that a text does not hold; of a list among them one is enough."""
    low = text.lower()
    return [one for one in words if not any(w.lower() in low for w in (one if isinstance(one, list) else [one]))]


def differing(before: dict[str, Memory], after: dict[str, Memory]) -> str:
    """Return which memories were lost, made or changed; nothing when all are as they were."""
    found = [f"lost {id_}" for id_ in before.keys() - after.keys()]
    found += [f"made {content(after[id_])!r}" for id_ in after.keys() - before.keys()]
    for id_ in before.keys() & after.keys():
        for name in WATCHED:
            was, now = (content(m) if name == "content" else m.get(name) for m in (before[id_], after[id_]))
            if was != now and not (was in ABSENT and now in ABSENT):
                found.append(f"{name} of {id_} was {was!r} and is {now!r}")
    return "; ".join(found)


def unlike(memory: Memory, expected: dict[str, Any]) -> list[str]:
    """Return which fields of a memory are not as expected."""
    wrong = []
    for name, wanted in expected.items():
        value = content(memory) if name == "content" else memory.get(name)
        if not fits(value, wanted):
            wrong.append(f"{name} is {value!r}, not {wanted!r}")
    return wrong


def fits(value: Any, wanted: Any) -> bool:
    """Whether a value is the one wanted, or has the property that is wanted."""
    match wanted:
        case {"days from today": [low, high]}:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else None
            return moment is not None and low <= (moment.date() - datetime.now(UTC).date()).days <= high
        case {"between": [low, high]}:
            return isinstance(value, (int, float)) and low - 1e-6 <= value <= high + 1e-6
        case {"matches": pattern}:
            return isinstance(value, str) and re.search(pattern, value) is not None
        case {"has": words}:
            return set(words) <= set(value or ())
        case {"in": values}:
            return value in values
        case {"holds": text}:
            return text in json.dumps(value)
    return value == wanted or (value in ABSENT and wanted in ABSENT)
