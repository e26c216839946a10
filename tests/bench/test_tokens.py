"""The cache of tokens: used, ignored when it must be, bounded, and safe to delete."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from hyperfsad.bench.tokens import TokenStore
from hyperfsad.encoders import find_spec
from hyperfsad.images.loading import load_image
from hyperfsad.images.rotation import turn
from tests.conftest import make_picture


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPERFSAD_CACHE", str(tmp_path / "cache"))


def store_of(tiny: str, layers: tuple[int, ...] = (2, 4), limit: int = 1 << 30) -> TokenStore:
    return TokenStore(find_spec(tiny).settings(layers), device="cpu", limit=limit)


def encoded(store: TokenStore) -> list[str]:
    """Counts what is encoded from now on."""
    calls: list[str] = []
    original = store._encode

    def counted(path: str, angle: float, file: Path) -> object:
        calls.append(path)
        return original(path, angle, file)

    store._encode = counted  # type: ignore[method-assign, assignment]
    return calls


def test_a_turned_image_has_tokens_of_its_own(tiny: str, photos: Path) -> None:
    path = str(photos / "0.png")
    store = store_of(tiny)
    upright, turned = store.tokens(path), store.tokens(path, 90.0)
    expected = store.encoder.encode([turn(load_image(path), 90.0)])
    assert torch.equal(turned.cls, expected.cls[0])
    assert not torch.equal(turned.cls, upright.cls)
    again = store_of(tiny)
    calls = encoded(again)
    assert torch.equal(again.tokens(path, 90.0).cls, turned.cls)
    assert torch.equal(again.tokens(path).cls, upright.cls)
    assert calls == []


def test_engines_share_no_tokens(tiny: str, photos: Path) -> None:
    path = str(photos / "0.png")
    ours = store_of(tiny)
    others = TokenStore(find_spec(tiny).settings((2, 4)), device="cpu", engine="openvino")
    assert (ours.encoder.engine, others.encoder.engine) == ("torch", "openvino")
    first, second = ours.tokens(path), others.tokens(path)
    assert ours.folder != others.folder
    assert [len(list(store.folder.iterdir())) for store in (ours, others)] == [1, 1]
    assert torch.allclose(first.cls, second.cls, atol=1e-5)


def test_tokens_are_those_of_the_encoder_and_are_made_once(tiny: str, photos: Path) -> None:
    path = str(photos / "0.png")
    first = store_of(tiny).tokens(path)
    again = store_of(tiny)
    calls = encoded(again)
    second = again.tokens(path)
    assert calls == []
    expected = again.encoder.encode([load_image(path)])
    for tokens in (first, second):
        assert torch.equal(torch.stack(tokens.patches), expected.patches[0])
        assert torch.equal(tokens.cls, expected.cls[0])


def test_a_subset_of_the_layers_is_read_and_a_new_layer_is_encoded(tiny: str, photos: Path) -> None:
    path = str(photos / "0.png")
    whole = store_of(tiny, (2, 4)).tokens(path)
    part = store_of(tiny, (4,))
    calls = encoded(part)
    assert torch.equal(part.tokens(path).patches[0], whole.patches[1])
    assert calls == []
    more = store_of(tiny, (3, 4))
    calls = encoded(more)
    more.tokens(path)
    assert calls == [path]


def test_a_changed_image_is_encoded_again(tiny: str, photos: Path) -> None:
    path = photos / "0.png"
    before = store_of(tiny).tokens(str(path))
    make_picture(99).save(path)
    after = store_of(tiny).tokens(str(path))
    assert not torch.equal(before.patches[0], after.patches[0])


def test_a_copy_under_another_name_is_not_encoded(tiny: str, photos: Path) -> None:
    store_of(tiny).tokens(str(photos / "0.png"))
    shutil.copy(photos / "0.png", photos / "copy.png")
    store = store_of(tiny)
    calls = encoded(store)
    store.tokens(str(photos / "copy.png"))
    assert calls == []


def test_damage_and_deletion_cost_only_time(tiny: str, photos: Path) -> None:
    store = store_of(tiny)
    expected = store.tokens(str(photos / "0.png"))
    file = next(store.folder.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    assert torch.equal(store_of(tiny).tokens(str(photos / "0.png")).cls, expected.cls)
    shutil.rmtree(store.folder)
    assert torch.equal(store.tokens(str(photos / "0.png")).cls, expected.cls)


def test_the_cache_stays_below_its_limit_and_keeps_what_was_used_last(
    tiny: str, photos: Path
) -> None:
    store = store_of(tiny)
    paths = [str(photos / f"{index}.png") for index in range(5)]
    store.tokens(paths[0])
    size = next(store.folder.glob("*.safetensors")).stat().st_size
    bounded = store_of(tiny, limit=int(3.5 * size))
    for place, path in enumerate(paths):
        bounded.tokens(path)
        for file in bounded.folder.glob("*.safetensors"):
            if store.content_hash(path)[:32] == file.stem:
                os.utime(file, (place + 1, place + 1))
    kept = sum(file.stat().st_size for file in bounded.folder.glob("*.safetensors"))
    assert kept <= 3.5 * size
    last = store_of(tiny)
    calls = encoded(last)
    last.tokens(paths[4])
    assert calls == []


def test_a_limit_of_zero_keeps_nothing(tiny: str, photos: Path) -> None:
    store = store_of(tiny, limit=0)
    store.tokens(str(photos / "0.png"))
    assert not store.folder.exists()


def test_a_cache_that_cannot_be_written_is_told_once(
    tiny: str, photos: Path, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    said: list[str] = []
    store = TokenStore(find_spec(tiny).settings((2,)), device="cpu", notify=said.append)
    store.tokens(str(photos / "0.png"))
    store.tokens(str(photos / "1.png"))
    assert len(said) == 1
    assert "not kept on disk" in said[0]
