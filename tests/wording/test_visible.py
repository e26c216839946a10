"""What a person sees of names that try to steer the terminal."""

import json
import unicodedata

from hyperfsad.wording import as_rows, visible


def test_no_character_steers_a_terminal() -> None:
    for number in range(0x110000):
        shown = visible(chr(number))
        steers = unicodedata.category(chr(number)) in ("Cc", "Cf", "Zl", "Zp", "Cs")
        if steers and chr(number) not in "\u200c\u200d":
            assert shown.isascii(), hex(number)
            assert shown.isprintable(), hex(number)
        else:
            assert shown == chr(number)


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("Prüfstück 1.png", "部品 (1).png", "a\\b.png", "👩\u200d🔧.png", "é\u0301.png"):
        assert visible(name) == name
    assert visible("a\x1b[31mb\n\x9b\u202e") == r"a\u001b[31mb\n\u009b\u202e"


def test_json_stays_what_it_is() -> None:
    value = {"image": "a\x7f\x9b\u202e\U000e0041\udc80\n.png"}
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


def test_names_add_no_rows() -> None:
    assert as_rows(["a\nb", "c"]) == "a\\nb\nc"
