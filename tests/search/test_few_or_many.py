"""Whose vectors are compared one by one: the few, and who is one of the few depends on how many there are in all."""

from __future__ import annotations

from pgengram.search.vector_index import EXACT_ROWS, VectorIndex

NAMESPACE = 1


def way(vectors: int, of_all: int) -> str:
    """Return how a namespace of some vectors is searched in a store of so many."""
    model = VectorIndex(1, 384, indexed=True, rows=of_all)
    model.note(NAMESPACE, vectors)
    return model.way(NAMESPACE)


def test_a_namespace_of_a_few_thousand_is_searched_by_the_index_while_there_are_few_others() -> None:
    assert way(EXACT_ROWS + 1_000, of_all=10_000) == "index"


def test_the_same_namespace_is_compared_with_each_once_the_index_would_visit_more_than_that() -> None:
    assert way(EXACT_ROWS + 1_000, of_all=1_000_000) == "each"


def test_a_namespace_of_most_of_a_large_store_goes_on_using_the_index() -> None:
    assert way(600_000, of_all=1_000_000) == "index"


def test_near_the_border_it_is_counted_anew_each_time() -> None:
    model = VectorIndex(1, 384, indexed=True, rows=1_000_000)

    assert way(model.few - 1, of_all=1_000_000) == "either"


def test_before_the_index_is_there_every_vector_is_compared() -> None:
    model = VectorIndex(1, 384, rows=1_000_000)
    model.note(NAMESPACE, 600_000)

    assert model.way(NAMESPACE) == "each"
