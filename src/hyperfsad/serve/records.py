"""What the station answers, as types of the client; made from `schemas` by a test."""

from typing import Any, Literal, TypedDict


class TraceFieldRecord(TypedDict):
    """A field of one's own."""

    name: str
    each_part: bool
    """Whether each part has a value of its own, as a serial number."""


class SettingsRecord(TypedDict):
    """What a product was set to; `fit` may have chosen where it says auto or null."""

    region: list[list[tuple[float, float]]] | Literal["auto", "mask"] | None
    """As in ProductSettings; `mask`: it came with a file, and nothing was drawn."""
    inspected: float | None
    """Share of the picture that is inspected."""
    rotations: int | Literal["auto"]
    resolution: int | None
    tiles: int | None


class DefectRecord(TypedDict):
    """A defect that a product can name."""

    name: str
    examples: int
    """Parts that somebody has called so, and it has learnt."""


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
    fields: list[TraceFieldRecord]
    """Of one's own, such as serial and lot."""
    name_pattern: str
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
    settings: SettingsRecord
    defects: list[DefectRecord]
    """In the order in which they were first taught."""
    notes: list[str]
    """What the last change reported."""


class VersionRecord(TypedDict):
    """A product after a change."""

    revision: int
    time: str
    role: str
    user: str
    """The name; empty where a token was used, or nothing."""
    action: Literal[
        "created",
        "uploaded",
        "extended",
        "taught",
        "adapted",
        "undone",
        "calibrated",
        "configured",
        "removed",
        "restored",
    ]
    detail: str
    """The part that was taught, how many it adapted to, which settings were changed, or the version restored."""
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
    fields: dict[str, str]
    """The product's own fields, such as serial and lot."""
    first: bool
    """False where the same part was inspected before."""
    defect: str | None
    """What it is called: by a person, or else by the product; `unknown` where none is near, null where nothing was taught or the part is good."""
    defect_score: float | None
    """How like the nearest example it is, at most 1; null where a person named it."""


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
    fields: dict[str, str]
    """The product's own fields, such as serial and lot."""
    first: bool
    """False where the same part was inspected before."""
    defect: str | None
    """What it is called: by a person, or else by the product; `unknown` where none is near, null where nothing was taught or the part is good."""
    defect_score: float | None
    """How like the nearest example it is, at most 1; null where a person named it."""
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
    late: bool
    """Whether the verdict came too late and counts as none."""
    learnt: bool | None
    """Whether the product has learnt it because of the label: as a good part, or as an example of the defect."""


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


class TrialRecord(TypedDict):
    """What other settings would change; compared with the verdicts at the time."""

    threshold: float | None
    new_threshold: float | None
    threshold_from: str | None
    """How the new one came about."""
    inspected: float | None
    """Share of the picture; null: not always the same."""
    parts: int
    """Parts that were judged again."""
    anomalous: int
    unjudged: int
    passing: list[InspectionRowRecord]
    """Anomalous ones that would be good."""
    failing: list[InspectionRowRecord]
    """Good ones that would be anomalous."""
    next: str | None
    """The cursor of the parts before these; null at the end."""


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


class FindingRecord(TypedDict):
    """What is wrong with light, focus or place of a camera."""

    code: str
    text: str


class SourceRecord(TypedDict):
    """What the camera of a product does; counts are those since it was started."""

    product_id: str
    address: str
    """Without a password."""
    trigger: str
    deadline: str | None
    state: Literal["connecting", "running", "away", "ended", "stopped"]
    problem: str | None
    findings: list[FindingRecord]
    frames: int
    shots: int
    """Frames that were to be judged."""
    judged: int
    """Shots with a verdict in time."""
    late: int
    """Shots whose verdict came after the deadline."""
    failed: int
    """Shots without a verdict for another reason; see `problem`."""
    dropped: int
    """Shots that waited while newer ones came."""
    losses: int
    """How often the camera was lost."""
    queue: int
    """Shots that wait."""
    oldest_ms: float
    """For how long the oldest of them has waited."""
    p50_ms: float | None
    """From trigger to verdict, half of them."""
    p95_ms: float | None
    p99_ms: float | None


class ShotRecord(TypedDict):
    """A shot that was asked for."""

    inspection: str
    """The id of the inspection that it will become."""


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
    user: str
    """The name; empty where a token was used or nothing."""
    role: str
    client: str
    request: str
    action: str
    subject: str
    detail: str
    before: str
    """The hash of the row before: the log is a chain."""
    hash: str


class AuditPageRecord(TypedDict):
    """Some changes, the latest first."""

    entries: list[AuditRowRecord]
    next: int | None


class UserRecord(TypedDict):
    """Somebody who signs in with a PIN."""

    id: str
    name: str
    role: Literal["inspect", "admin"]
    created: str
    locked: bool
    """Whether too many wrong PINs came in a row."""


class UserListRecord(TypedDict):
    """The users, by name."""

    users: list[UserRecord]


class ShiftPlanRecord(TypedDict):
    """When shifts begin."""

    starts: list[str]
    """As 06:00; each lasts until the next."""
    zone: str | None
    """Such as Europe/Berlin; null: the station's own."""


class DefectCountRecord(TypedDict):
    """How often a defect came."""

    name: str
    """Empty for those without a name."""
    count: int
    share: float


class HourCountRecord(TypedDict):
    """An hour of a shift with inspections."""

    time: str
    count: int
    anomalous: int


class StopRecord(TypedDict):
    """A time without an inspection."""

    start: str
    end: str
    seconds: float


class ShiftCountRecord(TypedDict):
    """The counts of a shift."""

    start: str
    end: str
    count: int
    """Inspections."""
    good: int
    anomalous: int
    unjudged: int
    parts: int
    """Parts that came for the first time and were judged."""
    first_pass: int
    """Those that were good."""
    first_pass_yield: float | None


class ShiftReportRecord(TypedDict):
    """What happened in a shift."""

    start: str
    end: str
    count: int
    """Inspections."""
    good: int
    anomalous: int
    unjudged: int
    parts: int
    """Parts that came for the first time and were judged."""
    first_pass: int
    """Those that were good."""
    first_pass_yield: float | None
    product: str | None
    """Null: all of them."""
    zone: str | None
    called_bad: int
    """By a person."""
    called_fine: int
    defects: list[DefectCountRecord]
    """The most frequent first."""
    hours: list[HourCountRecord]
    longest_stop: StopRecord | None
    """Null without any inspection."""
    shifts: list[ShiftCountRecord]
    """Up to eight before it, and itself."""


class ReadinessRecord(TypedDict):
    """Whether images can be inspected now."""

    ready: bool
    encoder: bool
    database: bool
    disk: bool
    retention: bool
    """False while the clock has jumped: no original is removed."""
    problem: str | None
