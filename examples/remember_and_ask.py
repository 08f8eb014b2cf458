"""Remember a few things, ask in other words, correct one, and look at what was believed before.

Run it with `python examples/remember_and_ask.py`. It keeps its memories in a namespace of its own, and erases them in the end.
"""

from __future__ import annotations

import asyncio

from pgengram import Memory
from pgengram.fields import Kind
from pgengram.runtime.process_setup import event_loop

NOTES: dict[str, Kind] = {
    "Mara moved billing to Stripe on 3 March 2026, because only Stripe handles SEPA direct debit.": "decision",
    "Jonas is allergic to peanuts and carries an adrenaline pen.": "person",
    "The staging server is restarted every Sunday at four in the morning.": "fact",
}


async def main() -> None:
    """Store, go the whole way once, and leave nothing behind."""
    async with Memory(namespace="example") as memory:
        ids = [(await memory.add(text, kind=kind)).memory_id for text, kind in NOTES.items()]
        try:
            await use(memory, ids)
        finally:
            print(f"{await memory.erase(*ids)} memories erased")


async def use(memory: Memory, ids: list[str]) -> None:
    """Ask, link, correct and recall."""
    for question in ("Why did we change the payment provider?", "What must not be in the cake?"):
        best = (await memory.search(question, limit=1)).results[0]
        print(f"{question}\n  {best['score']:.2f}  {best['content']}")

    await memory.link(ids[0], ids[1], type="mentioned_with")
    await memory.update(ids[2], content="The staging server is restarted every Saturday at four in the morning.")
    changed = await memory.get(ids[2], "history")
    [before] = [entry["changes"]["content"][0] for entry in changed["history"] if entry["operation"] == "update"]
    print(f"{changed['content']}\n  before: {before}")

    print((await memory.recall("What should I know about the staging server?")).context)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(main())
