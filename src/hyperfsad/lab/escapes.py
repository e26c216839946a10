"""Plain text in the formats of tables: what each would misread is escaped."""


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    escaped = "".join(f"\\{c}" if c in "\\`*_|<[" else c for c in text)
    return " ".join(escaped.splitlines())


_NAMES = {"\\": "textbackslash", "~": "textasciitilde", "^": "textasciicircum", "|": "textbar"}
_SIGNS = {"<": "textless", ">": "textgreater", "–": "textendash", "†": "dag", "‡": "ddag"}
_MATHS = {"±": "pm", "×": "times", "→": "to", "≤": "le", "≥": "ge", "≈": "approx", "∗": "ast"}
_GREEK = {"α": "alpha", "ε": "varepsilon", "λ": "lambda", "ρ": "rho", "σ": "sigma", "τ": "tau"}
_ESCAPES = str.maketrans(
    {character: rf"\{character}" for character in "{}$&#_%"}
    | {character: rf"\{name}{{}}" for character, name in (_NAMES | _SIGNS).items()}
    | {character: rf"$\{name}$" for character, name in (_MATHS | _GREEK).items()}
    | {character: f"{{{character}}}" for character in "[*"}  # else arguments of the \\ before them
)


def latex_text(text: str) -> str:
    """Text that LaTeX shows as it is, on one line."""
    return " ".join(text.translate(_ESCAPES).splitlines())
