"""The shapes of requests and answers; the OpenAPI document is made from them."""

from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def iso(time: Any) -> Any:
    """A time in microseconds as text, UTC; text stays as it is."""
    if not isinstance(time, int):
        return time
    return datetime.fromtimestamp(time / 1e6, timezone.utc).isoformat(timespec="milliseconds")


Time = Annotated[str, BeforeValidator(iso)]


class FromRow(BaseModel):
    """An answer whose fields are columns of a table."""

    model_config = ConfigDict(from_attributes=True)


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="One sentence: what was wrong, and what to do.")
    code: str = Field(description="What was wrong, for programs and translations.")
    facts: dict[str, Any] = Field(description="What the sentence is made of.")


class ProductOut(BaseModel):
    """A product, and what its detector has learnt."""

    id: str
    name: str
    created: Time
    changed: Time
    revision: int = Field(description="Grows with every change of the detector.")
    adapt_automatically: bool = Field(
        description="Whether it learns by itself from the parts of the line."
    )
    good_parts: int
    threshold: float | None
    map_threshold: float | None
    threshold_from: str | None
    threshold_method: str | None = Field(None, description="As in THRESHOLD_METHODS.")
    threshold_images: int | None = Field(None, description="Good parts that it was set from.")
    threshold_stale: bool = Field(False, description="Whether parts were learnt since.")
    false_alarm_rate: float | None
    recipe: str
    encoder: str
    resolution: int
    rotations: int
    tiles: int | None
    notes: list[str] = Field(description="What the last change reported.")


class GoodPart(BaseModel):
    """A part that a product has learnt."""

    part: str = Field(description="sha256 of the pixels: what it is called here.")
    name: str
    image: str | None = Field(description="sha256 of the uploaded file; null without a picture.")
    added: Time | None


class VersionOut(BaseModel):
    """A product after a change."""

    revision: int
    time: Time
    role: str
    action: Literal[
        "created",
        "uploaded",
        "extended",
        "taught",
        "adapted",
        "undone",
        "calibrated",
        "removed",
        "restored",
    ]
    detail: str = Field(
        description="The part that was taught, how many it adapted to, or the version restored."
    )
    good_parts: int
    threshold: float | None


class VersionList(BaseModel):
    """The latest versions of a product, the current one first."""

    versions: list[VersionOut]


class GoodPartList(BaseModel):
    """The good parts, in the order in which they were learnt."""

    images: list[GoodPart]


class GoodPartLevels(BaseModel):
    """How far good parts reach; above 1 they would be called anomalous."""

    kind: Literal["leave-one-out", "calibration", "line", "none"]
    levels: list[float] = Field(description="Rising; empty where nothing is known.")


class InspectionRow(BaseModel):
    """An inspection in lists."""

    id: str
    time: Time
    product: str
    name: str
    verdict: Literal["good", "anomalous", "unjudged"]
    score: float
    threshold: float | None
    level: float | None = Field(description="How far it reaches; above 1 it is anomalous.")
    p_value: float | None
    regions: int
    label: Literal["fine", "bad"] | None
    product_id: str
    revision: int
    image: str = Field(description="sha256 of the uploaded file.")


class ProductChange(BaseModel):
    """What to change of a product; what is left out stays."""

    name: str | None = Field(None, min_length=1, max_length=100)
    adapt_automatically: bool | None = None


class AdaptingOut(BaseModel):
    """What would change if a product learnt from its latest parts."""

    latest: str = Field(description="The last inspection that it counts; `adapt` takes it.")
    parts: int = Field(description="How many parts there are, near-copies counted once.")
    bad: list[InspectionRow] = Field(description="Those that look bad and are not learnt.")
    doubtful: bool = Field(description="Whether so many look bad that nobody can tell.")
    threshold: float | None
    new_threshold: float | None
    inspections: int = Field(description="Past verdicts that were given again.")
    passing: list[InspectionRow] = Field(description="Anomalous ones that would be good.")
    failing: list[InspectionRow] = Field(description="Good ones that would be anomalous.")


class ProposalOut(BaseModel):
    """Whether it is time for a product to learn from its line."""

    parts: int = Field(
        description="Latest parts that it may learn from, at most 48: not called bad, with their"
        " picture, not like another product."
    )
    needed: int = Field(description="Parts still to come before anything can be proposed.")
    adapted: int = Field(description="How many there were when it last learnt from them.")
    due: bool = Field(description="Whether 12, 24 or 48 were reached since.")
    preliminary: bool = Field(description="Whether its verdicts still come from few good parts.")
    change: AdaptingOut | None = Field(default=None, description="Where it was asked for.")


class InspectionOut(InspectionRow):
    """An inspection with all that was found."""

    anomalous: bool | None
    branches: dict[str, float] = Field(description="The scores of the branches.")
    threshold_from: str | None
    map_threshold: float | None
    map_peak: float = Field(description="The highest value of the map.")
    map_peak_x: float
    map_peak_y: float
    regions: list[dict[str, Any]] = Field(description="As in results.jsonl.")  # type: ignore[assignment]
    size: list[int] = Field(description="Width and height of the image.")
    foreign: bool | None = Field(description="Whether it looks like another product.")
    defect: str | None
    learnt: bool | None = Field(
        description="Whether the product has learnt it because of the label."
    )


class RejectedImage(BaseModel):
    """An upload that is not a usable picture."""

    name: str
    error: str


class InspectedOut(BaseModel):
    """The verdicts on an upload, in the order of the images; those without one stand apart."""

    inspections: list[InspectionOut]
    rejected: list[RejectedImage]


class HistoryPage(BaseModel):
    """Some inspections, the latest first."""

    inspections: list[InspectionRow]
    next: str | None = Field(description="The cursor of the next page; null at the end.")


Quantiles = list[float]
"""At 5, 25, 50, 75 and 95 %."""


class TrendPoint(BaseModel):
    """An hour or a day (UTC) with inspections."""

    time: Time = Field(description="Its start.")
    count: int
    anomalous: int
    share: float | None = Field(description="Anomalous ones among those with a verdict.")
    level: Quantiles | None = Field(description="At 5, 25, 50, 75, 95 %, right to within 1 %.")


class DriftOut(BaseModel):
    """The test of `hyperfsad drift`, over the latest inspections since the product changed."""

    moved: bool
    evidence: float = Field(description="The highest so far.")
    needed: float = Field(description="Evidence that raises the alarm.")
    reference: Literal["calibration", "first inspections"]
    compared_with: int = Field(description="Good parts or inspections of the reference.")
    inspections: int
    since: Time | None = Field(description="About when normal moved.")
    known: Time | None = Field(description="When that became certain.")
    add: list[str] = Field(description="Inspections to look at and, if good, to learn.")


class TrendOut(BaseModel):
    """A product's inspections over time."""

    step: Literal["hour", "day"]
    since: Time
    until: Time
    calibration: Quantiles | None = Field(
        description="Levels of good parts that were not learnt; null where there were none."
    )
    points: list[TrendPoint]
    drift: DriftOut | None = Field(description="Null while there is too little to compare.")


class CoverageOut(BaseModel):
    """How well the good parts of a product cover new ones, and what to add."""

    covered: float | None = Field(description="The chance with all but one of the good parts.")
    more_like: list[str] = Field(description="Good parts that few others resemble.")
    inspections: list[InspectionRow] = Field(
        description="Parts that passed and resemble no learnt one; if they are good, learn them."
    )


class WatchedFolderOut(BaseModel):
    """A folder that the station watches."""

    product: str
    product_id: str | None = None
    judged: int = Field(default=0, description="Pictures since the station started.")
    failed: int = Field(default=0, description="Of these, the ones that could not be read.")
    problem: str | None = None


class ConnectionOut(BaseModel):
    """A machine, or a broker of many, that hears of the inspections."""

    name: str
    address: str = Field(description="Without secrets.")
    problem: str | None = Field(description="Why it is not connected.")
    delivered: int = Field(description="The number up to which it has all records.")
    waiting: int = Field(description="Records that it has not taken yet.")


class ConnectionsOut(BaseModel):
    """All of them, and what they may act upon now; null where nothing is connected."""

    state: Literal["stopped", "starting", "ready", "busy", "result", "fault"] | None
    reason: str | None = Field(description="Why there is no verdict.")
    connections: list[ConnectionOut]


class ConnectionTestOut(BaseModel):
    """Whether a machine can be connected to."""

    works: bool
    problem: str | None = Field(description="What is wrong, in one sentence.")


class Labelling(BaseModel):
    """What a person says of a part."""

    kind: Literal["fine", "bad"]
    learn: bool = Field(True, description="Of fine: whether the product learns the image.")
    confirm: bool = Field(False, description="Of fine: teach it even if it was anomalous.")
    defect: str | None = Field(None, max_length=100, description="Of bad: the kind of defect.")


class SessionOut(BaseModel):
    """Who asks."""

    role: Literal["", "inspect", "admin"]
    open: bool = Field(description="Whether the station works without tokens.")


class Readiness(BaseModel):
    """Whether images can be inspected now."""

    ready: bool
    encoder: bool
    database: bool
    disk: bool
    retention: bool = Field(description="False while the clock has jumped: no original is removed.")
    problem: str | None


class AuditRow(FromRow):
    """A change."""

    id: int
    time: Time
    role: str
    client: str
    request: str
    action: str
    subject: str
    detail: str


class AuditPage(BaseModel):
    """Some changes, the latest first."""

    entries: list[AuditRow]
    next: int | None
