"""Passkeys (WebAuthn): a device that a person added confirms later sign-ins instead of a pairing code.

What a device signs is bound to one request, so an answer is worth nothing for any other; it must name our own address,
and say that it has verified its user. The library comes with `pgengram[passkeys]`.
"""

from __future__ import annotations

import hmac
import importlib.util
import ipaddress
import json
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pgengram.store.clients import passkeys
from pgengram.store.clients.connections import Connection, Proof

if TYPE_CHECKING:
    from fido2.server import Fido2Server

EXTRA: Final = "pgengram[passkeys]"
KEY: Final = "passkeys"  # of the server's keys, the one that makes what devices sign
MAX_ANSWER: Final = 16_384  # characters
ALGORITHM: Final = 3  # what a COSE key calls it
# What the library raises at bytes that no browser sends.
MALFORMED: Final = (
    ValueError, TypeError, LookupError, AttributeError, AssertionError, ArithmeticError, RuntimeError, struct.error,
)  # fmt: skip


class InvalidPasskey(ValueError):
    """What a device answered is worth nothing here."""


def is_installed() -> bool:
    """Whether the library is there."""
    return importlib.util.find_spec("fido2") is not None


def can_have(origin: str) -> bool:
    """Whether browsers make passkeys for an address: for names only, never for numbers."""
    try:
        ipaddress.ip_address(urlsplit(origin).hostname or "")
    except ValueError:
        return True
    return False


def challenge(key: bytes, purpose: str, request: str) -> bytes:
    """Return what a device has to sign for one request: the same each time, and for no other purpose."""
    return hmac.digest(key, f"{purpose} {request}".encode(), "sha256")


class PasskeyVerifier:
    """Asks browsers for passkeys, and checks what they answer.

    Args:
        origin: of our pages, such as https://memory.example.org.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.rp_id: Final = urlsplit(origin).hostname or ""

    def to_sign(self, key: bytes, request: str) -> dict[str, Any]:
        """Return what a browser needs to have a request signed by whichever passkey its person chooses."""
        from fido2.utils import websafe_encode

        return {"publicKey": {**self._to_sign, "challenge": websafe_encode(challenge(key, "sign", request))}}

    def to_add(self, key: bytes, request: str, name: str) -> dict[str, Any]:
        """Return what a browser needs to make a passkey; `name` is what its person sees when they choose one."""
        from fido2.webauthn import PublicKeyCredentialUserEntity, ResidentKeyRequirement

        whose = hmac.digest(key, f"person {name}".encode(), "sha256")
        options, _ = self._server.register_begin(
            PublicKeyCredentialUserEntity(name=name, id=whose, display_name=name),
            resident_key_requirement=ResidentKeyRequirement.REQUIRED,
            user_verification=_required(),
            challenge=challenge(key, "add", request),
        )
        return dict(options)

    async def keep(
        self, connection: Connection, key: bytes, request: str, answer: str, proof: Proof, name: str
    ) -> None:
        """Keep a passkey that a browser has made.

        Raises:
            InvalidPasskey: it is not one that was asked for, or is somebody's already.
        """
        given = _browser_answer(answer)
        from fido2.cose import CoseKey

        state = self._state(challenge(key, "add", request))
        try:
            made = self._server.register_complete(state, given)
            credential = made.credential_data
            can_be_checked = (
                credential is not None and credential.public_key.get(ALGORITHM) in CoseKey.supported_algorithms()
            )
        except MALFORMED:
            raise InvalidPasskey from None
        if (
            credential is None
            or not can_be_checked
            or not await passkeys.register(
                connection,
                proof,
                name,
                credential_id=bytes(credential.credential_id),
                credential=bytes(credential),
                sign_count=made.counter,
                rp_id=self.rp_id,
            )
        ):
            raise InvalidPasskey

    async def proven(self, connection: Connection, key: bytes, request: str, answer: str) -> Proof:
        """Return what a passkey is worth that has signed a request.

        Raises:
            InvalidPasskey: it is unknown or removed, has signed something else, or its count shows that it was copied.
        """
        given = _browser_answer(answer)
        from cryptography.exceptions import UnsupportedAlgorithm
        from fido2.webauthn import AttestedCredentialData, AuthenticationResponse

        state = self._state(challenge(key, "sign", request))
        try:
            response = AuthenticationResponse.from_dict(given)
            row = await passkeys.find(connection, bytes(response.raw_id), self.rp_id)
            if row is None:
                raise InvalidPasskey
            credential = AttestedCredentialData(bytes(row["credential"]))
            self._server.authenticate_complete(state, [credential], response)
        except (*MALFORMED, UnsupportedAlgorithm):
            raise InvalidPasskey from None
        count, known = response.response.authenticator_data.counter, int(row["sign_count"])
        if count <= known and (count, known) != (0, 0):
            raise InvalidPasskey
        await passkeys.note_use(connection, row["id"], count)
        return Proof.of(row, by="passkey")

    @cached_property
    def _to_sign(self) -> Mapping[str, Any]:
        """What is the same for each request, which the library takes long to work out."""
        options, _ = self._server.authenticate_begin(user_verification=_required())
        return dict(dict(options)["publicKey"])

    @cached_property
    def _server(self) -> Fido2Server:
        from fido2.server import Fido2Server
        from fido2.webauthn import PublicKeyCredentialRpEntity

        rp = PublicKeyCredentialRpEntity(name="pgengram", id=self.rp_id)
        return Fido2Server(rp, verify_origin=self._origin.__eq__)

    @staticmethod
    def _state(signed: bytes) -> Mapping[str, Any]:
        from fido2.utils import websafe_encode

        return {"challenge": websafe_encode(signed), "user_verification": _required()}


def _required() -> Any:
    from fido2.webauthn import UserVerificationRequirement

    return UserVerificationRequirement.REQUIRED


def _browser_answer(answer: str) -> Mapping[str, Any]:
    """Return what a browser answered.

    Raises:
        InvalidPasskey: it is malformed, or was made within another page.
    """
    from fido2.utils import websafe_decode

    try:
        given = json.loads(answer) if len(answer) <= MAX_ANSWER else None
        client = json.loads(websafe_decode(given["response"]["clientDataJSON"])) if isinstance(given, dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidPasskey from None
    if not isinstance(given, dict) or not isinstance(client, dict) or client.get("crossOrigin", False) is not False:
        raise InvalidPasskey
    return given
