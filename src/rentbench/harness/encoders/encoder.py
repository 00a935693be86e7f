"""A sentence encoder on a device: texts in, vectors of length 1 out, and how many tokens the model saw."""

from __future__ import annotations

import gc
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

__all__ = ["DTYPES", "Encoder", "WrongDeviceError", "pick_dtype", "unsupported_reason"]

DTYPES: Final = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_NEEDED_CAPABILITY: Final = {"fp32": (0, 0), "fp16": (5, 3), "bf16": (8, 0)}


class WrongDeviceError(Exception):
    """The model, or a vector that it made, is not where it was asked to be."""


def pick_dtype(wanted: str, device: str) -> str:
    """Return the type to compute in: the wanted one, or for `auto` fp16 on a GPU and fp32 on a CPU."""
    if wanted != "auto":
        return wanted
    return "fp16" if device == "cuda" else "fp32"


def unsupported_reason(dtype: str, capability: tuple[int, int] | None) -> str | None:
    """Say why a type cannot be used; None where it can.

    Args:
        dtype: One of `DTYPES`.
        capability: The GPU's compute capability; None on a CPU, which computes in all of them.
    """
    needed = _NEEDED_CAPABILITY[dtype]
    if capability is None or capability >= needed:
        return None
    major, minor = capability
    return (
        f"{dtype} needs compute capability {needed[0]}.{needed[1]}, this GPU has {major}.{minor} "
        "and would emulate it"
    )


class Encoder:
    """A loaded model.

    Args:
        folder: As sentence-transformers reads it.
        device: "cuda" or "cpu".
        dtype: One of `DTYPES`.
        max_tokens: Longer texts are cut here, special tokens included. A model that takes less is left at
            its own limit.

    Raises:
        WrongDeviceError: The model was loaded onto another device.
    """

    def __init__(self, folder: Path, *, device: str, dtype: str, max_tokens: int) -> None:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging as transformers_logging

        self._device = device
        transformers_logging.disable_progress_bar()
        self._model: Any = SentenceTransformer(
            str(folder),
            device=device,
            local_files_only=True,
            model_kwargs={"dtype": getattr(torch, DTYPES[dtype])},
        )
        own = self._model.max_seq_length
        self.max_tokens: int = max_tokens if own is None else min(max_tokens, own)
        self._model.max_seq_length = self.max_tokens
        self._model.eval()
        places = {str(tensor.device) for tensor in self._model.parameters()}
        elsewhere = sorted(place for place in places if place.partition(":")[0] != device)
        if elsewhere:
            msg = f"the model was to be on {device}, and parts of it are on {', '.join(elsewhere)}"
            raise WrongDeviceError(msg)

    @property
    def tokenizer(self) -> Any:  # noqa: ANN401 - transformers may be absent
        """The model's own tokenizer."""
        return self._model.tokenizer

    def encode(self, texts: Sequence[str], *, batch_size: int) -> Vectors:
        """Return a vector for each text, in order: from text to numbers in the host's memory.

        sentence-transformers sorts by length, tokenises, computes and copies batch by batch; all of it is the
        work that is measured.
        """
        return self._model.encode(  # type: ignore[no-any-return]
            list(texts),
            batch_size=batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )

    def check_device(self, text: str) -> None:
        """Encode a text, and see that its vector is made on the device.

        Raises:
            WrongDeviceError: It is not.
        """
        vector = self._model.encode([text], convert_to_tensor=True, show_progress_bar=False)
        if vector.device.type != self._device:
            msg = f"vectors were to be made on {self._device}, and come from {vector.device.type}"
            raise WrongDeviceError(msg)

    def token_counts(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has before it is cut, special tokens included."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some are longer than the model takes is what is asked
            encoded = self._model.tokenizer(
                list(texts), add_special_tokens=True, truncation=False, verbose=False
            )
        return [len(ids) for ids in encoded["input_ids"]]

    def close(self) -> None:
        """Give back the device's memory."""
        del self._model
        gc.collect()
        if self._device == "cuda":
            import torch

            torch.cuda.empty_cache()
            torch.cuda.synchronize()
