"""What all our HTML pages share: templates that escape, one style, and a strict policy.

A page is one file that needs nothing else. What stands in it is other people's input, so templates
escape it, and a policy in the page's head lets nothing run or load but the page's own style and
script.
"""

import base64
import hashlib
import os
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str) -> "Environment":
    """The templates of a package, in its folder `templates`, and those that all pages share."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    def readable(value: Any) -> Any:
        """Bytes of a file's name that are no Unicode cannot stand in a page."""
        is_text = type(value) is str
        return value.encode("utf-8", errors="replace").decode() if is_text else value

    found = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__name__)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=readable,
    )
    found.filters["thousands"] = "{:,}".format
    found.filters["basename"] = os.path.basename
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return found


def head(package: str, style: str, script: str | None = None) -> dict[str, Any]:
    """What a template needs for its head: `policy`, `style` and `script`.

    `style` and `script` name files of the package; the style of all pages comes first.
    """
    from markupsafe import Markup

    styles = _asset(__name__, "base.css") + _asset(package, style)
    code = "" if script is None else _asset(package, script)
    return {
        "policy": Markup(_policy(styles, code)),
        "style": Markup(styles),  # unescaped, as the policy names the hash of these very bytes
        "script": Markup(code),
    }


def _asset(package: str, name: str) -> str:
    return (files(package) / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing may load from elsewhere; only our own style and script may run."""

    def source(text: str) -> str:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return f"'sha256-{digest}'"

    return (
        f"default-src 'none'; img-src data: file: 'self'; style-src {source(style)};"
        f" script-src {source(script)}; base-uri 'none'; form-action 'none'"
    )
