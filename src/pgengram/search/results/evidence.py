"""How sure it is that a question has an answer among its hits, and each hit's chance of being one.

The nearest memory scores well also where none answers, as it is about the same person or thing. So the names in a
question are kept apart from its other words, and these are looked for in the hits that are about all these names. All
numbers and texts it takes for that are those that the search has brought anyway.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple, get_args

from pgengram.fields import Evidence
from pgengram.search.asked import Asked, AskedWord
from pgengram.search.results.hits import Hit, Match
from pgengram.search.results.subject import is_about_listener
from pgengram.text.lexical.sounds import sounds_of_names
from pgengram.text.lexical.stems import FIRST_LETTERS, beginning
from pgengram.text.lexical.vocabulary import is_command
from pgengram.text.lexical.words import words
from pgengram.text.similarity.differences import new_names
from pgengram.text.turn_features import speaker_key_of

JUDGED: Final = 10  # best hits that are looked at, also where fewer are asked for
BEGINNING: Final = 2  # words of a question, which may command
MOST_STRANGERS: Final = 2
SPEAKERS_APART: Final = (-0.4, 0.4)  # more says no more
TURNS_READ: Final = 30  # where a speaker is named, as a bonus lifts the turns of one above those of others
TURNS_JUDGED: Final = 20  # of them, without the bonus
BEST: Final = 3  # turns about each, as one alone may fit by chance
UNRELATED: Final = 0.08  # cosine of texts that have nothing in common, with the built-in model
FADES: Final = 6  # in a crowd, a hit that scores half as well as the best one counts as a twentieth
SMALLEST: Final = 1e-9  # best score
MEMORIES_TO_TELL: Final = 20  # below this their mean cosine says less than that of any two texts


class Signals(NamedTuple):
    """What tells whether a question has an answer.

    lead: how much nearer the nearest memory is than the nearest hundred are, in cosine; covered: the largest share of
        the question's other words, by weight, in a hit that is about all it names, 1 where it only names; unheard: the
        share of them that no memory has; strangers: how many of its names no memory has; speaker: how much better the
        turns about the one speaker it names fit than those about others; none where it names no speaker.
    """

    lead: float
    covered: float
    unheard: float
    strangers: float
    speaker: float | None


@dataclass(frozen=True, slots=True)
class Formula:
    """Three logistic formulas.

    The logarithm of the odds that the memories tell of what is asked is constant + Σ weight · signal; of the odds that
    they tell it of the speaker who is named, named + speaker · (that signal). There is an answer where both are so (a
    noisy AND: Henrion 1987), the second being certain where no speaker is named. The logarithm of the odds that a hit
    is one is hit + sure · (that of an answer) − drop · (how far its score is below the best) − crowd · (how many score
    as well).
    """

    constant: float
    lead: float
    covered: float
    unheard: float
    strangers: float
    named: float
    speaker: float
    hit: float
    sure: float
    drop: float
    crowd: float


# Fitted on three conversations of LoCoMo and half of our corpus and of the language probe, each on answers of its own way
# to search; benchmarks/retrieval.py measures them.
BY_BOTH: Final = Formula(
    -1.88, lead=10.95, covered=3.03, unheard=-1.94, strangers=-1.95, named=1.65, speaker=17.16,
    hit=0.56, sure=0.38, drop=11.18, crowd=1.59,
)  # fmt: skip
BY_WORDS: Final = Formula(
    0.7, lead=0.0, covered=3.14, unheard=-1.34, strangers=-2.2, named=1.14, speaker=27.03,
    hit=-0.23, sure=0.54, drop=9.97, crowd=1.32,
)  # fmt: skip
BY_MEANING: Final = Formula(
    -1.5, lead=10.47, covered=2.89, unheard=-2.15, strangers=-2.12, named=1.95, speaker=21.96,
    hit=0.07, sure=0.35, drop=8.81, crowd=1.56,
)  # fmt: skip
LEVELS: Final = get_args(Evidence)  # the surest first
STRONG: Final = 0.6  # probability from which evidence is strong
WEAK: Final = 0.2  # probability from which it is weak
NO_HIT: Final = -6.0  # log odds of an answer where nothing was found
# Share of the best hit's probability from which a hit is worth its room in a recalled text, with its surroundings.
RECALLED: Final = 0.012
# Probability of an answer below which only the best hit is. Chosen on the own corpus of benchmarks/retrieval.py and 40 more
# unrelated prompts in twelve languages: 50 of 54 get one memory at most, and 5 of 173 answers are lost.
RECALLS_MORE: Final = 0.45
UNLIKELY: Final = 0.05  # probability below which a hit is marked


class Field(NamedTuple):
    """What the hits of a question stand among.

    best_fit: of all candidates; nearest: the cosine of the nearest memory, 0 without one; usual: the mean cosine of the
        nearest hundred; counted: how many these are.
    """

    best_fit: float = 0.0
    nearest: float = 0.0
    usual: float = 0.0
    counted: int = 0


def judge(asked: Asked, hits: Sequence[Hit], field: Field) -> tuple[float | None, Evidence | None]:
    """Give each hit its chance of answering, and return the probability that one of them does and what that is called;
    None where that cannot be told.

    A hit behind the first is marked as `unlikely` if it has little chance or there is no evidence. `recalled` says
    whether it is worth its room in a recalled text. In a long chat with an assistant everything is about what is asked,
    so nothing tells whether it was said, and no claim is made.

    Args:
        asked: the question.
        hits: of a ranking, best first, with at least the best `JUDGED` there are.
        field: what they stand among.
    """
    formula = formula_for(asked, hits)
    sure = log_odds(asked, hits, field, formula)
    answered = probability(sure) if hits else 0.0
    evidence = level(answered)
    matches = [hit.match for hit in hits if hit.match is not None]
    alike = crowd(matches, field.best_fit)
    for match in matches:
        odds = formula.hit + formula.sure * sure - formula.drop * below(match, field.best_fit) - formula.crowd * alike
        match.score = probability(odds)
        match.unlikely = match is not matches[0] and (evidence == "none" or match.score < UNLIKELY)
    best = max((match.score for match in matches), default=0.0)
    least = best * (RECALLED if answered >= RECALLS_MORE else 1)
    for match in matches:
        match.recalled = evidence != "none" and match.score >= least
    looked_at = matches[:JUDGED]
    if 2 * sum(match.is_of_long_talk for match in looked_at) > len(looked_at) and not matches[0].is_named:
        for match in matches:
            match.unlikely = False
        return None, None
    return answered, evidence


def formula_for(asked: Asked, hits: Sequence[Hit]) -> Formula:
    """Return the formula of the way in which hits were found."""
    if asked.parsed.question.mode == "semantic":
        return BY_MEANING
    return BY_BOTH if any(hit.match and hit.match.similarity is not None for hit in hits) else BY_WORDS


def log_odds(asked: Asked, hits: Sequence[Hit], field: Field, formula: Formula) -> float:
    """Return the logarithm of the odds that one of the hits answers."""
    if not hits:
        return NO_HIT
    if hits[0].match is not None and hits[0].match.is_named:
        return -NO_HIT
    return combined(formula, signals(asked, hits, field))


def combined(formula: Formula, found: Signals) -> float:
    """Return the logarithm of the odds that there is an answer, by its signals."""
    topic = (
        formula.constant
        + formula.lead * found.lead
        + formula.covered * found.covered
        + formula.unheard * found.unheard
        + formula.strangers * found.strangers
    )
    if found.speaker is None:
        return topic
    of_speaker = formula.named + formula.speaker * found.speaker
    return -math.log(math.exp(-topic) + math.exp(-of_speaker) + math.exp(-topic - of_speaker))


def below(match: Match, best: float) -> float:
    """Return how far a hit fits worse than the best one, as a share of that, from 0 to 1.

    What stands before an older memory that it succeeds fits as well as that.
    """
    best, own = max(best, SMALLEST), match.stands_for or match.fit
    return min(max((best - own) / best, 0.0), 1.0)


def crowd(matches: Sequence[Match], best: float) -> float:
    """Return the logarithm of how many hits fit as well as the best one, each less the further it is below."""
    return math.log(sum(math.exp(-FADES * below(match, best)) for match in matches[:JUDGED]) or 1)


def probability(log_odds: float) -> float:
    """Return 1 / (1 + e^−x)."""
    return 1 / (1 + math.exp(-max(-700.0, log_odds)))


def level(sure: float) -> Evidence:
    """Return what a probability is called."""
    return "strong" if sure >= STRONG else "weak" if sure >= WEAK else "none"


def signals(asked: Asked, hits: Sequence[Hit], field: Field) -> Signals:
    """Return what the first hits and the question tell."""
    names, others = _names_and_others(asked)
    about = [text for text in map(_Text.of, hits[:JUDGED]) if all(text.has(word) for word in names)]
    return Signals(
        lead=_lead(field),
        covered=max((_share(others, text.has) if others else float(bool(names)) for text in about), default=0.0),
        unheard=_share(others, lambda word: not word.known),
        strangers=min(sum(not word.known for word in names), MOST_STRANGERS),
        speaker=_speaker_lead(asked, hits, others),
    )


def asks_for_older(asked: Asked) -> Callable[[Hit, Hit], bool]:
    """Return whether a question is after an older memory rather than a newer one that seems to succeed it.

    So it is where it names the time of the older one, a name that this one has and the newer one has others for, or
    something with a number ("invoice 1001") of which the newer one tells another.
    """
    said = words(asked.parsed.text)
    nouns = {word.text for word in asked.words if not word.is_name}
    names = {_POSSESSIVE.sub("", word) for word in said[1:] if word[0].isupper() and word not in nouns} - {"I"}
    numbered = set(_numbered(asked.parsed.text))

    def is_of_another(newer: str, older: str) -> bool:
        its, held = ({_POSSESSIVE.sub("", word) for word in words(text)} for text in (newer, older))
        if names & held - its and new_names(newer, older):
            return True
        of_newer = dict(_numbered(newer))
        return any(of_newer.get(what, number) != number for what, number in numbered.intersection(_numbered(older)))

    def older_is_meant(newer: Hit, older: Hit) -> bool:
        outside = _is_of_period(older) and not _is_of_period(newer)
        return outside or is_of_another(newer.content, older.content)

    return older_is_meant


def _is_of_period(hit: Hit) -> bool:
    return hit.match is not None and "period" in hit.match.why


def _numbered(text: str) -> list[tuple[str, str]]:
    """Return each number with the word before it."""
    said = [word.casefold() for word in words(text)]
    return [(before, word) for before, word in pairwise(said) if word[0].isdigit() and before.isalpha()]


class _Text:
    """The words of a memory, to look for those of a question in."""

    def __init__(self, text: str) -> None:
        self._said = text

    @classmethod
    def of(cls, hit: Hit) -> _Text:
        return cls(" ".join((hit.content, hit.speaker or "", *hit.tags)))

    def has(self, word: AskedWord) -> bool:
        """Whether a form of the word or of what it is in English is among them, or a name that sounds like it."""
        written = any(map(self._has_form, (_POSSESSIVE.sub("", word.text.casefold()), *word.english)))
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


_POSSESSIVE: Final = re.compile(r"['’]s$")


def _names_and_others(asked: Asked) -> tuple[list[AskedWord], list[AskedWord]]:
    """Return the words of a question that name something, a number or a speaker's name among them, and its other
    words.
    """

    def names(word: AskedWord) -> bool:
        return word.is_speaker or word.is_name or any(character.isdigit() for character in word.text)

    begins = {word for word in words(asked.parsed.text)[:BEGINNING] if is_command(word)}
    others = [word for word in asked.words if not names(word) and word.text not in begins]
    return [word for word in asked.words if names(word)], others


def _share(of: Sequence[AskedWord], counts: Callable[[AskedWord], bool]) -> float:
    """Return the share of some words, by weight, that counts; 0 of none."""
    return sum(word.weight for word in of if counts(word)) / (sum(word.weight for word in of) or 1)


def _lead(field: Field) -> float:
    """Return how much nearer the nearest memory is than the nearest hundred, whose mean is doubted in a small store."""
    if not field.counted:
        return 0.0
    together = field.counted * field.usual + MEMORIES_TO_TELL * UNRELATED
    return field.nearest - together / (field.counted + MEMORIES_TO_TELL)


def _speaker_lead(asked: Asked, hits: Sequence[Hit], others: Sequence[AskedWord]) -> float | None:
    """Return how much better the turns about the named speaker fit than those about others: each the mean of the best
    three; None where no speaker is named.
    """
    if asked.speaker_key is None:
        return None
    fits: dict[int, list[float]] = {1: [], -1: [], 0: []}
    ranked = [(hit.match.standalone, hit) for hit in hits if hit.match is not None]
    for fit, hit in sorted(ranked, key=itemgetter(0), reverse=True)[:TURNS_JUDGED]:
        fits[_side(hit, others)].append(fit)
    about, beside = (sum(its[:BEST]) / (len(its[:BEST]) or 1) for its in (fits[1], fits[-1]))
    low, high = SPEAKERS_APART
    return min(max(about - beside, low), high)


def _side(hit: Hit, others: Sequence[AskedWord]) -> int:
    """Return 1 for a turn about the speaker whom a question names, -1 for one about somebody else; 0 for what nobody
    says.
    """
    if speaker_key_of(hit.content, hit.speaker, in_conversation=hit.statement.is_turn) is None:
        return 0

    def shared(sentence: str) -> int:
        return sum(map(_Text(sentence).has, others))

    is_of_named = hit.match is not None and "voice" in hit.match.why
    return 1 if is_of_named != is_about_listener(hit.content, shared) else -1
