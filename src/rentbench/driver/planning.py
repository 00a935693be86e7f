"""From what a user asked for to the runs to make: checked, and with the defaults filled in."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docker.errors import DockerException
from docker.utils import parse_bytes

from rentbench.core.errors import UsageError
from rentbench.core.manifests import SuiteManifest, load_images, load_suites
from rentbench.core.problems import listing, show
from rentbench.core.selection import PRESETS, check_counts, is_suite_name, parse_pairs, select_cases
from rentbench.driver.images.builds import local_reference
from rentbench.driver.local import LocalGpus, find_local_gpus
from rentbench.driver.options import ContainerOptions, callers_user
from rentbench.driver.runs import RunPlan
from rentbench.driver.selection import choose_image
from rentbench.driver.watching import Clocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rentbench.driver.engine import Engine

__all__ = ["Wishes", "plan_runs"]

_MIN_MEMORY = 6 * 1024**2  # Docker takes no less
_MIN_SHM = 1024**3  # NCCL fails with Docker's 64 MiB
_MEMORY_SHARE = 0.9  # the rest is the host's: it must not suffer before the container does
# The harness limits each repeat itself; the driver's clocks are for a harness that cannot.
_WALL_SLACK = 300.0
_IDLE_SLACK = 120.0
_UNKNOWN_REPEAT = 3600.0  # of a suite that only a foreign image knows


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the user asked for; None leaves the choice to the driver. See `rentbench run --help`."""

    host: str
    preset: str | None
    cases: Sequence[str]
    settings: Sequence[str]
    repeats: int | None
    seed: int | None
    image: str | None
    results: Path
    keep: bool
    timeout: float | None
    idle_timeout: float | None
    gpus: str | None
    network: str | None
    memory: str | None
    shm_size: str | None
    tmp_size: str
    pids_limit: int
    user: str | None
    read_only_root: bool
    drop_capabilities: bool
    no_new_privileges: bool
    init: bool
    lock_memory: bool


def plan_runs(
    engine: Engine,
    names: Sequence[str],
    wishes: Wishes,
    *,
    say: Callable[[str], None],
    host_gpus: LocalGpus | None = None,
) -> list[RunPlan]:
    """Return the runs to make, one a suite, in order.

    Args:
        engine: Where they are to run.
        names: The suites.
        wishes: How.
        say: Gets a line for each choice that may surprise.
        host_gpus: The GPUs of the engine's host; None where that is this one.

    Raises:
        UsageError: Something is not known or not allowed; nothing was started.
    """
    if wishes.host != "local" and engine.kind == "local":
        msg = f"the host {show(wishes.host)} is of a kind that is not known"
        raise UsageError(msg, hint="hosts: local, ssh://USER@HOST or ssh://USER@HOST:PORT")
    check_counts(repeats=wishes.repeats, seed=wishes.seed)
    local = host_gpus or find_local_gpus(engine)
    gpus = _choose_gpus(wishes.gpus, local, say)
    preset = _choose_preset(wishes.preset, gpus)
    suites = load_suites()
    return [_plan(engine, name, suites, preset, gpus, local, wishes) for name in names]


def _plan(
    engine: Engine,
    name: str,
    suites: Mapping[str, SuiteManifest],
    preset: str,
    gpus: str,
    local: LocalGpus,
    wishes: Wishes,
) -> RunPlan:
    suite = suites.get(name)
    # A foreign image may carry a suite that is not known here; its name becomes part of paths all the same.
    if suite is None and (wishes.image is None or not is_suite_name(name)):
        msg = f"there is no suite {show(name)}"
        raise UsageError(msg, hint=f"suites: {listing(suites, limit=40) or 'none'}")
    if suite is not None:
        select_cases(suite, preset, wishes.cases)
        parse_pairs(suite, wishes.settings, option="--set", kind="setting")
    arguments = [
        *(word for text in wishes.cases for word in ("--case", text)),
        *(word for text in wishes.settings for word in ("--set", text)),
        *([] if wishes.repeats is None else ["--repeats", str(wishes.repeats)]),
        *([] if wishes.seed is None else ["--seed", str(wishes.seed)]),
    ]
    return RunPlan(
        suite=name,
        preset=preset,
        arguments=arguments,
        image=_image(name, gpus, local, wishes),
        options=_options(engine, suite, gpus, wishes),
        clocks=_clocks(suite, preset, wishes),
        results=wishes.results,
        machine_gpus=local.count,
        keep=wishes.keep,
    )


def _image(suite: str, gpus: str, local: LocalGpus, wishes: Wishes) -> str:
    if wishes.image is None:
        return choose_image(suite, gpus=gpus, capabilities=local.compute_capabilities)
    return local_reference(wishes.image) if wishes.image in load_images() else wishes.image


def _choose_gpus(wanted: str | None, local: LocalGpus, say: Callable[[str], None]) -> str:
    if wanted is not None:
        if not re.fullmatch(r"none|all|[1-9][0-9]?", wanted):
            msg = f"--gpus is {show(wanted)}"
            raise UsageError(msg, hint="allowed: none, all, or a count from 1 to 99")
        return wanted
    if local.count and not local.toolkit:
        say(
            f"{local.count} NVIDIA GPUs are here, but Docker cannot hand them out:"
            " install the NVIDIA container toolkit, and restart Docker"
        )
    return "all" if local.usable else "none"


def _choose_preset(wanted: str | None, gpus: str) -> str:
    if wanted is None and gpus == "none":
        msg = "no GPU is used, and the preset standard needs one"
        raise UsageError(msg, hint="--preset smoke runs on a CPU and publishes nothing")
    preset = wanted or "standard"
    if preset not in PRESETS:
        msg = f"there is no preset {show(preset)}"
        raise UsageError(msg, hint=f"presets: {listing(PRESETS)}")
    return preset


def _options(engine: Engine, suite: SuiteManifest | None, gpus: str, wishes: Wishes) -> ContainerOptions:
    memory: int | None = int(engine.memory_bytes * _MEMORY_SHARE)
    if wishes.memory is not None:
        memory = None if wishes.memory == "unlimited" else _size("--memory", wishes.memory, least=_MIN_MEMORY)
    needed = suite.needs.shm_bytes if suite else 0
    shm = max(_MIN_SHM, needed) if wishes.shm_size is None else _size("--shm-size", wishes.shm_size)
    if wishes.pids_limit < 0:
        msg = f"--pids-limit is {wishes.pids_limit}"
        raise UsageError(msg, hint="allowed: 0 for no limit, or a count")
    return ContainerOptions(
        memory_bytes=memory,
        gpus=gpus,
        network=wishes.network or ("bridge" if suite and suite.needs.network else "none"),
        user=wishes.user or callers_user(),
        read_only_root=wishes.read_only_root,
        drop_capabilities=wishes.drop_capabilities,
        no_new_privileges=wishes.no_new_privileges,
        init=wishes.init,
        lock_memory=wishes.lock_memory,
        pids_limit=wishes.pids_limit or None,
        shm_bytes=shm,
        tmp_bytes=_size("--tmp-size", wishes.tmp_size),
    )


def _clocks(suite: SuiteManifest | None, preset: str, wishes: Wishes) -> Clocks:
    seconds, repeats = _UNKNOWN_REPEAT, 3
    if suite is not None:
        seconds, repeats = suite.presets[preset].timeout_seconds, suite.presets[preset].repeats
    wall, idle = wishes.timeout, wishes.idle_timeout
    for option, limit in (("--timeout", wall), ("--idle-timeout", idle)):
        if limit is not None and not 0 < limit < math.inf:
            msg = f"{option} is {limit:g}"
            raise UsageError(msg, hint="allowed: seconds above 0")
    return Clocks(
        wall=seconds * (wishes.repeats or repeats) + _WALL_SLACK if wall is None else wall,
        idle=seconds + _IDLE_SLACK if idle is None else idle,
    )


def _size(option: str, text: str, *, least: int = 1) -> int:
    try:
        size = parse_bytes(text)
    except DockerException:
        size = 0
    if not least <= size < 2**63:  # the engine counts in 64 bits
        msg = f"{option} is {show(text)}"
        hint = "allowed: a size such as 512m or 16g"
        raise UsageError(msg, hint=hint if least == 1 else f"{hint}, at least {least // 1024**2}m")
    return int(size)
