"""Whether a text announces a change: "now", "instead", "no longer", "since March"."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Said of what is different from before. A word that is as common without a change ("new", "again") is no part of it,
# unless the words beside it tell.
_CHANGES: Final = {
    "English": "now, nowadays, these days, instead, no longer, not anymore, any more, anymore, from now on, changed, "
    "change of plan, switched, switches, moved to, moved from, moved into, was moved, were moved, has moved, have "
    "moved, "
    "moved the, replaced, replaces, migrated, postponed, put off, rescheduled, brought forward, called off, cancelled, "
    "canceled, rewrote, rewritten, renamed, gave up, given up, quit, stopped, resigned, retired, sold, took over, "
    "taken over, "
    "has taken up, has a new, have a new, used to, formerly, previously, turned out, correction, actually, after all",
    "German": "jetzt, inzwischen, mittlerweile, neuerdings, nunmehr, statt, stattdessen, anstatt, nicht mehr, kein "
    "mehr, "
    "doch nicht, ab sofort, von nun an, geändert, gewechselt, wechselt zu, umgezogen, verschoben, verlegt, vorverlegt, "
    "ersetzt, abgelöst, abgesagt, umgestellt, umbenannt, aufgehört, gekündigt, verkauft, im ruhestand, früher, "
    "bisher, korrektur",
    "French": "désormais, maintenant, dorénavant, à présent, au lieu, plutôt que, n'est plus, ne sont plus, n'a plus, "
    "ne va plus, ne veut plus, ne fait plus, changé, déménagé, reporté, reportée, repoussé, repoussée, décalé, "
    "décalée, "
    "déplacé, déplacée, remplacé, remplacée, remplace, annulé, annulée, renommé, arrêté de, quitté, vendu, auparavant, "
    "finalement, correction",
    "Spanish": "ahora, actualmente, hoy en día, en lugar de, en vez de, ya no, de ahora en adelante, a partir de "
    "ahora, cambió, "
    "cambiado, se mudó, mudado, trasladó, trasladado, aplazó, aplazado, pospuso, pospuesto, reemplazó, reemplazado, "
    "sustituyó, sustituido, canceló, cancelado, renombrado, dejó de, vendió, antes era, al final, corrección",
    "Portuguese": "agora, atualmente, em vez de, já não, não mais, mudou, mudou-se, adiado, adiou, substituiu, "
    "substituído, "
    "cancelado, cancelou, deixou de, vendeu, a partir de agora, afinal",
    "Italian": "ora, adesso, ormai, attualmente, invece, non più, d'ora in poi, cambiato, trasferito, trasferita, "
    "spostato, spostata, rinviato, rinviata, sostituito, sostituita, annullato, annullata, smesso, venduto",
    "Dutch": "nu, tegenwoordig, in plaats van, niet meer, geen meer, voortaan, vanaf nu, veranderd, gewijzigd, "
    "verhuisd, "
    "verplaatst, uitgesteld, vervangen, afgezegd, gestopt, verkocht",
    "Polish": "teraz, obecnie, zamiast, już nie, od teraz, zmienił, zmieniła, zmieniono, przeniósł, przeniosła, "
    "przeniesiono, przełożono, przełożony, przesunięto, odwołano, zastąpił, zastąpiła, przestał, przestała, sprzedał, "
    "sprzedała, jednak",
    "Romanian": "acum, în loc de, nu mai, de acum, schimbat, mutat, amânat, înlocuit, anulat, vândut",
    "Swedish, Danish, Norwegian": "numera, nuförtiden, istället, i stället, inte längre, i stedet, ikke længere, "
    "ikke lenger, "
    "flyttat, flyttet, ändrat, ændret, endret, bytt, byttet",
    "Turkish": "artık, şimdi, yerine, değişti, taşındı, ertelendi, iptal",
    "Russian": "теперь, сейчас, вместо, больше не, отныне, переехал, переехала, перенесли, перенесён, заменили, "
    "изменил, изменила, отменили, перешли на",
    "Ukrainian": "тепер, зараз, замість, більше не, відтепер, переїхав, переїхала, перенесли, замінили, скасували",
    "Greek": "τώρα, πλέον, αντί, άλλαξε, μετακόμισε, αναβλήθηκε",
    "Arabic": "الآن, بدلا, لم يعد, لم تعد, انتقل, انتقلت",
    "Hindi": "अब, बदल, की जगह",
    "Indonesian": "sekarang, tidak lagi, bukan lagi, pindah, diganti",
    "Vietnamese": "bây giờ, không còn, thay vì, chuyển sang, đổi",
}
# Before a time they say from when on something holds; before anything else, why it does.
_FROM_WHEN: Final = (
    "since, starting, as of, effective, seit, ab, depuis, à partir de, dès, desde, a partir de, dal, dall, sinds, "
    "vanaf, od, începând cu, från och med, с, від, από"
)
_TIMES: Final = (
    r"\d|jan|feb|mar|apr|ma[iy]|jun|jul|aug|sep|oct|nov|dec|okt|dez|mär|fév|fevr|avr|juin|juil|aoû|déc|ene|abr|ago|dic|"
    "next|last|this|nächste|letzte|diese|le |la |el |den |der |dem "
)
# Written without spaces.
_UNSPACED: Final = (
    "现在|現在|目前|不再|改为|改為|改成|改用|换成|換成|搬到|搬家|取代|推迟|推遲|取消|今は|今では|もう|代わりに|変更|引っ越|延期|이제|지금은|더 이상|대신|바꿨|바뀌|이사|"
    "연기|ตอนนี้|เปลี่ยน|ไม่อีก|ย้าย"
)


def _any_of(*lists: str) -> str:
    phrases = {phrase.strip() for one in lists for phrase in one.split(",")}
    return "|".join(re.escape(phrase).replace(r"\ ", r"\s+") for phrase in sorted(phrases, key=len, reverse=True))


_ANNOUNCES: Final = re.compile(
    rf"\b(?:{_any_of(*_CHANGES.values())})\b|\b(?:{_any_of(_FROM_WHEN)})\s+(?:{_TIMES})|{_UNSPACED}"
)


def announces_change(text: str) -> bool:
    """Whether a word of `text` says that something is otherwise than before.

    A list of words, no grammar: it says nothing for certain, and adds a little where texts are about the same already.
    """
    return _ANNOUNCES.search(unicodedata.normalize("NFKC", text).casefold().replace("’", "'")) is not None
