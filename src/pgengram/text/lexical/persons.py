"""Whether a text speaks of the one who says it or of the one who is spoken to, told by its pronouns."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

# Of each language the words of the first person, then those of the second; polite forms that mean others, too, are left
# out. Endings of verbs say it in languages that leave the pronoun away; there the words of possession remain.
PERSONS: Final = {
    "en": ("i my me mine myself we our us ours", "you your yours yourself u ur"),
    "de": (
        "ich mein meine meinen meinem meiner mich mir wir uns unser unsere unserem unseren",
        "du dein deine deinen deinem deiner dich dir euch euer eure",
    ),
    "es": ("yo me mi mis mío mía conmigo nos nuestro nuestra nuestros", "tú te ti tu tus tuyo tuya contigo usted vos"),
    "fr": ("je j me m mon ma mes moi nous notre nos", "tu te t ton ta tes toi vous votre vos"),
    "it": ("io mi mio mia miei mie me noi ci nostro nostra", "tu ti tuo tua tuoi tue te voi vi vostro"),
    "pt": ("eu me meu minha meus minhas mim nós nosso nossa", "você vocês te teu tua seu sua ti"),
    "nl": ("ik mijn mij me wij we ons onze", "jij je jou jouw jullie u uw"),
    "sv": ("jag min mitt mina mig vi vår våra oss", "du din ditt dina dig ni er"),
    "da": ("jeg min mit mine mig vi vores os", "du din dit dine dig jer"),
    "pl": ("ja mój moja moje mnie mi nas nam nasz", "ty twój twoja twoje ciebie ci cię wam wasz"),
    "ru": ("я мой моя мои моё мне меня мы нас нам наш наша", "ты твой твоя твои твоё тебе тебя вы вас вам ваш ваша"),
    "uk": ("я мій моя мої мені мене ми нас нам наш", "ти твій твоя твої тобі тебе ви вас вам ваш"),
    "tr": ("ben benim bana beni biz bizim bize", "sen senin sana seni siz sizin size"),
    "el": ("εγώ μου με εμένα μας εμείς", "εσύ σου σε εσένα σας εσείς"),
    "ro": ("eu mea meu mele mei mie mă noi nostru noastră", "tu tău ta tale tăi ție te voi vostru"),
    "vi": ("tôi mình tớ", "bạn cậu"),
    "id": ("saya aku ku kami kita", "kamu anda kau mu kalian"),
    "ar": ("أنا نحن لي لنا", "أنت أنتم لك لكم"),
    "hi": ("मैं मेरा मेरी मेरे मुझे हम हमारा हमारी हमें", "तुम तुम्हारा तुम्हारी तुम्हें आप आपका आपकी आपको"),
    "th": ("ผม ฉัน ดิฉัน เรา", "คุณ เธอ"),
    "zh": ("我 咱", "你 您"),
    "ja": ("私 僕 俺 わたし ぼく うち", "あなた 君 きみ"),
    "ko": ("나는 내가 나의 저는 제가 우리", "너는 네가 당신 너의"),
}
WITHIN_WORDS: Final = frozenset(("zh", "ja", "th"))  # written without spaces


def persons(text: str, language: str) -> tuple[int, int]:
    """Return how many words mean who says a text, and how many who is spoken to; 0 of an unknown language."""
    first, second = _patterns(language)
    return len(first.findall(text)), len(second.findall(text))


@cache
def _patterns(language: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    first, second = PERSONS.get(language, ("", ""))
    return _pattern(first, language), _pattern(second, language)


def _pattern(words: str, language: str) -> re.Pattern[str]:
    if not words:
        return re.compile(r"(?!)")
    found = "|".join(map(re.escape, words.split()))
    return re.compile(found if language in WITHIN_WORDS else rf"\b(?:{found})\b", re.IGNORECASE)
