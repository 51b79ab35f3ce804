"""Takes secrets out of command lines and texts, before anything reaches disk or a model card."""

from __future__ import annotations

import re
from typing import Iterable

REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:token|api|key|secret|passw(?:or)?d|passwd|pwd|pass|passphrase|credentials?|cred|auth|bearer|"
    r"authorization|cookie|private|signature|sig|webhook|dsn|sas)(?:$|[^a-z])"
    r"|secret|passw|token$|(?:api|access|auth|private|license|account|storage|wandb|hf|ssh|encryption)key$"
)
# Names that hold one of the words above and mean something else in a training command.
_HARMLESS_NAME = re.compile(
    r"(?:^|[^a-z])(?:tokens|tokenizer|max|min|num|n|per|pad|eos|bos|unk|mask|cls|sep|vocab|special|budget|prefix|id|"
    r"ids|len|length|size|count|rate|dropout|path|file|dir)(?:$|[^a-z])"
)
_SWITCH = re.compile(r"true|false|none|null|yes|no|on|off|", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY_SECRET = re.compile(
    r"(?P<head>[?&;](?:[^=&\s]*(?:token|key|secret|sig|signature|password|auth|credential)[^=&\s]*)=)[^&\s#]+",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"(?P<head>[+\-]*(?P<name>[A-Za-z_][\w.\-/]*)(?P<sep>[=:]))(?P<value>.+)", re.DOTALL)
_KNOWN_SHAPE = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:hf|gh[opsur]|npm|gsk|r8|wandb|pk|rk|sk)_[A-Za-z0-9]{16,}|github_pat_\w{20,}|sk-[\w\-]{20,}|glpat-[\w\-]{16,}|"
    r"nvapi-[\w\-]{20,}|pypi-[\w\-]{30,}|xox[abeprs]-[\w\-]{10,}|A[KS]IA[A-Z0-9]{12,}|AIza[\w\-]{30,}|"
    r"ya29\.[\w\-]{20,}|eyJ[\w\-]{10,}\.[\w\-.]{10,})"
)
_WORD = re.compile(r"[A-Za-z0-9+_\-/]{20,}={0,2}")
_SEGMENT = re.compile(r"[A-Za-z0-9+_\-]{20,}={0,2}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SIGNS = str.maketrans("", "", "+-_/=")
_SIGN = re.compile(r"[+\-_/=]+")
_SHORTEST_KEY = 20
_MEAN_PART_OF_A_NAME = 7
_RUN = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}|[0-9]{4,}")
_VOWEL = re.compile(r"[aeiouy]")
_UNSPOKEN = re.compile(r"[^aeiouy]{5}|^[^aeiouy]{4}|[^aeiouy]{4}$|[jqxvz][^aeiouy]|[^aeiouyn]q|[^aeiouy]{2}[jqxvzw]")


def redact_command(words: Iterable[str]) -> list[str]:
    """A command line, word for word, with the values of secret-looking flags, URL logins and key-like strings replaced.

    A flag's value is taken from the same word (``--api-key=…``) or from the next one (``--api-key …``), unless that is
    a flag itself. Switches stay: they are settings, not secrets.
    """
    shown: list[str] = []
    secret_next = False
    for word in words:
        if secret_next and not word.startswith("-"):
            shown.append(word if _SWITCH.fullmatch(word) else REDACTED)
            secret_next = False
            continue
        secret_next = word.startswith("-") and "=" not in word and is_secret_name(word.lstrip("-"))
        shown.append(_redact_word(word))
    return shown


def _redact_word(word: str) -> str:
    assigned = _ASSIGNMENT.fullmatch(word)
    if assigned and not assigned.group("value").startswith("//"):
        name, value = assigned.group("name"), assigned.group("value")
        if is_secret_name(name) and not _SWITCH.fullmatch(value):
            return assigned.group("head") + REDACTED
        return assigned.group("head") + redact_text(value)
    return redact_text(word)


def is_secret_name(name: str) -> bool:
    """Whether a flag, variable or key of this name is likely to hold a secret."""
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    last = re.split(r"[./]", spelled)[-1]
    return bool(_SECRET_NAME.search(last)) and not _HARMLESS_NAME.search(last)


def redact_text(text: str) -> str:
    """Free text with URL logins, secret query parameters, known token shapes and key-like strings replaced."""
    text = _USERINFO.sub(REDACTED + "@", text)
    text = _QUERY_SECRET.sub(lambda found: found.group("head") + REDACTED, text)
    text = _KNOWN_SHAPE.sub(REDACTED, text)
    for pattern in (_WORD, _SEGMENT):
        text = pattern.sub(lambda found: REDACTED if _looks_random(found.group()) else found.group(), text)
    return text


def _looks_random(word: str) -> bool:
    """Long, and for the most part neither words nor numbers; names made of many short parts are no keys."""
    core = word.translate(_SIGNS)
    if len(core) < _SHORTEST_KEY:
        return False
    if _HEX.fullmatch(core):
        return any(c.isdigit() for c in core) and any(c.isalpha() for c in core)
    parts = [part for part in _SIGN.split(word) if part]
    if len(core) < _MEAN_PART_OF_A_NAME * len(parts):
        return False
    legible = sum(len(run) for run in _RUN.findall(word) if _is_legible(run))
    return legible < len(core) / 2


def _is_legible(run: str) -> bool:
    """A number, or letters that could be spoken."""
    return run.isdigit() or bool(_VOWEL.search(run.lower()) and not _UNSPOKEN.search(run.lower()))
