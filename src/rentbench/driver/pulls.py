"""Pulling images: ended by Ctrl-C, and given up where no registry answers."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any

from docker.errors import DockerException
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rentbench.core.errors import ErrorKind
from rentbench.driver.engine import engine_errors
from rentbench.driver.failures import Failure, RunFailedError, engine_failure

if TYPE_CHECKING:
    from rentbench.driver.engine import Engine
    from rentbench.driver.interrupts import Interrupts

__all__ = ["pull"]

_TICK = 0.1  # seconds between looks at interrupts

_Event = dict[str, Any] | Exception | None  # what the engine says, what went wrong, or the end


def pull(engine: Engine, reference: str, *, patience: float, interrupts: Interrupts | None = None) -> None:
    """Have the engine pull an image.

    Args:
        engine: The engine.
        reference: Which image.
        patience: Seconds until the registry's first answer; a download itself may take its time.
        interrupts: What asks to stop.

    Raises:
        RunFailedError: It cannot be pulled, nothing answers, or the pull was interrupted.
    """
    during = f"pulling {reference}"
    # In a thread, as waiting for the engine cannot be ended. A pull whose reader goes away, the engine ends.
    arrived: queue.Queue[_Event] = queue.Queue()
    threading.Thread(target=_read, args=(engine, reference, arrived), name="image-pull", daemon=True).start()
    deadline = time.monotonic() + patience
    answered = False
    while True:
        if interrupts is not None and interrupts.count:
            raise RunFailedError(Failure(kind=ErrorKind.INTERRUPTED, message=f"{during} was interrupted"))
        try:
            event = arrived.get(timeout=_TICK)
        except queue.Empty:
            if not answered and time.monotonic() > deadline:
                message = f"{during} failed: no registry answered within {patience:g} s"
                hint = "is the network up, and may this host reach the registry?"
                raise RunFailedError(Failure(kind=ErrorKind.NETWORK, message=message, hint=hint)) from None
            continue
        if event is None:
            return
        if isinstance(event, Exception):
            with engine_errors(during):
                raise event
        if "error" in event:
            raise RunFailedError(engine_failure(str(event["error"]), during=during))
        answered = True


def _read(engine: Engine, reference: str, arrived: queue.Queue[_Event]) -> None:
    try:
        for event in engine.client.api.pull(reference, stream=True, decode=True):
            arrived.put(event)
    except (DockerException, RequestException) as error:
        arrived.put(error)
    except (HTTPError, OSError, ValueError) as error:  # of a connection that broke between two events
        arrived.put(DockerException(str(error)))
    else:
        arrived.put(None)
