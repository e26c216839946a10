"""WinCLIP's compositional prompt ensemble: states of an object, each in every template.

States and templates are those of Figure 6 of the paper (Jeong et al., CVPR 2023, arXiv 2303.14814),
as public reimplementations list them; the figure itself was not at hand. 7 normal and 4 anomalous
states in 22 templates make 154 and 88 prompts.
"""

NORMAL = (
    "{}",
    "flawless {}",
    "perfect {}",
    "unblemished {}",
    "{} without flaw",
    "{} without defect",
    "{} without damage",
)
ANOMALOUS = ("damaged {}", "{} with flaw", "{} with defect", "{} with damage")
_PHOTOS = (
    "a cropped photo of {article} {{}}.",
    "a close-up photo of {article} {{}}.",
    "a bright photo of {article} {{}}.",
    "a dark photo of {article} {{}}.",
    "a jpeg corrupted photo of {article} {{}}.",
    "a blurry photo of {article} {{}}.",
    "a photo of {article} {{}}.",
    "a photo of {article} small {{}}.",
    "a photo of {article} large {{}}.",
    "a photo of {article} {{}} for visual inspection.",
    "a photo of {article} {{}} for anomaly detection.",
)
TEMPLATES = tuple(kind.format(article=article) for kind in _PHOTOS for article in ("a", "the"))


def prompts(states: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Each state of the object in each template."""
    return tuple(template.format(state.format(name)) for state in states for template in TEMPLATES)


def class_words(category: str) -> str:
    """What prompts call a category: its name in words; a number alone names nothing."""
    words = " ".join(category.replace("_", " ").replace("-", " ").split())
    return words if any(letter.isalpha() for letter in words) else "object"
