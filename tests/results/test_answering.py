"""What goes wrong with one of many images is its own error."""

from hyperfsad.errors import ImageError
from hyperfsad.images.loading import ImageSource, LoadedImage
from hyperfsad.results.answering import answers
from tests.conftest import make_picture


def test_an_error_names_its_image_whatever_it_came_as() -> None:
    def refuse(_: object) -> LoadedImage:
        raise ImageError("It is bad.")

    there = LoadedImage("s3://parts/b.png", make_picture())
    sources: list[ImageSource | LoadedImage] = ["a.png", there, make_picture()]
    found = list(answers(sources, refuse, lambda _: [], batch=2, read_ahead=2))
    assert [result.image for result in found] == ["a.png", "s3://parts/b.png", "image"]
    assert [result.error for result in found] == ["It is bad."] * 3
