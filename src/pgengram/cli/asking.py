"""Asking the person at the terminal before memories are erased or forgotten in bulk."""

from __future__ import annotations

import sys
from typing import Final

from pgengram.cli.runtime import confirm, print_note
from pgengram.cli.waiting import end_waiting


class ReadsFirst:
    """Says that a person reads the preview first, so that what it shows may be agreed to for longer than a model's."""

    answer: Final = None

    async def ask(self, question: str, token: str) -> bool | None:  # noqa: ARG002 - asked by the command itself
        """Leave the question to the command."""
        return None


class TerminalAsker:
    """Puts questions to the person at the terminal; with `yes` they have agreed to everything before."""

    answer: Final = None

    def __init__(self, *, yes: bool = False, prompt: str = "Apply?") -> None:
        self._yes = yes
        self._prompt = prompt

    async def ask(self, question: str, token: str) -> bool | None:  # noqa: ARG002 - the process itself holds the token
        """Show what would be done, and wait for yes or no."""
        if not self._yes and sys.stdin.isatty():
            end_waiting()
            print_note(question)
        return confirm(self._prompt, yes=self._yes)
