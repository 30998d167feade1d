"""Fake secrets, generated on demand, so that this repository contains nothing that looks like a secret."""

import base64
import json
import random
import re
import uuid

from gitsession.redaction.scan import RULES

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
KINDS = {
    "an": LETTERS + DIGITS,
    "AN": "0123456789ABCDEF",
    "hex": "0123456789abcdef",
    "b32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
    "url": LETTERS + DIGITS + "_-",
    "low": "abcdefghijklmnopqrstuvwxyz" + DIGITS,
    "d": DIGITS,
    "pub": LETTERS + DIGITS,
}
PUBLIC = {"d", "pub"}
"""Kinds of parts that may stay visible: account numbers, the public half of a key."""

_BLANK = re.compile(r"\{(\w+)(?::(\d+))?\}")


class Shape:
    """A template with its blanks filled in, always the same for one seed.

    ``hidden`` are the parts that redaction must remove.
    """

    def __init__(self, template, seed=0):
        chance = random.Random(f"{template} {seed}")
        self.hidden = []

        def fill(blank):
            kind, count = blank[1], blank[2]
            if kind == "uuid":
                filled = str(uuid.UUID(int=chance.getrandbits(128)))
            elif kind == "pair":
                filled = base64.b64encode(("deploy:" + _mixed(chance, KINDS["an"], 17)).encode()).decode()
            else:
                filled = _mixed(chance, KINDS[kind], int(count))
            if kind not in PUBLIC and len(filled) >= 8:
                self.hidden.append(filled)
            return filled

        self.text = _BLANK.sub(fill, template).replace("{{", "{").replace("}}", "}")

    def is_in(self, data):
        """Return whether ``data`` contains any hidden part."""
        data = data if isinstance(data, bytes) else data.encode()
        return any(part.encode() in data for part in self.hidden)


def _mixed(chance, letters, count):
    """Return random letters, as generators of tokens draw them.

    One result in thousands is a word by chance; it is drawn again.
    """
    while True:
        drawn = "".join(chance.choices(letters, k=count))
        if count < 8 or letters == DIGITS or (any(c.isdigit() for c in drawn) and any(c.isalpha() for c in drawn)):
            return drawn


SHAPES = {f"{rule.name}: {sample[:30]!r}": sample for rule in RULES for sample in rule.samples}

CONTEXTS = {
    "env": "# settings\nexport VALUE={}\nOTHER=1\n",
    "code": 'def connect():\n    value = "{}"\n    return open_connection(value)\n',
    "prose": "I tried it with {} and it answered, so the next step is the deploy.\n",
    "a list": "- one\n- {}\n- two\n",
    "a result": "$ cat settings\n{}\n$ ",
}


def nested(text, levels):
    """Return ``text`` in JSON, nested ``levels`` deep, as agents write it."""
    for _ in range(levels):
        text = json.dumps({"command": "cat", "output": text})
    return text


def a_token(seed=0):
    """Return a fake secret, for tests that need any secret."""
    return Shape("ghp_{an:36}", seed)


def a_password(seed=0):
    return Shape("DB_PASSWORD={an:18}", seed)
