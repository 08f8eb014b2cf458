"""Models of a hub such as huggingface.co, brought into a folder.

One revision, each file checked by its hash, resumed where it broke off. huggingface_hub does neither: it drops what a
broken download has brought, and compares sizes (2.4.0).
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pgengram.embedders import centre_of
from pgengram.embedders.folder import MANIFEST, MODEL_FILES, WEIGHTS
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.errors import EmbeddingFailed, InvalidInput
from pgengram.runtime import operating_system

if TYPE_CHECKING:
    import httpx

HUB: Final = "https://huggingface.co"  # HF_ENDPOINT names another, HF_TOKEN opens what is not for everybody
NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")
PART_OF_PATH: Final = re.compile(r"(?!\.+$)[\w.-]+")
TRIES: Final = 4
TIMEOUT_S: Final = 30.0
CHUNK_BYTES: Final = 1 << 20
SMALL: Final = (
    "config.json", "tokenizer.json", "sentence_bert_config.json", "config_sentence_transformers.json", "modules.json",
    "1_Pooling/config.json",
)  # fmt: skip
REQUIRED: Final = SMALL[:2]
# What a model's own files do not say: what stands before a question, and before a text that is stored.
PREFIXES: Final = {
    "intfloat/multilingual-e5-": ("query: ", "passage: "),
    "intfloat/e5-": ("query: ", "passage: "),
    "nomic-ai/nomic-embed-text-": ("search_query: ", "search_document: "),
}
ELSEWHERE: Final = "Nothing changed. A folder with the model's files works without a hub: pgengram reembed onnx:FOLDER"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a model: its size in bytes and its hash, SHA-256 where the hub knows it, else that of Git."""

    path: str
    size: int
    digest: str

    def is_(self, file: Path) -> bool:
        """Whether a file here is this one."""
        if not file.is_file() or file.stat().st_size != self.size:
            return False
        sha256 = len(self.digest) == hashlib.sha256().digest_size * 2
        made = hashlib.sha256() if sha256 else hashlib.sha1(f"blob {self.size}\0".encode(), usedforsecurity=False)
        with file.open("rb") as opened:
            while block := opened.read(CHUNK_BYTES):
                made.update(block)
        return made.hexdigest() == self.digest


@dataclass(frozen=True, slots=True)
class Choice:
    """Which model a user wants, and what overrides its own files.

    file: the ONNX graph, where a model has several; dimensions: how many of the first are kept.
    """

    name: str
    revision: str = "main"
    file: str | None = None
    dimensions: int | None = None
    query_prefix: str | None = None
    passage_prefix: str | None = None


class Hub:
    """A server that keeps models as huggingface.co does.

    Args:
        client: whose base address is the hub's.
    """

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.host = client.base_url.host

    async def bring(self, choice: Choice, models: Path, progress: Progress) -> Path:
        """Bring a model into a folder of its own below `models`, and return that folder.

        Args:
            choice: which one.
            models: where models are kept; the folder of one that is there whole is returned as it is.
            progress: is told the bytes that are here, and of how many.

        Raises:
            InvalidInput: there is no such model, revision or file, or none of its files is an ONNX graph.
            EmbeddingFailed: the hub cannot be reached, a file is not what it should be, or the model is not supported.
        """
        if not NAME.fullmatch(choice.name):
            raise InvalidInput(
                f"{choice.name} is not a model's name.", "Write it as on the hub: intfloat/multilingual-e5-small"
            )
        commit, there = await self._listed(choice)
        wanted = [there[path] for path in (*SMALL, *_graph(choice, there)) if path in there]
        if lacking := [path for path in REQUIRED if path not in there]:
            raise InvalidInput(
                f"{choice.name} has no {' and no '.join(lacking)}.", "Choose a sentence-embedding model."
            )
        folder = models / f"{choice.name.replace('/', '--')}@{commit[:12]}{_variant(choice)}"
        if (folder / MANIFEST).is_file():
            return folder
        unfinished = folder.with_name(f"{folder.name}.partial")
        await self._fetch_all(choice, commit, wanted, unfinished, progress)
        await self._fetch_all(choice, commit, _of_dense(unfinished, there), unfinished, progress)
        await _describe(choice, commit, unfinished)
        operating_system.rename(unfinished, folder)
        return folder

    async def _listed(self, choice: Choice) -> tuple[str, dict[str, RemoteFile]]:
        """Return the commit that a revision means now, and the files there by path."""
        answer = await self._answered(f"/api/models/{choice.name}/revision/{choice.revision}?blobs=true", {})
        try:
            listed: dict[str, Any] = answer.json()
            there = [_remote(one) for one in listed["siblings"]]
            return str(listed["sha"]), {one.path: one for one in there}
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddingFailed(
                f"The answer from {self.host} about {choice.name} cannot be read.", ELSEWHERE
            ) from error

    async def _fetch_all(
        self, choice: Choice, commit: str, wanted: list[RemoteFile], folder: Path, progress: Progress
    ) -> None:
        total = sum(one.size for one in wanted)
        before = 0
        for one in wanted:
            file = folder / one.path
            file.parent.mkdir(parents=True, exist_ok=True)
            if not one.is_(file):
                address = f"/{choice.name}/resolve/{commit}/{one.path}"
                await self._fetch(address, one, file, lambda here: progress(here, total), before)
            before += one.size
            progress(before, total)

    async def _fetch(
        self, address: str, one: RemoteFile, file: Path, progress: Callable[[int], None], before: int
    ) -> None:
        """Bring one file, going on where an earlier try ended; it gets its name when its hash is right."""
        import httpx

        part = file.with_name(f"{file.name}.part")
        for left in reversed(range(TRIES)):
            try:
                await self._stream(address, part, one.size, lambda here: progress(before + here))
                break
            except httpx.TransportError as error:
                if not left:
                    raise self._unreachable(error) from error
        if not one.is_(part):
            part.unlink()
            raise EmbeddingFailed(f"{one.path} from {self.host} doesn't match its hash.", "Nothing changed. Try again.")
        operating_system.rename(part, file)

    async def _stream(self, address: str, part: Path, size: int, progress: Callable[[int], None]) -> None:
        here = _bytes_left(part, size)
        async with self._client.stream("GET", address, headers={"Range": f"bytes={here}-"} if here else {}) as answer:
            self._refuse(answer, address)
            continues = answer.status_code == 206
            with part.open("ab" if continues else "wb") as file:
                async for block in answer.aiter_raw(CHUNK_BYTES):
                    file.write(block)
                    progress(file.tell())

    async def _answered(self, address: str, headers: Mapping[str, str]) -> httpx.Response:
        import httpx

        try:
            answer = await self._client.get(address, headers=dict(headers))
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        self._refuse(answer, address)
        return answer

    def _refuse(self, answer: httpx.Response, address: str) -> None:
        """Raise what an answer that is not a success means."""
        if answer.status_code in (401, 403, 404):
            raise InvalidInput(
                f"{self.host} has no {address.partition('?')[0]}, or it is not public.",
                "Check the model's name and revision; HF_TOKEN opens models that ask for an account.",
            )
        if not answer.is_success:
            raise EmbeddingFailed(f"{self.host} answered {answer.status_code}.", f"Try again later. {ELSEWHERE}")

    def _unreachable(self, error: Exception) -> EmbeddingFailed:
        return EmbeddingFailed(f"{self.host} cannot be reached: {error or type(error).__name__}.", ELSEWHERE)


def _bytes_left(part: Path, size: int) -> int:
    """Return how many bytes of a file an earlier try has left; more than there should be are removed."""
    here = part.stat().st_size if part.is_file() else 0
    if here < size:
        return here
    part.unlink(missing_ok=True)
    return 0


def _remote(listed: Mapping[str, Any]) -> RemoteFile:
    large = listed.get("lfs") or {}
    digest = large.get("sha256") or listed["blobId"]
    return RemoteFile(str(listed["rfilename"]), int(large.get("size", listed["size"])), str(digest))


def _graph(choice: Choice, there: Mapping[str, RemoteFile]) -> list[str]:
    """Return the paths of the ONNX graph and, where they lie beside it, of its weights."""
    patterns = MODEL_FILES if choice.file is None else (choice.file,)
    paths = sorted(there)
    graph = next((path for pattern in patterns for path in paths if fnmatch.fnmatch(path, pattern)), "")
    if not all(map(PART_OF_PATH.fullmatch, graph.split("/"))):
        known = ", ".join(fnmatch.filter(paths, "*.onnx")) or "none"
        raise InvalidInput(
            f"{choice.name} has no {choice.file or 'model.onnx'}.", f"Its ONNX files: {known}. Name one with --file."
        )
    return [graph, *(path for path in (f"{graph}_data", f"{graph}.data") if path in there)]


def _of_dense(folder: Path, there: Mapping[str, RemoteFile]) -> list[RemoteFile]:
    """Return the files of the model's linear steps, which its modules.json names."""
    modules = folder / "modules.json"
    listed = json.loads(modules.read_bytes()) if modules.is_file() else []
    steps = [str(one.get("path", "")) for one in listed if str(one.get("type", "")).endswith(".Dense")]
    paths = [f"{step}/{name}" for step in steps if PART_OF_PATH.fullmatch(step) for name in ("config.json", WEIGHTS)]
    return [there[path] for path in paths if path in there]


def _variant(choice: Choice) -> str:
    """Return what tells folders of one revision apart."""
    chosen = (choice.file, choice.dimensions, choice.query_prefix, choice.passage_prefix)
    return "" if not any(chosen) else f"-{hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:8]}"


async def _describe(choice: Choice, commit: str, folder: Path) -> None:
    """Write the manifest: where the model is from, what overrides its files, and what its vectors have in common."""
    prefixes = next((both for start, both in PREFIXES.items() if choice.name.startswith(start)), (None, None))
    prompts = folder / "config_sentence_transformers.json"
    if prompts.is_file() and json.loads(prompts.read_bytes()).get("prompts"):
        prefixes = (None, None)
    manifest: dict[str, Any] = {
        "name": choice.name,
        "revision": commit,
        "model": choice.file,
        "dimensions": choice.dimensions,
        "query_prefix": choice.query_prefix if choice.query_prefix is not None else prefixes[0],
        "passage_prefix": choice.passage_prefix if choice.passage_prefix is not None else prefixes[1],
    }
    manifest = {key: value for key, value in manifest.items() if value is not None}
    file = folder / MANIFEST
    file.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    embedder = OnnxEmbedder(folder)
    try:
        manifest["centre"] = await centre_of(embedder)
    finally:
        await embedder.close()
    file.write_text(json.dumps(manifest), encoding="utf-8")
