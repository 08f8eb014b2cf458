"""A device with passkeys, in software: it signs what it is told to sign, also what no honest device would."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import pytest

pytest.importorskip("fido2", reason="pgengram[passkeys] is not installed")

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def in_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Device:
    """A device at a web origin.

    Args:
        origin: of the page that it believes to be on.
        count: how often it says that it has signed.
    """

    origin: str
    rp_id: str = "localhost"
    count: int = 1
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def made(self, challenge: str, algorithm: int = -7, **lies: Any) -> dict[str, Any]:
        """Return what a browser posts that has made a passkey."""
        public = dict(ES256.from_cryptography_key(self.key.public_key())) | {3: algorithm}
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + cbor.encode(public)
        flags = lies.pop("flags", PRESENT | VERIFIED) | ATTESTED
        data = self._data(flags, lies.pop("rp_id", self.rp_id)) + attested
        client = self._client("webauthn.create", challenge, **lies)
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})
        return self._answer(clientDataJSON=in_base64(client), attestationObject=in_base64(attestation))

    def signed(self, challenge: str, **lies: Any) -> dict[str, Any]:
        """Return what a browser posts whose person chose this passkey."""
        data = self._data(lies.pop("flags", PRESENT | VERIFIED), lies.pop("rp_id", self.rp_id))
        client = self._client("webauthn.get", challenge, **lies)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._answer(
            clientDataJSON=in_base64(client), authenticatorData=in_base64(data), signature=in_base64(signature)
        )

    def _data(self, flags: int, rp_id: str) -> bytes:
        self.count += self.count > 0
        return hashlib.sha256(rp_id.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, type_: str, challenge: str, **lies: Any) -> bytes:
        usual = {"type": type_, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(usual | lies).encode()

    def _answer(self, **response: str) -> dict[str, Any]:
        id_ = in_base64(self.credential_id)
        return {"id": id_, "rawId": id_, "type": "public-key", "response": response}
