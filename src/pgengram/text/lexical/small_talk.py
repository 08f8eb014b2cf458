"""Which texts greet, thank or agree, and ask for nothing."""

from __future__ import annotations

import re
from typing import Final

from pgengram.text.lexical.language import ENGLISH, function_words, language_of
from pgengram.text.lexical.words import words
from pgengram.text.sentences import QUESTION_MARKS

# What such a text begins with, by language; several words for each of hello, goodbye, thanks, please, yes, no, fine.
_OPENINGS: Final = """
hello hi hey hiya howdy greetings good goodbye bye cheers thanks thank thx ty please welcome sorry yes yeah yep yup no
nope ok okay k sure fine alright right great perfect nice cool awesome lovely wonderful excellent brilliant super
understood noted agreed exactly correct done lol haha wow never
hallo servus moin grüezi vielen bis tschüss ciao guten gute guter schönen schönes willkommen danke
dankeschön bitte ja nein doch gut prima toll genau klar verstanden einverstanden passt perfekt wunderbar stimmt
bonjour bonsoir d'accord c'est à bonne bon bienvenue salut coucou merci adieu oui non parfait super génial entendu compris
bien voilà
hola buenos buenas buen adiós chao gracias muchas sí vale perfecto genial claro entendido estupendo bueno hasta feliz
ciao buongiorno buonasera buonanotte buona buon salve grazie prego arrivederci sì va perfetto bene capito certo ottimo
olá oi bom boa tchau até obrigado obrigada sim não perfeito ótimo certo entendi beleza
cześć hej witaj dzień dobry dobranoc miłego do dziękuję dzięki proszę tak nie dobrze świetnie super jasne rozumiem
hoi dag goedemorgen goedenavond goedenacht welterusten tot bedankt dank ja nee prima goed duidelijk
ahoj čau děkuji díky prosím ano ne dobře výborně jasně dobrý
hei hej hejsan moi god ha tack tak takk kiitos ja nej nei joo kyllä bra fint hyvä selvä
salut bună mulțumesc mersi da nu bine perfect
szia helló köszönöm köszi igen nem jó rendben
merhaba selam günaydın iyi teşekkürler teşekkür sağol evet hayır tamam peki harika güle
привет приветствую здравствуй здравствуйте спасибо пожалуйста пока да нет хорошо отлично понятно ладно доброе добрый доброй спокойной до с
привіт вітаю доброго добрий до дякую так ні добре чудово
γεια καλημέρα καλησπέρα καληνύχτα ευχαριστώ ναι όχι εντάξει τέλεια
xin chào cảm vâng không được tốt
مرحبا مرحباً السلام أهلا أهلاً صباح مساء مع شكرا نعم لا حسنا تمام ممتاز
नमस्ते धन्यवाद शुक्रिया हाँ नहीं ठीक अच्छा
你好 您好 嗨 早 早安 早上好 下午好 晚上好 晚安 谢谢 謝謝 多谢 谢谢你 非常感谢 再见 拜拜 明天见 辛苦了 收到 明白了 知道了 哈哈 是 好 好的 不 没问题
こんにちは おはよう おはようございます こんばんは ありがとう ありがとうございます どうも またね また明日 おやすみ おやすみなさい お疲れ様です お疲れさまです よろしくお願いします はい いいえ さようなら 了解 了解です
안녕 안녕하세요 안녕히 반갑습니다 잘자 잘자요 감사합니다 고마워 고맙습니다 네 예 아니요 알겠습니다
สวัสดี สวัสดีครับ สวัสดีค่ะ ขอบคุณ ขอบคุณครับ ขอบคุณค่ะ ใช่ ครับ ค่ะ
"""
# What else stands in one, beside the common words of its language.
_COMPANIONS: Final = """
morning afternoon evening night day today tonight tomorrow weekend luck job work works everyone everybody folks guys friend again a much lot lots helped useful welcome
so bunch really very indeed mind forget it worries problem later soon then there see you help helped looks sounds
morgen abend tag nacht mittag feierabend wochenende zusammen allerseits schön sehr dank geholfen dir ihnen passt klappt hilft bis bald später
gerne so matin soir soirée journée nuit tous demain prochaine plus tard beaucoup infiniment c'est ça marche parfait bientôt aide
días día tardes tarde noches noche todos luego mañana pronto vista fin semana mucho muchas mil así luego pronto ayuda
mattina sera notte giornata tutti mille tanto così presto dopo
dia tarde noite todos muito assim logo amanhã breve
bardzo wieczór wieczoru dnia rano widzenia jutra wszystkim wszystko porządku razie działa pomoc
goedemiddag morgen ziens straks avond nacht allemaal wel zeer fijn
den večer ráno všem moc
morgon kväll natt dag bra alla så mycket mange tusind
noapte seara dimineața ziua mult tuturor
reggelt napot estét szépen mindenkinek
günler sabahlar akşamlar geceler herkese ederim çok
утро утром день вечер ночи добрым встречи свидания завтра скорого всем большое огромное
أهلين جزيلا جزيلاً لك النور الخير السلامة عليكم
ơn bạn chào nhiều
가세요 계세요
"""
# What asks for no memory, such as after somebody's health: words as `words` gives them, in lower case.
_POLITE_QUESTIONS: Final = """
how are you / how are you doing / how are you today / how's it going / how is it going / how do you do / how's everything /
how have you been / what's up / whats up / what's new / you good / you ok / you're welcome
are you there / nice to meet you / pleased to meet you / can you help me / happy birthday
grüß gott / freut mich / kannst du mir helfen
peux tu m'aider / bon appétit / de rien / au revoir / s'il te plaît / s'il vous plaît / désolé
de nada / lo siento / por favor / di niente / buon appetito / w porządku
хорошего дня / извините / शुभ रात्रि / सुप्रभात / إلى اللقاء / عفوا / عفواً / حسناً
不客气 / 祝你生日快乐 / すみません / どういたしまして / どうもありがとうございました / お願いします
wie geht's / wie gehts / wie geht es dir / wie geht es ihnen / wie geht es euch / wie geht's dir / wie geht's ihnen /
wie läuft's / was geht ab / alles gut / alles klar / na
ça va / comment ça va / comment vas tu / comment allez vous / tu vas bien / vous allez bien / quoi de neuf
qué tal / cómo estás / cómo está / cómo están / cómo te va / cómo va / todo bien / qué hay / qué pasa
come stai / come sta / come va / tutto bene / che si dice
tudo bem / tudo bom / como vai / como vais / como está / como estás / como você está / e aí
co słychać / jak się masz / jak leci / co u ciebie / wszystko w porządku
hoe gaat het / hoe gaat het met je / hoe is het / alles goed
jak se máš / jak se máte / jak se vede
hur mår du / hur är läget / hvordan går det / hvordan har du det / mitä kuuluu
ce mai faci / ce faci / hogy vagy / hogy van / mi újság
nasılsın / nasılsınız / naber / ne haber / ne var ne yok
как дела / как ты / как вы / как жизнь / как поживаешь / что нового / як справи / як ти
τι κάνεις / τι κάνετε / πώς είσαι
bạn khỏe không / khỏe không
كيف حالك / كيف الحال / كيفك / ما أخبارك
कैसे हो / आप कैसे हैं / क्या हाल है / कैसी हो
你好吗 / 你怎么样 / 最近好吗 / 最近怎么样 / 吃了吗 / 在吗 / 還好嗎
元気ですか / お元気ですか / 元気 / 調子はどうですか
잘 지내 / 잘 지내세요 / 어떻게 지내세요 / 별일 없어요
สบายดีไหม / เป็นยังไงบ้าง
"""
_MOST_WORDS: Final = 12
_COMMONEST: Final = 80  # words of a language that say nothing by themselves; those behind them name things
_OPEN: Final = frozenset(_OPENINGS.split())
_ALLOWED: Final = _OPEN | frozenset(_COMPANIONS.split())
_PHRASES: Final = sorted(re.split(r"\s*[/\n]\s*", _POLITE_QUESTIONS.strip(" /\n")), key=len, reverse=True)
_POLITE: Final = re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, filter(None, _PHRASES)))})(?!\S)")
_ASKING: Final = re.compile(f"[{''.join(QUESTION_MARKS)}]+")


def is_small_talk(text: str) -> bool:
    """Whether a text begins like a greeting, thanks or agreement, or asks how somebody is, asks nothing else, and has no
    word of another subject.
    """
    said = [word.lower().replace("’", "'").replace("i\u0307", "i") for word in words(text)]
    if not said or len(said) > _MOST_WORDS:
        return False
    left, polite = _POLITE.subn(" ", " ".join(said))
    if len(_ASKING.findall(text)) > polite or not (polite or said[0] in _OPEN):
        return False
    common = function_words(ENGLISH, _COMMONEST) | function_words(language_of(text).code, _COMMONEST)
    return all(word in _ALLOWED or word in common for word in left.split())
