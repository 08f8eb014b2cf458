"""The data sets of retrieval.py in one form: what is stored in which order, and what is asked of it.

A file or folder is recognised by what it holds. Part of this project are the weeks with an assistant
(data/assistant_corpus.json) and a probe in eight languages (data/languages_probe.tsv). Others are read where they are given:

- LoCoMo's JSON (Maharana et al. 2024, CC BY-NC 4.0): two people talk for months.
- Chats of a person with an assistant: a list of `turns` (id, role, time, text) and `qa` (question, evidence, new, old).
- Weeks of notes: `sessions` of operations (create, update, link, forget) and `questions` (query, gold, need, stale).
- A clone of github.com/google-deepmind/xquad (CC BY-SA 4.0): paragraphs of Wikipedia, asked in twelve languages.
- A clone of github.com/hejunqing/MADial-Bench (MIT): what a child lived through, to be remembered in a talk.
- A clone of github.com/uwnlp/qamr (MIT): sentences of Wikipedia, and questions about them.
- A clone of github.com/1754955896/LifeBench (Apache 2.0): what the phones of two invented people hold of a year, in English
  and Chinese; a question names the entries that answer it.
"""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

DATA = Path(__file__).parent / "data"
CORPUS = DATA / "assistant_corpus.json"
PROBE = DATA / "languages_probe.tsv"
XQUAD = ("en", "de", "es", "ro", "el", "zh", "ru", "tr", "ar", "hi", "vi", "th")
OURS = {"key", "language", "contradicts"}  # fields of the own corpus that no tool takes
IDLE = ("greetings and thanks", "unrelated")  # its prompts that ask for nothing remembered
ADVERSARIAL = 5  # LoCoMo's category of questions about what nobody said
TURN_ID = re.compile(r"D\d+:\d+")
SENTENCES = 499  # of QAMR
PEOPLE = ("lumingqiang", "leimingxuan")  # of LifeBench, which has ten
SAID_BY_PHONE = {  # what is read of each kind of entry, as a person would write it down
    "agent_chat": (),
    "calendar": ("title", "description"),
    "call": ("call_type", "contactName"),
    "note": ("title", "content"),
    "photo": ("caption",),
    "push": ("title", "content"),
    "sms": ("contactName", "message_content"),
}
SEED = 1
LEAST_TYPED, MOST_TYPED = 7, 24  # letters of a word that is typed; longer ones are phrases of a language without spaces

Need = Literal["any", "half", "all", "share"]
Group = Literal["answerable", "unanswerable", "idle"]


@dataclass(frozen=True, slots=True)
class Step:
    """One call that writes: what it does to which memory, and the tool's arguments; `others`, keys that it names."""

    does: Literal["create", "update", "forget"]
    key: str
    arguments: dict[str, Any]
    others: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """Calls of one day; without a date they count as made now."""

    steps: Sequence[Step]
    date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A question, and the keys of the memories that answer it.

    need: how many of them: any, half or all of them, or each counts as a share; stale: keys of what held before.
    """

    text: str
    wanted: frozenset[str] = frozenset()
    need: Need = "share"
    stale: frozenset[str] = frozenset()
    group: Group = "answerable"


@dataclass(frozen=True, slots=True)
class World:
    """What one store holds and is asked.

    kind: conversations, assistant chats or notes; replaces: the key of each memory that was stored beside what it
    changes, with the keys of that.
    """

    data: str
    name: str
    kind: Literal["talk", "assistant", "notes"]
    sessions: Sequence[Session]
    queries: Sequence[Query]
    now: str | None = None
    replaces: dict[str, set[str]] = field(default_factory=dict)

    @property
    def texts(self) -> dict[str, str]:
        """The text of each memory at the end, by its key."""
        said: dict[str, str] = {}
        for step in (step for session in self.sessions for step in session.steps):
            if step.does == "forget":
                said.pop(step.key, None)
            elif "content" in step.arguments:
                said[step.key] = step.arguments["content"]
        return said


def locomo(data: list[dict[str, Any]]) -> Iterator[World]:
    """Yield each conversation, every turn with its speaker and session."""
    for one in data:
        sessions, number = [], 1
        while (key := f"session_{number}") in one["conversation"]:
            moment = datetime.strptime(one["conversation"][f"{key}_date_time"], "%I:%M %p on %d %B, %Y").replace(
                tzinfo=UTC
            )
            sessions.append(Session([_turn(turn, key, moment) for turn in one["conversation"][key]]))
            number += 1
        known = {step.key for session in sessions for step in session.steps}
        queries = []
        for asked in one["qa"]:
            wanted = frozenset(turn for text in asked["evidence"] for turn in TURN_ID.findall(text)) & known
            if asked["category"] == ADVERSARIAL:
                queries.append(Query(asked["question"], group="unanswerable"))
            elif wanted:
                queries.append(Query(asked["question"], wanted))
        yield World("LoCoMo", one["sample_id"], "talk", sessions, queries)


def _turn(turn: dict[str, Any], session: str, moment: datetime) -> Step:
    caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    content = f"{turn['speaker']}: {turn['text']}{caption}"
    fields = {"speaker": turn["speaker"], "session_id": session, "occurred_at": moment.isoformat(), "type": "episodic"}
    return Step("create", turn["dia_id"], {"content": content, **fields})


def assistant_chats(data: list[dict[str, Any]]) -> Iterator[World]:
    """Yield each chat with an assistant, every turn with its role and session; a turn with a time begins a session."""
    for number, one in enumerate(data):
        steps, session, moment = [], 0, None
        for turn in one["turns"]:
            if turn.get("time"):
                session, moment = session + 1, datetime.strptime(turn["time"], "%B-%d-%Y").replace(tzinfo=UTC)
            fields = {"speaker": turn["role"], "session_id": f"session {session}", "type": "episodic"}
            when = {"occurred_at": moment.isoformat()} if moment else {}
            steps.append(Step("create", str(turn["id"]), {"content": turn["text"], **fields, **when}))
        queries = [
            Query(
                asked["question"],
                frozenset(map(str, asked["evidence"])),
                stale=frozenset(map(str, asked["old"])) - frozenset(map(str, asked["new"])),
                group="unanswerable" if asked["kind"] == "abstention" else "answerable",
            )
            for asked in one["qa"]
            if asked["evidence"] or asked["kind"] == "abstention"
        ]
        yield World("assistant chats", f"chat {number}", "assistant", [Session(steps)], queries)


def weeks(data: dict[str, Any]) -> Iterator[World]:
    """Yield weeks of notes: operations in order, each session on its day."""
    sessions, replaces = [], dict[str, set[str]]()
    for session in data["sessions"]:
        steps = []
        for op in session["ops"]:
            if "item" in op:
                steps.append(Step("create", op.get("newkey", op["key"]), op["item"]))
            if op["op"] == "update":
                steps.append(Step("update", op["key"], op["fields"]))
            elif op["op"] == "forget":
                steps.append(Step("forget", op["key"], {"reason": op["reason"]}, [op["newkey"]]))
                replaces.setdefault(op["newkey"], set()).add(op["key"])
        sessions.append(Session(steps, datetime.fromisoformat(session["date"]).replace(tzinfo=UTC)))
    created = [step.key for session in sessions for step in session.steps if step.does == "create"]
    queries = []
    for asked in data["questions"]:
        gold, stale = frozenset(asked["gold"]), frozenset(asked["stale"])
        queries.append(Query(asked["query"], gold, asked["need"], stale, "answerable" if gold else "unanswerable"))
        for new in gold.intersection(created):
            older = {old for old in stale.intersection(created) if created.index(old) < created.index(new)}
            if older:
                replaces.setdefault(new, set()).update(older)
    yield World("weeks of notes", "weeks", "notes", sessions, queries, f"{data['today']}T12:00:00Z", replaces)


def own_corpus(data: dict[str, Any]) -> Iterator[World]:
    """Yield the own corpus: weeks of three households."""
    sessions, replaces = [], dict[str, set[str]]()
    for session in data["sessions"]:
        steps = []
        for one in session["memories"]:
            given = {name: value for name, value in one.items() if name not in OURS}
            if key := one.get("update"):
                steps.append(Step("update", key, {"content": one["content"]}))
            else:
                steps.append(Step("create", one["key"], given))
            if old := one.get("contradicts"):
                replaces[one["key"]] = {old}
        sessions.append(Session(steps, datetime.fromisoformat(session["date"])))
    queries = []
    for asked in data["questions"]:
        wanted = frozenset(asked.get("answers", ()))
        stale = frozenset().union(*(replaces.get(key, ()) for key in wanted)) - wanted
        group: Group = "answerable" if wanted else "idle" if asked["category"] in IDLE else "unanswerable"
        queries.append(Query(asked["question"], wanted, stale=stale, group=group))
    yield World("own corpus", "households", "notes", sessions, queries, data["now"], replaces)


def probe() -> Iterator[World]:
    """Yield 40 memories of each of eight languages, asked in each of them."""
    with PROBE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    languages = list(dict.fromkeys(row["language"] for row in rows))
    of = {one: [row for row in rows if row["language"] == one] for one in languages}
    for one in languages:
        for other in languages:
            queries = [(row["question"], {place}) for place, row in enumerate(of[other])]
            yield _texts("languages, own" if one == other else "languages, across", f"{one}, asked in {other}",
                         [row["memory"] for row in of[one]], queries, shared=one)  # fmt: skip


def typed() -> Iterator[World]:
    """Yield the memories of each language of the probe, looked for by their longest word as people type it: whole, its
    beginning, or with a slip.
    """
    with PROBE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    of: dict[str, list[str]] = {}
    for row in rows:
        of.setdefault(row["language"], []).append(row["memory"])
    for language, texts in of.items():
        queries = []
        for place, text in enumerate(texts):
            word = max(re.findall(r"[^\W\d_]+", text), key=len)
            if LEAST_TYPED <= len(word) <= MOST_TYPED:
                slip = word[:3] + word[4] + word[3] + word[5:]
                wanted = {other for other, its in enumerate(texts) if word.lower() in its.lower()}
                queries.append(((word, word[: len(word) * 2 // 3], slip)[place % 3].lower(), wanted))
        yield _texts("typed words", f"{language}, typed", texts, queries, shared=language)


def xquad(folder: Path) -> Iterator[World]:
    """Yield the paragraphs of each language asked in it, and the English ones asked in each language."""
    paragraphs, questions = {}, {}
    for language in XQUAD:
        articles = json.loads((folder / f"xquad.{language}.json").read_text(encoding="utf-8"))["data"]
        flat = [paragraph for article in articles for paragraph in article["paragraphs"]]
        paragraphs[language] = [paragraph["context"] for paragraph in flat]
        questions[language] = [(qa["question"], {i}) for i, paragraph in enumerate(flat) for qa in paragraph["qas"]]
    for language in XQUAD:
        yield _texts(f"XQuAD {language}", language, paragraphs[language], questions[language])
    for language in XQUAD[1:]:
        yield _texts(
            f"XQuAD en, asked in {language}",
            f"en, asked in {language}",
            paragraphs["en"],
            questions[language],
            shared="en",
        )


def madial(folder: Path) -> Iterator[World]:
    """Yield the memories of a language, asked with the three lines before the one that should remember."""
    for language, place in (("en", "en/MADial-Bench-en"), ("zh", "ch/MADial-Bench-zh")):
        lived_in, talks = (
            [
                json.loads(line)
                for line in (folder / "data" / f"{place}-{part}.json").open(encoding="utf-8")
                if line.strip()
            ]
            for part in ("memory", "dialogue")
        )
        lived = {int(key): one for entry in lived_in for key, one in entry.items()}
        at = {key: place for place, key in enumerate(lived)}
        queries = [
            ("".join(talk["dialogue"][max(1, turn - 3) : turn]), {at[one] for one in talk["relevant-id"] if one in at})
            for talk in talks
            for turn in talk["test-turn"][:1]
        ]
        yield _texts(
            f"MADial {language}", language, [f"{one['event']} ({one['time']})" for one in lived.values()], queries
        )


def qamr(folder: Path) -> Iterator[World]:
    """Yield sentences of Wikipedia, and one question about each."""
    with (folder / "data" / "wiki-sentences.tsv").open(encoding="utf-8") as file:
        said = dict(line.rstrip("\n").split("\t", 1) for line in file)
    asked: dict[str, list[str]] = {}
    with (folder / "data" / "filtered" / "dev.tsv").open(encoding="utf-8") as file:
        for line in file:
            columns = line.split("\t")
            asked.setdefault(columns[0], []).append(columns[5])
    chosen = sorted(random.Random(SEED).sample(sorted(asked.keys() & said.keys()), SENTENCES))
    queries = [(asked[key][len(asked[key]) // 2], {place}) for place, key in enumerate(chosen)]
    yield _texts("QAMR", "dev", [said[key] for key in chosen], queries)


def lifebench(folder: Path) -> Iterator[World]:
    """Yield the phone of each person in each language: its entries in the order of their time."""
    for language, place in (("en", "data_en"), ("zh", "data")):
        for person in PEOPLE:
            of_them = folder / "life_bench_data" / place / person
            entries = [
                (kind, entry)
                for kind in SAID_BY_PHONE
                for entry in json.loads((of_them / "phone_data" / f"{kind}.json").read_text(encoding="utf-8"))
            ]
            steps = [_entry(kind, entry) for kind, entry in sorted(entries, key=lambda its: _moment(its[1]))]
            known = {step.key for step in steps}
            queries = []
            for asked in json.loads((of_them / "QA" / "QA_clean.json").read_text(encoding="utf-8")):
                wanted = frozenset(f"{one['type']} {one['id']}" for one in asked.get("evidence", ())) & known
                if asked["question_type"] == "Unanswerable":
                    queries.append(Query(asked["question"], group="unanswerable"))
                elif wanted:
                    queries.append(Query(asked["question"], wanted))
            yield World(f"LifeBench {language}", person, "notes", [Session(steps)], queries, "2026-01-01T00:00:00Z")


def _moment(entry: dict[str, Any]) -> str:
    return str(entry.get("start_time") or entry.get("datetime") or entry.get("date"))


def _entry(kind: str, entry: dict[str, Any]) -> Step:
    said = [str(entry[name]) for name in SAID_BY_PHONE[kind] if entry.get(name)]
    for turn in entry.get("conversation", {}).values():
        said += [f"{role}: {its['content']}" for role, its in turn.items() if isinstance(its, dict)]
    moment = datetime.fromisoformat(_moment(entry)).replace(tzinfo=UTC).isoformat()
    content = f"{kind.replace('_', ' ')}, {': '.join(said)}" if kind != "agent_chat" else "\n".join(said)
    return Step(
        "create", f"{kind} {entry['phone_id']}", {"content": content, "occurred_at": moment, "type": "episodic"}
    )


def _texts(
    data: str, name: str, texts: Sequence[str], queries: Sequence[tuple[str, set[int]]], shared: str = ""
) -> World:
    steps = [Step("create", str(place), {"content": text}) for place, text in enumerate(texts)]
    asked = [Query(text, frozenset(map(str, wanted))) for text, wanted in queries if wanted]
    return World(data, f"{shared or name}|{name}", "notes", [Session(steps)], asked)


def worlds(path: Path) -> Iterator[World]:
    """Yield what a file or folder holds.

    Raises:
        ValueError: it is none of these data sets.
    """
    for sign, of_folder in (
        ("xquad.en.json", xquad),
        ("data/en/MADial-Bench-en-memory.json", madial),
        ("data/wiki-sentences.tsv", qamr),
        ("life_bench_data/data_en/lumingqiang/QA/QA_clean.json", lifebench),
    ):
        if (path / sign).exists():
            yield from of_folder(path)
            return
    if not path.is_file():
        raise ValueError(f"{path} is no data set that is known.")
    data = json.loads(path.read_text(encoding="utf-8"))
    first = data[0] if isinstance(data, list) else data
    readers: dict[str, Callable[[Any], Iterator[World]]] = {
        "conversation": locomo,
        "turns": assistant_chats,
        "today": weeks,
        "now": own_corpus,
    }
    read = next((read for name, read in readers.items() if name in first), None)
    if read is None:
        raise ValueError(f"{path} is no data set that is known.")
    yield from read(data)


# ------------------------------------------------------------------------------------------------------------- dating

AHEAD = ("expires_at", "occurred_at")  # moments that the caller chose
MOMENTS = """
SELECT table_name, array_agg(column_name::text) AS columns FROM information_schema.columns
JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND data_type = 'timestamp with time zone'
  AND is_generated = 'NEVER' AND column_name <> ALL (%s)
GROUP BY table_name
"""


def shift(url: str, began: datetime, date: datetime) -> None:
    """Move every moment that was written since `began`, so that `began` becomes `date`; no tool takes these."""
    with psycopg.connect(url) as connection:
        for table, columns in connection.execute(MOMENTS, [list(AHEAD)]).fetchall():
            moved = sql.SQL(", ").join(
                sql.SQL("{0} = CASE WHEN {0} >= %(began)s THEN {0} + (%(date)s - %(began)s) ELSE {0} END").format(
                    sql.Identifier(column)
                )
                for column in columns
            )
            since = sql.SQL(" OR ").join(
                sql.SQL("{} >= %(began)s").format(sql.Identifier(column)) for column in columns
            )
            statement = sql.SQL("UPDATE {} SET {} WHERE {}").format(sql.Identifier(table), moved, since)
            connection.execute(statement, {"began": began, "date": date})
