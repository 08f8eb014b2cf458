"""The errors a caller can meet, each with its code and the next step.

PgengramError
├── InvalidInput         INVALID_INPUT      the arguments are wrong; nothing was changed
├── NotFound             NOT_FOUND          no such memory
├── Conflict             CONFLICT           someone else changed it first, or it would collide
├── LimitExceeded        LIMIT_EXCEEDED     too much at once
├── EmbeddingFailed      EMBEDDING_ERROR    the embedder gave no vector
└── DatabaseFailed       DATABASE_ERROR     PostgreSQL cannot be used now
    ├── ConnectionLost   DATABASE_ERROR     the connection broke; the call can be repeated
    └── NotReady         DATABASE_ERROR     the embedded server or the schema did not come up
"""

from __future__ import annotations


class PgengramError(Exception):
    """Something foreseen went wrong; the message is fit to be shown to the caller.

    Args:
        message: what is wrong, without any stored content or secret.
        hint: what to do next; the class's own hint when omitted.
    """

    code = "INTERNAL_ERROR"
    default_hint = ""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint

    def as_dict(self) -> dict[str, str]:
        """Return the error as it leaves in an answer: code, message and hint."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class InvalidInput(PgengramError):
    """The arguments are wrong; nothing was changed."""

    code = "INVALID_INPUT"
    default_hint = "Correct the argument and call again; nothing was changed."


class NotFound(PgengramError):
    """No such thing."""

    code = "NOT_FOUND"

    def __init__(self, what: str, key: object) -> None:
        super().__init__(f"No {what} has id {key}.", "Use search_memories to find the right id.")


class Conflict(PgengramError):
    """Someone changed it first, or the change would collide with another memory."""

    code = "CONFLICT"
    default_hint = "Read the memory again with get_memories and repeat the change on what is there now."


class LimitExceeded(PgengramError):
    """Too much at once."""

    code = "LIMIT_EXCEEDED"
    default_hint = "Send less at once."


class EmbeddingFailed(PgengramError):
    """The embedder gave no vector."""

    code = "EMBEDDING_ERROR"
    default_hint = "Nothing was stored. Run `pgengram doctor`, or set PGENGRAM_EMBEDDER."


class DatabaseFailed(PgengramError):
    """PostgreSQL cannot be used now."""

    code = "DATABASE_ERROR"
    default_hint = "Nothing was changed; the call can be retried. If it goes on, run `pgengram doctor`."
    connection_lost = False


class ConnectionLost(DatabaseFailed):
    """The connection broke in the middle; whether a write was kept is not known, and repeating it is safe."""

    default_hint = "The call can be retried: a repeated create stores nothing twice."
    connection_lost = True


class NotReady(DatabaseFailed):
    """The embedded server or the schema did not come up."""

    default_hint = "Run `pgengram doctor`: it says what is wrong and how to repair it."
