"""The columns and words that follow from what a memory says, worked out in one place however it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pgengram.text.lexical.sounds import sounds_of_names
from pgengram.text.lexical.stems import foreign_stems
from pgengram.text.lexical.words import extra_terms, searched_text, speaker_terms
from pgengram.text.similarity.normalising import content_hash
from pgengram.text.turn_features import label_of, speaker_key_of, turn_features_of

IDENTITY: Final = frozenset({"content", "user", "project", "collection", "speaker", "occurred_at"})  # what is hashed
MOMENTS: Final = frozenset(
    {"event_time", "last_validated", "average_duration"}
)  # detail that nobody searches by its text


@dataclass(frozen=True, slots=True)
class Derived:
    """What follows from a memory's fields.

    content_hash: equal for memories that say the same about the same; speaker_key: who speaks, in lower case, or may speak as
        the text begins like a line of dialogue; turn_features: bits of a turn; searched, extra: the text and the
        further terms that a memory is found by.
    """

    content_hash: bytes
    speaker_key: str | None
    turn_features: int
    searched: str
    extra: list[str]


def derived(
    memory: Mapping[str, Any], *, tags: Sequence[str], detail: Mapping[str, Any] | None, in_conversation: bool
) -> Derived:
    """Return what follows from the fields of a memory.

    Args:
        memory: its row, of which the fields of `IDENTITY` and `metadata` are read; `occurred_at` as a datetime.
        tags: as they are stored.
        detail: the row of its type's own table.
        in_conversation: whether it is a turn of a conversation that its caller named.
    """
    content, speaker = memory["content"], memory["speaker"]
    speaker_key = speaker_key_of(content, speaker, in_conversation=in_conversation)
    searched_detail = {name: value for name, value in (detail or {}).items() if name not in MOMENTS}
    return Derived(
        content_hash(**{name: memory[name] for name in IDENTITY}),
        speaker_key or label_of(content),
        turn_features_of(content, is_said=speaker_key is not None, in_conversation=in_conversation),
        searched_text(
            content,
            speaker=speaker,
            tags=[*tags],
            occurred_at=memory["occurred_at"],
            metadata={**memory["metadata"], **searched_detail},
        ),
        extra_terms(content) + foreign_stems(content) + sounds_of_names(content) + speaker_terms(speaker_key),
    )
