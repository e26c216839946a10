"""The cache of tokens: used, ignored when it must be, bounded, and safe to delete."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperfsad.encoders import find_spec
from hyperfsad.encoders.encoder import Tokens
from hyperfsad.images.geometry import rotate
from hyperfsad.images.loading import LoadedImage, load_image
from hyperfsad.lab.tokens import TokenCache
from tests.conftest import make_picture


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))


def cache_of(tiny: str, layers: tuple[int, ...] = (2, 4), limit: int = 1 << 30) -> TokenCache:
    return TokenCache(find_spec(tiny).settings(layers), device="cpu", limit=limit)


def encoded(cache: TokenCache, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all images that are encoded from now on."""
    names: list[str] = []
    original = cache.encoder.encode

    def counted(images: Sequence[LoadedImage]) -> Tokens:
        names.extend(image.name for image in images)
        return original(images)

    monkeypatch.setattr(cache.encoder, "encode", counted)
    return names


def test_a_turned_image_has_tokens_of_its_own(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(photos / "0.png")
    cache = cache_of(tiny)
    upright, turned = cache.tokens(path), cache.tokens(path, 90.0)
    expected = cache.encoder.encode([rotate(load_image(path), 90.0)])
    assert np.array_equal(turned.cls, expected.cls[0])
    assert not np.array_equal(turned.cls, upright.cls)
    again = cache_of(tiny)
    calls = encoded(again, monkeypatch)
    assert np.array_equal(again.tokens(path, 90.0).cls, turned.cls)
    assert np.array_equal(again.tokens(path).cls, upright.cls)
    assert calls == []


def test_engines_share_no_tokens(tiny: str, photos: Path) -> None:
    path = str(photos / "0.png")
    pytest.importorskip("torch")
    ours = cache_of(tiny)
    others = TokenCache(find_spec(tiny).settings((2, 4)), device="cpu", engine="torch")
    assert (ours.encoder.engine, others.encoder.engine) == ("openvino", "torch")
    first, second = ours.tokens(path), others.tokens(path)
    assert ours.folder != others.folder
    assert [len(list(cache.folder.iterdir())) for cache in (ours, others)] == [1, 1]
    assert np.allclose(first.cls, second.cls, atol=1e-5)


def test_tokens_are_those_of_the_encoder_and_are_made_once(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(photos / "0.png")
    first = cache_of(tiny).tokens(path)
    again = cache_of(tiny)
    calls = encoded(again, monkeypatch)
    second = again.tokens(path)
    assert calls == []
    expected = again.encoder.encode([load_image(path)])
    for tokens in (first, second):
        assert np.array_equal(np.stack(tokens.patches), expected.patches[0])
        assert np.array_equal(tokens.cls, expected.cls[0])


def test_a_subset_of_the_layers_is_read_and_a_new_layer_is_encoded(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(photos / "0.png")
    whole = cache_of(tiny, (2, 4)).tokens(path)
    part = cache_of(tiny, (4,))
    calls = encoded(part, monkeypatch)
    assert np.array_equal(part.tokens(path).patches[0], whole.patches[1])
    assert calls == []
    more = cache_of(tiny, (3, 4))
    calls = encoded(more, monkeypatch)
    more.tokens(path)
    assert calls == [path]


def test_a_changed_image_is_encoded_again_and_a_copy_is_not(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = photos / "0.png"
    before = cache_of(tiny).tokens(str(path))
    shutil.copy(path, photos / "copy.png")
    make_picture(99).save(path)
    cache = cache_of(tiny)
    calls = encoded(cache, monkeypatch)
    assert not np.array_equal(before.patches[0], cache.tokens(str(path)).patches[0])
    cache.tokens(str(photos / "copy.png"))
    assert calls == [str(path)]


def test_damage_and_deletion_cost_only_time(tiny: str, photos: Path) -> None:
    cache = cache_of(tiny)
    expected = cache.tokens(str(photos / "0.png"))
    file = next(cache.folder.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    assert np.array_equal(cache_of(tiny).tokens(str(photos / "0.png")).cls, expected.cls)
    shutil.rmtree(cache.folder)
    assert np.array_equal(cache.tokens(str(photos / "0.png")).cls, expected.cls)


def test_the_cache_stays_below_its_limit_and_keeps_what_was_used_last(
    tiny: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = cache_of(tiny)
    paths = [str(photos / f"{index}.png") for index in range(5)]
    cache.tokens(paths[0])
    size = next(cache.folder.glob("*.safetensors")).stat().st_size
    bounded = cache_of(tiny, limit=int(3.5 * size))
    for place, path in enumerate(paths):
        bounded.tokens(path)
        for file in bounded.folder.glob("*.safetensors"):
            if cache.content_hash(path)[:32] == file.stem:
                os.utime(file, (place + 1, place + 1))
    kept = sum(file.stat().st_size for file in bounded.folder.glob("*.safetensors"))
    assert kept <= 3.5 * size
    shutil.rmtree(cache.folder)
    cache_of(tiny, limit=0).tokens(paths[0])
    assert not cache.folder.exists()
    bounded.tokens(paths[4])
    last = cache_of(tiny)
    calls = encoded(last, monkeypatch)
    last.tokens(paths[4])
    assert calls == []


def test_a_cache_that_cannot_be_written_is_told_once(
    tiny: str, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    said: list[Any] = []
    cache = TokenCache(find_spec(tiny).settings((2,)), device="cpu", notify=said.append)
    cache.tokens(str(photos / "0.png"))
    cache.tokens(str(photos / "1.png"))
    assert [notice.code for notice in said] == ["tokens-not-stored"]
