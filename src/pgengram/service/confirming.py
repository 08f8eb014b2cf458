"""Confirmations: whoever agrees, by whatever way, agrees to one plan as it was shown, and to nothing else.

What needs a yes is kept under a token: the plan's fingerprint and the version of each memory that was shown. The token
goes out with the question, to the client's user (in either era of the protocol), to the caller, to the page or to the
command line, and comes back with the yes. Before anything is done the memories are locked and compared with what was
kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel

from pgengram.errors import ConfirmRequired
from pgengram.runtime.context import ASKER
from pgengram.store.connection.database import Transaction
from pgengram.store.memory import confirmations
from pgengram.store.store import Store


class Shown(Protocol):
    """What somebody is asked to agree to."""

    @property
    def kept(self) -> dict[str, Any]:
        """What a yes is valid for, as JSON; `versions` of the memories, if it concerns any, by their ids."""

    @property
    def question(self) -> str:
        """The question to the user."""


Plan = TypeVar("Plan", bound=Shown)
Answer = TypeVar("Answer", bound=BaseModel)
Kept = Mapping[str, Any]


class Declined(ConfirmRequired):
    """The user refused, or did not answer."""

    default_hint = "Nothing was changed. Don't try again."

    def __init__(self) -> None:
        super().__init__("Cancelled by the user.")


async def when_confirmed(
    store: Store,
    action: str,
    token: str,
    *,
    plan: Callable[[Transaction, Kept | None], Awaitable[Plan]],
    needs_confirmation: Callable[[Plan], bool],
    preview: Callable[[Transaction, Plan], Awaitable[Answer]],
    execute: Callable[[Transaction, Plan], Awaitable[Answer]],
) -> Answer:
    """Do what somebody has agreed to or nobody needs to; else show it, and ask whoever can be asked.

    Args:
        store: in which it is done.
        action: a word for what would be done.
        token: the caller's, which stands for a yes; empty for none.
        plan: returns what would be done now; given what was kept when it was agreed to.
        needs_confirmation: whether somebody has to agree to a plan first.
        preview: says what a plan would do, with the fields `message` and `confirm_token`.
        execute: does it, in the transaction in which the plan was made.

    Raises:
        ConfirmRequired: the token is not valid, or the plan is not what was agreed to any more; nothing was changed.
        Declined: the user said no.
    """
    token = token or await _token_agreed_to(store)
    if not token:
        async with store.transaction() as tx:
            made = await plan(tx, None)
            if not needs_confirmation(made):
                return await execute(tx, made)
            shown = await preview(tx, made)
            seconds = confirmations.SECONDS if ASKER.get() is None else confirmations.SECONDS_OF_A_QUESTION
            token = await confirmations.make_token(tx, action, made.kept, seconds)
        if not await _user_agrees(store, made.question, token):
            again = f"repeat the call with confirm_token within {confirmations.SECONDS} s."
            hint = f"No memory is changed yet. If the user agrees, {again}"
            message = f"{getattr(shown, 'message', '')} {hint}"
            return shown.model_copy(update={"confirm_token": token, "message": message})
    async with store.transaction() as tx:
        kept = await confirmations.redeem(tx, token, action)
        await confirmations.refuse_changed(tx, kept.get("versions", {}))
        made = await plan(tx, kept)
        if made.kept != kept:
            raise ConfirmRequired(
                "The confirmation was given for other ids or arguments, or what they mean has changed since."
            )
        return await execute(tx, made)


async def agreed_by_person(
    store: Store, action: str, *, plan: Callable[[Transaction], Awaitable[Plan]], elsewhere: str
) -> Plan:
    """Return a plan that a person has agreed to: who asked may not say yes for them, by no token.

    Args:
        store: whose memories the plan is about.
        action: a word for what would be done.
        plan: returns what would be done now.
        elsewhere: how the person can agree where the client cannot ask.

    Raises:
        ConfirmRequired: nobody can be asked, or the plan is not what was agreed to any more.
        Declined: the person said no.
    """
    token = await _token_agreed_to(store)
    if not token:
        async with store.transaction() as tx:
            made = await plan(tx)
            token = await confirmations.make_token(tx, action, made.kept, confirmations.SECONDS_OF_A_QUESTION)
        if not await _user_agrees(store, made.question, token):
            await _discard(store, token)
            raise ConfirmRequired(
                f"A person must agree to this, and your client cannot ask. {made.question}", elsewhere
            )
    async with store.transaction() as tx:
        kept = await confirmations.redeem(tx, token, action)
        await confirmations.refuse_changed(tx, kept.get("versions", {}))
        made = await plan(tx)
    if made.kept != kept:
        raise ConfirmRequired(
            "What was agreed to has changed since: the memories, or who would see them.",
            "Nothing was shared. Ask again.",
        )
    return made


async def _token_agreed_to(store: Store) -> str:
    """Return the token of the question to which this call brings the user's yes; empty when it brings no answer."""
    asker = ASKER.get()
    if asker is None or asker.answer is None:
        return ""
    token, agreed = asker.answer
    return token if agreed else await _decline(store, token)


async def _user_agrees(store: Store, question: str, token: str) -> bool:
    """Ask the user; False when nobody can be asked."""
    asker = ASKER.get()
    agreed = None if asker is None else await asker.ask(question, token)
    if agreed is False:
        await _decline(store, token)
    return bool(agreed)


async def _decline(store: Store, token: str) -> str:
    await _discard(store, token)
    raise Declined


async def _discard(store: Store, token: str) -> None:
    async with store.transaction() as tx:
        await confirmations.discard(tx, token)
