"""PINs as they are kept: hashed by scrypt, which takes time and memory for every guess.

A PIN is short, so whoever has the database can still try them all; the hash makes that slow, and
`users` counts the guesses of everybody else.
"""

import hashlib
import hmac
import secrets
from threading import Lock

from ..errors import UsageError
from .settings import ADMIN, INSPECT

COST, BLOCK = 1 << 15, 8
"""32 MB and about a tenth of a second for each guess."""
SHORTEST_PIN = {INSPECT: 4, ADMIN: 6}
LONGEST_PIN = 64
_alone = Lock()
"""One at a time, so that many who sign in at once do not fill the memory."""


def hashed(pin: str, role: str) -> str:
    """What is kept of a PIN; refuses one that is too short for the role."""
    shortest = SHORTEST_PIN[role]
    if not (shortest <= len(pin) <= LONGEST_PIN and pin.isprintable() and pin == pin.strip()):
        raise UsageError("pin-invalid", shortest=shortest, longest=LONGEST_PIN)
    if len(set(pin)) == 1:
        raise UsageError("pin-simple")
    salt = secrets.token_bytes(16)
    return f"scrypt${salt.hex()}${_scrypt(pin, salt).hex()}"


NOBODY = f"scrypt${bytes(16).hex()}${bytes(32).hex()}"
"""What no PIN fits: a name that nobody has takes as long as any other."""


def fits(pin: str, kept: str) -> bool:
    _, salt, wanted = kept.split("$")
    return hmac.compare_digest(_scrypt(pin, bytes.fromhex(salt)), bytes.fromhex(wanted))


def _scrypt(pin: str, salt: bytes) -> bytes:
    memory = 2 * 128 * COST * BLOCK
    with _alone:
        return hashlib.scrypt(
            pin.encode(errors="replace"), salt=salt, n=COST, r=BLOCK, p=1, maxmem=memory, dklen=32
        )
