"""What the station answers, as types of the client; made from `schemas` by a test."""

from typing import Any, Literal, TypedDict


class ProductRecord(TypedDict):
    """A product, and what its detector has learnt."""

    id: str
    name: str
    created: str
    changed: str
    revision: int
    """Grows with every change of the detector."""
    adapt_automatically: bool
    """Whether it learns by itself from the parts of the line."""
    good_parts: int
    threshold: float | None
    map_threshold: float | None
    threshold_from: str | None
    threshold_method: str | None
    """As in THRESHOLD_METHODS."""
    threshold_images: int | None
    """Good parts that it was set from."""
    threshold_stale: bool
    """Whether parts were learnt since."""
    false_alarm_rate: float | None
    recipe: str
    encoder: str
    resolution: int
    rotations: int
    tiles: int | None
    notes: list[str]
    """What the last change reported."""


class VersionRecord(TypedDict):
    """A product after a change."""

    revision: int
    time: str
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
    detail: str
    """The part that was taught, how many it adapted to, or the version restored."""
    good_parts: int
    threshold: float | None


class VersionListRecord(TypedDict):
    """The latest versions of a product, the current one first."""

    versions: list[VersionRecord]


class GoodPartRecord(TypedDict):
    """A part that a product has learnt."""

    part: str
    """sha256 of the pixels: what it is called here."""
    name: str
    image: str | None
    """sha256 of the uploaded file; null without a picture."""
    added: str | None


class GoodPartListRecord(TypedDict):
    """The good parts, in the order in which they were learnt."""

    images: list[GoodPartRecord]


class GoodPartLevelsRecord(TypedDict):
    """How far good parts reach; above 1 they would be called anomalous."""

    kind: Literal["leave-one-out", "calibration", "line", "none"]
    levels: list[float]
    """Rising; empty where nothing is known."""


class InspectionRowRecord(TypedDict):
    """An inspection in lists."""

    id: str
    time: str
    product: str
    name: str
    verdict: Literal["good", "anomalous", "unjudged"]
    score: float
    threshold: float | None
    level: float | None
    """How far it reaches; above 1 it is anomalous."""
    p_value: float | None
    regions: int
    label: Literal["fine", "bad"] | None
    product_id: str
    revision: int
    image: str
    """sha256 of the uploaded file."""


class AdaptingRecord(TypedDict):
    """What would change if a product learnt from its latest parts."""

    latest: str
    """The last inspection that it counts; `adapt` takes it."""
    parts: int
    """How many parts there are, near-copies counted once."""
    bad: list[InspectionRowRecord]
    """Those that look bad and are not learnt."""
    doubtful: bool
    """Whether so many look bad that nobody can tell."""
    threshold: float | None
    new_threshold: float | None
    inspections: int
    """Past verdicts that were given again."""
    passing: list[InspectionRowRecord]
    """Anomalous ones that would be good."""
    failing: list[InspectionRowRecord]
    """Good ones that would be anomalous."""


class ProposalRecord(TypedDict):
    """Whether it is time for a product to learn from its line."""

    parts: int
    """Latest parts that it may learn from, at most 48: not called bad, with their picture, not like another product."""
    needed: int
    """Parts still to come before anything can be proposed."""
    adapted: int
    """How many there were when it last learnt from them."""
    due: bool
    """Whether 12, 24 or 48 were reached since."""
    preliminary: bool
    """Whether its verdicts still come from few good parts."""
    change: AdaptingRecord | None
    """Where it was asked for."""


class InspectionRecord(TypedDict):
    """An inspection with all that was found."""

    id: str
    time: str
    product: str
    name: str
    verdict: Literal["good", "anomalous", "unjudged"]
    score: float
    threshold: float | None
    level: float | None
    """How far it reaches; above 1 it is anomalous."""
    p_value: float | None
    regions: list[dict[str, Any]]
    """As in results.jsonl."""
    label: Literal["fine", "bad"] | None
    product_id: str
    revision: int
    image: str
    """sha256 of the uploaded file."""
    anomalous: bool | None
    branches: dict[str, float]
    """The scores of the branches."""
    threshold_from: str | None
    map_threshold: float | None
    map_peak: float
    """The highest value of the map."""
    map_peak_x: float
    map_peak_y: float
    size: list[int]
    """Width and height of the image."""
    foreign: bool | None
    """Whether it looks like another product."""
    defect: str | None
    learnt: bool | None
    """Whether the product has learnt it because of the label."""


class RejectedImageRecord(TypedDict):
    """An upload that is not a usable picture."""

    name: str
    error: str


class InspectedRecord(TypedDict):
    """The verdicts on an upload, in the order of the images; those without one stand apart."""

    inspections: list[InspectionRecord]
    rejected: list[RejectedImageRecord]


class HistoryPageRecord(TypedDict):
    """Some inspections, the latest first."""

    inspections: list[InspectionRowRecord]
    next: str | None
    """The cursor of the next page; null at the end."""


class TrendPointRecord(TypedDict):
    """An hour or a day (UTC) with inspections."""

    time: str
    """Its start."""
    count: int
    anomalous: int
    share: float | None
    """Anomalous ones among those with a verdict."""
    level: list[float] | None
    """At 5, 25, 50, 75, 95 %, right to within 1 %."""


class DriftRecord(TypedDict):
    """The test of `hyperfsad drift`, over the latest inspections since the product changed."""

    moved: bool
    evidence: float
    """The highest so far."""
    needed: float
    """Evidence that raises the alarm."""
    reference: Literal["calibration", "first inspections"]
    compared_with: int
    """Good parts or inspections of the reference."""
    inspections: int
    since: str | None
    """About when normal moved."""
    known: str | None
    """When that became certain."""
    add: list[str]
    """Inspections to look at and, if good, to learn."""


class TrendRecord(TypedDict):
    """A product's inspections over time."""

    step: Literal["hour", "day"]
    since: str
    until: str
    calibration: list[float] | None
    """Levels of good parts that were not learnt; null where there were none."""
    points: list[TrendPointRecord]
    drift: DriftRecord | None
    """Null while there is too little to compare."""


class CoverageRecord(TypedDict):
    """How well the good parts of a product cover new ones, and what to add."""

    covered: float | None
    """The chance with all but one of the good parts."""
    more_like: list[str]
    """Good parts that few others resemble."""
    inspections: list[InspectionRowRecord]
    """Parts that passed and resemble no learnt one; if they are good, learn them."""


class WatchedFolderRecord(TypedDict):
    """A folder that the station watches."""

    product: str
    product_id: str | None
    judged: int
    """Pictures since the station started."""
    failed: int
    """Of these, the ones that could not be read."""
    problem: str | None


class ConnectionRecord(TypedDict):
    """A machine, or a broker of many, that hears of the inspections."""

    name: str
    address: str
    """Without secrets."""
    problem: str | None
    """Why it is not connected."""
    delivered: int
    """The number up to which it has all records."""
    waiting: int
    """Records that it has not taken yet."""


class ConnectionsRecord(TypedDict):
    """All of them, and what they may act upon now; null where nothing is connected."""

    state: Literal["stopped", "starting", "ready", "busy", "result", "fault"] | None
    reason: str | None
    """Why there is no verdict."""
    connections: list[ConnectionRecord]


class ConnectionTestRecord(TypedDict):
    """Whether a machine can be connected to."""

    works: bool
    problem: str | None
    """What is wrong, in one sentence."""


class AuditRowRecord(TypedDict):
    """A change."""

    id: int
    time: str
    role: str
    client: str
    request: str
    action: str
    subject: str
    detail: str


class AuditPageRecord(TypedDict):
    """Some changes, the latest first."""

    entries: list[AuditRowRecord]
    next: int | None


class ReadinessRecord(TypedDict):
    """Whether images can be inspected now."""

    ready: bool
    encoder: bool
    database: bool
    disk: bool
    retention: bool
    """False while the clock has jumped: no original is removed."""
    problem: str | None
