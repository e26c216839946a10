"""Pictures that leave: written at once or not at all."""

from pathlib import Path

from PIL import Image

from ..disk.atomic import atomic_path
from ..errors import UsageError


def save_picture(picture: Image.Image, path: Path) -> None:
    """Writes a picture at once or not at all."""
    options = {"quality": 92, "subsampling": 0} if path.suffix.lower() in (".jpg", ".jpeg") else {}
    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind is None:
        raise UsageError(f"{path.name}: a picture's name ends with .jpg or .png.")
    with atomic_path(path) as temporary:
        picture.save(temporary, format=kind, **options)
