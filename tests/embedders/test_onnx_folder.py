from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from helpers import nightly
from pgengram.embedders import embedder_from
from pgengram.embedders.builtin import ENGLISH, HERE
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.errors import EmbeddingFailed, InvalidInput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(HERE / ENGLISH, tmp_path / "model folder")


def rewrite(file: Path, **changes: object) -> None:
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(known | changes))


async def query(folder: Path, text: str = "Where does Anna work?") -> np.ndarray:
    embedder = OnnxEmbedder(folder)
    vector = await embedder.query(text)
    await embedder.close()
    return vector


async def test_a_copy_of_the_builtin_folder_gives_the_same_vectors(folder: Path) -> None:
    builtin, copy = embedder_from("builtin:"), embedder_from(f"onnx:{folder}")
    assert builtin is not None
    assert copy is not None

    np.testing.assert_array_equal(await builtin.query("Where is it?"), await copy.query("Where is it?"))
    [[expected], [found]] = [await each.passages(["It is here."]) for each in (builtin, copy)]
    np.testing.assert_array_equal(expected, found)

    await builtin.close()
    await copy.close()


@pytest.mark.parametrize(
    "place", ["onnx/model.onnx", *nightly("onnx/model_quantized.onnx", "onnx/model_qint8_arm64.onnx")]
)
async def test_the_graph_is_found_in_its_usual_places(folder: Path, place: str) -> None:
    expected = await query(folder)
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / place)
    (folder / "model.onnx_data").rename(folder / "onnx" / "model.onnx_data")  # as the graph calls it

    np.testing.assert_array_equal(await query(folder), expected)


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json", "config.json"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()

    with pytest.raises(EmbeddingFailed, match=missing) as refused:
        embedder_from(f"onnx:{folder}")

    assert "tokenizer.json and config.json" in refused.value.hint


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        embedder_from(f"onnx:{tmp_path / 'nowhere'}")


async def test_a_graph_that_is_none_is_refused(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a graph")

    with pytest.raises(EmbeddingFailed, match="cannot load"):
        await query(folder)


@pytest.mark.parametrize("broken", ["{", "[1]", ""])
def test_a_broken_configuration_is_refused(folder: Path, broken: str) -> None:
    (folder / "config.json").write_text(broken)

    with pytest.raises(EmbeddingFailed, match=r"config\.json"):
        OnnxEmbedder(folder)


def test_a_model_with_an_unknown_step_is_refused(folder: Path) -> None:
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.LSTM"}]))

    with pytest.raises(EmbeddingFailed, match="LSTM"):
        OnnxEmbedder(folder)


def test_an_unknown_pooling_is_refused(folder: Path) -> None:
    rewrite(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True)

    with pytest.raises(EmbeddingFailed, match="pooling_mode_max_tokens"):
        OnnxEmbedder(folder)


async def test_pooling_by_the_first_token_is_obeyed(folder: Path) -> None:
    mean = await query(folder)
    rewrite(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=False, pooling_mode_cls_token=True)

    assert not np.allclose(await query(folder), mean, atol=0.01)


async def test_dimensions_that_are_not_the_configured_ones_are_refused(folder: Path) -> None:
    rewrite(folder / "config.json", hidden_size=768)

    with pytest.raises(EmbeddingFailed, match="384"):
        await query(folder)


@pytest.mark.shows(2)
async def test_prompts_go_before_questions_and_every_part_of_a_passage(folder: Path) -> None:
    rewrite(folder / "config_sentence_transformers.json", prompts={"query": "query: ", "document": "passage: "})
    embedder, plain = OnnxEmbedder(folder), OnnxEmbedder(HERE / ENGLISH)
    [bare] = plain._loaded().parts("passage: ", "")

    np.testing.assert_allclose(await embedder.query("tea"), await plain.query("query: tea"), atol=1e-6)
    parts = embedder._loaded().parts("tea " * 700, embedder.folder.passage_prefix)
    assert len(parts) > 2
    assert all(part[: len(bare) - 1] == bare[:-1] for part in parts)
    assert all(len(part) <= 256 for part in parts)

    await embedder.close()
    await plain.close()


async def test_the_window_is_obeyed(folder: Path) -> None:
    rewrite(folder / "sentence_bert_config.json", max_seq_length=32)
    embedder = OnnxEmbedder(folder)
    parts = embedder._loaded().parts("one two three four five " * 40, "")

    assert max(len(part) for part in parts) <= 32
    assert len((await embedder.passages(["one two three four five " * 40]))[0]) == len(parts)
    await embedder.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: rewrite(folder / "sentence_bert_config.json", max_seq_length=128),
        lambda folder: rewrite(folder / "config_sentence_transformers.json", prompts={"query": "q: "}),
        lambda folder: rewrite(folder / "tokenizer.json", version="1.1"),
    ],
)
def test_whatever_changes_vectors_changes_the_name(folder: Path, change: Callable[[Path], None]) -> None:
    before = OnnxEmbedder(folder).name
    change(folder)

    assert OnnxEmbedder(folder).name != before


def test_moving_the_folder_keeps_the_name(folder: Path) -> None:
    assert OnnxEmbedder(folder).name == OnnxEmbedder(HERE / ENGLISH).name


async def test_files_that_change_while_the_server_runs_are_refused(folder: Path) -> None:
    embedder = OnnxEmbedder(folder)
    rewrite(folder / "tokenizer.json", version="1.1")

    with pytest.raises(EmbeddingFailed) as refused:
        await embedder.query("anything")

    assert "Restart" in refused.value.hint


async def test_text_is_lower_cased_when_the_model_wants_it(folder: Path) -> None:
    cased = json.loads((folder / "tokenizer.json").read_text())
    cased["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(cased))
    assert not np.allclose(await query(folder, "TEA"), await query(folder, "tea"), atol=0.01)

    rewrite(folder / "sentence_bert_config.json", do_lower_case=True)

    np.testing.assert_array_equal(await query(folder, "TEA"), await query(folder, "tea"))
