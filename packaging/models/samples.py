"""Texts of many kinds, by which a model in 8 bits is set and compared with the one in full precision."""

SAMPLES = (
    "The cat sat on the mat.",
    "Anna moved to Lisbon in March 2021 and works as a nurse.",
    "What is the capital of Mongolia?",
    "SELECT id, title FROM memories WHERE importance > 0.8 ORDER BY created_at DESC LIMIT 10;",
    "def add(a: int, b: int) -> int:\n    return a + b",
    "Always run the tests before you push to the main branch.",
    "I'm allergic to peanuts, shellfish and, apparently, early meetings.",
    "Le train pour Lyon part à huit heures du matin.",
    "Der Vertrag endet am 31. Dezember und verlängert sich nicht.",
    "今日はとても天気がいいので、公園を散歩しました。",
    "Quantum error correction needs many physical qubits for one logical qubit.",
    "no",
    "😀 great!! see you @ 5pm :)",
    "The quarterly revenue rose by 12.5 % to $4.2 million, mostly from subscriptions.",
    "Preheat the oven to 180 °C, then bake the bread for thirty-five minutes. " * 6,
    "Grandmother kept her letters in a tin box under the stairs, tied with a blue ribbon. " * 10,
)
IN_OTHER_LANGUAGES = (
    "Die Katze schläft auf dem warmen Ofen, während draußen der Schnee fällt.",
    "El gato duerme en la cocina.",
    "Кошка спит на кухне, а собака ждёт у двери.",
    "猫が台所で寝ています。",
    "Kedi mutfakta uyuyor.",
    "القطة تنام في المطبخ",
    "Η γάτα κοιμάται στην κουζίνα.",
    "Pisica doarme în bucătărie.",
    "บ้านของเราอยู่ใกล้แม่น้ำ",
    "हमारा घर नदी के पास है।",
    "Nhà của chúng tôi ở gần sông.",
    "우리 집은 강 근처에 있다.",
)
