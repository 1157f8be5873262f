"""What all reports have."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Report:
    """Plain, immutable values."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists, for JSON."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Report):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value
