"""Nothing that names a machine, a person or a secret leaves this process.

Texts that come from outside (logs, tools' outputs, error messages, the environment) are redacted before they
are written: `redact`. What is known to be secret here (host and user names, addresses, tokens in the
environment, serial numbers that a probe met) goes wherever it stands; the rest goes by its form.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rentbench.harness.privacy.addresses import redact_addresses
from rentbench.harness.privacy.credentials import SECRET, is_secret_name, redact_credentials
from rentbench.harness.privacy.identity import Identity, of_this_machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["allowed_environment", "redact", "redact_command", "redact_document", "remember"]

_MIN_REMEMBERED: Final = 5
_MAX_VALUE: Final = 4096

_GPU_UUID: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:MIG-GPU|MIG|GPU)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:/\d+/\d+)?"
    r"|(?<![A-Za-z0-9])(?:MIG|GPU)-[0-9a-f]{8}(?:-[0-9a-f]{1,12}){0,4}(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_SERIAL: Final = re.compile(
    r"(?<![\w-])([\w-]{0,40}serial(?:[ _-]?(?:number|no|num))?\\{0,8}[\"']?"
    r"\s{0,60}(?:[:=#>]|is)\s{0,4}\\{0,8}[\"']?)"
    r"(?=[A-Za-z-]{0,8}\d)([A-Za-z0-9-]{5,40})",
    re.IGNORECASE,
)
_PDI: Final = re.compile(r"\b((?:gpu )?pdi\\?[\"']?\s{0,60}[:=>]\s{0,4})(0x[0-9a-f]{8,16})", re.IGNORECASE)
_HOME: Final = re.compile(
    r"((?<![\w.-])/(?:export/)?home/|(?<![\w.-])/Users/|\b[A-Za-z]:\\{1,2}Users\\{1,2})([^/\\\s\"':;,<>]+)"
)

# Variables that can change a number. One whose name says secret is never written, listed here or not.
_ALLOWED: Final = re.compile(
    r"(?:CUDA|CUBLAS|CUDNN|NCCL|GLOO|UCX|NVIDIA|NVTE|OMP|MKL|OPENBLAS|NUMEXPR|KMP|GOMP|TORCH|TORCHINDUCTOR|PYTORCH"
    r"|TRITON|VLLM|FLASHINFER|XFORMERS|BITSANDBYTES|ATEN|RENTBENCH)_\w+"
    r"|TORCHDYNAMO\w*|HF_(?:HUB_\w+|DATASETS_OFFLINE)|TRANSFORMERS_OFFLINE|TOKENIZERS_PARALLELISM"
    r"|PYTHON(?:HASHSEED|MALLOC|OPTIMIZE|UNBUFFERED|NODEBUGRANGES)|MALLOC_\w+|LD_(?:LIBRARY_PATH|PRELOAD)"
)
_MAX_VARIABLES: Final = 256

# Properties of a measurement document that hold words of closed lists, identifiers and digests of our own.
_VERBATIM: Final = frozenset(
    {"compute_capability", "container", "direction", "document", "finished", "id", "kind", "matrix"}
    | {"metric", "outcome", "path", "preset", "recipe_id", "runner", "severity", "sha256", "source"}
    | {"started", "status", "suite", "summary", "unit", "uuid_hash", "vendor"}
)
_VERSIONS: Final = frozenset({"cuda_driver_version", "driver_version", "kernel", "software", "vbios"})

_remembered: set[str] = set()


def remember(identifiers: Iterable[str]) -> None:
    """Let `redact` remove these exact texts from now on, in this process: serial numbers, UUIDs."""
    fresh = {text for text in identifiers if len(text) >= _MIN_REMEMBERED and text.strip("0")}
    _remembered.update(
        fresh | {text.partition("-")[2] for text in fresh if text.startswith(("GPU-", "MIG-"))}
    )


def redact(text: str, *, versions: bool = False) -> str:
    """Return the text without host names, user names, addresses, serial numbers, GPU UUIDs and secrets.

    Version numbers, times, digests, PCI bus ids and measured values stay. Twice changes no more than once.

    Args:
        text: Any text.
        versions: The text is a version number, so four numbers with dots between them are no address.
    """
    identity = _identity()
    text = _exact(identity.secrets, whole=False).sub(SECRET, text)
    text = _exact(frozenset(_remembered)).sub("<identifier>", text)
    text = redact_credentials(text)
    text = _GPU_UUID.sub("<gpu-uuid>", text)
    text = _SERIAL.sub(r"\1<serial>", text)
    text = _PDI.sub(r"\1<serial>", text)
    text = redact_addresses(text, own=identity.addresses, versions=versions)
    text = _exact(identity.hosts, flags=re.IGNORECASE).sub("<hostname>", text)
    text = _HOME.sub(r"\1<user>", text)
    return _exact(identity.users).sub("<user>", text)


def redact_command(arguments: Sequence[str]) -> list[str]:
    """Return a command line without secrets, also where one is an argument of its own (`--token abc`)."""
    clean: list[str] = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        secret = before.startswith("-") and "=" not in before and is_secret_name(before)
        clean.append(SECRET if secret and not argument.startswith("--") else redact(argument))
    return clean


def redact_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a measurement document with its free texts redacted; all else stays as it is."""
    clean: dict[str, Any] = _redact_value(document)
    return clean


def allowed_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment's variables that can change a number, redacted, in the order of their names."""
    names = sorted(name for name in environment if _ALLOWED.fullmatch(name) and not is_secret_name(name))
    found = {}
    for name in names[:_MAX_VARIABLES]:
        value = environment[name].encode("utf-8", "replace").decode()
        # Redacted with its name before it, which tells a version from an address.
        found[name] = redact(f"{name}={value}").partition("=")[2][:_MAX_VALUE]
    return found


def _redact_value(value: Any, *, versions: bool = False) -> Any:  # noqa: ANN401 (any part of a JSON document)
    if isinstance(value, str):
        return redact(value, versions=versions)
    if isinstance(value, list):
        return [_redact_value(item, versions=versions) for item in value]
    if not isinstance(value, dict):
        return value
    clean: dict[str, Any] = {}
    for name, item in value.items():
        if name in _VERBATIM:
            clean[name] = item
        elif name == "command" and isinstance(item, list):
            clean[name] = redact_command(item)
        elif name in {"validity", "artifacts"} and isinstance(item, list):
            clean[name] = [{**_redact_value(entry), "name": entry["name"]} for entry in item]
        else:
            clean[name] = _redact_value(item, versions=versions or name in _VERSIONS)
    return clean


@lru_cache(maxsize=1)
def _identity() -> Identity:
    return of_this_machine()


@lru_cache(maxsize=16)
def _exact(words: frozenset[str], *, whole: bool = True, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern for any of the words, longest first; `whole`: not inside a longer word."""
    if not words:
        return re.compile(r"(?!)")
    alternatives = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    pattern = rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])" if whole else alternatives
    return re.compile(pattern, flags)
