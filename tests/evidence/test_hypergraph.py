"""The hypergraph of an image: its weights make the map, and each column names a normal patch."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

from hyperfsad import HyperFSAD, ProductDetector, UsageError
from hyperfsad.cli import main
from hyperfsad.errors import HyperfsadWarning
from hyperfsad.evidence import hypergraph
from hyperfsad.evidence.hypergraph import coloured
from hyperfsad.images.loading import load_image
from tests.codes import raises
from tests.conftest import make_picture
from tests.tokens import cosines


@pytest.fixture
def fitted(detector: HyperFSAD, photos: Path) -> HyperFSAD:
    return detector.fit([photos / "0.png", photos / "1.png", photos / "2.png"])


@pytest.mark.parametrize(
    ("settings", "roi"),
    [
        ({}, None),
        ({"lookup": "entmax-1.5"}, None),
        ({"rotations": 5}, None),
        ({"sharpness": 20.0}, None),
        ({"rotations": 4}, "0,0 95,0 95,79 30,79"),
    ],
)
def test_the_weights_make_the_map(
    tiny: str, photos: Path, settings: dict[str, object], roi: str | None
) -> None:
    """1 − cos(q, w·P) over all layers is what the detector shows."""
    detector = HyperFSAD(
        tiny,
        recipe="paper-offline",
        resolution=84,
        device="cpu",
        roi=roi,
        **settings,  # type: ignore[arg-type]
    )
    detector.fit([photos / "0.png", photos / "1.png"])
    result, grid = detector.predict(photos / "3.png"), 6
    visible = detector.view_.visible(load_image(photos / "3.png"))
    patches = detector.encoder_.encode([visible]).patches[0]
    region, memory = detector.view_.region, detector.memory_
    kept = region.patches(list(patches), grid)
    distances = []
    for place, layer in enumerate(detector.encoding_.layers):
        graph = detector.hypergraph(photos / "3.png", layer)
        assert graph.layer == layer
        assert graph.incidence.shape == (grid**2, len(memory.patches[0]))
        rebuilt = graph.incidence.toarray() @ memory.patches[place]
        inside = np.ones(grid**2, dtype=bool) if kept is None else kept
        own = np.zeros(grid**2)
        own[inside] = 1 - cosines(patches[place][inside], rebuilt[inside])
        distances.append(own)
        assert np.array_equal(graph.sizes > 0, inside)
        sums = graph.incidence.sums(axis=1)
        assert sums[inside] == pytest.approx(1, abs=1e-5)
        assert not sums[~inside].any()
    found = np.mean(distances, axis=0).reshape(grid, grid)
    assert found == pytest.approx(result.anomaly_map, abs=1e-5)


def test_sizes_and_degrees_count_both_sides(fitted: HyperFSAD, photos: Path) -> None:
    graph = fitted.hypergraph(photos / "4.png")
    dense = graph.incidence.toarray()
    assert graph.layer == fitted.encoding_.layers[-1]
    assert np.array_equal(graph.sizes, (dense > 0).sum(axis=1))
    assert np.array_equal(graph.degrees, (dense > 0).sum(axis=0))
    assert graph.carried == pytest.approx(dense.sum(axis=0), abs=1e-5)
    assert graph.sizes.sum() == graph.degrees.sum() == graph.incidence.nnz
    assert graph.degrees.shape == (3 * 36,)


@pytest.mark.parametrize("rotations", [1, 4])
def test_a_column_names_the_patch_that_evidence_names(
    tiny: str, photos: Path, rotations: int
) -> None:
    detector = HyperFSAD(
        tiny, recipe="paper-offline", resolution=84, rotations=rotations, device="cpu"
    ).fit([photos / "0.png", photos / "1.png"])
    graph = detector.hypergraph(photos / "3.png")
    evidence = detector.explain(photos / "3.png", 40, 30)
    row = evidence.row * graph.grid + evidence.column
    told = {
        (n.image, n.sha256, n.view, n.angle, n.row, n.column, n.centre): n.weight
        for n in evidence.layers[-1].neighbours
    }
    found = {}
    for column, weight in zip(*graph.incidence.row(row), strict=True):
        p = graph.place(column)
        key = (p.image, p.sha256, p.view, p.angle, p.row, p.column, p.centre)
        found[key] = float(weight)
    assert found.keys() == told.keys()
    assert list(found.values()) == pytest.approx([told[key] for key in found], abs=1e-6)
    with raises(UsageError, "column-unknown"):
        graph.place(graph.incidence.shape[1])


def test_the_file_is_scipys_with_names(
    fitted: HyperFSAD, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved, files = tmp_path / "part.hfsad", [tmp_path / f"graph-{n}.npz" for n in (1, 2)]
    fitted.save(saved)
    for file in files:
        command = ["explain", str(photos / "4.png"), "--detector", str(saved), "--device", "cpu"]
        assert main([*command, "--hypergraph", str(file), "--layer", "2"]) == 0
    assert "Hypergraph:" in capsys.readouterr().err
    assert files[0].read_bytes() == files[1].read_bytes()
    graph = fitted.hypergraph(photos / "4.png", 2)
    matrix = scipy.sparse.load_npz(files[0])
    assert np.array_equal(matrix.toarray(), graph.incidence.toarray())
    with np.load(files[0], allow_pickle=False) as stored:
        assert stored["normal_names"].tolist() == [str(photos / f"{n}.png") for n in range(3)]
        assert stored["normal_sha256"].tolist() == [n.sha256 for n in fitted.support_]
        assert stored["normal_angles"].tolist() == [0, 0, 0]
        assert (int(stored["layer"]), int(stored["grid"])) == (2, 6)
        assert str(stored["image"]) == str(photos / "4.png")
        assert np.array_equal(stored["sizes"], graph.sizes)
        assert np.array_equal(stored["degrees"], graph.degrees)


def test_what_it_cannot_show_is_one_sentence(fitted: HyperFSAD, photos: Path, tiny: str) -> None:
    with raises(UsageError, "layer-unused", given=9, used="1, 2, 3, 4"):
        fitted.hypergraph(photos / "4.png", 9)
    tiled = HyperFSAD(tiny, recipe="paper-offline", resolution=56, tiles=56, device="cpu")
    tiled.fit([photos / "0.png"], threshold=False)
    with raises(UsageError, "hypergraph-with-tiles"):
        tiled.hypergraph(photos / "4.png")


def test_an_image_is_compared_with_its_own_product(tiny: str, tmp_path: Path) -> None:
    for product, first in (("a", 0), ("b", 40)):
        folder = tmp_path / "products" / product
        folder.mkdir(parents=True)
        for seed in range(first, first + 2):
            make_picture(seed).save(folder / f"{seed}.png")
    detector = ProductDetector(tiny, recipe="paper-offline", resolution=84, device="cpu")
    detector.fit(tmp_path / "products")
    graph = detector.hypergraph(tmp_path / "products" / "b" / "41.png")
    assert graph.route is not None
    assert graph.route.nearest == "b"
    assert {Path(view.image.name).name for view in graph.normal} == {"40.png", "41.png"}


def test_the_picture_shows_both_parts_on_one_scale(fitted: HyperFSAD, photos: Path) -> None:
    graphs = [fitted.hypergraph(photos / f"{n}.png") for n in (3, 4)]
    alone, both = graphs[0].plot(), graphs[0].plot(graphs[1])
    assert both.width > 1.9 * alone.width
    assert np.array_equal(np.asarray(both), np.asarray(graphs[0].plot(graphs[1])))
    assert not np.array_equal(np.asarray(graphs[1].plot()), np.asarray(alone))


def test_colours_follow_the_values() -> None:
    picture = Image.new("RGB", (40, 20), (200, 200, 200))
    shown = np.asarray(coloured(picture, np.array([[0.0, 1.0], [5.0, 10.0]]), 10.0)).astype(int)
    none, least, middle, most = shown[5, 5], shown[5, 30], shown[15, 5], shown[15, 30]
    assert len(set(none.tolist())) == 1  # grey: nothing there
    assert least.sum() > middle.sum() > most.sum()


def test_a_good_part_that_is_gone_is_named(fitted: HyperFSAD, photos: Path, tmp_path: Path) -> None:
    graph = fitted.hypergraph(photos / "4.png")
    whole = graph.plot()
    moved = (photos / "0.png").rename(tmp_path / "elsewhere.png")
    with pytest.warns(HyperfsadWarning, match=r"0\.png"):
        assert not np.array_equal(np.asarray(graph.plot()), np.asarray(whole))
    assert np.array_equal(np.asarray(graph.plot(normal=[moved])), np.asarray(whole))


def test_only_the_heaviest_views_are_drawn(tiny: str, photos: Path, tmp_path: Path) -> None:
    detector = HyperFSAD(tiny, recipe="paper-offline", resolution=84, rotations=8, device="cpu")
    detector.fit([photos / "0.png", photos / "1.png"])
    graph = detector.hypergraph(photos / "3.png")
    assert len(graph.normal) == 16
    assert np.count_nonzero([graph.over(graph.degrees, n).any() for n in range(16)]) == 4
    path = tmp_path / "graph.png"
    graph.save(path)
    most = hypergraph._MOST_VIEWS // 2 * (hypergraph._VIEW_SIDE + 26)
    with Image.open(path) as picture:
        assert picture.height < hypergraph._SIDE + most + 400
