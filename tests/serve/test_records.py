"""The client's records are made from the station's schemas, so that there is one list of fields.

`python -m tests.serve.test_records` writes them again.
"""

import ast
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from hyperfsad.serve import records, schemas

FILE = Path(records.__file__)
ANSWERS = (
    *(schemas.ProductOut, schemas.VersionList, schemas.GoodPartList, schemas.GoodPartLevels),
    *(schemas.ProposalOut, schemas.InspectionOut, schemas.InspectedOut, schemas.HistoryPage),
    *(
        schemas.TrendOut,
        schemas.TrialOut,
        schemas.CoverageOut,
        schemas.WatchedFolderOut,
        schemas.SourceOut,
        schemas.ShotOut,
        schemas.ConnectionsOut,
        schemas.ConnectionTestOut,
        schemas.AuditPage,
        schemas.UserList,
        schemas.ShiftPlan,
        schemas.ShiftReport,
        schemas.Readiness,
    ),
)
HEAD = '''"""What the station answers, as types of the client; made from `schemas` by a test."""

from typing import Any, Literal, TypedDict
'''


def named(kind: type[BaseModel]) -> str:
    return f"{kind.__name__.removesuffix('Out')}Record"


def models(kind: Any) -> list[type[BaseModel]]:
    """The models in a type, those inside others first."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        inside = [found for each in get_type_hints(kind).values() for found in models(each)]
        return [*inside, kind]
    return [found for each in get_args(kind) for found in models(each)]


def text(kind: Any) -> str:
    """A type as it is written."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inside))}]".replace("'", '"')
    if origin in (Union, types.UnionType):
        return " | ".join(map(text, inside))
    if origin is not None:
        return f"{origin.__name__}[{', '.join(map(text, inside))}]"
    if kind is Any:
        return "Any"
    if kind is type(None):
        return "None"
    return named(kind) if issubclass(kind, BaseModel) else str(kind.__name__)


def generated() -> str:
    """The content of the file."""
    parts = [HEAD]
    for model in dict.fromkeys(found for answer in ANSWERS for found in models(answer)):
        doc = (model.__doc__ or "").strip()
        rows = [f"class {named(model)}(TypedDict):", f'    """{doc}"""', ""]
        hints = get_type_hints(model)
        for name, field in model.model_fields.items():
            rows.append(f"    {name}: {text(hints[name])}")
            if field.description:
                rows.append(f'    """{field.description}"""')
        parts.append("\n".join(rows) + "\n")
    return "\n\n".join(parts)


def test_the_records_are_those_of_the_schemas() -> None:
    written = ast.parse(FILE.read_text(encoding="utf-8"))
    assert ast.dump(written) == ast.dump(ast.parse(generated()))


if __name__ == "__main__":
    FILE.write_text(generated(), encoding="utf-8")
