"""Several products in one detector: routing, strangers, files, folders."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from safetensors.numpy import load_file

from hyperfsad import (
    DetectorFileError,
    HyperFSAD,
    ImageError,
    ProductDetector,
    UsageError,
    load_detector,
)
from hyperfsad.decisions.routing import Router, least_similarities, look_alikes
from hyperfsad.demo.drawing import PRODUCTS, draw
from hyperfsad.detector.file import open_file
from hyperfsad.encoders.encoder import Encoder, load_encoder
from hyperfsad.errors import HyperfsadWarning
from hyperfsad.images.loading import NormalImage
from hyperfsad.images.reading import product_folders
from hyperfsad.method.memory import MemoryBank
from tests.codes import raises
from tests.detector.mutations import save_sealed
from tests.tokens import unit

NAMES = ("Dichtung groß", "bolt", "plate 2")


def product_picture(kind: int, seed: int = 0) -> Image.Image:
    """One product for each kind, which differs a little from seed to seed."""
    blobs = np.random.default_rng(kind).integers(0, 256, (6, 6, 3)).astype(float)
    blobs += np.random.default_rng([kind, seed]).normal(0, 6, blobs.shape)
    coarse = np.clip(blobs, 0, 255).astype(np.uint8)
    return Image.fromarray(coarse).resize((96, 80), Image.Resampling.BICUBIC)


def cls_of(*vectors: list[float]) -> NDArray[np.float32]:
    """CLS tokens of one layer, (K, 1, D)."""
    return unit(vectors)[:, None]


def bank(*vectors: list[float], same: bool = False) -> MemoryBank:
    """A memory bank that knows nothing but CLS tokens."""
    images = [NormalImage(f"{i}", "one" if same else f"{vectors[i]}") for i in range(len(vectors))]
    return MemoryBank((), cls_of(*vectors), tuple(images))


@pytest.fixture(scope="session")
def fresh(tiny: str) -> Callable[[], ProductDetector]:
    """Makes unfitted detectors on the small model."""
    return lambda: ProductDetector(tiny, recipe="paper-offline", resolution=84, device="cpu")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of good parts for each product."""
    root = tmp_path_factory.mktemp("products")
    for kind, name in enumerate(NAMES):
        (root / name).mkdir()
        for seed in range(kind + 1):  # one, two and three good parts
            product_picture(kind, seed).save(root / name / f"{seed}.png")
    return root


@pytest.fixture(scope="session")
def fitted(fresh: Callable[[], ProductDetector], folder: Path) -> ProductDetector:
    """Never changed by a test."""
    return fresh().fit(folder)


@pytest.fixture
def saved(fitted: ProductDetector, tmp_path: Path) -> Path:
    fitted.save(tmp_path / "line.hfsad")
    return tmp_path / "line.hfsad"


def test_the_nearest_product_is_that_of_the_most_similar_good_part() -> None:
    products = {"a": bank([1, 0, 0], [0, 1, 0]), "b": bank([0, 0, 1])}
    route = Router(products, {"a": 0.9, "b": 0.9}).route(cls_of([0, 4, 3])[0])
    assert (route.nearest, route.runner_up) == ("a", "b")
    assert route.similarity == pytest.approx(0.8)
    assert route.margin == pytest.approx(0.2)
    assert route.product is None
    assert route.unknown


def test_an_image_may_go_half_of_the_way_to_the_nearest_other_product() -> None:
    products = {"a": bank([1, 0, 0]), "b": bank([0.8, 0.6, 0])}  # 0.2 apart
    least = least_similarities(
        products, cls_of([-0.2, 0.0, 1.0]), 0.24
    )  # 1.16 and 1.19 from nothing
    assert least["a"] == pytest.approx(1 - max(0.1, 0.1 * 1.196), abs=1e-3)
    near = least_similarities(
        {"a": bank([1, 0, 0]), "b": bank([0.6, 0.8, 0])}, cls_of([0, 0, 1]), 0.24
    )
    assert near["a"] == near["b"] == pytest.approx(1 - 0.2)


def test_limits_come_from_empty_pictures_where_products_are_alike_or_have_nothing_in_common() -> (
    None
):
    empty = cls_of([0, 0, 1])  # at a distance of 1 from all below
    alike = {"a": bank([1, 0, 0]), "b": bank([1, 0.001, 0])}
    assert least_similarities(alike, empty, 0.24)["a"] == pytest.approx(1 - 0.1)
    different = {"a": bank([1, 0, 0]), "b": bank([0, 1, 0])}
    assert least_similarities(different, empty, 0.24)["a"] == pytest.approx(1 - 0.24)
    assert least_similarities({"a": bank([1, 0, 0])}, empty, 0.24)["a"] == pytest.approx(1 - 0.24)


def test_good_parts_that_differ_widely_allow_more() -> None:
    varied = {"a": bank([1, 0, 0], [0.8, 0.6, 0]), "b": bank([-1, 0, 0])}
    assert least_similarities(varied, cls_of([0, 0, 1]), 0.24)["a"] == pytest.approx(1 - 3 * 0.2)
    turned = {"a": bank([1, 0, 0], [0.8, 0.6, 0], same=True)}  # views of one good part
    assert least_similarities(turned, cls_of([0, 0, 1]), 0.24)["a"] == pytest.approx(1 - 0.24)


def test_products_that_cannot_be_told_apart_are_found() -> None:
    apart = {"a": bank([1, 0, 0], [1, 0.1, 0]), "b": bank([0, 0, 1], [0, 0.1, 1])}
    assert look_alikes(apart) == []
    mixed = {"a": bank([1, 0, 0], [1, 0.3, 0], [0, 0, 1]), "b": bank([0, 0.1, 1], [0, 0.2, 1])}
    (found,) = look_alikes(mixed)  # nothing of b is nearer to a
    assert (found.product, found.other, found.nearer, found.count) == ("a", "b", 1, 3)
    # lone good parts: the same picture twice, or no farther than others are from their like
    assert len(look_alikes({"a": bank([1, 0, 0]), "b": bank([1, 0, 0])})) == 2
    assert look_alikes({"a": bank([1, 0, 0]), "b": bank([1, 0.1, 0])}) == []
    third = {"c": bank([0, 0, 1], [0, 0.2, 1])}
    assert len(look_alikes({"a": bank([1, 0, 0]), "b": bank([1, 0.1, 0]), **third})) == 2


def test_each_image_is_judged_by_its_own_product(fitted: ProductDetector, tiny: str) -> None:
    images = [product_picture(kind, 9) for kind in (2, 0, 1)]
    results = list(fitted.predict_many(images))
    assert [result.product for result in results] == [NAMES[2], NAMES[0], NAMES[1]]
    for kind, result in zip((2, 0, 1), results, strict=True):
        alone = HyperFSAD(tiny, recipe="paper-offline", resolution=84, device="cpu")
        alone.fit([product_picture(kind, seed) for seed in range(kind + 1)])
        expected = alone.predict(product_picture(kind, 9))
        assert result.score == expected.score
        assert result.scale == expected.scale
        np.testing.assert_array_equal(result.anomaly_map, expected.anomaly_map)


@pytest.mark.parametrize(
    "stranger",
    [product_picture(7), Image.new("RGB", (90, 90), "white"), Image.new("RGB", (90, 90), "black")],
    ids=["another product", "white", "black"],
)
def test_strangers_fit_no_product_but_are_judged(
    fitted: ProductDetector, stranger: Image.Image
) -> None:
    result = fitted.predict(stranger)
    assert result.product is None
    assert result.unknown_product is True
    line = result.to_dict()
    assert line["unknown_product"] is True
    assert line["nearest_product"] in NAMES
    assert line["product_margin"] >= 0
    assert line["score"] > 0
    assert result.route is not None
    assert "fits no product; the nearest is" in result.route.to_text()


def test_results_of_one_product_say_nothing_of_products(detector: HyperFSAD) -> None:
    result = detector.fit([product_picture(0)]).predict(product_picture(0, 1))
    line = result.to_dict()
    names = ("product", "unknown_product", "nearest_product", "product_similarity")
    assert [line[name] for name in names] == [None] * 4
    assert result.product is None
    assert result.unknown_product is None


def test_an_image_that_cannot_be_read_does_not_stop_the_others(
    fitted: ProductDetector, tmp_path: Path
) -> None:
    (tmp_path / "0.png").write_bytes(b"nothing")
    product_picture(1, 8).save(tmp_path / "1.png")
    bad, good = fitted.predict_many(tmp_path)
    assert bad.error is not None
    assert bad.to_dict()["product"] is None
    assert good.product == NAMES[1]
    with pytest.raises(ImageError):
        fitted.predict(tmp_path / "0.png")


def test_one_encoder_serves_all_products_and_sees_an_image_once(
    fresh: Callable[[], ProductDetector], saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []

    def counted(*args: Any, **more: Any) -> Encoder:
        loads.append("loaded")
        return load_encoder(*args, **more)

    monkeypatch.setattr("hyperfsad.detector.encoding.load_encoder", counted)
    loaded = load_detector(saved, device="cpu")
    assert not loads
    calls: list[int] = []
    encode = Encoder.encode_prepared

    def watched(self: Encoder, images: Any) -> Any:
        calls.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(Encoder, "encode_prepared", watched)
    list(loaded.predict_many([product_picture(kind, 5) for kind in range(3)]))
    assert loads == ["loaded"]
    assert calls == [1, 1, 1]


def test_saved_and_loaded_it_says_the_same(fitted: ProductDetector, saved: Path) -> None:
    loaded = load_detector(saved, device="cpu")
    assert isinstance(loaded, ProductDetector)
    assert list(loaded.products_) == list(NAMES)
    assert loaded.least_ == fitted.least_
    assert loaded.identity() == fitted.identity()
    assert loaded.support_ == fitted.support_
    for kind in (0, 2, 7):
        one, other = (
            fitted.predict(product_picture(kind, 4)),
            loaded.predict(product_picture(kind, 4)),
        )
        assert one.to_dict() == other.to_dict()
    again = saved.with_name("again.hfsad")
    loaded.save(again)
    assert again.read_bytes() == saved.read_bytes()


def test_thresholds_belong_to_the_product(fitted: ProductDetector, saved: Path) -> None:
    detector = ProductDetector.load(saved, device="cpu")
    for level, each in enumerate(detector.products_.values()):
        each.threshold_, each.map_threshold_ = 0.1 + level, 0.2 + level
    detector.save(saved)
    loaded = ProductDetector.load(saved, device="cpu")
    result = loaded.predict(product_picture(2, 6))
    assert (result.threshold, result.map_threshold) == (2.1, 2.2)
    assert result.anomalous is False
    assert loaded.identity() != fitted.identity()


def test_a_file_of_one_product_and_one_of_several_are_told_apart(
    detector: HyperFSAD, saved: Path, tmp_path: Path
) -> None:
    with raises(DetectorFileError, "file-holds-products"):
        HyperFSAD.load(saved)
    detector.fit([product_picture(0)]).save(tmp_path / "part.hfsad")
    assert isinstance(load_detector(tmp_path / "part.hfsad", device="cpu"), HyperFSAD)
    with raises(DetectorFileError, "file-not-products"):
        ProductDetector.load(tmp_path / "part.hfsad")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda header, _: header.update(products=[]), "file-field-invalid"),
        (lambda header, _: header.update(products={"bolt": 1}), "file-field-invalid"),
        (lambda header, _: header["products"][1].update(name=["bolt"]), "file-field-invalid"),
        (lambda header, _: header["products"][2].pop("least_similarity"), "file-field-invalid"),
        (lambda header, _: header["products"][2].pop("threshold"), "file-field-invalid"),
        (lambda header, _: header["products"].append(header["products"][0]), "file-damaged"),
        (lambda header, _: header["products"][1].update(name=NAMES[0]), "file-damaged"),
        (
            lambda _, tensors: tensors.update({"products.1.cls": tensors["products.0.cls"] + 1}),
            "file-damaged",
        ),
        (lambda header, _: header["products"][1]["encoder"].update(fingerprint=""), "file-damaged"),
        (lambda header, _: header["products"][2].update(least_similarity=math.nan), "file-damaged"),
    ],
)
def test_every_part_of_a_file_is_checked(saved: Path, change: Any, code: str) -> None:
    tensors, header = load_file(saved), open_file(saved).header
    change(header, tensors)
    save_sealed(tensors, saved, json.dumps(header))
    with raises(DetectorFileError, code):
        load_detector(saved)


def test_extending_a_product_equals_fitting_on_all(
    fresh: Callable[[], ProductDetector], fitted: ProductDetector, saved: Path
) -> None:
    loaded = ProductDetector.load(saved, device="cpu")
    more = [product_picture(1, seed) for seed in (5, 6)]
    assert loaded.extend(more, product=NAMES[1]) is loaded
    whole = {
        name: [product_picture(kind, seed) for seed in range(kind + 1)]
        for kind, name in enumerate(NAMES)
    }
    whole[NAMES[1]] += more
    expected = fresh().fit(whole)
    assert loaded.least_ == expected.least_
    image = product_picture(1, 11)
    assert loaded.predict(image).to_dict() == expected.predict(image).to_dict()


def test_a_stranger_can_become_a_product(saved: Path) -> None:
    detector = ProductDetector.load(saved, device="cpu")
    image = product_picture(7, 9)
    assert detector.predict(image).product is None
    detector.extend([product_picture(7, seed) for seed in range(2)], product="new one")
    assert detector.predict(image).product == "new one"
    assert detector.predict(product_picture(0, 9)).product == NAMES[0]
    detector.save(saved)
    assert list(ProductDetector.load(saved).products_) == [*NAMES, "new one"]
    with raises(UsageError, "product-without-name"):
        detector.extend([product_picture(8)], product=" ")


def test_evidence_comes_from_the_images_product(fitted: ProductDetector) -> None:
    image = product_picture(2, 7)
    found = fitted.explain(image)
    assert found.route is not None
    assert found.route.product == NAMES[2]
    assert f"product {NAMES[2]}, similarity" in found.to_text()
    assert found.to_dict()["product"] == NAMES[2]
    names = {image.sha256 for image in fitted.products_[NAMES[2]].support_}
    assert {n.sha256 for layer in found.layers for n in layer.neighbours} <= names
    of_result = fitted.predict(image).evidence()
    assert (of_result.row, of_result.column) == (found.row, found.column)
    deep = np.asarray(image.convert("L")).astype(np.uint16) * 257  # 16 bits: another way in
    assert fitted.explain(deep).layers


def test_regions_below_an_area_are_left_out_of_all_products(saved: Path) -> None:
    detector = ProductDetector.load(saved, device="cpu")
    for each in detector.products_.values():
        each.map_threshold_ = 0.0
    image = product_picture(0, 3)
    assert detector.predict(image).regions
    detector.min_area = 1e9
    assert detector.predict(image).regions == ()


def test_folders_are_found_in_order_and_hidden_ones_are_not(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(folder, root)
    (root / ".cache").mkdir()
    product_picture(3).save(root / ".cache" / "x.png")
    (root / "notes.txt").write_text("no picture")
    found = product_folders(root)
    assert list(found) == sorted(NAMES)
    assert [len(images.paths) for images in found.values()] == [1, 2, 3]


def test_images_beside_the_folders_are_told_of(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(folder, root)
    product_picture(3).save(root / "loose.png")
    with pytest.warns(HyperfsadWarning, match=r"loose\.png beside the folders .* left out"):
        assert list(product_folders(root)) == sorted(NAMES)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda root: root.rmdir(), "products-not-a-folder"),
        (lambda root: None, "products-without-folders"),
        (lambda root: (root / "bolt").mkdir(), "product-without-images"),
        (
            lambda root: [(root / "bolt" / kind).mkdir(parents=True) for kind in ("train", "test")],
            "product-with-defects",
        ),
    ],
    ids=["missing", "flat", "empty", "data set"],
)
def test_bad_folders_are_refused_in_one_sentence(
    fresh: Callable[[], ProductDetector], tmp_path: Path, make: Any, code: str
) -> None:
    root = tmp_path / "products"
    root.mkdir()
    make(root)
    with raises(UsageError, code):
        fresh().fit(root)


def test_a_product_without_a_readable_image_is_named(
    fresh: Callable[[], ProductDetector], tmp_path: Path
) -> None:
    for name in ("bolt", "nut"):
        (tmp_path / name).mkdir()
    product_picture(0).save(tmp_path / "bolt" / "0.png")
    (tmp_path / "nut" / "0.png").write_bytes(b"nothing")
    detector = fresh()
    with (
        pytest.warns(HyperfsadWarning, match="left out"),
        raises(UsageError, "product-not-learnt", product="nut"),
    ):
        detector.fit(tmp_path)
    with raises(UsageError, "detector-not-fitted"):
        detector.predict(product_picture(0))
    with raises(UsageError, "no-product"):
        detector.fit({})


def test_one_product_is_enough(fresh: Callable[[], ProductDetector]) -> None:
    detector = fresh().fit({"bolt": [product_picture(0)]})
    assert detector.predict(product_picture(0, 1)).product == "bolt"
    assert detector.predict(Image.new("RGB", (96, 80), "white")).unknown_product
    assert detector.predict(product_picture(0, 1)).to_dict()["product_margin"] is None


def test_halves_of_one_product_are_warned_about(fresh: Callable[[], ProductDetector]) -> None:
    with pytest.warns(HyperfsadWarning, match="left looks like right|right looks like left"):
        fresh().fit(
            {
                "left": [product_picture(0, seed) for seed in range(4)],
                "right": [product_picture(0, seed) for seed in range(4, 8)],
                "other": [product_picture(1)],
            }
        )


@pytest.fixture(scope="module")
def drawn() -> ProductDetector:
    """The demo's parts, two good ones of each, with the default recipe but for turned copies."""
    return ProductDetector(device="cpu", engine="openvino", rotations=1).fit(
        {product: [draw(product, seed=seed).image for seed in range(2)] for product in PRODUCTS}
    )


def test_drawn_parts_go_to_their_product_with_any_defect(drawn: ProductDetector) -> None:
    for product, defect in (("plate", "stain"), ("fabric", "hole"), ("fabric", None)):
        result = drawn.predict(draw(product, seed=30, defect=defect).image)
        assert result.product == product, defect
        assert result.to_dict()["product_margin"] > 0.03


@pytest.mark.parametrize("name", ["white", "noise"])
def test_what_is_no_drawn_part_fits_none(drawn: ProductDetector, name: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (320, 320, 3), dtype=np.uint8)
    if name == "white":
        pixels = np.full_like(pixels, 252)
    assert drawn.predict(pixels).unknown_product
