"""Which memories may be turns of a conversation."""

from __future__ import annotations

from typing import Final

from pgengram.text.derived import TURN

SPOKEN: Final = f"({{0}}.turn_features & {TURN} <> 0 OR {{0}}.speaker_key IS NOT NULL)"  # of a row of `memories`
