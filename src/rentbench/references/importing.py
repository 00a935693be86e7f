"""Which tool wrote a file, and the documents that it gives."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from rentbench.core.documents import read_bytes, read_document, sha256_bytes
from rentbench.core.errors import InvalidDocumentError, UnusableInputError, UsageError
from rentbench.core.problems import show
from rentbench.references.documents import Device, Reference
from rentbench.references.published import is_published_table, read_published
from rentbench.references.tools import (
    aiperf_cases,
    guidellm_cases,
    is_all_reduce,
    nccl_cases,
    run_day,
    vllm_cases,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["FORMS", "Form", "read_references"]

Form: TypeAlias = Literal["published", "vllm-bench", "nccl-tests", "guidellm", "aiperf"]
FORMS: tuple[Form, ...] = get_args(Form)


def read_references(path: Path, *, form: str | None = None, device: Device | None = None) -> list[Reference]:
    """Return the documents that a file of another tool, or of published figures, gives.

    Args:
        path: The file.
        form: What wrote it; told from its content where that is None.
        device: What it ran on, which no tool says.

    Raises:
        UsageError: There is no such form.
        UnusableInputError: The file cannot be read.
        InvalidDocumentError: Its form is not known, or not kept.
    """
    if form is not None and form not in FORMS:
        msg = f"there is no form {show(form)}"
        raise UsageError(msg, hint=f"forms: {', '.join(FORMS)}")
    raw = read_bytes(path)
    content = _json(raw, path)
    found = form or _form(content, raw)
    if found is None:
        msg = f"{path} is of no form that is known here"
        raise InvalidDocumentError(msg, hint=f"name it with --as: {', '.join(FORMS)}")
    if found == "published":
        return read_published(path)
    if content is None and found != "nccl-tests":
        msg = f"{path} is no JSON object"
        raise UnusableInputError(msg)
    try:
        if content is None or found == "nccl-tests":
            return [_nccl(raw, path, device or Device())]
        return [_serving(found, content, sha256_bytes(raw), path, device or Device())]
    except InvalidDocumentError as error:
        msg = f"{path}: {error.message}"
        raise InvalidDocumentError(msg, hint=error.hint) from error
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"{path} has another form than {found}: {error!r}"
        raise InvalidDocumentError(msg) from error


def _json(raw: bytes, path: Path) -> dict[str, Any] | None:
    return read_document(raw, source=str(path)) if raw.removeprefix(BOM_UTF8).lstrip()[:1] == b"{" else None


def _form(content: Mapping[str, Any] | None, raw: bytes) -> Form | None:
    if content is None:
        return "nccl-tests" if b"busbw" in raw else None
    if is_published_table(content):
        return "published"
    if isinstance(content.get("benchmarks"), list):
        return "guidellm"
    if {"num_prompts", "completed"} <= content.keys():
        return "vllm-bench"
    if isinstance(content.get("output_token_throughput"), dict):
        return "aiperf"
    return None


def _serving(form: str, content: Mapping[str, Any], sha256: str, path: Path, device: Device) -> Reference:
    if form == "vllm-bench":
        cases, model, day = vllm_cases(content), content.get("model_id"), run_day(content.get("date"))
        tool = "vllm bench serve"
    elif form == "guidellm":
        metadata = content.get("metadata") or {}
        cases, model = guidellm_cases(content), (content.get("args") or {}).get("model")
        day = None
        tool = f"guidellm {metadata.get('guidellm_version') or ''}".strip()
    else:
        config = content.get("input_config") or {}
        models = (config.get("endpoint") or {}).get("model_names") or [None]
        models = models if isinstance(models, list) else [models]
        cases, model, day = aiperf_cases(content), models[0], run_day(content.get("start_time"))
        tool = f"aiperf {content.get('aiperf_version') or ''}".strip()
    return Reference(
        label="imported",
        title=f"Serving {model or 'a model that is not named'}, as {tool} measured it",
        suite="llm-serving",
        source=path.name,
        tool=tool,
        sha256=sha256,
        run_date=day,
        device=device,
        model=model if isinstance(model, str) and model else None,
        cases=cases,
        notes=["seeds, warm-up and cache state are not known, so this is not ranked with our own runs"],
    )


def _nccl(raw: bytes, path: Path, device: Device) -> Reference:
    cases = nccl_cases(raw.decode("utf-8", "replace"))
    all_reduce = is_all_reduce(cases)
    return Reference(
        label="imported",
        title=f"{'All-reduce' if all_reduce else 'Collective operation'}, as nccl-tests measured it",
        suite="allreduce" if all_reduce else None,
        source=path.name,
        tool="nccl-tests",
        sha256=sha256_bytes(raw),
        device=device,
        cases=cases,
    )
