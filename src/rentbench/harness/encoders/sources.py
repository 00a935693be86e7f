"""Where a model comes from: a folder, a repository (or its cache), or made here with random weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from rentbench.harness.encoders.architectures import ARCHITECTURES
from rentbench.harness.encoders.vocabularies import make_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ModelSource", "find_model", "write_random_model"]

# What a repository holds beside the files that torch reads.
_OTHER_FORMATS: Final = ["*.onnx*", "onnx/*", "openvino/*", "*.h5", "*.msgpack", "*.ot", "*.gguf"]
_WEIGHT_FILES: Final = ("*.safetensors", "*.bin")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A folder as sentence-transformers reads it, and what is in it.

    Attributes:
        folder: The folder.
        kind: Of the weights.
        repository: Name of the repository, the folder or the architecture.
        revision: The repository's commit, or the hash of the folder's weights; None where they are random.
    """

    folder: Path
    kind: Literal["pretrained", "random"]
    repository: str
    revision: str | None

    @property
    def description(self) -> dict[str, str | None]:
        """What `Context.describe` takes for the weights."""
        return {"kind": self.kind, "repository": self.repository, "revision": self.revision}


def find_model(weights: str) -> ModelSource:
    """Return the model that a folder or a repository of the hub holds.

    Args:
        weights: Path of a folder, or a repository such as `BAAI/bge-m3`. A repository is taken from the
            cache where it is there, and downloaded otherwise (not with HF_HUB_OFFLINE=1).

    Raises:
        FileNotFoundError: It looks like a path, and no model lies there.
    """
    folder = Path(weights).expanduser()
    if folder.is_dir():
        if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
            msg = f"no model lies in {weights}: neither modules.json nor config.json is there"
            raise FileNotFoundError(msg)
        snapshot = folder.resolve().parent.name == "snapshots"
        revision = folder.resolve().name if snapshot else _hash_weights(folder)
        return ModelSource(
            folder=folder, kind="pretrained", repository=folder.resolve().name, revision=revision
        )
    if weights.count("/") != 1 or weights.startswith((".", "/", "~")):
        msg = f"there is no model folder {weights}"
        raise FileNotFoundError(msg)
    from huggingface_hub import snapshot_download

    downloaded = Path(snapshot_download(weights, ignore_patterns=_OTHER_FORMATS))
    return ModelSource(folder=downloaded, kind="pretrained", repository=weights, revision=downloaded.name)


def write_random_model(
    architecture: str, folder: Path, *, texts: Sequence[str], device: str, normalize: bool = True
) -> ModelSource:
    """Write an encoder of a published model's size, with random weights, and return it. No network is used.

    The folder is like one that was downloaded, with half-precision weights and a tokenizer made from `texts`,
    so that loading it is the same work. The weights follow from torch's random generator.

    Args:
        architecture: One of `ARCHITECTURES`.
        folder: Must exist, and have room: two bytes a parameter.
        texts: What the tokenizer's vocabulary is made from.
        device: Where the weights are drawn; a GPU does it faster.
        normalize: Whether the model's vectors have length 1.
    """
    import torch
    from transformers import AutoConfig, AutoModel
    from transformers.utils import logging as transformers_logging

    shape = ARCHITECTURES[architecture]
    transformers_logging.disable_progress_bar()
    with torch.device(device):
        network = AutoModel.from_config(AutoConfig.for_model(shape.family, **shape.config))
    network.half().save_pretrained(folder)
    del network
    tokenizer = make_tokenizer(
        shape.family, texts, size=int(shape.config["vocab_size"]), max_tokens=shape.max_tokens
    )
    tokenizer.save_pretrained(folder)
    _write_modules(folder, int(shape.config["hidden_size"]), shape.max_tokens, normalize=normalize)
    return ModelSource(folder=folder, kind="random", repository=architecture, revision=None)


def _write_modules(folder: Path, dimension: int, max_tokens: int, *, normalize: bool) -> None:
    """Write what makes a network a sentence encoder: the first token's vector, as the bge models have it."""
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * normalize
    entries: list[dict[str, Any]] = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    pooling = {
        "word_embedding_dimension": dimension,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    for path, _ in modules[1:]:
        (folder / path).mkdir()
    for name, content in {
        "modules.json": entries,
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "1_Pooling/config.json": pooling,
    }.items():
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")


def _hash_weights(folder: Path) -> str | None:
    """Return `sha256:…` over the folder's weight files, by name; None where it has none of a known kind."""
    files = sorted(path for pattern in _WEIGHT_FILES for path in folder.glob(pattern))
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return f"sha256:{digest.hexdigest()}" if files else None
