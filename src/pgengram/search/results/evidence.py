"""How sure it is that a question has an answer among its hits, and each hit's chance of being one.

The nearest memory is near also where none answers, as it is about the same person or thing. So the names in a question
are
kept apart from its other words, and these are looked for in the hits that are about all these names. All that is looked
at, the search has read anyway; the weights are fitted like those of the ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pgengram.fields import USUAL_LIMIT, Evidence
from pgengram.search.features import weights
from pgengram.search.filters import Asked, AskedWord
from pgengram.search.results import Hit, Match
from pgengram.search.succession import EVEN
from pgengram.search.vector_index import MEMORIES_TO_TELL, UNRELATED
from pgengram.text.derived import speaker_key_of
from pgengram.text.language import ENGLISH, clear_language, persons
from pgengram.text.sounds import sounds_of_names
from pgengram.text.vocabulary import is_command
from pgengram.text.words import FIRST_LETTERS, POSSESSIVE, beginning, sentences, words

if TYPE_CHECKING:
    from pgengram.search.features import Numbers


def is_about_listener(said: str, shared: Callable[[str], int]) -> bool:
    """Tell whether a turn has more words for who is spoken to than for who says it.

    Of its sentences those count that are nearest to the question, as in "I missed it. How was your race?". Where they
    don't tell, the whole turn does; where that doesn't either, it is about who says it.

    Args:
        said: the turn.
        shared: returns how many words a sentence has in common with the question.
    """
    parts = sentences(said) or [said]
    in_common = [shared(one) for one in parts]
    nearest = " ".join(one for one, count in zip(parts, in_common, strict=True) if count == max(in_common))
    language = clear_language(said) or ENGLISH
    for text in (nearest, said):
        first, second = persons(text, language)
        if first != second:
            return second > first
    return False


JUDGED: Final = USUAL_LIMIT  # best hits that are looked at, also where fewer are asked for
TURNS_READ: Final = 30  # where a speaker is named, as a bonus lifts the turns of one above those of others
BEST: Final = 3  # turns about each, as one alone may fit by chance
STRONG: Final = 0.75  # probability from which evidence is strong: below it half of what has no answer was
WEAK: Final = 0.2  # probability from which it is weak; below it nothing is recalled
UNLIKELY: Final = 0.05  # probability below which a hit is marked
RECALLED: Final = 0.0005  # share of the best hit's probability from which a hit is worth its room in a recalled text

Way = Literal["auto", "text", "semantic"]


class Signals(NamedTuple):
    """What tells whether a question has an answer.

    lead: how much nearer the nearest memory is than the nearest hundred are; covered: the largest share of the
    question's other words, by weight, in a hit that is about all
        it names, 1 where it only names; unknown: the share of its words that no memory has; speaker: how much better
        the turns about the one
        speaker it names fit than those about others; none where it names no speaker.
    """

    lead: float
    covered: float
    unknown: float
    speaker: float | None


class Field(NamedTuple):
    """What the hits of a question stand among.

    best_fit: of all candidates; crowd: the sum over them of e to the power of sharpness · (fit − best fit), so that of
        many that fit equally well each has little; lead: how much nearer the nearest is than the nearest hundred are,
        in
    cosine.
    """

    best_fit: float = 0.0
    crowd: float = 1.0
    lead: float = 0.0


def add_probabilities(asked: Asked, hits: Sequence[Hit], field: Field) -> tuple[float | None, Evidence | None]:
    """Give each hit its chance of answering, and return the probability that one of them does and what that is called;
    None where that cannot be told.

    What happens in a time ahead that the question names may answer it, whatever else it asks. A hit behind the first
    and such ones is marked as `unlikely` if it has little chance or there is no evidence. `recalled` says whether it
    is worth its room in a recalled text. In a long chat with an assistant everything is about what is asked,
    so nothing tells whether it was said, and no claim is made.

    Args:
        asked: the question.
        hits: of a ranking, best first, with at least the best `JUDGED` there are.
        field: what they stand among.
    """
    matches = [hit.match for hit in hits if hit.match is not None]
    if not matches:
        return 0.0, "none"
    way = way_of(asked, by_meaning=any(match.similarity is not None for match in matches))
    answered = 1.0 if matches[0].is_named else probability(way, signals(asked, hits, field))
    if last_ahead := _last_ahead(asked, hits):
        answered = max(answered, WEAK)
    for match in matches:
        own = match.fit if match.stands_for is None else match.stands_for
        match.score = answered * answer_share(way, own, field)
    evidence = level(answered)
    _mark(matches, answered, evidence, last_ahead)
    if _is_long_talk(matches[:JUDGED]) and not matches[0].is_named:
        for match in matches:
            match.unlikely = False
        return None, None
    return answered, evidence


def _mark(matches: Sequence[Match], answered: float, evidence: Evidence, last_ahead: int) -> None:
    """Note of each match whether it is unlikely to answer, and worth its room in a recalled text."""
    least = max(match.score for match in matches) * (RECALLED if answered >= EVEN else 1)
    for place, match in enumerate(matches):
        match.unlikely = place >= max(last_ahead, 1) and (evidence == "none" or match.score < UNLIKELY)
        match.recalled = evidence != "none" and (match.score >= least or place < last_ahead)


def _last_ahead(asked: Asked, hits: Sequence[Hit]) -> int:
    """Return behind how many hits nothing more happens in a time ahead that is asked for."""
    if (today := asked.parsed.ahead) is None:
        return 0
    then = [hit.match is not None and hit.match.why.get("period") == 1 and (hit.occurred_at or today) >= today
            for hit in hits[:JUDGED]]  # fmt: skip
    return max((place for place, is_then in enumerate(then, 1) if is_then), default=0)


def _is_long_talk(matches: Sequence[Match]) -> bool:
    """Whether most matches are turns of a long chat with an assistant."""
    return 2 * sum(match.is_of_long_talk for match in matches) > len(matches)


def way_of(asked: Asked, *, by_meaning: bool) -> Way:
    """Return the way in which hits were found, which decides what a fit is worth.

    by_meaning: whether any of them has a vector.
    """
    if asked.parsed.question.mode == "semantic":
        return "semantic"
    return "auto" if by_meaning else "text"


def probability(way: Way, found: Signals) -> float:
    """Return the probability that there is an answer: that the memories tell of what is asked, and where a speaker is
    named, that they tell it of that one (a noisy AND: Henrion 1987).
    """
    its, of_speaker = weights("evidence")["text" if way == "text" else "auto"], weights("speaker")
    topic = _logistic(its["constant"] + sum(its[name] * getattr(found, name) for name in Signals._fields[:-1]))
    if found.speaker is None:
        return topic
    return topic * _logistic(of_speaker["constant"] + of_speaker["lead"] * found.speaker)


def lead(nearest: Numbers) -> float:
    """Return how much nearer the nearest memory is than the nearest hundred, whose mean is doubted where they are few.

    Args:
        nearest: cosines, greatest first.
    """
    if not len(nearest):
        return 0.0
    usual = (float(nearest.sum()) + MEMORIES_TO_TELL * UNRELATED) / (len(nearest) + MEMORIES_TO_TELL)
    return float(nearest[0]) - usual


def answer_share(way: Way, fit: float, field: Field) -> float:
    """Return a candidate's chance to be the answer if there is one: the softmax of the fitted ranking."""
    sharpness = weights("sharpness")[way]
    return math.exp(sharpness * min(0.0, fit - field.best_fit)) / field.crowd


def _logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-700.0, log_odds)))


def level(sure: float) -> Evidence:
    """Return what a probability is called."""
    return "strong" if sure >= STRONG else "weak" if sure >= WEAK else "none"


def signals(asked: Asked, hits: Sequence[Hit], field: Field) -> Signals:
    """Return what the first hits and the question tell."""
    names, others = _names_and_others(asked)
    about = [text for text in map(_Text.of, hits[:JUDGED]) if all(text.has(word) for word in names)]
    return Signals(
        lead=field.lead,
        covered=max((_share(others, text.has) if others else float(bool(names)) for text in about), default=0.0),
        unknown=_share(asked.words, lambda word: not word.known),
        speaker=_speaker_lead(asked, hits, others),
    )


class _Text:
    """The words of a memory, to look for those of a question in."""

    def __init__(self, text: str) -> None:
        self._said = text

    @classmethod
    def of(cls, hit: Hit) -> _Text:
        return cls(" ".join((hit.content, hit.speaker or "", *hit.tags)))

    def has(self, word: AskedWord) -> bool:
        """Whether a form of the word or of what it is in English is among them, or a name that sounds like it."""
        written = any(map(self._has_form, (POSSESSIVE.sub("", word.text.casefold()), *word.english)))
        return written or (bool(word.sounds) and not self._sounds.isdisjoint(word.sounds))

    def _has_form(self, plain: str) -> bool:
        return plain in self._words or (len(plain) > FIRST_LETTERS and beginning(plain) in self._stems)

    @cached_property
    def _words(self) -> set[str]:
        return {word.casefold() for word in words(self._said)}

    @cached_property
    def _stems(self) -> set[str]:
        return {beginning(word) for word in self._words}

    @cached_property
    def _sounds(self) -> frozenset[str]:
        return frozenset(sounds_of_names(self._said))


def _names_and_others(asked: Asked) -> tuple[list[AskedWord], list[AskedWord]]:
    """Return the words of a question that name something, numbers and speakers included, and the others."""

    def names(word: AskedWord) -> bool:
        return word.is_speaker or word.is_name or any(character.isdigit() for character in word.text)

    begins = {word for word in words(asked.parsed.text)[:2] if is_command(word)}  # "List all …", "Please list …"
    others = [word for word in asked.words if not names(word) and word.text not in begins]
    return [word for word in asked.words if names(word)], others


def _share(of: Sequence[AskedWord], counts: Callable[[AskedWord], bool]) -> float:
    """Return the share of some words, by weight, that counts; 0 of none."""
    return sum(word.weight for word in of if counts(word)) / (sum(word.weight for word in of) or 1)


def _speaker_lead(asked: Asked, hits: Sequence[Hit], others: Sequence[AskedWord]) -> float | None:
    """Return how much better the turns about the named speaker fit than those about others: each the mean of the best
    three; None where no speaker is named.
    """
    if asked.speaker_key is None:
        return None
    fits: dict[int, list[float]] = {1: [], -1: [], 0: []}
    ranked = [(hit.match.standalone, hit) for hit in hits if hit.match is not None]
    for fit, hit in sorted(ranked, key=itemgetter(0), reverse=True):
        fits[_side(hit, others)].append(fit)
    about, beside = (sum(its[:BEST]) / (len(its[:BEST]) or 1) for its in (fits[1], fits[-1]))
    return about - beside


def _side(hit: Hit, others: Sequence[AskedWord]) -> int:
    """Return 1 for a turn about the speaker asked about, -1 for one about somebody else, else 0."""
    if speaker_key_of(hit.content, hit.speaker, in_conversation=hit.statement.is_turn) is None:
        return 0

    def shared(sentence: str) -> int:
        return sum(map(_Text(sentence).has, others))

    is_of_named = hit.match is not None and "voice" in hit.match.why
    return 1 if is_of_named != is_about_listener(hit.content, shared) else -1
