"""Arguments of any kind for any tool, made from the schemas that the server lists; and what no answer may say."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))

from protocol_peer import Peer, said, toy

Schema = dict[str, Any]
FORBIDDEN: Final = {"DATABASE_ERROR", "INTERNAL_ERROR"}  # nothing that a client sends is a reason for either
FRAME_ERRORS: Final = {-32700, -32600, -32601, -32602}  # no frame, no such method, no such tool or arguments
OTHER_FRAMES: Final = {-32002}  # no such resource, before protocol 2026-07-28
KEPT: Final = 100  # of each sort of thing that answers named
IDS: Final = {"ids", "id", "memory_id", "add", "into", "related_to", "supported_by", "contradicted_by", "no_evidence",
              "replaced_by", "old_id", "new_id"}  # fmt: skip
OTHER_IDS: Final = {
    ("consolidate_working_memory", "ids"): "note",
    ("record_belief", "id"): "belief",
    ("get_memory_clusters", "ids"): "cluster",
}

# Where a list is only said to hold objects: what such an object may have.
SHAPES: Final[dict[str, Schema]] = {
    "sources": {
        name: {"type": "string"} for name in ("kind", "ref", "label", "author")
    } | {"observed_at": {"type": "string", "format": "date-time"}, "trust": {"type": "number", "minimum": 0, "maximum": 1}},
    "plan": {
        "action": {"type": "string", "enum": ["merge", "forget", "archive", "tag", "confirm", "keep"]},
        "ids": {"type": "array", "items": {"type": "string"}},
        "into": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "reason": {"type": "string"},
        "replaced_by": {"type": "array", "items": {"type": "string"}},
    },
}  # fmt: skip
NASTY: Final = [
    "", " ", "\0", "a\0b", "\ud800", "%", "_", "%%s", "%(id)s", "'", "''", '"', "\\", "\\'", "; DROP TABLE memories; --",
    "' OR '1'='1", "' UNION SELECT 1 --", "$$", "$1", "{}", "{0}", "${x}", "<!--", "</memories>", "NaN", "null", "true",
    "1e999", "-0", "\u2028", "\u202e", "\ufeff", "\u200b", "e\u0301", "é", "🍵", "👨‍👩‍👧", "İ", "ß", "ﬁ", "𝒳",
    "a & b | !c", "a:*b", "<->", "()", '"', "-", "--", '-""', "x" * 65, "x" * 257, "x" * 1_025, "ä" * 8_001, "日" * 16_000,
    "../../etc/passwd", "file:///etc/passwd", "C:\\con", "\x1b[31m", "\r\n", "\n", "00000000", "ffffffff", "0" * 32, "g" * 32,
    "2026-02-30T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "infinity", "2026-01-01", "2016-12-31T23:59:60Z",
    "2026-01-01T00:00:00+99:99", "-4712-01-01T00:00:00Z", "[]", "[1]", '{"a":1}', '[{"content":"x"}]', "a,b,,c", ",",
]  # fmt: skip
MOMENTS: Final = [
    "2026-01-31T12:00:00Z", "2026-11-21T00:00:00+14:00", "1969-12-31T23:59:59.999999-12:00", "0001-01-03T00:00:00Z",
    "9999-12-29T00:00:00Z", "2100-06-01T00:00:00Z", "1582-10-10T00:00:00Z", "2024-02-29T00:00:00Z",
]  # fmt: skip
NUMBERS: Final = [
    0,
    -1,
    1,
    2,
    0.5,
    -0.0,
    1e-320,
    1e308,
    2**31,
    2**31 - 1,
    -(2**31) - 1,
    2**63,
    2**64,
    10**40,
    1.0000001,
]

harmless = st.text("ab -\"'%_\\\n,äé茶🍵\u202e", min_size=1, max_size=12).map(lambda text: f"x{text}")
texts = st.integers(0, 9).flatmap(
    lambda dice: harmless if dice else st.one_of(st.text(max_size=40), st.sampled_from(NASTY))
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
    | st.sampled_from(NUMBERS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
deep = st.integers(15, 190).map(lambda depth: json.loads("[" * depth + "]" * depth))
anything = st.one_of(json_values, json_values, deep)
words = st.lists(
    st.sampled_from(["tea", "Mira", "harbour", "not", "Oslo", "2024", "likes", "green", "7"]), min_size=1, max_size=8
)


class Known:
    """A place for something that earlier answers named, such as an id; it is filled in when the call is made."""

    def __init__(self, sort: str, number: int, cut: bool) -> None:
        self.sort, self.number, self.cut = sort, number, cut

    def __repr__(self) -> str:
        return f"<{self.sort} {self.number}{' cut' if self.cut else ''}>"


def known(sort: str) -> st.SearchStrategy[Known]:
    return st.builds(Known, st.just(sort), st.integers(0, 3) | st.integers(0, KEPT), st.booleans())


def text_of(tool: str, name: str, schema: Schema) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("format") == "date-time":
        return st.sampled_from(MOMENTS)
    if name in ("confirm_token", "cursor"):
        return known(name)
    if name in ("cluster_id", "clusterId"):
        return known("cluster")
    if name in IDS or name.endswith(("_id", "_ids", "Id", "Ids")):
        return known(OTHER_IDS.get((tool, name), "memory"))
    sentences = words.map(" ".join)
    return st.one_of(sentences, sentences, sentences, texts)


def right(tool: str, name: str, schema: Schema) -> st.SearchStrategy[Any]:
    """Return values that the schema allows, as far as it tells."""
    kind = schema.get("type")
    if isinstance(kind, list):
        return st.one_of(*(right(tool, name, schema | {"type": one}) for one in kind))
    if kind == "string":
        return text_of(tool, name, schema)
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        return st.integers(int(schema.get("minimum", 0)), int(schema.get("maximum", 500)))
    if kind == "number":
        return st.floats(schema.get("minimum", 0.5), schema.get("maximum", 1))
    if kind == "array":
        if name == "embedding":
            return st.integers(1, 384).map(lambda place: [float(n == place) for n in range(384)])
        items = schema.get("items") or {}
        of = shaped(tool, SHAPES[name]) if name in SHAPES else right(tool, name, items)
        least = schema.get("minItems", int(name in IDS or name.endswith("ids")))
        return st.lists(of, min_size=least, max_size=min(schema.get("maxItems", 4), 4))
    if kind == "object":
        return st.dictionaries(texts, json_values, max_size=4)
    return json_values


def shaped(
    tool: str, properties: dict[str, Schema], required: tuple[str, ...] = ()
) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects of which some members are as they should be and a few are not."""
    members = {name: mostly(right(tool, name, schema)) for name, schema in properties.items()}
    must = {name: members.pop(name) for name in required}
    return st.builds(
        lambda whole, chosen, extra: {**whole, **chosen, **extra},
        st.fixed_dictionaries(must),
        some(members),
        mostly(st.just({})).map(lambda more: more if isinstance(more, dict) else {}),
    )


def some(members: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with up to five of these members."""
    if not members:
        return st.just({})
    return st.lists(st.sampled_from(sorted(members)), max_size=5, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: members[name] for name in names})
    )


def mostly(fitting: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return what fits, and once in a while something else."""
    return st.integers(0, 39).flatmap(
        lambda dice: fitting if dice else st.one_of(anything, texts, st.sampled_from(NUMBERS))
    )


def arguments(tools: dict[str, Schema], name: str) -> st.SearchStrategy[Any]:
    """Return arguments for a tool: mostly an object that nearly fits, now and then anything."""
    schema = tools[name]
    near = shaped(name, schema.get("properties", {}), tuple(schema.get("required", ())))
    if name == "create_memories":
        new = tools["create_memory"]
        items = st.lists(shaped(name, new["properties"], ("content",)) | anything, min_size=1, max_size=4)
        near = st.fixed_dictionaries({"items": items}, optional={"atomic": st.booleans()})
    return st.integers(0, 19).flatmap(lambda dice: near if dice else anything)


def calls(tools: dict[str, Schema]) -> st.SearchStrategy[tuple[str, Any]]:
    """Return calls of any tool."""
    return st.sampled_from(sorted(tools)).flatmap(lambda name: st.tuples(st.just(name), arguments(tools, name)))


def asks(method: str, params: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return params.map(lambda p: json.dumps({"jsonrpc": "2.0", "id": "line", "method": method, "params": p}).encode())


def named(*names: str) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(names), words.map(" ".join) | texts, max_size=4)


requests = st.one_of(
    asks("prompts/get", st.fixed_dictionaries({
        "name": st.sampled_from(["session-start", "session-summary", "remember", "recall", "x"]),
        "arguments": named("topic", "project", "what", "tags", "query") | named("query") | named("what"),
    })),
    asks("completion/complete", st.fixed_dictionaries({
        "ref": st.sampled_from([
            {"type": "ref/resource", "uri": "memory://{id}"}, {"type": "ref/prompt", "name": "recall"}, {"type": "ref/prompt", "name": "x"},
        ]),
        "argument": st.fixed_dictionaries({"name": st.sampled_from(["id", "tags", "project", "x"]), "value": texts}),
    })),
    asks("resources/read", st.fixed_dictionaries({
        "uri": texts.map(lambda text: "memory://" + text) | st.sampled_from(
            ["memory://stats", "memory://context", "memory://categories", "memory://%00", "memory://../x", "memory://%ff%fe"]),
    })),
)  # fmt: skip
lines = requests | st.binary(max_size=300).map(lambda b: b.replace(b"\n", b"")) | st.builds(
    lambda frame: json.dumps(frame).encode(),
    st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0") | json_values,
            "id": st.integers() | st.text(max_size=5) | json_values,
            "method": st.sampled_from([
                "ping", "tools/call", "tools/list", "resources/read", "resources/list", "resources/templates/list",
                "prompts/get", "prompts/list", "completion/complete", "server/discover", "initialize",
                "notifications/cancelled", "notifications/initialized", "logging/setLevel", "subscriptions/listen", "x",
            ]) | json_values,
            "params": st.fixed_dictionaries({}, optional={
                "name": st.sampled_from(["search_memories", "recall", "session-start", "remember"]) | json_values,
                "uri": st.sampled_from(["memory://stats", "memory://context", "memory://%00", "memory://../x"]) | texts,
                "arguments": st.dictionaries(st.sampled_from(["query", "topic", "what", "tags", "project"]), texts) | json_values,
                "ref": st.just({"type": "ref/resource", "uri": "memory://{id}"}) | json_values,
                "argument": st.fixed_dictionaries({"name": st.sampled_from(["id", "tags", "project"]), "value": texts}) | json_values,
                "cursor": texts, "requestId": st.integers(0, 5), "_meta": json_values,
            }) | json_values,
            "result": json_values,
        },
    ),
)  # fmt: skip


class Fuzzed:
    """A server that is told anything, and everything wrong with what it says.

    Args:
        peer: the server, after the handshake.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.pool: dict[str, list[str | int]] = defaultdict(list)
        self.faults: dict[str, Any] = {}  # what was wrong, with the first call that showed it
        self.codes: dict[str, int] = defaultdict(int)
        self.well: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # of each tool: answered well, and called
        self._id = 0
        listed = peer.ask("tools/list", id="list")["result"]["tools"]
        self.tools = {tool["name"]: tool["inputSchema"] for tool in listed}

    def call(self, *made: tuple[str, Any]) -> None:
        """Call tools at once and note what is wrong with the answers; what is no Unicode becomes an escape, as clients write it."""
        sent: dict[str, tuple[str, Any]] = {}
        for name, given in made:
            self._id += 1
            filled = self.filled(given)
            sent[f"call {self._id}"] = name, filled
            self.peer.send(id=f"call {self._id}", method="tools/call", params={"name": name, "arguments": filled})
        while sent:
            answer = self.peer.receive(60)
            asked = sent.pop(str(answer.get("id")), None)
            if asked is None:  # to a line that came before
                self.judge(answer, "a line")
                continue
            self.well[asked[0]][0] += "result" in answer and not answer["result"].get("isError")
            self.well[asked[0]][1] += 1
            self.judge(answer, asked)

    def tell(self, line: bytes) -> None:
        """Send a line, and a ping after it; note what is wrong with what comes up to the answers to both."""
        self._id += 1
        self.peer.raw(line + b"\n")
        self.peer.send(id=f"ping {self._id}", method="ping")
        awaited = {f"ping {self._id}"} | ({"line"} if b'"id": "line"' in line else set())
        while awaited:
            answer = self.peer.receive(60)
            awaited -= {answer.get("id")} if isinstance(answer.get("id"), str) else set()
            self.judge(answer, line)

    def filled(self, value: Any) -> Any:
        """Return arguments with ids in the place of what stands for one."""
        if isinstance(value, Known):
            names = self.pool[value.sort] or ["01a1fc39-4afe-78fc-937c-e480e8d03e19"]
            name = names[-1 - value.number % len(names)]
            return name[-8:] if value.cut and isinstance(name, str) and len(name) == 36 else name
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        return [self.filled(one) for one in value] if isinstance(value, list) else value

    def judge(self, answer: dict[str, Any], asked: Any) -> None:
        """Note what is wrong with an answer, and the ids that it names."""
        if error := answer.get("error"):
            self.codes[str(error["code"])] += 1
            if error["code"] not in FRAME_ERRORS | OTHER_FRAMES:
                self.faults.setdefault(f"{error['code']} {error['message']}", asked)
        elif "content" in answer.get("result", {}):  # of a tool
            self._judge_tool(answer["result"], asked)

    def _judge_tool(self, result: dict[str, Any], asked: Any) -> None:
        text = said(result)
        try:
            outcome = json.loads(text)
        except ValueError:  # another system's tools answer in words too
            outcome = text
        if not result.get("isError"):
            self.codes["ok"] += 1
            self.collect(outcome, "note" if "create_working_memory" in str(asked[0]) else "memory")
        elif isinstance(outcome, dict) and "error" in outcome:
            self.codes[outcome["error"]["code"]] += 1
            if outcome["error"]["code"] in FORBIDDEN:
                self.faults.setdefault(text, asked)
        for found in FORBIDDEN:
            if f'"code":"{found}"' in text:
                self.faults.setdefault(text[:400], asked)

    def collect(self, value: Any, sort: str) -> None:
        """Keep the ids, tokens and cursors of an answer for later calls."""
        if isinstance(value, list):
            for one in value:
                self.collect(one, sort)
        if not isinstance(value, dict):
            return
        for name, one in value.items():
            if name in ("id", "memory_id", "memoryId") and isinstance(one, str | int):
                self.keep(sort, one)
            elif name in ("confirm_token", "next_cursor") and isinstance(one, str):
                self.keep(name.removeprefix("next_"), one)
            else:
                inside = next((other for other in ("cluster", "belief") if name.startswith(other)), sort)
                self.collect(one, "memory" if name.startswith("memor") else inside)

    def keep(self, sort: str, name: str | int) -> None:
        kept = self.pool[sort]
        if name not in kept:
            kept.append(name)
            del kept[:-KEPT]

    def memory_mb(self) -> float:
        """Return the most memory that the server has had."""
        status = Path(f"/proc/{self.peer.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    @property
    def tracebacks(self) -> int:
        """How many unforeseen faults the server has logged."""
        return self.peer.log.count(b" failed: ") + self.peer.log.count(b"Traceback")


@contextmanager
def fuzzed(url: str, **settings: str) -> Iterator[Fuzzed]:
    """Run a server with every tool on a database."""
    outcome = {f"PGENGRAM_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "pgengram"]
    with toy(Path("/dev/null"), command=command, PGENGRAM_DATABASE_URL=url, PGENGRAM_TOOLSETS="all", **outcome) as peer:
        peer.hello()
        yield Fuzzed(peer)
