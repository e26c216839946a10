"""The most anomalous images of a run, as a terminal shows them."""

from typing import Any

from .console import VERDICTS, printable


def print_worst(records: list[dict[str, Any]], scored: int, where: str) -> None:
    """Prints a row for each of the most anomalous images, and where the others are."""
    print("  score  threshold  verdict    most anomalous images")
    for record in records:
        name = printable(record["image"] + _product(record) + _by_a_region(record))
        limit = "–" if record["threshold"] is None else f"{record['threshold']:.3f}"
        verdict = VERDICTS[record["anomalous"]]
        print(f"{record['score']:7.3f}  {limit:>9}  {verdict:9}  {name}")
    if scored > len(records):
        print(printable(f"         and {scored - len(records)} more: {where}"))


def _product(record: dict[str, Any]) -> str:
    """The product of an image, where the detector knows several."""
    nearest = record.get("nearest_product")
    if nearest is None:
        return "  (looks like another product)" if record.get("foreign") else ""
    unknown = record["unknown_product"]
    return f"  (fits no product, nearest {nearest})" if unknown else f"  ({nearest})"


def _by_a_region(record: dict[str, Any]) -> str:
    """Why an image is anomalous whose score is not."""
    by_score = record["anomalous"] is not True or record["score"] > record["threshold"]
    return "" if by_score else " (by a region of its map)"
