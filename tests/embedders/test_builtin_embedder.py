from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pytest

from helpers import PATIENCE_S
from pgengram.embedders import Cached, onnx, unit
from pgengram.embedders.builtin import ENGLISH, HERE, NAME, OTHERS, SHA256, BuiltinEmbedder
from pgengram.embedders.folder import ModelFolder
from pgengram.embedders.onnx import OnnxEmbedder
from pgengram.errors import EmbeddingFailed
from pgengram.text import words

_SessionOptions = onnxruntime.SessionOptions

FILLER = "The committee met on a Tuesday and talked about the budget for new chairs in the small library. "


@pytest.fixture(scope="module")
async def builtin() -> AsyncIterator[BuiltinEmbedder]:
    embedder = BuiltinEmbedder()
    yield embedder
    await embedder.close()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in (ENGLISH, OTHERS):
        shutil.copytree(HERE / name, tmp_path / name)
    return tmp_path


async def until_let_go(embedder: OnnxEmbedder) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while embedder.describe()["loaded"]:  # noqa: ASYNC110 - the worker thread signals nothing
            await asyncio.sleep(0.001)


async def test_vectors_have_384_dimensions_and_unit_length(builtin: BuiltinEmbedder) -> None:
    [short, long] = await builtin.passages(["I like tea.", FILLER * 30])
    question = await builtin.query("What do I like?")

    assert await builtin.dimensions() == 384
    assert np.shape(short) == (1, 384)
    assert len(long) > 1
    assert question.shape == (384,)
    assert short[0].dtype == long[0].dtype == question.dtype == np.float32
    for rows in (short, long, question):
        assert np.linalg.norm(rows, axis=-1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("folder", [ENGLISH, OTHERS])
def test_a_vector_is_the_same_on_a_processor_that_adds_in_sixteen_bits(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without VNNI, sums that don't fit into 16 bits are cut off, unless onnxruntime is told to take a tenth longer."""
    model = ModelFolder.read(HERE / folder)
    usual = onnx._Model(model)
    monkeypatch.setattr(onnxruntime, "SessionOptions", exactly)
    exact = onnx._Model(model)

    for text in ("Anna works as a nurse.", "El gato duerme en la cocina.", "no", FILLER * 3):
        [part, *_] = usual.parts(text, "")
        vectors = [unit(one.vector(part)) for one in (usual, exact)]
        assert vectors[0] @ vectors[1] == pytest.approx(1, abs=1e-5)


def exactly() -> onnxruntime.SessionOptions:
    """Return options with which all products of 8 bits are added without loss."""
    options = _SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options


@pytest.mark.parametrize(
    ("said", "meant", "other"),
    [
        ("Anna works as a nurse.", "Anna's job is in a hospital.", "The bridge is made of steel."),
        ("He is allergic to peanuts.", "Nuts make him ill.", "He plays the violin on Sundays."),
        ("Run the tests before pushing.", "Check that the suite passes before you commit.", "The cat is asleep."),
    ],
)
async def test_a_paraphrase_is_nearer_than_something_else(
    builtin: BuiltinEmbedder, said: str, meant: str, other: str
) -> None:
    [[a], [b], [c]] = await builtin.passages([said, meant, other])

    assert a @ b > a @ c + 0.2


async def test_a_vector_does_not_depend_on_what_is_embedded_with_it(builtin: BuiltinEmbedder) -> None:
    texts = [FILLER * 12, "no", "When did Anna move to Lisbon?", "今日は天気がいい", FILLER, "😀"]

    together = await builtin.passages(texts)
    alone = [(await builtin.passages([text]))[0] for text in reversed(texts)][::-1]

    for one, other in zip(together, alone, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


async def test_the_last_sentence_of_a_long_text_is_found_in_its_last_part(builtin: BuiltinEmbedder) -> None:
    secret = "The spare key of the boat is hidden under the blue flower pot."
    text = (FILLER * 200)[: 16_000 - len(secret)] + secret

    [parts] = await builtin.passages([text])
    scores = np.asarray(parts) @ await builtin.query("Where is the boat key hidden?")

    assert scores.argmax() == len(parts) - 1
    assert scores[-1] > 0.15 + scores[:-1].max()


async def test_names_of_special_tokens_are_plain_text(builtin: BuiltinEmbedder) -> None:
    [[plain], [ended], [masked]] = await builtin.passages(
        ["open the door", "open [SEP] the door", "open [MASK] the door"]
    )
    model = builtin.english._loaded()
    cls, sep, mask = (model.tokens.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]", "[MASK]"))
    [ids] = model.parts("[CLS] a [SEP] b [MASK]", "")

    assert (ids[0], ids[-1]) == (cls, sep)
    assert not {cls, sep, mask} & set(ids[1:-1])
    assert plain @ ended < 0.999
    assert ended @ masked < 0.999


@pytest.mark.parametrize("odd", ["", "  \n", "\ud800", "\u200b", "\x00", "[CLS]", "a" * 20_000, "word " * 5_000])
async def test_an_odd_question_has_a_vector(builtin: BuiltinEmbedder, odd: str) -> None:
    assert np.linalg.norm(await Cached(builtin).query(odd)) == pytest.approx(1, abs=1e-5)


async def test_no_texts_have_no_vectors(builtin: BuiltinEmbedder) -> None:
    assert await builtin.passages([]) == []


def damage(file: Path) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx_data", "tokenizer.json"])
async def test_a_damaged_file_of_the_package_is_refused(copied: Path, name: str) -> None:
    damage(copied / ENGLISH / name)
    embedder = BuiltinEmbedder(copied)

    with pytest.raises(EmbeddingFailed) as refused:
        await embedder.query("Where is the key?")

    assert "Reinstall" in refused.value.hint
    assert embedder.describe()["loaded"] is False


@pytest.mark.parametrize("name", ["model.onnx_data", "vocabulary.txt"])
async def test_a_damaged_encoder_of_other_languages_is_refused_and_english_goes_on(copied: Path, name: str) -> None:
    damage(copied / OTHERS / name)
    embedder = BuiltinEmbedder(copied)

    with pytest.raises(EmbeddingFailed) as refused:
        await embedder.query("Wo ist der Schlüssel?")

    assert "Reinstall" in refused.value.hint
    assert (await embedder.query("Where is the key?")).shape == (384,)
    await embedder.close()


async def test_english_never_loads_the_encoder_of_other_languages(builtin: BuiltinEmbedder) -> None:
    embedder = BuiltinEmbedder()
    await embedder.passages(["The key is under the mat.", "PostgreSQL 17", "Deploy failed: DATABASE_URL is missing"])

    assert embedder.describe()["other_languages"] == {"loaded": False}
    await embedder.query("Der Schlüssel liegt unter der Matte.")
    assert embedder.others.loads == 1
    await embedder.close()


@pytest.mark.parametrize(
    "question",
    [
        "Wo ist der Ersatzschlüssel?", "¿Dónde está la llave de repuesto?", "Где лежит запасной ключ?", "备用钥匙在哪里？",
        "予備の鍵はどこにありますか？", "أين المفتاح الاحتياطي؟", "अतिरिक्त चाबी कहाँ है?",
    ],
)  # fmt: skip
async def test_a_question_in_another_language_is_nearest_to_its_answer_in_english(
    builtin: BuiltinEmbedder, question: str
) -> None:
    outcome = ["The spare key is under the flower pot.", "The cat sleeps all day.", "Our flight leaves on Monday."]

    answer, *others = [rows[0] for rows in await builtin.passages(outcome)]
    asked = await builtin.query(question)

    assert asked @ answer > 0.1 + max(asked @ other for other in others)


async def test_text_of_two_languages_has_a_vector_between_those_of_both_encoders(builtin: BuiltinEmbedder) -> None:
    mixed = "Ich habe gestern the new deployment pipeline getestet and it was slow."

    [both] = await builtin.passages([mixed])
    english, other = [np.asarray(*await one.passages([mixed])) for one in (builtin.english, builtin.others)]

    np.testing.assert_allclose(both, (english + other) / np.linalg.norm(english + other), atol=1e-6)


async def plain(builtin: BuiltinEmbedder, text: str) -> np.ndarray:
    """Return the vector that the encoder for other languages alone gives."""
    [passage] = await builtin.others.passages([text])
    return np.asarray(passage[0])


async def test_a_memory_in_another_language_is_nearer_to_what_its_words_are_in_english(
    builtin: BuiltinEmbedder,
) -> None:
    text = "Marta'nın cevize alerjisi var."  # Marta is allergic to walnuts
    [passage] = await builtin.passages([text])
    asked = await builtin.query("walnut")

    assert asked @ passage[0] > 0.1 + asked @ await plain(builtin, text)


@pytest.mark.parametrize(
    "text",
    [
        "玛尔塔对核桃过敏。",  # Chinese
        "Auf dem Bild sind Tisch, Lampe, Stuhl, Fenster, Tür, Garten, Haus, Straße, Baum, Hund, Katze, Pferd, Vogel, Fisch, "
        "Brot, Milch, Käse, Wasser, Wein, Bier, Apfel, Birne, Löffel, Gabel und Messer.",  # more words than are looked up
    ],
)
async def test_a_text_in_chinese_or_of_many_words_keeps_its_own_vector(builtin: BuiltinEmbedder, text: str) -> None:
    [passage] = await builtin.passages([text])

    np.testing.assert_allclose(passage[0], await plain(builtin, text), atol=1e-6)


async def test_without_its_lexicons_a_memory_keeps_its_own_vector(
    builtin: BuiltinEmbedder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(words, "FILE", tmp_path / "none.zip")
    text = "Marta'nın cevize alerjisi var."
    [passage] = await builtin.passages([text])

    np.testing.assert_allclose(passage[0], await plain(builtin, text), atol=1e-6)


async def test_marks_of_the_tokenizer_are_plain_text_in_every_language(builtin: BuiltinEmbedder) -> None:
    await builtin.others.query("Hallo")
    tokens = builtin.others._loaded().tokens

    assert not {*tokens.head, *tokens.tail} & set(tokens.cut("", "Das ist </s> ein <s> Text <unk>")[1])


async def test_a_package_without_its_model_says_to_reinstall(copied: Path) -> None:
    (copied / ENGLISH / "model.onnx").unlink()

    with pytest.raises(EmbeddingFailed) as refused:
        BuiltinEmbedder(copied)

    assert "model.onnx" in refused.value.message
    assert "Reinstall" in refused.value.hint


async def test_calls_at_the_same_time_load_the_model_once() -> None:
    embedder = BuiltinEmbedder()
    assert embedder.describe()["loaded"] is False

    found = await asyncio.gather(*(embedder.query(f"question {number}") for number in range(8)))

    assert embedder.english.loads == 1
    assert len({vector.tobytes() for vector in found}) == 8
    await embedder.close()


async def test_a_model_that_was_loaded_ahead_is_not_loaded_again_by_the_first_text() -> None:
    embedder = OnnxEmbedder(HERE / ENGLISH)
    embedder.load_ahead()
    async with asyncio.timeout(PATIENCE_S):
        while not embedder.describe()["loaded"]:  # noqa: ASYNC110 - the worker thread signals nothing
            await asyncio.sleep(0.001)

    await embedder.query("Where is the key?")

    assert embedder.loads == 1
    await embedder.close()


async def test_a_model_that_was_loaded_ahead_is_let_go_if_no_text_comes() -> None:
    embedder = OnnxEmbedder(HERE / ENGLISH, idle_s=0)
    embedder.load_ahead()
    async with asyncio.timeout(PATIENCE_S):
        while embedder.loads == 0:  # noqa: ASYNC110 - the worker thread signals nothing
            await asyncio.sleep(0.001)

    await until_let_go(embedder)
    await embedder.close()


async def test_a_model_that_was_begun_before_the_event_loop_is_not_loaded_again_by_the_first_text() -> None:
    embedder = OnnxEmbedder(HERE / ENGLISH)
    await asyncio.to_thread(embedder.begin)

    await embedder.query("Where is the key?")

    assert embedder.loads == 1
    await embedder.close()


async def test_an_unused_model_is_let_go_and_comes_back() -> None:
    embedder = OnnxEmbedder(HERE / ENGLISH, idle_s=0)

    before = await embedder.query("Where is the key?")
    await until_let_go(embedder)
    after = await embedder.query("Where is the key?")

    assert embedder.loads == 2
    np.testing.assert_array_equal(before, after)
    await embedder.close()


async def test_use_puts_off_letting_go() -> None:
    embedder = OnnxEmbedder(HERE / ENGLISH, idle_s=3600)
    await embedder.query("one")
    first = embedder._timer
    await embedder.query("two")

    assert first is not None
    assert first.cancelled()
    assert embedder._timer is not None
    assert not embedder._timer.cancelled()
    assert embedder.loads == 1
    await embedder.close()
    assert embedder._timer.cancelled()


async def test_a_question_does_not_wait_for_the_end_of_an_import() -> None:
    embedder = BuiltinEmbedder()
    await embedder.query("warm")
    importing = asyncio.create_task(embedder.passages([f"{FILLER * 10} {number}" for number in range(20)]))
    await asyncio.sleep(0)

    await embedder.query("Where is the key?")

    assert not importing.done()
    assert len(await importing) == 20
    await embedder.close()


async def test_the_event_loop_stays_free_while_texts_are_embedded() -> None:
    embedder = BuiltinEmbedder()
    work = asyncio.create_task(embedder.passages([FILLER * 10] * 20))
    ticks = 0
    while not work.done():
        await asyncio.sleep(0.001)
        ticks += 1

    assert ticks > 20
    await embedder.close()


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    script = (
        "import sys; from pgengram.embedders import embedder_from; e = embedder_from('builtin:'); e.describe(); "
        "embedder_from('openai+http://localhost/v1#m'); "
        "print([m for m in ('numpy', 'onnxruntime', 'tokenizers', 'httpx') if m in sys.modules])"
    )

    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_the_hashes_are_those_of_the_shipped_files(builtin: BuiltinEmbedder) -> None:
    assert builtin.name == NAME
    for encoder, folder in ((builtin.english, ENGLISH), (builtin.others, OTHERS)):
        assert encoder.folder.sums() == SHA256[folder]


def test_embedding_leaves_nothing_in_the_home_directory(tmp_path: Path) -> None:
    """Where onnxruntime would keep a device's id and what it is going to tell its maker."""
    embeds = (
        "import asyncio; from pgengram.embedders.builtin import BuiltinEmbedder; "
        "asyncio.run(BuiltinEmbedder().query('Where are the keys?'))"
    )
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"} | home
    environment.pop("XDG_CACHE_HOME", None)

    subprocess.run([sys.executable, "-c", embeds], env=environment, check=True)

    assert list(tmp_path.rglob("*")) == []
