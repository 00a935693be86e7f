"""One suite's container with the volume for its results: made together, removed together."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from docker.errors import APIError, NotFound

from rentbench.driver.engine import Engine, engine_errors
from rentbench.driver.failures import RunFailedError
from rentbench.driver.options import RESULTS, ContainerOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from docker.models.containers import Container
    from docker.types import CancellableStream

__all__ = ["Ending", "SuiteContainer"]

Chunk = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a container ended.

    Attributes:
        exit_code: Of its first process.
        oom_killed: Whether the kernel killed anything in it for memory.
    """

    exit_code: int
    oom_killed: bool


class SuiteContainer:
    """A container and its results volume, as a context: leaving it removes both, however it is left.

    Args:
        engine: Where it is.
        container: The engine's container.
        volume: Name of the volume that is its `/results`.
        keep: Leave both where they are, for a look at them.

    Attributes:
        keep: The same; may be set later.
        left_behind: Why it could not be removed; `rentbench reap` does it later.
    """

    def __init__(self, engine: Engine, container: Container, volume: str, *, keep: bool = False) -> None:
        self._engine = engine
        self._container = container
        self._volume = volume
        self.keep = keep
        self.left_behind: str | None = None

    @classmethod
    def create(
        cls,
        engine: Engine,
        *,
        name: str,
        image: str,
        command: Sequence[str],
        options: ContainerOptions,
        labels: Mapping[str, str],
        keep: bool = False,
    ) -> SuiteContainer:
        """Make a container, not started yet, and its volume; both carry the name and the labels.

        Raises:
            RunFailedError: The engine refuses; nothing is left behind.
        """
        with contextlib.ExitStack() as undo, engine_errors("making the container"):
            volume = engine.client.volumes.create(name=name, labels=dict(labels))
            undo.callback(_remove_volume, engine, name)
            container = engine.client.containers.create(
                image,
                list(command),
                name=name,
                labels=dict(labels),
                **options.arguments(volume=str(volume.name)),
            )
            undo.pop_all()
        return cls(engine, container, name, keep=keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.keep:
            return
        try:
            self.remove()
        except RunFailedError as problem:  # an error of the run itself matters more
            self.left_behind = problem.message

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self._container.name)

    @property
    def image_id(self) -> str:
        """The image it was made from."""
        return str(self._container.attrs["Image"])

    def last_output(self) -> bytes:
        """Return the last thousand lines of its output, both streams together."""
        with engine_errors("reading the container's log"):
            output: bytes = self._container.logs(tail=1000)
        return output

    def output(self, stream: Literal["stdout", "stderr"]) -> Iterator[bytes]:
        """Yield everything that it wrote and writes to one of its streams, until it ends."""
        with engine_errors("reading the container's log"):
            yield from self._container.logs(
                stdout=stream == "stdout", stderr=stream == "stderr", stream=True, follow=True
            )

    def attach(self) -> CancellableStream[Chunk]:
        """Return the output as it comes, in pairs of standard output and standard error.

        For a container that has not started. Of one that writes already, the SDK loses what the engine sends
        together with the head of its answer: use `output` for it.
        """
        with engine_errors("attaching to the container"):
            stream: CancellableStream[Chunk] = self._container.attach(
                stdout=True, stderr=True, stream=True, demux=True
            )
        return stream

    def start(self) -> None:
        """Start it.

        Raises:
            RunFailedError: The engine cannot; the failure names why.
        """
        with engine_errors("starting the container"):
            self._container.start()

    def signal(self, name: str) -> None:
        """Send a signal; one that ended already is left alone."""
        with engine_errors(f"sending {name} to the container"):
            try:
                self._container.kill(signal=name)
            except APIError as error:
                if error.status_code not in (404, 409):  # gone, or not running
                    raise

    def stop(self, grace: int) -> None:
        """End it, gently first; for one whose output nobody waits for.

        Args:
            grace: Seconds from SIGTERM to SIGKILL.
        """
        with engine_errors("stopping the container"):
            self._container.stop(timeout=grace)

    def ending(self) -> Ending | None:
        """Return how it ended; None while it runs.

        Raises:
            RunFailedError: The engine does not answer, or the container is gone.
        """
        state = self.inspect()["State"]
        if state["Status"] not in ("exited", "dead"):
            return None
        return Ending(
            exit_code=int(state["ExitCode"]),
            oom_killed=bool(state.get("OOMKilled")),
        )

    def inspect(self) -> dict[str, Any]:
        """Return everything that the engine says of it."""
        with engine_errors("inspecting the container"):
            self._container.reload()
        attributes: dict[str, Any] = self._container.attrs
        return attributes

    def results(self) -> Iterator[bytes]:
        """Yield the results folder as a tar stream; the container need not run."""
        with engine_errors("fetching the results"):
            stream, _ = self._container.get_archive(RESULTS)
            yield from stream

    def remove(self) -> None:
        """Remove container and volume; what is gone already counts as removed.

        Raises:
            RunFailedError: The engine does not, and `rentbench reap` must.
        """
        with engine_errors("removing the container"):
            with contextlib.suppress(NotFound):
                self._container.remove(force=True, v=True)
            _remove_volume(self._engine, self._volume)


def _remove_volume(engine: Engine, name: str) -> None:
    with contextlib.suppress(NotFound):
        engine.client.volumes.get(name).remove(force=True)
