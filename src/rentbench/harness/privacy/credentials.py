"""Secrets in a text: by their form, by the name before them, by their place in a URL."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

__all__ = ["SECRET", "is_secret_name", "redact_credentials"]

SECRET: Final = "<secret>"  # noqa: S105 (it stands for one)

# Forms that are secrets wherever they stand. The digit or capital that some need tells `hf_` and a token from
# the name of a module (`hf_transformers`).
_FORMS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<![A-Za-z0-9_])(?:"
    r"hf_(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{8,}|hf_[A-Za-z0-9]{24,}"
    r"|(?:rc|sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{4,}"
    r"|sk-(?=[\w-]*\d)[\w-]{16,}"
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|dckr_pat_[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{10,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\w+) AAAA[A-Za-z0-9+/=]+"
    r")",
    re.DOTALL,
)
_BEARER: Final = re.compile(r"\b(bearer\s+)([\w.~+/=-]{6,})", re.IGNORECASE)
_HEADER: Final = re.compile(
    r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)([^\"'\n\\]+)",
    re.IGNORECASE,
)
_URL: Final = re.compile(r"\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@\"'<>]+@", re.IGNORECASE)
# Quotes may be escaped, once for each text that holds the text.
_QUOTE: Final = r"(?:\\{0,8}[\"'])"
_NAME: Final = re.compile(
    rf"(?<![A-Za-z0-9])(?P<name>[A-Za-z_][\w.-]{{0,63}}?){_QUOTE}?\s{{0,4}}[=:]\s{{0,4}}"  # name=, "name":
    r"|(?<!\S)(?P<option>--[A-Za-z][\w-]{0,63})\s+(?!-)"
)
_VALUE: Final = re.compile(rf"({_QUOTE})?((?(1)(?:[^\"'\\\n]|\\+[^\"'\\\n])*|[^\s\"'&,;)\]}}]+))")
_MAIL: Final = re.compile(r"(?<![\w.+/-])[\w.+-]+@(?!sha256\b)[A-Za-z][\w-]*(?:\.[A-Za-z][\w-]*)+\b")
_PROMPT: Final = re.compile(r"(?<![\w.+/-])[\w.-]+@[A-Za-z][\w.-]*(?=:[~/]|[$#]\s)")

_SECRET_WORDS: Final = frozenset(
    {"token", "secret", "password", "passwd", "pwd", "passphrase", "apikey", "credential", "credentials"}
    | {"auth", "authorization", "signature", "sig", "key"}
)
_SECRET_PAIRS: Final = {("access", "key"), ("api", "key"), ("private", "key"), ("secret", "key")}
# Words before `token` and `key` that make them a unit of text, or a place in a table.
_HARMLESS_BEFORE: Final = frozenset(
    {
        "bos",
        "cls",
        "decoder",
        "end",
        "eos",
        "first",
        "image",
        "input",
        "last",
        "mask",
        "new",
        "next",
        "output",
    }
    | {"pad", "per", "sep", "special", "start", "stop", "unk"}
    | {"cache", "config", "dict", "foreign", "group", "index", "label", "lookup", "map", "metric"}
    | {"partition", "primary", "public", "row", "sort", "state"}
)
_NO_SECRETS: Final = re.compile(
    r"(?:none|null|true|false|yes|no|\*+|<.*|-?\d{1,9}(?:\.\d+)?(?:e-?\d+)?%?)?", re.IGNORECASE
)
_MIN_BARE_KEY: Final = 8


def redact_credentials(text: str) -> str:
    """Return the text with tokens, passwords, keys, and the user part of URLs and mail addresses replaced."""
    text = _FORMS.sub(SECRET, text)
    text = _BEARER.sub(rf"\1{SECRET}", text)
    text = _HEADER.sub(rf"\1\2{SECRET}", text)
    text = _URL.sub(rf"\1{SECRET}@", text)
    text = _redact_named(text)
    return _PROMPT.sub("<user>@<hostname>", _MAIL.sub("<mail>", text))


def is_secret_name(name: str) -> bool:
    """Tell whether a variable, option or header of this name holds a secret: `HF_TOKEN`, `--api-key`.

    `max_tokens`, `eos_token`, `time_per_output_token` and `sort_key` do not.
    """
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    parts = [word.lower() for word in words]
    if not parts:
        return False
    if {"secret", "password", "passwd", "apikey"} & set(parts) or _SECRET_PAIRS & set(pairwise(parts)):
        return True
    return parts[-1] in _SECRET_WORDS and not (len(parts) > 1 and parts[-2] in _HARMLESS_BEFORE)


def _redact_named(text: str) -> str:
    """Replace values by the name before them; what a harmless name holds is searched for further names."""
    clean: list[str] = []
    kept = done = 0  # up to where the text is in `clean`, and up to where it is decided
    for match in _NAME.finditer(text):
        if match.start() < done:
            continue  # inside a value that is replaced
        name = match["name"] or match["option"]
        value = _VALUE.match(text, match.end()) if is_secret_name(name) else None
        if value is None:
            continue
        if not _NO_SECRETS.fullmatch(value[2]) and not _is_harmless(name, match[0], value[2]):
            clean += [text[kept : value.start(2)], SECRET]
            kept = value.end(2)
        done = value.end(2)
    return "".join([*clean, text[kept:]])


def _is_harmless(name: str, before: str, value: str) -> bool:
    """Tell the few names that hold a secret in one place and none in another."""
    name = name.lower()
    if name == "key":  # `key=0f3a…` in a URL, but not `sorted(…, key=str)` or `"key": "p99"`
        return (
            "=" not in before
            or len(value) < _MIN_BARE_KEY
            or re.fullmatch(r"[a-z_]{1,15}", value) is not None
        )
    if name.endswith(("signature", "sig")):  # of a URL, not of a function
        return "=" not in before
    return name.endswith("pwd") and value.startswith(("/", "."))  # the working directory
