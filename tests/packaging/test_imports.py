"""The base imports nothing but its own packages; what others bring is imported where it is used."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.packaging.conftest import base_requirements

SOURCE = REPOSITORY / "src" / "hyperfsad"

BROUGHT = {"markupsafe"}
"""What a package of the base is made for use with: of jinja2."""

IMPORTED_AS = {
    "huggingface-hub": "huggingface_hub",
    "pillow": "PIL",
    "array-api-compat": "array_api_compat",
}

ROOMS = {
    "torch": ("arrays.py", "encoders/devices.py", "encoders/torch_engine.py", "lab/"),
    "transformers": ("encoders/torch_engine.py", "lab/"),
    "scipy": ("lab/",),
    "sklearn": ("lab/",),
    "matplotlib": ("lab/",),
    "onnx": ("export/",),
    "onnxruntime": ("export/",),
    "ray": ("cluster/",),
    "pyarrow": ("cluster/", "report/parquet.py"),
    "pandas": ("report/frames.py",),
    "polars": ("report/frames.py",),
    "supervision": ("results/showing.py",),
    "shtab": ("cli/completion.py",),
    "av": ("connect/sources/",),
    "fsspec": ("cluster/",),
    "asyncua": ("connect/sinks/opcua.py",),
    "paho": ("connect/sinks/mqtt.py",),
    "pymodbus": ("connect/sinks/modbus.py",),
    "alembic": ("serve/",),
    "anyio": ("serve/",),
    "fastapi": ("serve/",),
    "h11": ("serve/",),
    "prometheus_client": ("serve/",),
    "psycopg": ("serve/",),
    "pydantic": ("serve/",),
    "python_multipart": ("serve/",),
    "sqlalchemy": ("serve/",),
    "starlette": ("serve/",),
    "uvicorn": ("serve/",),
    "certifi": ("encoders/package_index.py",),
}
"""What no base package is: who may import it, inside functions or in rooms of its own."""


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The packages that a file imports, and whether at once; those for typing are not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    stack: list[tuple[ast.AST, bool]] = [(tree, True)]
    while stack:
        node, at_once = stack.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], at_once) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0], at_once
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        stack += [(child, at_once and not inside) for child in ast.iter_child_nodes(node)]


def base() -> set[str]:
    names = [re.sub(r"[-_.]+", "-", one.name).lower() for one in base_requirements()]
    return {IMPORTED_AS.get(name, name) for name in names}


def test_each_import_is_of_the_base_or_of_its_extra_s_room() -> None:
    known = base() | BROUGHT | set(sys.stdlib_module_names) | {"hyperfsad"}
    wrong = {
        f"{path.relative_to(SOURCE).as_posix()} imports {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name, _ in imports(path)
        if name not in known
        and not path.relative_to(SOURCE).as_posix().startswith(ROOMS.get(name, ()))
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_each_package_of_the_base_is_imported() -> None:
    used = {name for path in SOURCE.rglob("*.py") for name, _ in imports(path)}
    assert base() <= used


def test_torch_and_scipy_are_imported_at_once_in_their_rooms_alone() -> None:
    at_once = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for name, now in imports(path)
        if now and name in ("torch", "transformers", "scipy", "sklearn", "onnx")
    }
    elsewhere = {path for path in at_once if not path.startswith(("lab/", "encoders/torch_engine"))}
    assert not elsewhere
