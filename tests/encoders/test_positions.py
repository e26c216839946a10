"""Tables of positions are resized as torch does it, and angles are those of the paper of DINOv3."""

import numpy as np
import pytest

from hyperfsad.encoders.positions import resized, rotary


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(
    ("trained", "side"), [(37, 32), (16, 32), (16, 5), (4, 9), (14, 20), (7, 7)]
)
def test_tables_are_resized_as_torch_does_it(trained: int, side: int, antialias: bool) -> None:
    torch = pytest.importorskip("torch", reason="compares with torch: hyperfsad[torch]")
    table = np.random.default_rng(0).standard_normal((trained**2, 6), np.float32)
    grid = torch.from_numpy(table.reshape(1, trained, trained, 6)).permute(0, 3, 1, 2)
    expected = torch.nn.functional.interpolate(
        grid, (side, side), mode="bicubic", align_corners=False, antialias=antialias
    )
    expected = expected.permute(0, 2, 3, 1).reshape(side * side, 6).numpy()
    found = resized(table, side, antialias)
    assert found.dtype == np.float32
    assert np.abs(found - expected).max() < 5e-6  # torch weighs in float32; 4e-7 from 37 to 32


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("side", [5, 24])
def test_what_is_even_stays_even_and_rows_are_no_columns(side: int, antialias: bool) -> None:
    rows = np.repeat(np.arange(12, dtype=np.float32), 12)
    found = resized(np.stack([rows, np.ones_like(rows)], axis=-1), side, antialias)
    found = found.reshape(side, side, 2)
    assert np.allclose(found[..., 1], 1, atol=1e-6)
    assert np.allclose(found[..., 0], found[:, :1, 0], atol=1e-5)
    assert (np.diff(found[:, 0, 0]) > 0).all()


def test_a_table_that_is_no_square_is_refused() -> None:
    with pytest.raises(ValueError, match="15 positions"):
        resized(np.zeros((15, 2), np.float32), 4)


def test_angles_turn_patches_and_nothing_else() -> None:
    cosine, sine = rotary(3, 8, 100.0, prefix=2)
    assert cosine.shape == sine.shape == (2 + 9, 8)
    assert (cosine[:2] == 1).all()
    assert (sine[:2] == 0).all()
    # the centre of the picture is the origin; the first patch lies at (-2/3, -2/3)
    assert np.allclose(cosine[2 + 4], 1)
    first = 2 * np.pi * -2 / 3 / 100.0 ** np.array([0, 0.5])
    assert np.allclose(sine[2], np.sin(np.tile(first, 4)), atol=1e-6)
