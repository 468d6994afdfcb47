"""Bodies of requests: strict JSON, in a form, and never more work than their size warrants."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import HTTPException
from fastapi.exceptions import RequestValidationError
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, SchemaValidator, from_json

from rolf.errors import InvalidArgument
from rolf.service.http.errors import Problem

#: bytes of a body that are read and parsed before the key is looked up
EARLY_BYTES = 8_000
#: bytes up to which a body is searched for mistakes to its end; in what is longer, the first one in
#: each list is enough
SEARCHED_BYTES = 1_000
#: values in a body (in one that is about a single round, fewer), and lists, objects and fields in
#: it: parsing this many blocks nobody for long
MAX_ENTRIES, MAX_PARTS = 500_000, 50_000
ONE_ROUND = {"x-max-entries": 100_000}
#: fields of one object
MAX_WIDTH = 1_000
#: mistakes of which some are shown; describing all of them would take long
MAX_MISTAKES = 500


class BodyForm:
    """The form of the body of a route, with up to so many entries."""

    def __init__(self, field: FieldInfo, max_entries: int) -> None:
        self._max_entries = max_entries
        how = Field(discriminator=field.discriminator)
        annotated: Any = Annotated[field.annotation, how, *field.metadata]
        adapter: TypeAdapter[Any] = TypeAdapter(annotated)
        self._thorough = adapter.validator
        # not made of the validators that the forms in it have, which go on after a mistake
        self._hasty = SchemaValidator(_failing_fast(adapter.core_schema), None, False)

    def parsed(self, body: bytes) -> Any:
        """What a body says: JSON as the standard has it, without NaN, lone surrogates and endless
        nesting."""
        self._check_size(body)
        try:
            data = from_json(body, allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"the body is not JSON: {error}") from None
        if len(body) > EARLY_BYTES:
            _check_widths(data)
        validator = self._thorough if len(body) <= SEARCHED_BYTES else self._hasty
        try:
            return validator.validate_python(data, from_attributes=True)
        except ValidationError as error:
            if error.error_count() > MAX_MISTAKES:
                count = f"{error.error_count()} mistakes"
                raise InvalidArgument("body", count, "the form in /openapi.json") from None
            found = [
                {**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)
            ]
            raise RequestValidationError(found, body=data) from None

    def _check_size(self, body: bytes) -> None:
        entries = body.count(b",") + 1
        parts = sum(body.count(each) for each in (b":", b"{", b"["))
        limits = (
            (entries, self._max_entries, "values"),
            (parts, MAX_PARTS, "lists, objects and fields"),
        )
        for count, most, what in limits:
            if count > most:
                raise Problem("too-large", f"{count} {what} in the body; up to {most} at a time")


def _check_widths(data: Any) -> None:
    """Raise if an object has too many fields: each may be wrong in several ways."""
    values = data.values() if isinstance(data, dict) else ()
    lists = (each for value in values if isinstance(value, list) for each in value)
    for each in (data, *values, *lists):
        if isinstance(each, dict) and len(each) > MAX_WIDTH:
            words = f"{len(each)} fields of one object; up to {MAX_WIDTH}"
            raise Problem("too-large", words)


def _failing_fast(schema: CoreSchema) -> CoreSchema:
    """A schema whose lists end at their first mistake."""
    return _replaced(schema)  # type: ignore[no-any-return]


def _replaced(part: Any) -> Any:
    if isinstance(part, list | tuple):
        return type(part)(_replaced(each) for each in part)
    if not isinstance(part, dict):
        return part
    copy = {name: _replaced(value) for name, value in part.items()}
    return copy | {"fail_fast": True} if copy.get("type") == "list" else copy
