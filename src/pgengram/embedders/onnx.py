"""A sentence-embedding model in this process, by onnxruntime; the built-in ones are just two such folders."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import takewhile
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from pgengram.embedders import Embedder, Passage, Scheme, spans, unit
from pgengram.embedders.folder import Dense, ModelFolder
from pgengram.errors import EmbeddingFailed, InvalidInput
from pgengram.runtime import process_setup

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime  # type: ignore[import-untyped]
    from numpy.typing import NDArray


MARKS = ("<s>", "<pad>", "</s>", "<unk>")
WORD = "▁"  # stands before every word, as in SentencePiece
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]")
SPACES = re.compile(r"[\s\u200b-\u200f\u2581\ufeff\ufffd]+")
UNKNOWN_PENALTY = 10.0  # below the rarest piece
CACHED_WORDS = 4096


class Unigram:
    """Cuts text into the pieces whose scores have the largest sum (Kudo 2018), word by word.

    Args:
        file: a line for each piece, in the order of the ids: the piece, a tab, its score (a natural logarithm).
    """

    def __init__(self, file: Path) -> None:
        self._scores, self._ids = array("d"), dict[str, int]()
        with file.open(encoding="utf-8", newline="\n") as lines:  # read line by line, half the memory is enough
            for line in lines:
                piece, _, score = line.rpartition("\t")
                self._ids[piece] = len(self._scores)
                self._scores.append(float(score))
        begin, _, end, self._unknown = (self._ids.pop(mark) for mark in MARKS)  # in a text they are plain characters
        self.head, self.tail = [begin], [end]
        self._longest = max(map(len, self._ids))
        self._unknown_score = min(self._scores) - UNKNOWN_PENALTY
        self._word_ids = lru_cache(CACHED_WORDS)(self._cut)

    def cut(self, prefix: str, text: str) -> tuple[list[int], list[int]]:
        """Return the token ids of a prefix that ends with a space, and of a text that follows it."""
        return self.ids(prefix), self.ids(text)

    def ids(self, text: str) -> list[int]:
        """Return the token ids of a text, without those of its begin and end."""
        plain = SPACES.sub(" ", normalize("NFKC", SPACES.sub(" ", CONTROLS.sub("", text))))
        return [found for word in plain.split(" ") if word for found in self._word_ids(WORD + word)]

    def _cut(self, word: str) -> tuple[int, ...]:
        best = [0.0] + [-inf] * len(word)
        last: list[tuple[int, int]] = [(0, 0)] * (len(word) + 1)  # where the best last piece begins, and its id
        for start in range(len(word)):
            for end in range(start + 1, min(start + self._longest, len(word)) + 1):
                piece = self._ids.get(word[start:end])
                if piece is None and end > start + 1:
                    continue
                score = best[start] + (self._unknown_score if piece is None else self._scores[piece])
                if score > best[end]:
                    best[end], last[end] = score, (start, self._unknown if piece is None else piece)
        found, end = [], len(word)
        while end:
            end, piece = last[end]
            found.append(piece)
        return tuple(reversed(found))


# Two make a short text no faster, with VNNI (1.3 against 1.2 ms) or without (7.9 against 8.3), at half as much CPU
# again; a long one 9 against 14 ms.
THREADS = 1
SLOWER = ["SkipLayerNormFusion"]  # one operator for two steps; on a CPU it takes three times as long as they do
TURN_S = 0.1  # work is done in turns this long, so that a question waits for one turn of an import, not for its end
IDLE_S = 600.0  # unused for so long, the model is let go: about 50 MB, back within a tenth of a second
OVERLAP = 8  # parts share an eighth of the window: 32 of 256 tokens, a sentence


class OnnxEmbedder:
    """Embeds with the model in a folder; loads it when first needed, in a thread of its own.

    Every text runs through the model alone, never padded into a batch: int8 models scale activations by what they run
    with, so that a text's vector would depend on its neighbours (cosine down to .976), and batches are not faster here.
    One worker thread does all the work; it bounds memory, makes concurrent first calls load once, and leaves the other
    cores to PostgreSQL.

    Args:
        folder: the model's folder.
        name: the stable identity; made from the files' hashes when omitted.
        sums: the SHA-256 that files must have when loaded, by file name; taken from the files now when omitted.
        hint: what to do when the files are not right.
        idle_s: seconds without use after which the model is let go.

    Raises:
        EmbeddingFailed: a file is missing or the model is of a kind that is not supported.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "",
        sums: Mapping[str, str] | None = None,
        hint: str = "Restart: the files of the embedding model changed since the start.",
        idle_s: float = IDLE_S,
    ) -> None:
        self.folder = ModelFolder.read(folder)
        self.sums = self.folder.sums() if sums is None else sums
        self.name = name or self.folder.identity(self.sums)
        self.hint = hint
        self.idle_s = idle_s
        self.loads = 0
        self._model: _Model | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")
        self._timer: asyncio.TimerHandle | None = None

    @cached_property
    def _centre(self) -> NDArray[np.float32]:
        import numpy as np

        return np.array(self.folder.centre, dtype=np.float32)

    async def dimensions(self) -> int:
        """Return the length of every vector, as the configuration says it."""
        return self.folder.dimensions

    async def passages(self, texts: Sequence[str]) -> list[Passage]:
        """Return what each text is stored by."""
        return [Passage(vectors) for vectors in await self._embed(texts, self.folder.passage_prefix)]

    async def query(self, text: str) -> NDArray[np.float32]:
        """Return the vector of a question; of one longer than the window the mean of its parts."""
        [vectors] = await self._embed([text], self.folder.query_prefix)
        return vectors[0] if len(vectors) == 1 else unit(vectors.mean(axis=0))

    def describe(self) -> dict[str, object]:
        """Return name, whether the model is loaded, and its measures, without loading it."""
        return {
            "name": self.name,
            "loaded": self._model is not None,
            "loads": self.loads,
            "dimensions": self.folder.dimensions,
            "window_tokens": self.folder.window,
            "pooling": self.folder.pooling,
            "let_go_after_s": self.idle_s,
        }

    async def close(self) -> None:
        """Let the model go and end the worker thread."""
        if self._timer is not None:
            self._timer.cancel()
        if self._model is not None:
            await asyncio.get_running_loop().run_in_executor(self._worker, self._let_go)
        self._worker.shutdown(wait=False)

    def load_ahead(self) -> None:
        """Begin to load the model while something else is waited for; the first text that needs it tells a failure."""
        self._worker.submit(self._loaded)
        self._let_go_later()

    def begin(self) -> None:
        """Do so before there is an event loop; it stays until the first text has been embedded for `idle_s`.

        The runtime is imported here and now: two threads that import take turns, and to load the model takes none.
        """
        _runtime()
        self._worker.submit(self._loaded)

    async def _embed(self, texts: Sequence[str], prefix: str) -> list[NDArray[np.float32]]:
        """Return the vectors of each text at unit length, shape (parts, dimensions)."""
        run = asyncio.get_running_loop().run_in_executor
        rows: list[list[NDArray[np.float32]]] = [[] for _ in texts]
        parts = self._parts(texts, prefix)
        try:
            while await run(self._worker, self._take_turn, parts, rows):
                pass
        finally:
            self._let_go_later()
        return [self._centred(unit(vectors)) for vectors in rows]

    def _centred(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return vectors of unit length without what all of this model's have in common."""
        return unit(vectors - self._centre) if self.folder.centre else vectors

    def _parts(self, texts: Sequence[str], prefix: str) -> Iterator[tuple[int, list[int]]]:
        """Yield the text's index and the tokens of each part; runs in the worker."""
        for index, text in enumerate(texts):
            for part in self._loaded().parts(text, prefix):
                yield index, part

    def _take_turn(self, parts: Iterator[tuple[int, list[int]]], rows: list[list[NDArray[np.float32]]]) -> bool:
        """Put the vectors of parts into `rows` until the turn is over; return whether there may be more."""
        end = time.monotonic() + TURN_S
        for index, ids in parts:
            rows[index].append(self._loaded().vector(ids))
            if time.monotonic() > end:
                return True
        return False

    def _loaded(self) -> _Model:
        if self._model is None:
            if self.folder.sums() != self.sums:
                raise EmbeddingFailed("The embedding model's files are not the expected ones.", self.hint)
            self._model = _Model(self.folder)
            self.loads += 1
            process_setup.return_what_is_free()  # the file as it was read
        return self._model

    def _let_go_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self.idle_s, self._worker.submit, self._let_go)

    def _let_go(self) -> None:
        self._model = None
        gc.collect()
        process_setup.return_what_is_free()


class _Model:
    """A loaded model; used by one thread at a time."""

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        self.session = _inference_session(folder.model)
        self.inputs, self.constants = _inputs(self.session)
        self.dense = [Dense(step) for step in folder.dense]
        self.output = _output(self.session)
        self.tokens = Unigram(folder.tokenizer) if folder.tokenizer.suffix == ".txt" else _Tokens(folder)

    def parts(self, text: str, prefix: str) -> list[list[int]]:
        """Return the token ids of each overlapping part, at most a window long, each with prefix and special tokens."""
        before, ids = self.tokens.cut(prefix, text)
        head, tail = self.tokens.head + before, self.tokens.tail
        window = max(2, self.folder.window - len(head) - len(tail))
        cuts = spans(len(ids), window, min(self.folder.window // OVERLAP, window - 1))
        return [head + ids[cut] + tail or [0] for cut in cuts]

    def vector(self, ids: list[int]) -> NDArray[np.float32]:
        """Return the vector (dimensions,) of the tokens of one part, not yet of unit length."""
        import numpy as np

        values: dict[str, Any] = {
            "input_ids": [ids],
            "attention_mask": [[1] * len(ids)],
            "token_type_ids": [[0] * len(ids)],
            "position_ids": [range(len(ids))],
        }
        feed = {name: np.array(values[name], dtype=kind) for name, kind in self.inputs.items()}
        [result] = self.session.run([self.output], feed | self.constants)
        found = np.asarray(result[0], dtype=np.float32)
        vector = found if found.ndim == 1 else _pooled(found, self.folder.pooling)
        for step in self.dense:
            vector = step(vector)
        vector = vector[: self.folder.dimensions]  # of a model whose first dimensions say most (Kusupati et al. 2022)
        if vector.shape != (self.folder.dimensions,):
            raise EmbeddingFailed(
                f"The embedding model gave {vector.shape[-1]} dimensions; config.json says {self.folder.dimensions}."
            )
        return np.asarray(vector)


def _inputs(session: onnxruntime.InferenceSession) -> tuple[dict[str, str], dict[str, Any]]:
    """Return which inputs are filled for each text, with their type, and those that are always the same.

    What a model that writes text remembers of the words before is nothing here.

    Raises:
        EmbeddingFailed: the model asks for another input.
    """
    import numpy as np

    types = {
        "tensor(int32)": "int32",
        "tensor(int64)": "int64",
        "tensor(float16)": "float16",
        "tensor(float)": "float32",
    }
    filled, constants = {}, {}
    for given in session.get_inputs():
        if given.name in ("input_ids", "attention_mask", "token_type_ids", "position_ids"):
            filled[given.name] = types.get(given.type, "int64")
        elif given.name.startswith("past_key_values.") and len(given.shape) == len(("text", "head", "word", "value")):
            _, heads, _, width = given.shape
            constants[given.name] = np.zeros((1, heads, 0, width), types.get(given.type, "float32"))
        else:
            raise EmbeddingFailed(f"The embedding model expects an input that is not supported: {given.name}.")
    return filled, constants


class _Tokens:
    """The tokenizer of a tokenizer.json."""

    def __init__(self, folder: ModelFolder) -> None:
        from tokenizers import Tokenizer

        self.lower_case = folder.lower_case
        self.tokenizer = Tokenizer.from_file(str(folder.tokenizer))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.tokenizer.encode_special_tokens = True  # "[SEP]" in a text is five characters, not the end of a sentence
        sample = self.tokenizer.encode("a")
        marks = sample.special_tokens_mask
        head = len(list(takewhile(bool, marks)))
        tail = len(list(takewhile(bool, reversed(marks)))) if head < len(marks) else 0
        self.head, self.tail = sample.ids[:head], sample.ids[len(marks) - tail :]

    def cut(self, prefix: str, text: str) -> tuple[list[int], list[int]]:
        """Return the token ids of a prefix and of a text that follows it."""
        full = prefix + text
        encoding = self.tokenizer.encode(full.lower() if self.lower_case else full, add_special_tokens=False)
        before = len(list(takewhile(lambda offset: offset[1] <= len(prefix), encoding.offsets))) if prefix else 0
        return encoding.ids[:before], encoding.ids[before:]


def _pooled(tokens: NDArray[np.float32], pooling: str) -> NDArray[np.float32]:
    """Return (tokens, dimensions) as (dimensions,); there is no padding to leave out."""
    import numpy as np

    match pooling:
        case "cls":
            return np.asarray(tokens[0])
        case "last":
            return np.asarray(tokens[-1])
    return np.asarray(tokens.mean(axis=0))


def _runtime() -> ModuleType:
    # As of 1.31 it would keep a device's id in the home directory and tell its maker of each model that is loaded. It
    # looks at this when it is loaded itself; what it offers to call comes too late.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    if lacking := process_setup.missing_libraries():
        raise EmbeddingFailed(
            f"The embedding model needs {' and '.join(lacking)}, which Windows does not include.", process_setup.INSTALL
        )
    import onnxruntime

    return onnxruntime  # type: ignore[no-any-return]


def _inference_session(model: Path) -> onnxruntime.InferenceSession:
    onnxruntime = _runtime()
    from onnxruntime.capi import onnxruntime_pybind11_state as failures  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads would burn a busy CPU
    # An arena keeps the memory of the longest text, 6 MB for a whole window; without one each text asks the system for
    # its memory anew, which takes a sixth of the time, and the heap grows as much.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False  # plans memory for one length, and lengths differ
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOWER
        )
    except (
        failures.Fail,
        failures.InvalidArgument,
        failures.InvalidGraph,
        failures.InvalidProtobuf,
        failures.NoSuchFile,
        failures.NotImplemented,
        failures.RuntimeException,
    ) as error:
        raise EmbeddingFailed(f"onnxruntime {onnxruntime.__version__} cannot load {model}.") from error


def _output(session: onnxruntime.InferenceSession) -> str:
    """Return the output with one vector per token, or the first one."""
    names = [given.name for given in session.get_outputs()]
    return next((name for name in ("last_hidden_state", "token_embeddings") if name in names), names[0])


def _of_folder(name: str, _: str) -> Embedder:
    folder = Path(name).expanduser()
    if not name or not folder.is_dir():
        raise InvalidInput(f"PGENGRAM_EMBEDDER: there is no folder {name or 'after onnx:'}.")
    return OnnxEmbedder(folder)


SCHEMES = {"onnx": Scheme("onnx:FOLDER", _of_folder)}
