"""A recipe says what the other choices are; the paper's is the paper's."""

from pathlib import Path

import pytest
from PIL import Image

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.detector.settings import RECIPES, RecipeName
from hyperfsad.encoders import REGISTRY


@pytest.mark.parametrize(
    ("recipe", "encoder", "layers"),
    [
        ("paper", "dinov3-vitb16", (3, 6, 9, 12)),
        ("paper-offline", "dinov2-vits14", (3, 6, 9, 12)),
    ],
)
def test_both_recipes_of_the_paper_have_its_algorithm(
    recipe: RecipeName, encoder: str, layers: tuple[int, ...]
) -> None:
    detector = HyperFSAD(recipe=recipe)
    assert detector.settings.backbone == encoder
    assert detector.encoding_.layers == layers
    assert detector.encoding_.resolution == 448
    assert (detector.settings.lookup, detector.settings.pooling, detector.settings.lam) == (
        "sparsemax",
        "max",
        0.5,
    )
    assert detector.settings.sharpness == 1.0
    assert (detector.settings.missing, detector.settings.rotations) == (0.0, 1)
    assert not detector.encoding_.last_norm


def test_the_default_needs_no_hub_and_has_the_last_block_as_its_authors_use_it() -> None:
    detector = HyperFSAD()
    assert detector.settings.backbone == "dinov2-vits14"
    assert REGISTRY[detector.settings.backbone].wheel is not None
    assert detector.encoding_.layers == (3, 9, 12)
    assert detector.encoding_.last_norm
    assert detector.encoding_.resolution == 448
    assert (detector.settings.pooling, detector.settings.lam, detector.settings.missing) == (
        "top-0.5%",
        1.0,
        0.15,
    )
    assert detector.settings.rotations == "auto"


def test_the_final_norm_is_only_for_the_last_block_of_the_model() -> None:
    assert not HyperFSAD(layers=(3, 9)).encoding_.last_norm
    assert not HyperFSAD("dinov3-vitb16").encoding_.last_norm  # all of its layers pass the norm
    assert HyperFSAD(recipe="paper-offline", last_norm=True).encoding_.last_norm
    assert not HyperFSAD(last_norm=False).encoding_.last_norm


def test_a_choice_of_the_user_goes_before_the_recipe() -> None:
    detector = HyperFSAD("dinov2-vits14", pooling="max", layers=(4,), resolution=224)
    assert (
        detector.settings.pooling,
        detector.encoding_.layers,
        detector.encoding_.resolution,
    ) == (
        "max",
        (4,),
        224,
    )
    assert detector.settings.sharpness == RECIPES["default"].sharpness


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("backbone", REGISTRY)
def test_every_recipe_fits_every_encoder(name: RecipeName, backbone: str) -> None:
    settings = RECIPES[name].settings(backbone)
    assert settings.name == backbone
    assert set(settings.layers) <= set(REGISTRY[backbone].layers)
    assert HyperFSAD(backbone, recipe=name).encoding_ == settings


def test_the_paper_recipe_says_how_to_get_its_weights(
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path))
    out = str(tmp_path / "part.hfsad")
    assert main(["fit", str(photos / "0.png"), "-o", out, "--recipe", "paper"]) == 1
    told = capsys.readouterr().err
    assert "dinov3-vitb16" in told
    assert "--from FOLDER" in told


def test_the_recipe_is_an_option(
    tiny: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "part.hfsad")
    arguments = ["fit", str(photos / "0.png"), "-o", path, "--backbone", tiny, "--device", "cpu"]
    assert main([*arguments, "--recipe", "paper-offline"]) == 0
    assert HyperFSAD.load(path).settings.recipe == "paper-offline"
    assert main(["info", path]) == 0
    assert "recipe      paper-offline\n" in capsys.readouterr().out
    out = str(tmp_path / "out")
    detect = ["detect", str(photos), "--detector", path, "-o", out]
    assert main([*detect, "--recipe", "default"]) == 2
    assert "--recipe is fixed in a saved detector" in capsys.readouterr().err


def test_the_default_encoder_finds_a_defect() -> None:
    """The real default, from its real weights, on parts that it draws; the demo turns them too."""
    from hyperfsad.demo.drawing import draw

    detector = HyperFSAD(rotations=1, device="cpu")
    detector.fit([draw("plate", seed=seed).image for seed in range(2)])
    good, bad = (
        detector.predict(draw("plate", seed=9, defect=defect).image) for defect in (None, "scratch")
    )
    assert bad.score > 1.1 * good.score
    assert isinstance(bad.plot(), Image.Image)
