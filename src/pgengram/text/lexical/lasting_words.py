"""Whether somebody says something lasting: a decision, a correction or a preference, by plain words."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pgengram.text.lexical.change_words import announces_change
from pgengram.text.sentences import QUESTION_MARKS

# Said of what is to hold from now on: decided, preferred, never and always, to be remembered.
_LASTING: Final = {
    "English": "decide, decided, we agreed, agreed to, decision, i prefer, we prefer, prefers, rather than, always, "
    "never, "
    "from now on, remember, don't forget, keep in mind, note that, must not, make sure, i like, i don't like, i hate, "
    "please use, don't use, we use, we'll use, we will use, my name is, i am allergic, deadline",
    "German": "entschieden, beschlossen, entscheidung, ich bevorzuge, wir bevorzugen, lieber, immer, niemals, nie, "
    "merk dir, "
    "merke dir, vergiss nicht, denk daran, ich mag, ich hasse, bitte verwende, wir verwenden, wir nehmen, frist",
    "French": "décidé, décision, je préfère, nous préférons, toujours, jamais, retiens, souviens-toi, n'oublie pas, "
    "j'aime, je déteste, on utilise, nous utilisons, échéance",
    "Spanish": "decidido, decidimos, decisión, prefiero, preferimos, siempre, nunca, recuerda, no olvides, me gusta, "
    "odio, "
    "usamos, usaremos, plazo",
    "Portuguese": "decidido, decidimos, decisão, prefiro, preferimos, sempre, nunca, lembre, não esqueça, eu gosto, "
    "usamos, prazo",
    "Italian": "deciso, decisione, preferisco, preferiamo, sempre, mai, ricorda, non dimenticare, mi piace, usiamo, "
    "scadenza",
    "Dutch": "besloten, beslissing, liever, voorkeur, altijd, nooit, onthoud, vergeet niet, we gebruiken",
    "Polish": "zdecydowaliśmy, zdecydowałem, zdecydowałam, decyzja, wolę, wolimy, zawsze, nigdy, zapamiętaj, "
    "pamiętaj, używamy",
    "Romanian": "am decis, decizie, prefer, preferăm, întotdeauna, mereu, niciodată, ține minte, folosim",
    "Swedish, Danish, Norwegian": "beslutat, besluttet, bestämt, föredrar, foretrækker, foretrekker, alltid, altid, "
    "aldrig, "
    "aldri, kom ihåg, husk",
    "Turkish": "karar verdik, karar verdim, tercih ederim, tercih ediyorum, her zaman, asla, unutma, hatırla",
    "Russian": "решили, решил, решила, решение, предпочитаю, предпочитаем, всегда, никогда, запомни, не забудь, "
    "используем",
    "Ukrainian": "вирішили, вирішив, вирішила, рішення, віддаю перевагу, завжди, ніколи, запам'ятай, не забудь, "
    "використовуємо",
    "Greek": "αποφασίσαμε, αποφάσισα, προτιμώ, προτιμάμε, πάντα, ποτέ, θυμήσου, μην ξεχάσεις",
    "Arabic": "قررنا, قررت, أفضل, نفضل, دائما, أبدا, تذكر, لا تنس",
    "Hindi": "तय किया, फैसला, पसंद, हमेशा, कभी नहीं, याद रख",
    "Indonesian": "memutuskan, lebih suka, selalu, jangan pernah, ingat, jangan lupa",
    "Vietnamese": "quyết định, thích hơn, luôn luôn, không bao giờ, hãy nhớ, đừng quên",
}
# Written without spaces.
_UNSPACED: Final = (
    "决定|決定|更喜欢|更喜歡|总是|總是|从不|從不|记住|記住|别忘|別忘|決めた|決めました|好き|必ず|いつも|決して|覚えて|忘れないで|"
    "결정|선호|항상|절대|기억해|잊지 마|ตัดสินใจ|ชอบ|เสมอ|ไม่เคย|อย่าลืม"
)
_PHRASES: Final = sorted({word.strip() for one in _LASTING.values() for word in one.split(",")}, key=len, reverse=True)
_SAYS: Final = re.compile(
    rf"\b(?:{'|'.join(re.escape(one).replace(chr(92) + ' ', chr(92) + 's+') for one in _PHRASES)})\b|{_UNSPACED}"
)


def lasting(text: str) -> int:
    """Return how likely a text says something lasting: the number of signs in it, less where it asks; 0 for none.

    A list of words, no grammar: it puts texts in an order, and makes nothing of them.
    """
    signs = {
        found.group() for found in _SAYS.finditer(unicodedata.normalize("NFKC", text).casefold().replace("’", "'"))
    }
    return max(0, 2 * len(signs) + 2 * announces_change(text) - text.rstrip().endswith(QUESTION_MARKS))
