"""Sentences about `report`."""

from . import Sentences


def _foreign_images(images: int, **_: object) -> str:
    some = "1 image looks" if images == 1 else f"{images:,} images look"
    means = "its score means" if images == 1 else "their scores mean"
    return f"{some} like a different product from the good parts, so {means} little."


REPORT_SENTENCES: Sentences = {
    "frame-library-missing": "A data frame needs {library}: pip install {library}.",
    "parquet-package": "Parquet needs one more package: pip install pyarrow.",
    "format-unknown": "Results are not written for {given!r}; known are {known}.",
    "labels-missing-file": "{path} does not exist.",
    "labels-unreadable": "{path} cannot be read as labels of COCO, CVAT (XML for images), FiftyOne,"
    " Label Studio (JSON) or YOLO (a folder): {cause}.",
    "all-anomalous": "All {images} images are anomalous: is this the right product, light and"
    " camera? If they are good, add some of them with hyperfsad extend.",
    "foreign-images": _foreign_images,
    "output-of-watch": "{folder} holds the results of hyperfsad watch; choose another output"
    " folder.",
    "results-replaced": "{folder} already holds {files}, which will be replaced.",
    "unfinished-run-replaced": "{folder} holds an unfinished run, which is replaced;"
    " {option[resume]} would continue it, with the same detector and options.",
}
