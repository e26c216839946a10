"""What can be said of many images in a few words, added up as parts are finished."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..report.exports import Record, severity

SHOWN = 10
"""Images that are kept by name: the most anomalous, and those that failed."""


@dataclass
class Totals:
    """Counts, the most anomalous records without their regions, and some errors."""

    images: int = 0
    done_before: int = 0
    scored: int = 0
    judged: int = 0
    anomalous: int = 0
    failed: int = 0
    foreign: int = 0
    unknown_product: int = 0
    worst: list[Record] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterable[Record], done_before: int = 0) -> "Totals":
        """Those of some records."""
        found = cls(done_before=done_before)
        for record in records:
            found.images += 1
            if record["error"] is not None:
                found.failed += 1
                found.errors.append(record["error"])
                continue
            found.scored += 1
            found.judged += record["anomalous"] is not None
            found.anomalous += record["anomalous"] is True
            found.foreign += record["foreign"] is True
            found.unknown_product += record["unknown_product"] is True
            found.worst.append({**record, "regions": len(record["regions"] or ())})
        return found._shortened()

    def add(self, other: "Totals") -> None:
        """Adds the totals of other images."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self._shortened()

    def _shortened(self) -> "Totals":
        self.worst = sorted(self.worst, key=severity, reverse=True)[:SHOWN]
        self.errors = self.errors[:SHOWN]
        return self

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)
