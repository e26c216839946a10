"""The paper's figures: as printed, complete, and where they agree with each other or do not."""

from collections import Counter
from itertools import product

import pytest

from hyperfsad.lab.published import SIX_SETS, PublishedRow, published, six_set_mean
from hyperfsad.lab.tables import Cell
from hyperfsad.method.lookups import LOOKUPS
from hyperfsad.method.scoring import Pooling

CLIP, DINOV2, DINOV3 = "CLIP ViT-L/14@336px", "DINOv2 ViT-B/14", "DINOv3 ViT-B/16"
SHOTS = (1, 2, 4)
AUROC = {"I-AUROC", "P-AUROC"}


def one(kind: str, **where: str | int | None) -> PublishedRow:
    (row,) = published(kind, **where)
    return row


OTHERS = """
RegAD 1: mvtec I-AUROC 73.3, brats P-AUROC 91.3, resc I-F1 60.4, mpdd P-AP 8.4
RegAD 4: mpdd I-AUROC 61.1
FastRecon 1: resc I-AUROC 82.8, brats I-AP 85.1
WinCLIP 1: btad P-AUROC 88.9
WinCLIP 4: brats PRO 63.0
APRIL-GAN 1: visa I-AUROC 87.1
PromptAD 1: resc P-AUROC 96.4
PromptAD 2: resc P-AP 69.9
PromptAD 4: mpdd I-AP 92.6
AnomalyGPT 1: visa P-AUROC 87.4
AnomalyGPT 4: visa P-AUROC 96.5
KAG-prompt 1: mpdd I-AUROC 68.3, brats PRO 77.8
KAG-prompt 2: mvtec I-AP 98.4
KAG-prompt 4: mvtec I-AUROC 97.1
SubspaceAD 1: brats I-AUROC 90.7
SubspaceAD 2: resc P-AUROC 95.0
SubspaceAD 4: resc I-AP 72.3, visa PRO 94.9
ReMP-AD 2: btad I-AUROC 95.4
"""
OURS = f"""
{CLIP} 1: btad I-AUROC 87.6 1.5, mpdd I-AP 84.0 2.0
{CLIP} 4: brats I-AUROC 90.1 0.8, brats P-AP 62.0 2.3
{DINOV2} 1: mpdd I-AUROC 83.0 0.9
{DINOV2} 2: btad I-F1 93.9 2.0
{DINOV2} 4: visa I-AUROC 95.5 0.1
{DINOV3} 1: mvtec I-AUROC 96.3 0.2, resc I-AUROC 93.0 1.4, resc PRO 86.1 0.5
{DINOV3} 2: brats P-AUROC 96.9 0.3, brats P-AP 67.9 1.0
{DINOV3} 4: resc P-AUROC 95.9 0.2, btad I-F1 96.2 0.1
"""


@pytest.mark.parametrize(("field", "printed"), [("method", OTHERS), ("backbone", OURS)])
def test_figures_of_the_main_tables(field: str, printed: str) -> None:
    for line in printed.strip().splitlines():
        head, figures = line.split(": ")
        name, shots = head.rsplit(" ", 1)
        for figure in figures.split(", "):
            dataset, metric, *numbers = figure.split(" ")
            row = one("main", **{field: name}, shots=int(shots), dataset=dataset)
            assert row.metrics[metric] == Cell(*map(float, numbers)), line
            assert (row.method == "Hyper-FSAD") == (field == "backbone") == (row.venue is None)


@pytest.mark.parametrize(
    ("kind", "variant", "shots", "dataset", "metric", "value"),
    [
        ("lookup", "top-1", 1, "mvtec", "I-AUROC", 93.4),
        ("lookup", "top-p", 4, "visa", "P-AUROC", 97.8),
        ("lookup", "softmax", 2, "mvtec", "P-AUROC", 86.4),
        ("lookup", "entmax-1.5", 4, "visa", "I-AUROC", 95.5),
        ("lookup", "softmax", 1, "mpdd", "I-AUROC", 67.1),
        ("lookup", "entmax-1.5", 2, "btad", "P-AUROC", 97.3),
        ("lookup", "top-p", 4, "resc", "I-AUROC", 85.8),
        ("lookup", "sparsemax", 4, "brats", "P-AUROC", 96.5),
        ("layers", "6", 1, "mvtec", "P-AUROC", 96.2),
        ("layers", "12", 1, "visa", "I-AUROC", 84.3),
        ("layers", "6,12", 4, "visa", "P-AUROC", 98.1),
        ("layers", "12", 1, "brats", "P-AUROC", 92.8),
        ("layers", "6", 2, "resc", "I-AUROC", 88.5),
        ("layers", "3,6,9,12", 4, "btad", "I-AUROC", 96.2),
        ("resolution", "224", 1, "mvtec", "I-AUROC", 95.4),
        ("resolution", "336", 2, "visa", "P-AUROC", 97.8),
        ("resolution", "560", 4, "visa", "I-AUROC", 94.9),
        ("resolution", "672", 4, "mvtec", "ms", 269.2),
        ("resolution", "448", 1, "visa", "ms", 52.6),
        ("lambda", "0", 1, "mvtec", "I-AUROC", 90.3),
        ("lambda", "0.5", 2, "mvtec", "I-F1", 97.7),
        ("lambda", "1", 4, "mvtec", "I-AP", 98.5),
        ("pooling", "top-10", 1, "mvtec", "I-F1", 95.9),
        ("pooling", "top-1%", 2, "mvtec", "I-AUROC", 96.9),
        ("pooling", "max", 4, "mvtec", "I-AP", 98.7),
    ],
)
def test_figures_of_the_ablations(
    kind: str, variant: str, shots: int, dataset: str, metric: str, value: float
) -> None:
    row = one(kind, variant=variant, shots=shots, dataset=dataset)
    assert row.metrics[metric] == Cell(value)
    assert (row.method, row.backbone) == ("Hyper-FSAD", DINOV3)


@pytest.mark.parametrize(
    ("method", "backbone", "resolution", "gigabytes", "milliseconds"),
    [
        ("RegAD", "ResNet18", "224", 3.82, 1517.1),
        ("FastRecon", "Wide-ResNet50", "224", 0.55, 106.6),
        ("WinCLIP", "ViT-L/14-336", "336", 15.7, 8033.5),
        ("AnomalyGPT", "ImageBind-Huge", "224", 19.17, 1653.2),
        ("SubspaceAD", DINOV2, "448", 1.01, 86.9),
        ("Hyper-FSAD", DINOV3, "448", 0.89, 52.6),
    ],
)
def test_figures_of_the_efficiency_table(
    method: str, backbone: str, resolution: str, gigabytes: float, milliseconds: float
) -> None:
    row = one("efficiency", method=method)
    assert (row.backbone, row.variant, row.shots) == (backbone, resolution, 1)
    assert row.metrics == {"GB": Cell(gigabytes), "ms": Cell(milliseconds)}


def test_the_main_tables_are_complete() -> None:
    rows = published("main")
    assert len(rows) == len(set(rows)) == 12 * 3 * 6
    places = Counter((row.shots, row.dataset) for row in rows)
    assert places == dict.fromkeys(product(SHOTS, SIX_SETS), 12)
    assert len({(row.method, row.venue, row.backbone) for row in rows}) == 12
    for row in rows:
        assert set(row.metrics) == AUROC | {"I-F1", "I-AP", "PRO", "P-AP"}
        ours = row.method == "Hyper-FSAD"
        assert all((figure.std is not None) == ours for figure in row.metrics.values())
        assert (row.venue is None) == ours == (row.backbone is not None)


@pytest.mark.parametrize(
    ("kind", "variants", "datasets", "metrics"),
    [
        ("layers", {"6", "12", "6,12", "3,6,9,12"}, set(SIX_SETS), AUROC),
        ("resolution", {"224", "336", "448", "560", "672"}, {"mvtec", "visa"}, AUROC | {"ms"}),
        ("lambda", {"0", "0.5", "1"}, {"mvtec"}, {"I-AUROC", "I-F1", "I-AP"}),
        ("pooling", {"top-10", "top-1%", "max"}, {"mvtec"}, {"I-AUROC", "I-F1", "I-AP"}),
    ],
)
def test_the_ablations_are_complete(
    kind: str, variants: set[str], datasets: set[str], metrics: set[str]
) -> None:
    rows = published(kind)
    found = [(row.variant, row.shots, row.dataset) for row in rows]
    assert sorted(map(str, found)) == sorted(map(str, product(variants, SHOTS, datasets)))
    assert all(set(row.metrics) == metrics for row in rows)


def test_the_lookup_ablation_lacks_top_1_outside_mvtec_and_visa() -> None:
    rows = published("lookup")
    places = Counter((row.dataset, row.shots) for row in rows)
    for dataset, shots in product(SIX_SETS, SHOTS):
        assert places[dataset, shots] == (5 if dataset in ("mvtec", "visa") else 4)
    assert {row.dataset for row in published("lookup", variant="top-1")} == {"mvtec", "visa"}
    assert len(rows) == 78
    assert all(set(row.metrics) == AUROC for row in rows)


def test_variants_are_settings_of_this_package() -> None:
    assert {row.variant for row in published("lookup")} == set(LOOKUPS)
    for row in published("pooling"):
        assert Pooling.parse(str(row.variant)).name == row.variant


def test_every_method_is_in_the_efficiency_table() -> None:
    rows = published("efficiency")
    assert len(rows) == 10
    assert {(row.method, row.venue) for row in rows} == {
        (row.method, row.venue) for row in published("main")
    }


def test_percentages_are_percentages() -> None:
    kinds = ("main", "lookup", "layers", "resolution", "lambda", "pooling")
    for row in (row for kind in kinds for row in published(kind)):
        for name, figure in row.metrics.items():
            assert name == "ms" or 5 < figure.mean < 100
            assert figure.std is None or 0 <= figure.std < 3


def test_the_averages_in_the_text_are_those_of_the_tables() -> None:
    stated_rows = published("text_averages", variant=None)
    stated = {
        (row.method, row.backbone, row.shots, name) for row in stated_rows for name in row.metrics
    }
    assert stated == {
        *(("Hyper-FSAD", DINOV3, shots, "P-AUROC") for shots in SHOTS),
        *(("Hyper-FSAD", DINOV3, shots, "I-AUROC") for shots in (1, 2)),
        ("Hyper-FSAD", CLIP, 4, "I-AUROC"),
        *(("ReMP-AD", None, shots, "I-AUROC") for shots in SHOTS),
    }
    for row in stated_rows:
        rows = published("main", method=row.method, backbone=row.backbone, shots=row.shots)
        for name, figure in row.metrics.items():
            assert six_set_mean(rows, name) == pytest.approx(figure.mean, abs=0.005)


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        ("lookup", "sparsemax"),
        ("layers", "3,6,9,12"),
        ("resolution", "448"),
        ("lambda", "0.5"),
        ("pooling", "max"),
    ],
)
def test_the_papers_setting_is_the_same_in_every_auroc_table(kind: str, variant: str) -> None:
    for row in published(kind, variant=variant):
        main = one("main", backbone=DINOV3, shots=row.shots, dataset=row.dataset)
        for name in AUROC & set(row.metrics):
            assert row.metrics[name].mean == main.metrics[name].mean


def test_rows_are_chosen_by_their_fields() -> None:
    rows = published("main", method="Hyper-FSAD", shots=1, dataset="mvtec")
    assert [row.backbone for row in rows] == [CLIP, DINOV2, DINOV3]
    assert len(published("main", backbone=None)) == 9 * 3 * 6
    assert published("main", shots=3) == []


def test_an_average_needs_all_six_sets_of_one_method() -> None:
    rows = published("main", method="RegAD", shots=1)
    assert six_set_mean(rows[:5], "P-AUROC") is None
    assert six_set_mean([], "P-AUROC") is None
    assert six_set_mean(published("efficiency", method="RegAD"), "ms") is None
    by_hand = (92.3 + 93.3 + 93.2 + 95.6 + 84.6 + 91.3) / 6
    assert six_set_mean(rows, "P-AUROC") == pytest.approx(by_hand)
    lookups = published("lookup", variant="sparsemax", shots=1)
    assert six_set_mean(lookups, "I-AUROC") == pytest.approx(89.95)
