"""Which images are meant, and how they are cut into chunks."""

import io
import random
from pathlib import Path
from typing import Any

from hyperfsad.cluster.sources import ImageLister, ImageRef, chunks
from hyperfsad.images.reading import find_images
from tests.cluster.conftest import BUCKET, make_photos
from tests.codes import codes


def names(*sources: object, output: object = "/nowhere") -> list[str]:
    return [image.name for image in ImageLister(list(map(str, sources)), str(output))]


def test_chunks_hold_every_image_once_and_are_bounded() -> None:
    images = [ImageRef(f"{number:05d}.png") for number in range(5000)]
    found = list(chunks(images, 64))
    assert [image for chunk in found for image in chunk.images] == images
    assert all(16 <= len(chunk.images) <= 192 for chunk in found[:-1])
    assert 40 < sum(len(chunk.images) for chunk in found) / len(found) < 90
    assert len({chunk.key for chunk in found}) == len(found)


def test_a_new_image_changes_few_chunks() -> None:
    images = [ImageRef(f"{number:05d}.png") for number in range(3000)]
    before = set(chunks(images, 32))
    for place in random.Random(0).sample(range(3000), 5):
        after = set(chunks([*images[:place], ImageRef(f"new{place}"), *images[place:]], 32))
        assert 1 <= len(before - after) <= 8


def test_one_image_is_one_chunk_even_of_size_one() -> None:
    found = list(chunks([ImageRef("a"), ImageRef("b")], 1))
    assert [len(chunk.images) for chunk in found] == [1, 1]
    assert list(chunks([], 4)) == []


def test_folders_are_searched_as_in_a_local_run(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", 9)
    inside = photos / "out"
    inside.mkdir()
    (inside / "heat.png").write_bytes(b"x")
    lister = ImageLister([str(photos)], str(inside))
    assert [i.name for i in lister] == [p for p in find_images([photos]).paths if "out" not in p]
    assert "notes.md" in lister.notes[0]


def test_lists_name_images_each_once(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("b.png\n\ns3://parts/a.png\nb.png\n")
    (tmp_path / "other.txt").write_text("c.png\nb.png\n")
    assert names(tmp_path / "list.txt") == ["b.png", "s3://parts/a.png"]
    lists = (tmp_path / "other.txt", tmp_path / "list.txt")
    assert names(*lists) == ["c.png", "b.png", "s3://parts/a.png"]
    lister = ImageLister([str(tmp_path / "gone.txt")], "/nowhere")
    assert list(lister) == []
    assert lister.failed
    assert lister.notes[0].endswith("gone.txt does not exist.")


def test_a_bucket_is_searched_like_a_folder(store: Any) -> None:
    for key in ("in/b.png", "in/a/z.jpg", "in/.hidden.png", "in/out/heatmaps/a.jpg", "in/x.txt"):
        store.upload_fileobj(io.BytesIO(key.encode()), BUCKET, key)
    lister = ImageLister([f"s3://{BUCKET}/in"], f"s3://{BUCKET}/in/out")
    found = list(lister)
    assert [image.name for image in found] == [
        f"s3://{BUCKET}/in/b.png",
        f"s3://{BUCKET}/in/a/z.jpg",
    ]
    assert all(image.stamp for image in found)
    assert codes(lister.notes) == ["storage-passed-over"]
    assert names(f"s3://{BUCKET}/in/*.png") == [f"s3://{BUCKET}/in/b.png"]
    assert names(f"s3://{BUCKET}/in/b.png") == [f"s3://{BUCKET}/in/b.png"]


def test_an_unknown_bucket_or_protocol_is_a_note() -> None:
    lister = ImageLister(["nonsense://x/y"], "/nowhere")
    assert list(lister) == []
    assert len(lister.notes) == 1


def test_a_web_address_is_an_image_and_is_not_asked_for() -> None:
    assert names("https://example.invalid/a.png") == ["https://example.invalid/a.png"]
