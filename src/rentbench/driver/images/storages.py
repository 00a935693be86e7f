"""buildah's storage of images, and copies between it and the Docker engine.

An image keeps its id either way. Of one on an environment that the engine has, only the layers above move.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rentbench.core.documents import sha256_bytes
from rentbench.core.errors import DependencyMissingError
from rentbench.driver.engine import Engine, engine_errors, find_image
from rentbench.driver.failures import RunFailedError
from rentbench.driver.programs import ProgramError, capture, find_program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = ["BuildahStorage", "stored_name"]

_COPY_TIMEOUT = 1800.0
_QUERY_TIMEOUT = 60.0


def stored_name(name: str) -> str:
    """Return the name in buildah's storage of an image that was built here."""
    return f"localhost/{name}"


class BuildahStorage:
    """The storage, seen from an engine beside it.

    Args:
        engine: The local engine.
        buildah: Path of that program.
        say: Gets a line for each copy that takes long.

    Raises:
        DependencyMissingError: skopeo is not installed.
    """

    def __init__(self, engine: Engine, buildah: str, *, say: Callable[[str], None]) -> None:
        self._engine = engine
        self._buildah = buildah
        self._skopeo = find_program("skopeo", package="skopeo")
        self._say = say

    def labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of an image that was built here; none where it is not here."""
        try:
            configuration = json.loads(self._configuration(name))
        except ProgramError:
            return {}
        labels: dict[str, str] = configuration["config"].get("Labels") or {}
        return labels

    def fetch(self, reference: str) -> str:
        """Copy an image of the engine into the storage, unless it is there, and return its name in it.

        Raises:
            RentbenchError: The engine does not have it, or it cannot be copied.
        """
        image = find_image(self._engine, reference)
        if image is None:
            msg = f"the engine no longer has {reference}"
            raise DependencyMissingError(msg, hint="build again")
        identifier = str(image.id).removeprefix("sha256:")
        name = stored_name(f"rentbench/base:{identifier[:12]}")
        if identifier not in capture([self._buildah, "images", "--no-trunc"], timeout=_QUERY_TIMEOUT):
            self._say(f"copying {reference} to buildah")
            self._copy(f"docker-daemon:{image.id}", f"containers-storage:{name}")
        return name

    def send(self, name: str) -> None:
        """Copy an image that was built here to the engine, whole.

        Raises:
            RentbenchError: It cannot be copied.
        """
        self._say(f"copying {name} to the Docker engine")
        self._copy(f"containers-storage:{stored_name(name)}", f"docker-daemon:{name}")

    def send_layers(self, name: str, *, above: str) -> None:
        """Copy an image to the engine without the layers that it has from another one, which it goes on.

        Args:
            name: What was built here.
            above: The other one, built here too; it is copied first where the engine lacks it.

        Raises:
            RentbenchError: It cannot be copied.
        """
        ground = self._configuration(above)
        if find_image(self._engine, sha256_bytes(ground)) is None:
            self.send(above)
        known = json.loads(ground)["rootfs"]["diff_ids"]
        with tempfile.TemporaryDirectory(prefix="rentbench-layers-") as folder:
            layout = Path(folder)
            for layer in known:
                # skopeo writes no layer that is in a layout already, and looks no further than its name.
                placeholder = layout / _blob(layer)
                placeholder.parent.mkdir(parents=True, exist_ok=True)
                placeholder.touch()
            source, options = (
                f"containers-storage:{stored_name(name)}",
                "--dest-oci-accept-uncompressed-layers",
            )
            self._copy(source, f"oci:{layout}", options)
            try:
                self._load(layout, name, known=known)
            except RunFailedError as error:  # as from an engine that keeps images in containerd's store
                self._say(f"the engine takes no single layers: {error.message}")
                self.send(name)

    def _load(self, layout: Path, name: str, *, known: Collection[str]) -> None:
        """Load an image from an OCI layout into the engine, without the layers that it has.

        `docker load` knows layers by the hash of all that lies below, and reads only those that it lacks.
        """
        (entry,) = _document(layout, "index.json")["manifests"]
        manifest = _document(layout, _blob(entry["digest"]))
        configuration = manifest["config"]["digest"]
        layers = [layer["digest"] for layer in manifest["layers"]]
        contents = {
            "Config": _blob(configuration),
            "RepoTags": [name],
            "Layers": [_blob(layer) for layer in layers],
        }
        with tempfile.TemporaryFile() as archive:
            with tarfile.open(fileobj=archive, mode="w") as tar:
                for digest in (configuration, *(layer for layer in layers if layer not in known)):
                    tar.add(layout / _blob(digest), _blob(digest))
                raw = json.dumps([contents]).encode()
                member = tarfile.TarInfo("manifest.json")
                member.size = len(raw)
                tar.addfile(member, io.BytesIO(raw))
            archive.seek(0)
            with engine_errors(f"loading {name}"):
                self._engine.client.images.load(archive)

    def _copy(self, source: str, target: str, *options: str) -> None:
        capture([self._skopeo, "copy", "--quiet", *options, source, target], timeout=_COPY_TIMEOUT)

    def _configuration(self, name: str) -> bytes:
        """Return the configuration of an image that was built here; its hash is the image id."""
        source = f"containers-storage:{stored_name(name)}"
        command = [self._skopeo, "inspect", "--config", "--raw", source]
        return capture(command, timeout=_QUERY_TIMEOUT).encode()


def _document(layout: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((layout / name).read_bytes())
    return document


def _blob(digest: str) -> str:
    """Return a blob's path in an OCI layout."""
    return f"blobs/{digest.replace(':', '/')}"
