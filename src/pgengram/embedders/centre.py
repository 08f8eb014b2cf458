"""What the vectors of a model have in common, measured with texts that have nothing in common.

The vectors of many models point much the same way: two unrelated texts have a cosine of 0.76 by multilingual-e5-small
and of 0.12 by the built-in model. Every rule here that looks at cosines (near duplicates, evidence, what may be
replaced) is made for the latter. So the common part is taken from each vector (Mu and Viswanath 2018).
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pgengram.embedders.protocol import Embedder

UNRELATED: Final = 0.12  # mean cosine of unrelated texts by the built-in model, over 320 memories in eight languages
PROBE: Final = (
    "The bakery on the corner closes at six.",
    "Please rename the branch before you merge it.",
    "My sister is allergic to walnuts.",
    "The invoice of March has not been paid yet.",
    "A volcano erupted under the glacier.",
    "We chose PostgreSQL because of its transactions.",
    "He practises the cello every evening.",
    "The train to Lyon leaves from platform nine.",
    "Photosynthesis turns light into sugar.",
    "The keys are in the blue drawer.",
    "Our team meets on Tuesdays at ten.",
    "She broke her wrist while skating.",
    "The court dismissed the appeal.",
    "Add two eggs and a pinch of salt.",
    "The router loses its connection at night.",
    "Elephants remember where water was.",
    "The deadline moved to the end of the month.",
    "Gold fell to its lowest price in a year.",
    "I would like to learn Portuguese.",
    "The museum shows paintings of the sea.",
    "Der Hund schläft unter dem Tisch.",
    "Die Heizung wird im Oktober gewartet.",
    "Nous avons signé le contrat hier.",
    "La pluie a inondé la cave.",
    "El examen de química fue aplazado.",
    "Mi abuela cultiva tomates.",
    "Поезд опоздал на два часа.",
    "Он пишет диссертацию о птицах.",
    "会议改到下周三下午。",
    "他不喝牛奶。",
    "図書館は月曜日に休みです。",
    "新しいノートパソコンを買いました。",
)


async def centre_of(embedder: Embedder) -> list[float]:
    """Return what to take from each vector of a model, of length `dimensions`; nothing where it need not be.

    With the mean m of the probe's vectors, (1 − a) m stays, so that unrelated texts have the cosine `UNRELATED`.
    """
    import numpy as np

    mean = np.array([parts[0] for parts in await embedder.passages(PROBE)], dtype=np.float64).mean(axis=0)
    common = float(mean @ mean)  # about the mean cosine of two texts
    if common <= UNRELATED:
        return []
    stays = sqrt(UNRELATED / (1 - UNRELATED) * (1 - common) / common)
    return [round(float(value), 6) for value in mean * (1 - min(1.0, stays))]
