"""Which texts greet, thank or agree, and ask for nothing."""

from __future__ import annotations

from typing import Final

from pgengram.text.lexical.language import ENGLISH, function_words, language_of
from pgengram.text.lexical.words import words

# What such a text begins with, by language; several words for each of hello, goodbye, thanks, please, yes, no, fine.
_OPENINGS: Final = """
hello hi hey hiya howdy greetings good goodbye bye cheers thanks thank thx ty please welcome sorry yes yeah yep yup no
nope ok okay k sure fine alright right great perfect nice cool awesome lovely wonderful excellent brilliant super
understood noted agreed exactly correct done lol haha wow never
hallo servus moin grüezi tschüss guten gute guter schönen danke dankeschön bitte ja nein doch gut prima toll genau klar
verstanden einverstanden passt perfekt wunderbar stimmt
bonjour bonsoir salut coucou merci adieu oui non parfait super génial entendu compris bien voilà
hola buenos buenas adiós gracias muchas sí vale perfecto genial claro entendido estupendo bueno
ciao buongiorno buonasera salve grazie prego arrivederci sì va perfetto bene capito certo ottimo
olá oi bom boa tchau obrigado obrigada sim não perfeito ótimo certo entendi beleza
cześć hej witaj dzień dobry dobranoc dziękuję dzięki proszę tak nie dobrze świetnie super jasne rozumiem
hoi dag goedemorgen goedenavond bedankt dank ja nee prima goed duidelijk
ahoj čau děkuji díky prosím ano ne dobře výborně jasně dobrý
hei hej hejsan moi god tack tak takk kiitos ja nej nei joo kyllä bra fint hyvä selvä
salut bună mulțumesc mersi da nu bine perfect
szia helló köszönöm köszi igen nem jó rendben
merhaba selam günaydın teşekkürler teşekkür sağol evet hayır tamam peki harika güle
привет здравствуй здравствуйте спасибо пожалуйста пока да нет хорошо отлично понятно ладно доброе добрый
привіт вітаю дякую так ні добре чудово
γεια καλημέρα καλησπέρα ευχαριστώ ναι όχι εντάξει τέλεια
xin chào cảm vâng không được tốt
مرحبا السلام أهلا شكرا نعم لا حسنا تمام ممتاز
नमस्ते धन्यवाद शुक्रिया हाँ नहीं ठीक अच्छा
你好 您好 嗨 早上好 晚上好 谢谢 謝謝 再见 是 好 好的 不 没问题
こんにちは おはよう おはようございます こんばんは ありがとう ありがとうございます はい いいえ さようなら 了解 了解です
안녕 안녕하세요 감사합니다 고마워 고맙습니다 네 예 아니요 알겠습니다
สวัสดี ขอบคุณ ใช่ ครับ ค่ะ
"""
# What else stands in one, beside the common words of its language.
_COMPANIONS: Final = """
morning afternoon evening night day weekend luck job work works everyone everybody folks guys friend again much lot lots
so bunch really very indeed mind forget it worries problem later soon then there see you help helped looks sounds
morgen abend tag nacht mittag zusammen allerseits schön sehr vielen dank dir ihnen passt klappt hilft bis bald später
gerne so matin soir soirée journée nuit tous beaucoup infiniment c'est ça marche parfait bientôt aide
días tardes noches todos mucho muchas mil así luego pronto ayuda
mattina sera notte giornata tutti mille tanto così presto dopo
dia tarde noite todos muito assim logo
bardzo wieczór rano wszystkim wszystko porządku razie działa pomoc
goedemiddag avond nacht allemaal wel zeer fijn
den večer ráno všem moc
morgon kväll dag alla så mycket mange tusind
seara dimineața ziua mult tuturor
reggelt napot estét szépen mindenkinek
günler akşamlar geceler herkese ederim çok
утро день вечер ночи всем большое огромное
أهلين جزيلا لك صباح مساء الخير
ơn bạn chào nhiều
"""
_MOST_WORDS: Final = 12
_OPEN: Final = frozenset(_OPENINGS.split())
_ALLOWED: Final = _OPEN | frozenset(_COMPANIONS.split())
_ASKING: Final = frozenset("?？؟")


def is_small_talk(text: str) -> bool:
    """Whether a text begins like a greeting, thanks or agreement, asks nothing, and has no word of another subject."""
    said = [word.lower().replace("’", "'") for word in words(text)]
    if not said or len(said) > _MOST_WORDS or said[0] not in _OPEN or not _ASKING.isdisjoint(text):
        return False
    common = function_words(ENGLISH) | function_words(language_of(text).code)
    return all(word in _ALLOWED or word in common for word in said)
