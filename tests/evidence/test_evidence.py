"""Evidence: the weights that are told must be those that made the map."""

import io
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from hyperfsad import HyperFSAD, UsageError
from hyperfsad.detector.settings import LookupName
from hyperfsad.errors import HyperfsadWarning
from hyperfsad.evidence import evidence as evidence_plot
from hyperfsad.evidence.evidence import Evidence
from hyperfsad.evidence.neighbours import MOST_NEIGHBOURS
from hyperfsad.images.loading import ImageSource, load_image
from hyperfsad.lab.peers.nearest import NearestNeighbour
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.matching import MIN_PRUNED_ROWS
from hyperfsad.method.missing import SEARCH_REACH
from hyperfsad.wording import of_limit
from tests.codes import raises
from tests.conftest import make_picture, save_tiny
from tests.tokens import cosines


@pytest.fixture
def fitted(detector: HyperFSAD, photos: Path) -> HyperFSAD:
    return detector.fit([photos / "0.png", photos / "1.png", photos / "2.png"])


def rebuilt_distance(detector: HyperFSAD, image: object, evidence: Evidence) -> float:
    """1 − cos from nothing but the told neighbours, looked up again by name, view, row, column."""
    names = [normal.name for normal in detector.memory_.images]
    grid = evidence.grid
    picture = detector.view_.visible(load_image(image))  # type: ignore[arg-type]
    query = detector.encoder_.encode([picture])
    distances = []
    for layer in evidence.layers:
        index = detector.encoding_.layers.index(layer.layer)
        memory, patches = detector.memory_.patches[index], query.patches[0, index]
        mixed = np.zeros(memory.shape[1])
        for n in layer.neighbours:
            assert n.angle == 360 * n.view / detector.rotations_
            entry = names.index(n.image) + n.view
            row = entry * grid**2 + n.row * grid + n.column
            mixed += n.weight * memory[row].astype(np.float64)
        own = patches[evidence.row * evidence.grid + evidence.column]
        distances.append(1 - float(cosines(own, mixed)))
        assert layer.unexplained == pytest.approx(distances[-1], abs=1e-6)
    return sum(distances) / len(distances)


@pytest.mark.parametrize(
    ("lookup", "rotations", "roi"),
    [
        *((lookup, 1, None) for lookup in LOOKUPS),
        ("sparsemax", 5, None),
        ("sparsemax", 1, "0,0 95,0 95,79 30,79"),
        ("softmax", 4, "0,0 95,0 95,79 30,79"),
    ],
)
def test_the_neighbours_rebuild_what_the_map_shows(
    tiny: str, photos: Path, lookup: LookupName, rotations: int, roi: str | None
) -> None:
    detector = HyperFSAD(
        tiny,
        resolution=84,
        lookup=lookup,
        missing=0,
        smooth=False,
        rotations=rotations,
        roi=roi,
        device="cpu",
    )
    detector.fit([photos / "0.png", photos / "1.png"])
    result = detector.predict(photos / "3.png")
    for row, column in ((0, 0), (2, 5), (5, 3)):
        x, y = (column + 0.5) * 96 / 6, (row + 0.5) * 80 / 6
        evidence = result.evidence(x, y)
        assert (evidence.row, evidence.column) == (row, column)
        shown = float(result.anomaly_map[row, column])
        assert evidence.value == pytest.approx(shown, abs=1e-6)
        assert rebuilt_distance(detector, photos / "3.png", evidence) == pytest.approx(
            shown, abs=1e-6
        )
        for layer in evidence.layers:
            weights = [n.weight for n in layer.neighbours]
            assert sum(weights) == pytest.approx(1, abs=1e-5)
            assert weights == sorted(weights, reverse=True)
            assert min(weights) > 0


def test_a_dense_lookup_keeps_the_rest_as_one_number(tiny: str) -> None:
    detector = HyperFSAD(tiny, resolution=182, lookup="softmax", device="cpu")
    detector.fit([make_picture(seed) for seed in range(4)])
    for layer in detector.explain(make_picture(9)).layers:
        assert len(layer.neighbours) == MOST_NEIGHBOURS < 4 * 13 * 13
        told = sum(n.weight for n in layer.neighbours)
        assert told + layer.rest == pytest.approx(1, abs=1e-5)
        assert layer.rest > 0


def test_without_a_place_the_peak_is_explained(fitted: HyperFSAD, photos: Path) -> None:
    result = fitted.predict(photos / "4.png")
    for evidence in (result.evidence(), fitted.explain(photos / "4.png")):
        assert evidence.value == pytest.approx(float(result.anomaly_map.max()), abs=1e-6)
        peak = divmod(int(result.anomaly_map.argmax()), 6)
        assert (evidence.row, evidence.column) == peak
        x, y, width, height = evidence.bbox
        assert (width, height) == (16.0, 80 / 6)
        assert x <= evidence.x <= x + width
        assert y <= evidence.y <= y + height


@pytest.mark.parametrize("source", ["path", "picture", "array", "file", "bytes"])
def test_every_source_can_be_asked_about(fitted: HyperFSAD, photos: Path, source: str) -> None:
    picture = Image.open(photos / "4.png")
    given: dict[str, ImageSource] = {
        "path": photos / "4.png",
        "picture": picture,
        "array": np.asarray(picture),
        "file": io.BytesIO((photos / "4.png").read_bytes()),
        "bytes": (photos / "4.png").read_bytes(),
    }
    result = fitted.predict(given[source])
    assert result.evidence(1, 1).value == pytest.approx(float(result.anomaly_map[0, 0]), abs=1e-6)


def test_what_cannot_be_explained_is_told(fitted: HyperFSAD, photos: Path) -> None:
    result = fitted.predict(photos / "4.png")
    for x, y in ((-1, 0), (96, 0), (0, 80)):
        with raises(UsageError, "place-outside", width=96, height=80):
            result.evidence(x, y)
    with raises(UsageError, "place-incomplete"):
        fitted.explain(photos / "4.png", 3)
    with raises(UsageError, "place-incomplete"):
        result.evidence(y=3)
    make_picture(77).save(photos / "4.png")
    with raises(UsageError, "result-outdated"):
        result.evidence(1, 1)
    (photos / "4.png").write_bytes(b"")
    (failed,) = fitted.predict_many([photos / "4.png"])
    with raises(UsageError, "result-without-picture"):
        failed.evidence()
    peer = NearestNeighbour(fitted.settings.backbone, device="cpu").fit(photos / "0.png")
    with raises(UsageError, "detector-gone"):
        peer.predict(photos / "1.png").evidence()
    with raises(UsageError, "detector-not-fitted"):
        HyperFSAD(fitted.settings.backbone).explain(photos / "0.png")


def test_a_detector_that_is_gone_or_has_learnt_more(tiny: str, photos: Path) -> None:
    detector = HyperFSAD(tiny, device="cpu").fit(photos / "0.png")
    result = detector.predict(photos / "4.png")
    detector.extend(photos / "3.png")
    with raises(UsageError, "result-outdated"):
        result.evidence()
    del detector
    with raises(UsageError, "detector-gone"):
        result.evidence()


def test_json_and_text(fitted: HyperFSAD, photos: Path) -> None:
    evidence = fitted.explain(photos / "4.png", 40, 30)
    told = json.loads(evidence.to_json())
    assert (told["x"], told["y"], told["row"], told["column"]) == (40, 30, 2, 2)
    first = told["layers"][0]["neighbours"][0]
    assert first["image"] == evidence.layers[0].neighbours[0].image
    assert first["sha256"] in {image.sha256 for image in fitted.memory_.images}
    x, y, width, height = first["place"]
    assert (width, height) == (1 / 6, 1 / 6)
    assert (round(x * 6), round(y * 6)) == (first["column"], first["row"])
    text = evidence.to_text(most=2)
    assert "4.png at 40, 30 (patch row 2, column 2 of 6×6)" in text
    assert text.count("unexplained") == 1 + len(evidence.layers)
    assert str(photos) in text
    assert (told["verdict"], told["anomalous"]) == (None, None)


def test_the_verdict_stands_first_in_the_text_and_in_the_picture(
    fitted: HyperFSAD, photos: Path
) -> None:
    fitted.calibrate()
    assert fitted.map_threshold_ is not None
    result = fitted.predict(photos / "4.png")
    plain = fitted.explain(photos / "4.png")
    assert plain.verdict is None
    evidence = result.evidence()
    first, second, third, *_ = evidence.to_text().splitlines()
    assert first == result.reading
    assert first.endswith(f"; {result.threshold_from})")
    level = of_limit(evidence.shown / fitted.map_threshold_)
    assert second.endswith(f": map {evidence.shown:.3f}, {level}")
    assert third.startswith(f"{evidence.value:.3f} unexplained by the good parts")
    told = json.loads(evidence.to_json())
    assert (told["verdict"], told["anomalous"]) == (first, result.anomalous)
    title = slice(evidence_plot._MARGIN, evidence_plot._MARGIN + 24)
    for anomalous, colour in ((True, evidence_plot._MARK), (False, evidence_plot._GOOD)):
        drawn = np.asarray(replace(evidence, anomalous=anomalous).plot())[title]
        assert (drawn == colour).all(axis=-1).sum() > 50
        assert not (np.asarray(plain.plot())[title] == colour).all(axis=-1).any()


def test_the_picture_shows_the_support_while_it_is_on_disk(
    fitted: HyperFSAD, photos: Path, tmp_path: Path
) -> None:
    evidence = fitted.explain(photos / "4.png")
    with_pictures = np.asarray(evidence.plot())
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("0.png", "1.png"):
        (photos / name).rename(moved / name)
    make_picture(50).save(photos / "2.png")  # the name is there, but shows something else
    with pytest.warns(HyperfsadWarning, match=r"have changed: .*[012]\.png; `normal`"):
        gone = np.asarray(evidence.plot())
    assert gone.shape == with_pictures.shape
    assert (gone != with_pictures).any()
    with pytest.warns(HyperfsadWarning, match=r"have changed: \S*2\.png; "):
        assert np.asarray(evidence.plot([moved])).tolist() != gone.tolist()
    make_picture(2).save(moved / "other name.bmp")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # all are found by their hashes
        assert (np.asarray(evidence.plot([moved])) == with_pictures).all()
        evidence.save(tmp_path / "evidence.png", [moved])
    assert Image.open(tmp_path / "evidence.png").size == with_pictures.shape[1::-1]


def test_columns_of_the_table_stay_in_line(fitted: HyperFSAD, photos: Path) -> None:
    evidence = fitted.explain(photos / "4.png")
    layer = evidence.layers[0]
    weights = (1.0, 0.5, 0.012)
    shown = [replace(layer.neighbours[0], weight=weight, image="good") for weight in weights]
    text = replace(evidence, layers=(replace(layer, neighbours=tuple(shown)),)).to_text()
    head, *rows = text.splitlines()[-4:]
    assert [row.index(" %") + 2 for row in rows] == [head.index("weight") + len("weight")] * 3
    ends = {row.index(f"{shown[0].similarity:.3f}") + 5 for row in rows}
    assert ends == {head.index("similarity") + len("similarity")}
    assert {row.index("good") for row in rows} == {head.index("support image")}


def test_names_of_any_kind_can_be_drawn(detector: HyperFSAD, tmp_path: Path) -> None:
    name = "caf\udce9 " + "ä" * 90 + ".png"
    make_picture(1).save(tmp_path / name)
    evidence = detector.fit([tmp_path / name]).explain(make_picture(2, (300, 9)))
    assert evidence.plot().width > 1000
    (tmp_path / name).unlink()
    with pytest.warns(HyperfsadWarning, match="no longer on disk"):
        assert evidence.plot().width > 1000


def test_it_agrees_with_the_pruned_matching_of_large_memories(tiny: str) -> None:
    detector = HyperFSAD(tiny, resolution=336, smooth=False, device="cpu")
    detector.fit([make_picture(seed, (336, 336)) for seed in range(4)])
    assert len(detector.memory_.patches[0]) >= MIN_PRUNED_ROWS
    result = detector.predict(make_picture(9, (336, 336)))
    for row, column in ((0, 0), (11, 5), (23, 23), (7, 19)):
        evidence = result.evidence(14 * column + 7, 14 * row + 7)
        unexplained = [layer.unexplained for layer in evidence.layers]
        shown = float(result.anomaly_map[row, column])
        assert sum(unexplained) / len(unexplained) == pytest.approx(shown, abs=1e-6)
        for layer in evidence.layers:
            assert sum(n.weight for n in layer.neighbours) == pytest.approx(1, abs=1e-5)


HOLE = (60, 88, 94, 122)


def drilled(seed: int, hole: bool = True) -> Image.Image:
    """A picture of a part with a dark hole, or without; a little noise makes each another one."""
    picture = make_picture(3, (168, 168))
    if hole:
        ImageDraw.Draw(picture).ellipse(HOLE, fill=(0, 0, 0))
    noise = np.random.default_rng(seed).normal(0, 8, (168, 168, 3))
    return Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))


@pytest.fixture
def drilled_parts(tmp_path: Path) -> HyperFSAD:
    """A detector that knows parts with a hole."""
    encoder = save_tiny(tmp_path / "encoder", seed=1)
    folder = tmp_path / "drilled"
    folder.mkdir()
    for seed in range(4):
        drilled(seed).save(folder / f"part {seed}.png")
    how = {"resolution": 168, "rotations": 1, "smooth": False, "missing": 0.5}
    detector = HyperFSAD(encoder, **how, device="cpu")  # type: ignore[arg-type]
    detector.fit(folder, threshold=False)
    detector.map_threshold_ = 0.2  # random weights feel a turn by 3° more than a missing hole
    return detector


@pytest.mark.parametrize("tiles", [None, 84])
def test_a_smoothed_map_is_shown_and_its_patch_explained(tiny: str, tiles: int | None) -> None:
    detector = HyperFSAD(tiny, resolution=84, tiles=tiles, rotations=1, missing=0, device="cpu")
    detector.fit([make_picture(seed, (168, 168)) for seed in range(3)], threshold=False)
    result = detector.predict(make_picture(7, (168, 168)))
    evidence = result.evidence()
    assert evidence.shown == pytest.approx(float(result.anomaly_map.max()), abs=1e-6)
    unexplained = [layer.unexplained for layer in evidence.layers]
    assert evidence.value == pytest.approx(sum(unexplained) / len(unexplained), abs=1e-6)
    assert evidence.value != pytest.approx(evidence.shown, abs=1e-3)


def test_the_evidence_shows_the_piece_that_is_missing(
    drilled_parts: HyperFSAD, tmp_path: Path
) -> None:
    result = drilled_parts.predict(drilled(9, hole=False))
    assert {region.kind for region in result.regions} == {"missing"}
    evidence = result.evidence()
    piece = evidence.missing
    assert piece is not None
    x, y = (168 * part for part in piece.patch.centre)
    assert HOLE[0] < x < HOLE[2]
    assert HOLE[1] < y < HOLE[3]
    assert HOLE[0] < evidence.x < HOLE[2]
    assert HOLE[1] < evidence.y < HOLE[3]
    assert Path(piece.patch.image).parent == tmp_path / "drilled"
    assert piece.patch.sha256 in {image.sha256 for image in drilled_parts.memory_.images}
    assert piece.excess > 0.5
    # what is explained is what the layers leave; the map has the missing piece besides
    unexplained = [layer.unexplained for layer in evidence.layers]
    assert evidence.value == pytest.approx(sum(unexplained) / len(unexplained), abs=1e-6)
    assert evidence.shown == pytest.approx(float(result.anomaly_map.max()), abs=1e-6)
    weight = result.branches.weights["missing"]
    assert evidence.shown - evidence.value == pytest.approx(weight * piece.excess, abs=1e-5)


def test_the_similarity_of_a_missing_piece_is_that_near_its_place(
    drilled_parts: HyperFSAD,
) -> None:
    query = drilled(9, hole=False)
    evidence = drilled_parts.explain(query)
    assert evidence.missing is not None
    patch = evidence.missing.patch
    names = [image.name for image in drilled_parts.memory_.images]
    own = drilled_parts.memory_.patches_of(names.index(patch.image))[1][
        12 * patch.row + patch.column
    ]
    tokens = drilled_parts.encoder_.encode([load_image(query)]).patches[0, 1].reshape(12, 12, -1)
    rows = slice(max(evidence.row - SEARCH_REACH, 0), evidence.row + SEARCH_REACH + 1)
    columns = slice(max(evidence.column - SEARCH_REACH, 0), evidence.column + SEARCH_REACH + 1)
    nearest = float((tokens[rows, columns] @ own).max())
    assert patch.similarity == pytest.approx(nearest, abs=1e-6)


def test_a_missing_piece_is_told_and_drawn(drilled_parts: HyperFSAD, tmp_path: Path) -> None:
    evidence = drilled_parts.explain(drilled(9, hole=False))
    piece = evidence.missing
    assert piece is not None
    told = json.loads(evidence.to_json())["missing"]
    assert told["excess"] == piece.excess
    assert told["patch"]["image"] == piece.patch.image
    assert (told["patch"]["row"], told["patch"]["column"]) == (piece.patch.row, piece.patch.column)
    assert f"missing here: what {piece.patch.image} shows at" in evidence.to_text()
    for excess, times in ((0.6, "1.6 times"), (1.0, "at least 2.0 times")):
        told = replace(evidence, missing=replace(piece, excess=excess)).to_text()
        assert f"differs {times} as much as good parts do there" in told
    below = slice(evidence_plot._MARGIN + evidence_plot._TITLE_HEIGHT, None)
    shown = np.asarray(evidence.plot())[below]
    without = np.asarray(replace(evidence, missing=None).plot())[below]
    assert shown.shape == without.shape
    rows, columns, _ = np.nonzero(shown != without)
    left = evidence_plot._MARGIN + 214
    assert left <= columns.min() < columns.max() <= evidence_plot._MARGIN + evidence_plot._SIDE
    dark = shown[rows.min() : rows.max(), left : left + 156].reshape(-1, 3).max(axis=1) < 25
    assert dark.sum() > 500  # the hole of the good part
    for path in (tmp_path / "drilled").iterdir():
        path.unlink()
    with pytest.warns(HyperfsadWarning, match="no longer on disk"):
        assert (np.asarray(evidence.plot())[below] != shown).any()


def test_where_nothing_is_missing_nothing_is_told(drilled_parts: HyperFSAD) -> None:
    good = drilled_parts.explain(drilled(9))
    assert good.missing is None
    assert good.to_dict()["missing"] is None
    assert "missing here" not in good.to_text()
    assert good.shown == good.value
    elsewhere = drilled_parts.explain(drilled(9, hole=False), 5, 5)
    assert elsewhere.missing is None


@pytest.fixture(scope="module")
def on_the_line(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> HyperFSAD:
    """A detector that has learnt parts without a hole, on a line where nearly all have one."""
    folder = tmp_path_factory.mktemp("line")
    for seed in range(20, 32):
        drilled(seed, hole=seed < 30).save(folder / f"part {seed}.png")
    how = {"resolution": 168, "rotations": 1, "smooth": False, "missing": 0}
    detector = HyperFSAD(tiny, **how, device="cpu")  # type: ignore[arg-type]
    return detector.fit([drilled(seed, hole=False) for seed in range(2)]).adapt(folder)


def without_the_line(detector: HyperFSAD) -> HyperFSAD:
    """A copy that has learnt no unlabelled part."""
    fresh = detector.__copy__()
    fresh.unlabelled_, fresh._view = None, None
    return fresh


def distances_from_the_line(
    detector: HyperFSAD, image: Image.Image, evidence: Evidence
) -> dict[str, float]:
    """1 − cos of the patch from each unlabelled part by itself, by the formula."""
    assert detector.unlabelled_ is not None
    patch = evidence.row * evidence.grid + evidence.column
    query = detector.encoder_.encode([load_image(image)]).patches[0, :, patch]
    lookup, sharpness = LOOKUPS[detector.settings.lookup], detector.settings.sharpness
    found = {}
    for part, normal in enumerate(detector.unlabelled_.images):
        memory = np.stack(detector.unlabelled_.patches_of(part)).astype(np.float32)
        rebuilt = [
            lookup(sharpness * own[None] @ rows.T)[0] @ rows
            for own, rows in zip(query, memory, strict=True)
        ]
        found[normal.name] = float(1 - cosines(query, rebuilt).mean())
    return found


def test_the_unlabelled_parts_that_made_a_patch_normal_are_named(on_the_line: HyperFSAD) -> None:
    image = drilled(99)
    x, y = (HOLE[0] + HOLE[2]) / 2, (HOLE[1] + HOLE[3]) / 2
    result = on_the_line.predict(image)
    evidence = result.evidence(x, y)
    line, told = evidence.line, distances_from_the_line(on_the_line, image, evidence)
    assert line is not None
    assert evidence.value == pytest.approx(sorted(told.values())[line.needed - 1], abs=1e-5)
    map_value = float(result.anomaly_map[evidence.row, evidence.column])
    assert evidence.value == pytest.approx(map_value, abs=1e-6)
    assert evidence.shown == pytest.approx(map_value, abs=1e-6)
    unexplained = sum(layer.unexplained for layer in evidence.layers) / len(evidence.layers)
    assert line.support == pytest.approx(unexplained, abs=1e-6)
    assert line.support > evidence.value
    nearer = sorted((own, name) for name, own in told.items() if own < line.support)
    assert [patch.image for patch in line.patches] == [name for _, name in nearer]
    assert line.distances == pytest.approx([own for own, _ in nearer], abs=1e-5)
    assert line.asked == len(told)
    for patch in line.patches[: line.needed]:  # they show their own hole
        across, down = (168 * part for part in patch.centre)
        assert HOLE[0] < across < HOLE[2]
        assert HOLE[1] < down < HOLE[3]


def test_an_unlabelled_part_is_not_its_own_evidence(on_the_line: HyperFSAD) -> None:
    assert on_the_line.unlabelled_ is not None
    own = on_the_line.unlabelled_.images[0].name
    evidence = on_the_line.predict(own).evidence(HOLE[0] + 17, HOLE[1] + 17)
    assert evidence.line is not None
    assert evidence.line.asked == len(on_the_line.unlabelled_) - 1
    assert own not in {patch.image for patch in evidence.line.patches}


def test_without_unlabelled_parts_nothing_is_told_of_them(on_the_line: HyperFSAD) -> None:
    detector = without_the_line(on_the_line)
    evidence = detector.explain(drilled(99))
    assert evidence.line is None
    assert evidence.to_dict()["line"] is None
    assert "unlabelled" not in evidence.to_text()


def test_a_patch_that_was_not_looked_up_says_nothing_of_the_line(on_the_line: HyperFSAD) -> None:
    image, alone = drilled(99), without_the_line(on_the_line)
    support = alone.predict(image).anomaly_map
    lowered = on_the_line.predict(image).anomaly_map < support
    assert lowered.any()
    for place in support.argsort(axis=None):  # those that the support explains come last
        row, column = divmod(int(place), 12)
        evidence = on_the_line.explain(image, 14 * column + 7, 14 * row + 7)
        assert (evidence.line is not None) == lowered[row, column]
        told = sorted(distances_from_the_line(on_the_line, image, evidence).values())
        if evidence.line is None and told[1] < support[row, column] - 1e-4:
            return  # the line would have told something, had it been asked
    raise AssertionError("every patch was looked up")


def test_the_line_is_told_and_drawn(on_the_line: HyperFSAD, tmp_path: Path) -> None:
    evidence = on_the_line.predict(drilled(99)).evidence(HOLE[0] + 17, HOLE[1] + 17)
    line = evidence.line
    assert line is not None
    count = f"{len(line.patches)} of {line.asked} unlabelled parts"
    assert evidence.map_threshold is not None
    for level, words in (
        (evidence.shown, f"normal because {count} have it"),
        (evidence.shown / 2, f"{count} come nearer than the good parts, but not near enough"),
        (line.support, f"{count} come nearer than the good parts"),
        (None, f"{count} come nearer than the good parts"),
    ):
        text = replace(evidence, map_threshold=level).to_text()
        assert words in text.splitlines()
        assert f"{line.support:.3f} unexplained by the good parts" in text
        assert f"{evidence.value:.3f} by {line.needed} unlabelled parts" in text
        assert line.patches[0].image in text
    told = json.loads(evidence.to_json())["line"]
    assert told["patches"][0]["image"] == line.patches[0].image
    assert told["distances"] == list(line.distances)
    with pytest.warns(HyperfsadWarning, match="no longer on disk"):  # good parts were arrays
        drawn = np.asarray(evidence.plot())
    left = evidence_plot._MARGIN + evidence_plot._SIDE + 24 + evidence_plot._LABEL
    top = evidence_plot._MARGIN + evidence_plot._TITLE_HEIGHT
    top += evidence_plot._ROW * len(evidence.layers)
    row = slice(top + 12, top + 12 + evidence_plot._CROP)

    def dark(picture: np.ndarray) -> int:
        """Pixels of holes beyond the patch itself."""
        return int((picture[row, left + evidence_plot._CROP + 20 :] < 25).all(axis=-1).sum())

    assert dark(drawn) > 3000
    folder, away = Path(line.patches[0].image).parent, tmp_path / "away"
    folder.rename(away)
    try:
        with pytest.warns(HyperfsadWarning, match=r"no longer on disk.*: .*part \d\d\.png"):
            assert dark(np.asarray(evidence.plot())) == 0
    finally:
        away.rename(folder)
