"""What a call brings is searched for secrets before anything else is done with it.

The decorator screens every tool that writes, so none can forget it and callers in this process are covered too. Items
of a batch and records of an import are screened one by one instead, so that one secret spares the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError

from pgengram.errors import SecretRejected
from pgengram.inputs import as_invalid_input, validated
from pgengram.text.secrets.redaction import without_secrets

Model = TypeVar("Model", bound=BaseModel)
VECTORS = {"embedding"}  # thousands of numbers, which hold no text


def without_secrets_in(model: Model, *, redact: bool) -> tuple[Model, list[str]]:
    """Return a request without secrets, and what was redacted; without any, the request itself.

    Raises:
        SecretRejected: it holds one, and `redact` is not chosen.
        InvalidInput: with the secret redacted it is longer than allowed.
    """
    given = model.model_dump(exclude_unset=True, exclude=VECTORS)
    clean, names = filter_fields(given, redact=redact)
    if not names:
        return model, []
    kept = {name: getattr(model, name) for name in VECTORS & model.model_fields_set}
    return validated(type(model), clean | kept), names


def filter_arguments(
    method: Callable[..., Any], given: Mapping[str, Any], *, redact: bool
) -> tuple[Mapping[str, Any], list[str]]:
    """Return the arguments of a tool without secrets, and what was redacted.

    Raises:
        SecretRejected: they hold one, and `redact` is not chosen.
        InvalidInput: with the secret redacted one is longer than allowed.
    """
    if len(given) == 1 and isinstance(model := next(iter(given.values())), BaseModel):
        made, names = without_secrets_in(model, redact=redact)
        return dict.fromkeys(given, made), names
    clean, names = filter_fields(given, redact=redact)
    if names:
        hints = get_type_hints(method, include_extras=True)
        for name in [name for name in clean if clean[name] is not given[name]]:
            try:
                clean[name] = TypeAdapter(hints[name]).validate_python(clean[name])
            except ValidationError as error:
                raise as_invalid_input(error, name) from None
    return clean, names


def filter_fields(given: Mapping[str, Any], *, redact: bool) -> tuple[dict[str, Any], list[str]]:
    """Return fields without secrets, and what was redacted; their names are ours, so no value is judged by its field's.

    Raises:
        SecretRejected: they hold one, and `redact` is not chosen.
    """
    clean: dict[str, Any] = {}
    names: list[str] = []
    for where, value in given.items():
        clean[where], found = without_secrets(value)
        if found and not redact:
            raise SecretRejected(where, found[0])
        names += found
    return clean, names
