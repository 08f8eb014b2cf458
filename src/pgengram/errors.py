"""The errors a caller can meet, each with its code and the next step.

PgengramError
├── InvalidInput         INVALID_INPUT      the arguments are wrong; nothing was changed
├── NotFound             NOT_FOUND          no such memory
├── Conflict             CONFLICT           it changed in the meantime, or would collide
├── LimitExceeded        LIMIT_EXCEEDED     too much at once
├── SecretRejected       SECRET_REJECTED    a text holds a password, key or token; nothing was stored
├── ConfirmRequired      CONFIRM_REQUIRED   nobody has confirmed this yet
├── ItemRefused          the item's own     one item of a batch that is stored whole or not at all is wrong
├── EmbeddingFailed      EMBEDDING_ERROR    the embedder gave no vector
├── Misused              MISUSED            a program uses what it has closed, or from another event loop
├── TimedOut             TIMED_OUT          a call took longer than the program allowed
└── DatabaseFailed       DATABASE_ERROR     PostgreSQL can't be used right now
    ├── ConnectionLost   DATABASE_ERROR     the connection broke; the call can be repeated
    ├── WritesRefused    DATABASE_ERROR     the database takes no writes now
    ├── StoreMoved       DATABASE_ERROR     the store changed under the call, which can be repeated:
    │   ├── ModelSwitched                   it took another embedding model
    │   └── ShardMoved                      the namespace went to another machine
    └── NotReady         DATABASE_ERROR     the embedded server or the schema did not come up
        └── Unreachable  DATABASE_ERROR     no connection to PostgreSQL can be made now
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
    """It does not exist."""

    code = "NOT_FOUND"

    def __init__(self, what: str, key: object, hint: str = "Use search_memories to find the right id.") -> None:
        super().__init__(f"No {what} has id {key}.", hint)


class NoSuchSpace(NotFound):
    """There is no such space, or the caller is not in it."""

    def __init__(self, name: str = "") -> None:
        named = f" called {name!r}" if name else ""
        PgengramError.__init__(
            self, f"There is no space{named} that you may use.", "Leave out space for your own memories."
        )


class NotAllowed(PgengramError):
    """The caller may not do that in this space."""

    code = "NOT_ALLOWED"


class Conflict(PgengramError):
    """The memory changed in the meantime, or the change would collide with another memory."""

    code = "CONFLICT"
    default_hint = "Read the memory again with get_memories and repeat the change on what is there now."


class LimitExceeded(PgengramError):
    """Too much at once."""

    code = "LIMIT_EXCEEDED"
    default_hint = "Send less at once."


class ConfirmRequired(PgengramError):
    """This needs a confirmation, or another one than was given."""

    code = "CONFIRM_REQUIRED"
    default_hint = "Nothing was changed. Call again without confirm_token to get a new preview and token."


class SecretRejected(PgengramError):
    """A text contains what looks like a password, key, token or card number; nothing was stored.

    Args:
        where: the argument that holds it.
        name: what it looks like, never the secret itself.
    """

    code = "SECRET_REJECTED"
    default_hint = "Leave the secret out and say where it is kept instead. Nothing was stored."

    def __init__(self, where: str, name: str) -> None:
        super().__init__(f"{where} holds what looks like a secret ({name}).")
        self.where = where
        self.name = name


class ItemRefused(PgengramError):
    """One item of an all-or-nothing batch is wrong; the error has the code of that item.

    Args:
        index: the item's place, from 0 on.
        error: what is wrong with it, as it leaves in an answer.
    """

    def __init__(self, index: int, error: dict[str, str]) -> None:
        super().__init__(f"Item {index}: {error['message']}", f"Nothing was stored. {error['hint']}")
        self.code = error["code"]


class EmbeddingFailed(PgengramError):
    """The embedder returned no vector."""

    code = "EMBEDDING_ERROR"
    default_hint = "Nothing was stored. Run `pgengram doctor`, or set PGENGRAM_EMBEDDER."


class Misused(PgengramError):
    """A program uses an object of the library that is closed, or of another event loop."""

    code = "MISUSED"


class TimedOut(PgengramError, TimeoutError):
    """A call took longer than allowed. A write may have been kept; repeating it is safe."""

    code = "TIMED_OUT"
    default_hint = "Repeating the call is safe; allow more time if it happens again."


class DatabaseFailed(PgengramError):
    """PostgreSQL can't be used right now."""

    code = "DATABASE_ERROR"
    default_hint = "Nothing was changed; the call can be retried. If it happens again, run `pgengram doctor`."
    connection_lost = False


class ConnectionLost(DatabaseFailed):
    """The connection broke during a call. A write may have been kept; repeating it is safe."""

    default_hint = "The call can be retried: a repeated create stores nothing twice."
    connection_lost = True


class WritesRefused(DatabaseFailed):
    """The database takes no writes now: it is a standby, or read-only."""

    default_hint = "Nothing was changed; call again in a moment."


class StoreMoved(DatabaseFailed):
    """The store changed during a call, which can be repeated."""

    default_hint = "Nothing was changed; call again."
    is_final = False


class ModelSwitched(StoreMoved):
    """The store switched to another embedding model during a call."""

    def __init__(self) -> None:
        super().__init__("The store just switched to another embedding model.")


class ShardMoved(StoreMoved):
    """The namespace moved to another machine of the cluster during a call."""

    def __init__(self) -> None:
        super().__init__("This namespace just moved to another machine.")


class NotReady(DatabaseFailed):
    """The embedded server did not start, or the schema could not be updated."""

    default_hint = "Run `pgengram doctor` to see what is wrong and how to fix it."


class Unreachable(NotReady):
    """No connection to PostgreSQL can be made now; nothing was begun."""

    connection_lost = True
