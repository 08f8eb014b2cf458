"""Laws of merging: whatever machines did, their states become one in any order, any number of times."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from pgengram.sync import memories
from pgengram.sync.merging import GONE, Document, as_one, merged, with_changes

CLOCK = 1_000_000
Step = tuple[int, str, dict[str, int], int]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),  # which machine
        st.sampled_from(["change", "change", "change as a row", "hear", "remove"]),
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3),
        st.integers(0, 2),  # from which machine it hears
    ),
    max_size=25,
)


def after(steps: list[Step]) -> list[Document]:
    """Return the states of three machines that did these steps."""
    machines = [Document(), Document(), Document()]
    for number, (at, step, fields, other) in enumerate(steps):
        one = machines[at]
        if step == "hear":
            machines[at] = merged(one, machines[other])
        elif step == "remove":
            machines[at] = GONE
        elif not one.gone:
            changed = with_changes(one, fields, at=number, clock=CLOCK, writer="xyz"[at])
            is_new = bool(changed.entries) and changed.seen != one.seen
            machines[at] = as_one(changed, "xyz"[at]) if step == "change as a row" and is_new else changed
    return machines


@given(STEPS)
def test_states_become_the_same_in_any_order_and_however_often(steps: list[Step]) -> None:
    states = after(steps)
    whole = merged(merged(states[0], states[1]), states[2])
    for one, two, three in permutations(states):
        assert merged(one, two) == merged(two, one)
        assert merged(one, merged(two, three)) == whole
        assert merged(whole, one) == whole
    assert all(merged(one, one) == one for one in states)


@given(STEPS, STEPS)
def test_what_was_removed_for_ever_stays_so_whatever_comes_before_and_after(
    before: list[Step], later: list[Step]
) -> None:
    for known in after(before):
        for arriving in after(later):
            assert merged(merged(known, GONE), arriving) == GONE
            assert merged(arriving, merged(GONE, known)) == GONE
    assert Document.from_json(GONE.as_json(whole=True)) == GONE


@given(STEPS)
def test_what_is_kept_of_a_state_and_what_is_written_of_it_is_read_back(steps: list[Step]) -> None:
    for one in after(steps):
        assert Document.from_json(one.as_json(whole=True)) == one
        kept = Document.from_json(one.as_json(whole=False))
        assert merged(one, kept).as_json(whole=False) == one.as_json(whole=False)
        assert kept.as_json(whole=False) == one.as_json(whole=False)


@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True), st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 3))
)
def test_places_of_tags_give_their_order_and_stay_when_they_are_read_back(
    tags: list[str], known: dict[str, int]
) -> None:
    """Whatever places are known, of these tags or others, and several of one place."""
    record = {"tags": tags, "detail": {}, "activation": {"importance": 0.5, "started_at": ""}, "history": []}
    shown = {f"tag:{tag}": place for tag, place in known.items()}

    fields = memories.fields_of(record, shown)
    row = memories.record_of("", {**fields, "type": "semantic"}, 1)

    assert row["tags"] == tags
    assert memories.fields_of(row, fields) == {**fields, "type": "semantic"}
    if sorted(known, key=lambda tag: (known[tag], tag)) == tags:
        assert {name: fields[name] for name in shown} == shown
