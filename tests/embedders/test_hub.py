"""Models are brought from a hub whole, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import numpy as np
import pytest

from helpers import Database, nightly
from machine import answered, pgengram
from pgengram.embedders import PROBE
from pgengram.embedders.builtin import ENGLISH, HERE
from pgengram.embedders.folder import MANIFEST
from pgengram.embedders.hub import Choice, Hub
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.errors import EmbeddingFailed, InvalidInput

COMMIT = "5f4de7a1" * 5
MODEL = "fern/small-sentences"


@dataclass
class StandIn:
    """A hub on the loopback with one real model; it may hang up, or send other bytes than it says."""

    folder: Path
    url: str = ""
    served: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range of each request for a file
    hang_up_after: int | None = None  # bytes of the next large file
    damaged: set[str] = field(default_factory=set)
    more: list[dict[str, Any]] = field(default_factory=list)

    def listed(self) -> dict[str, Any]:
        return {"sha": COMMIT, "siblings": [self._listed(file) for file in self._files()] + self.more}

    def _files(self) -> list[Path]:
        return sorted(file for file in self.folder.rglob("*") if file.is_file())

    def _listed(self, file: Path) -> dict[str, Any]:
        raw = file.read_bytes()
        told = {"rfilename": file.relative_to(self.folder).as_posix(), "size": len(raw)}
        told["blobId"] = hashlib.sha1(f"blob {len(raw)}\0".encode() + raw).hexdigest()
        if file.suffix == ".onnx":
            told["lfs"] = {"sha256": hashlib.sha256(raw).hexdigest(), "size": len(raw), "pointerSize": 134}
        return told


class Handler(BaseHTTPRequestHandler):
    hub: StandIn

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == f"/api/models/{MODEL}/revision/main":
            self._send(json.dumps(self.hub.listed()).encode())
        elif path.startswith(f"/{MODEL}/resolve/{COMMIT}/"):
            self._file(path.removeprefix(f"/{MODEL}/resolve/{COMMIT}/"))
        else:
            self.send_error(404)

    def _file(self, name: str) -> None:
        asked = self.headers["Range"]
        self.hub.served.append((name, asked))
        raw = (self.hub.folder / name).read_bytes()
        raw = raw[::-1] if name in self.hub.damaged else raw
        start = int(re.findall(r"\d+", asked)[0]) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(raw) - start))
        self.end_headers()
        most = len(raw)
        if name.endswith(".onnx_data") and self.hub.hang_up_after is not None:
            most, self.hub.hang_up_after = self.hub.hang_up_after, None
        self.wfile.write(raw[start : start + most])
        self.close_connection = True

    def _send(self, raw: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[StandIn]:
    stand_in = StandIn(shutil.copytree(HERE / ENGLISH, tmp_path / "at the hub"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Served", (Handler,), {"hub": stand_in}))
    stand_in.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield stand_in
    server.shutdown()
    server.server_close()


async def bring(hub: StandIn, models: Path, **choice: Any) -> Path:
    async with httpx.AsyncClient(base_url=hub.url) as client:
        return await Hub(client).bring(Choice(**{"name": MODEL, **choice}), models, lambda *_: None)


async def embedded(folder: Path, text: str = "Where is the harbour?") -> np.ndarray:
    embedder = OnnxEmbedder(folder)
    vector = await embedder.query(text)
    await embedder.close()
    return vector


async def test_a_model_from_a_hub_gives_the_vectors_of_its_files(hub: StandIn, tmp_path: Path) -> None:
    folder = await bring(hub, tmp_path / "models")
    np.testing.assert_array_equal(await embedded(folder), await embedded(hub.folder))
    assert json.loads((folder / MANIFEST).read_text())["revision"] == COMMIT
    asked = len(hub.served)
    assert await bring(hub, tmp_path / "models") == folder
    assert len(hub.served) == asked, "what is there is not fetched again"


async def test_a_broken_download_goes_on_where_it_ended(hub: StandIn, tmp_path: Path) -> None:
    hub.hang_up_after = 3_000_000
    folder = await bring(hub, tmp_path / "models")
    ranges = [asked for name, asked in hub.served if name.endswith("model.onnx_data")]
    assert ranges[0] is None
    assert re.fullmatch(r"bytes=[1-9]\d+-", ranges[1] or "")
    np.testing.assert_array_equal(await embedded(folder), await embedded(hub.folder))


@pytest.mark.parametrize("name", ["model.onnx_data", *nightly("model.onnx", "config.json")])
async def test_a_file_that_is_not_what_its_hash_says_is_refused(hub: StandIn, tmp_path: Path, name: str) -> None:
    hub.damaged.add(name)
    with pytest.raises(EmbeddingFailed, match=f"{name}.*hash"):
        await bring(hub, tmp_path / "models")
    hub.damaged.clear()
    assert (await bring(hub, tmp_path / "models")).is_dir(), "the next try succeeds"


async def test_a_path_that_climbs_out_is_never_written(hub: StandIn, tmp_path: Path) -> None:
    hub.more.append({"rfilename": "../../evil.onnx", "size": 1, "blobId": "0" * 40})
    with pytest.raises(InvalidInput, match="has no"):
        await bring(hub, tmp_path / "models", file="../../evil.onnx")
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if "evil" in name]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"name": "no-slash"}, "not a model's name"),
        ({"name": "who/knows"}, "has no"),
        ({"file": "x.onnx"}, "has no x.onnx"),
    ],
)
async def test_what_a_hub_does_not_have_is_said(
    hub: StandIn, tmp_path: Path, choice: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await bring(hub, tmp_path / "models", **choice)
    assert not (tmp_path / "models").exists()


async def test_prefixes_and_dimensions_are_those_that_were_chosen(hub: StandIn, tmp_path: Path) -> None:
    folder = await bring(hub, tmp_path / "models", dimensions=128, query_prefix="query: ")
    plain = await embedded(hub.folder, "query: Where is the harbour?")
    short = plain[:128] / np.linalg.norm(plain[:128])
    np.testing.assert_allclose(await embedded(folder), short, atol=1e-6)
    assert (await bring(hub, tmp_path / "models")) != folder


async def test_unrelated_texts_get_the_cosine_that_the_builtin_model_gives_them(hub: StandIn, tmp_path: Path) -> None:
    """A model whose vectors all point the same way is made from a real one by a bias that its last step adds."""
    step = hub.folder / "2_Dense"
    step.mkdir()
    rng = np.random.default_rng(1)
    bias = (12 * rng.normal(size=384) / np.sqrt(384)).astype("<f4")
    write_dense(step, np.eye(384, dtype="<f4"), bias)
    names = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": f"{at}_{name}"} for at, name in enumerate(names)
    ]
    (hub.folder / "modules.json").write_text(json.dumps(modules))

    crowded, spread = OnnxEmbedder(hub.folder), OnnxEmbedder(await bring(hub, tmp_path / "models"))
    assert mean_cosine(await crowded.passages(PROBE)) > 0.5
    assert abs(mean_cosine(await spread.passages(PROBE)) - 0.12) < 0.03
    await crowded.close()
    await spread.close()


def write_dense(folder: Path, weight: np.ndarray, bias: np.ndarray) -> None:
    config = {"in_features": 384, "out_features": 384, "activation_function": "torch.nn.modules.linear.Identity"}
    (folder / "config.json").write_text(json.dumps(config))
    header, data = {}, b""
    for name, values in (("linear.weight", weight), ("linear.bias", bias)):
        raw = values.tobytes()
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    told = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(told).to_bytes(8, "little") + told + data)


def mean_cosine(passages: list[np.ndarray]) -> float:
    first = np.array([parts[0] for parts in passages])
    return float((first @ first.T)[~np.eye(len(first), dtype=bool)].mean())


@pytest.mark.nightly
def test_one_command_moves_the_memories_to_a_model_of_the_hub_and_back(
    hub: StandIn, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    settings = {"database_url": database.url, "data_dir": str(tmp_path)}
    pgengram("add", "The harbour lies north of the old town.", **settings)
    moved = json.loads(pgengram("model", "use", MODEL, "--json", **settings).stdout.splitlines()[-1])
    assert moved["switched"]
    assert moved["embedded"] == 1
    [used] = [row for row in answered("model", "list", "--json", **settings) if row["used"]]
    assert used["name"] == f"{MODEL} at {COMMIT[:12]}"
    assert "harbour" in pgengram("search", "Where do ships land?", **settings).stdout
    assert "is the store's model now" in pgengram("model", "use", "builtin", **settings).stdout
