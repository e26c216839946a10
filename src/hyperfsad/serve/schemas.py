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


class TraceField(BaseModel):
    """A field of one's own."""

    name: str = Field(min_length=1, max_length=30)
    each_part: bool = Field(
        False, description="Whether each part has a value of its own, as a serial number."
    )


class DefectOut(BaseModel):
    """A defect that a product can name."""

    name: str
    examples: int = Field(description="Parts that somebody has called so, and it has learnt.")


Corner = tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]]
Shape = Annotated[list[Corner], Field(min_length=3, max_length=200)]
"""The corners of a polygon, as shares of the width and height of the picture."""


class ProductSettings(BaseModel):
    """How a product looks at parts; what is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")

    region: Annotated[list[Shape], Field(min_length=1, max_length=32)] | Literal["auto"] | None = (
        Field(
            None,
            description="Where to inspect: inside any of these shapes, each the corners of a"
            " polygon as shares of width and height; `auto`: the part itself; null: everywhere.",
        )
    )
    rotations: Annotated[int, Field(ge=1, le=72)] | Literal["auto"] | None = Field(
        None, description="In how many orientations good parts are remembered."
    )
    resolution: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        None, description="Side of the encoder's input in pixels; null: its usual one."
    )
    tiles: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Side of tiles in pixels of the picture; null: none."
    )
    false_alarm_rate: float | None = Field(
        None, gt=0, lt=1, description="What the estimated threshold aims at."
    )


class SettingsOut(BaseModel):
    """What a product was set to; `fit` may have chosen where it says auto or null."""

    region: list[Shape] | Literal["auto", "mask"] | None = Field(
        description="As in ProductSettings; `mask`: it came with a file, and nothing was drawn."
    )
    inspected: float | None = Field(description="Share of the picture that is inspected.")
    rotations: int | Literal["auto"]
    resolution: int | None
    tiles: int | None


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
    fields: list[TraceField] = Field(description="Of one's own, such as serial and lot.")
    name_pattern: str
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
    settings: SettingsOut
    defects: list[DefectOut] = Field(description="In the order in which they were first taught.")
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
    user: str = Field(description="The name; empty where a token was used, or nothing.")
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
    detail: str = Field(
        description="The part that was taught, how many it adapted to, which settings were changed,"
        " or the version restored."
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


class Tracing(BaseModel):
    """The fields of a product, and how to read them from names of files."""

    fields: list[TraceField]
    name_pattern: str = Field(
        "", max_length=200, description="Such as {serial}_{lot}_*, without the ending."
    )


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
    fields: dict[str, str] = Field(description="The product's own fields, such as serial and lot.")
    first: bool = Field(description="False where the same part was inspected before.")
    defect: str | None = Field(
        description="What it is called: by a person, or else by the product; `unknown` where none"
        " is near, null where nothing was taught or the part is good."
    )
    defect_score: float | None = Field(
        description="How like the nearest example it is, at most 1; null where a person named it."
    )


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


class TrialWanted(BaseModel):
    """Which settings to try, on which of the latest parts."""

    settings: ProductSettings
    parts: int = Field(200, ge=1, le=200, description="How many; inspections wait meanwhile.")
    cursor: str | None = Field(None, max_length=20, description="Go on after the last answer.")


class TrialOut(BaseModel):
    """What other settings would change; compared with the verdicts at the time."""

    threshold: float | None
    new_threshold: float | None
    threshold_from: str | None = Field(description="How the new one came about.")
    inspected: float | None = Field(description="Share of the picture; null: not always the same.")
    parts: int = Field(description="Parts that were judged again.")
    anomalous: int
    unjudged: int
    passing: list[InspectionRow] = Field(description="Anomalous ones that would be good.")
    failing: list[InspectionRow] = Field(description="Good ones that would be anomalous.")
    next: str | None = Field(description="The cursor of the parts before these; null at the end.")


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
    late: bool = Field(False, description="Whether the verdict came too late and counts as none.")
    learnt: bool | None = Field(
        description="Whether the product has learnt it because of the label: as a good part, or as"
        " an example of the defect."
    )


class SourceIn(BaseModel):
    """The camera of a product."""

    address: str = Field(
        pattern="^[^@]",  # no file that holds one: its content would come back in a refusal
        max_length=500,
        description="rtsp://…, /dev/video0, aravis://NAME, or a video file of the station.",
    )
    trigger: str = Field(
        "every:500ms", max_length=40, description="every:500ms, still or software."
    )
    deadline: str | None = Field(
        None, max_length=40, description="As 500ms: a verdict that comes later counts as none."
    )


class FindingOut(BaseModel):
    """What is wrong with light, focus or place of a camera."""

    code: str
    text: str


class SourceOut(BaseModel):
    """What the camera of a product does; counts are those since it was started."""

    product_id: str
    address: str = Field(description="Without a password.")
    trigger: str
    deadline: str | None
    state: Literal["connecting", "running", "away", "ended", "stopped"]
    problem: str | None
    findings: list[FindingOut]
    frames: int
    shots: int = Field(description="Frames that were to be judged.")
    judged: int = Field(description="Shots with a verdict in time.")
    late: int = Field(description="Shots whose verdict came after the deadline.")
    failed: int = Field(description="Shots without a verdict for another reason; see `problem`.")
    dropped: int = Field(description="Shots that waited while newer ones came.")
    losses: int = Field(description="How often the camera was lost.")
    queue: int = Field(description="Shots that wait.")
    oldest_ms: float = Field(description="For how long the oldest of them has waited.")
    p50_ms: float | None = Field(None, description="From trigger to verdict, half of them.")
    p95_ms: float | None = None
    p99_ms: float | None = None


class ShotOut(BaseModel):
    """A shot that was asked for."""

    inspection: str = Field(description="The id of the inspection that it will become.")


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


class ShiftPlan(BaseModel):
    """When shifts begin."""

    starts: list[str] = Field(description="As 06:00; each lasts until the next.")
    zone: str | None = Field(
        default=None, max_length=60, description="Such as Europe/Berlin; null: the station's own."
    )


class ShiftCount(BaseModel):
    """The counts of a shift."""

    start: Time
    end: Time
    count: int = Field(description="Inspections.")
    good: int
    anomalous: int
    unjudged: int
    parts: int = Field(description="Parts that came for the first time and were judged.")
    first_pass: int = Field(description="Those that were good.")
    first_pass_yield: float | None


class DefectCount(BaseModel):
    """How often a defect came."""

    name: str = Field(description="Empty for those without a name.")
    count: int
    share: float


class HourCount(BaseModel):
    """An hour of a shift with inspections."""

    time: Time
    count: int
    anomalous: int


class Stop(BaseModel):
    """A time without an inspection."""

    start: Time
    end: Time
    seconds: float


class ShiftReport(ShiftCount):
    """What happened in a shift."""

    product: str | None = Field(description="Null: all of them.")
    zone: str | None
    called_bad: int = Field(description="By a person.")
    called_fine: int
    defects: list[DefectCount] = Field(description="The most frequent first.")
    hours: list[HourCount]
    longest_stop: Stop | None = Field(description="Null without any inspection.")
    shifts: list[ShiftCount] = Field(description="Up to eight before it, and itself.")


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
    defect: str | None = Field(
        None,
        max_length=100,
        description="Of bad: what the defect is called; it is learnt.",
    )
    at: tuple[float, float] | None = Field(
        None, description="Of a defect: where it is, as x and y in pixels of the image."
    )


class SessionOut(BaseModel):
    """Who asks."""

    role: Literal["", "inspect", "admin"]
    user: str = Field(description="The name; empty where a token was used, or nothing.")
    open: bool = Field(description="Whether the station works without tokens and users.")
    users: bool = Field(description="Whether there are users, who sign in with name and PIN.")


class SigningIn(BaseModel):
    """A token, or a name and a PIN."""

    token: str | None = Field(None, min_length=1, max_length=500)
    name: str | None = Field(None, min_length=1, max_length=100)
    pin: str | None = Field(None, min_length=1, max_length=100)


Role = Literal["inspect", "admin"]


class UserOut(BaseModel):
    """Somebody who signs in with a PIN."""

    id: str
    name: str
    role: Role
    created: Time
    locked: bool = Field(description="Whether too many wrong PINs came in a row.")


class UserList(BaseModel):
    """The users, by name."""

    users: list[UserOut]


class NewUser(BaseModel):
    """A user to be added."""

    name: str = Field(min_length=1, max_length=60)
    role: Role
    pin: str = Field(min_length=1, max_length=64, description="4 signs or more, of an admin 6.")


class UserChange(BaseModel):
    """What to change of a user; what is left out stays."""

    role: Role | None = None
    pin: str | None = Field(None, min_length=1, max_length=64)


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
    user: str = Field(description="The name; empty where a token was used or nothing.")
    role: str
    client: str
    request: str
    action: str
    subject: str
    detail: str
    before: str = Field(description="The hash of the row before: the log is a chain.")
    hash: str


class AuditPage(BaseModel):
    """Some changes, the latest first."""

    entries: list[AuditRow]
    next: int | None
