"""`rentbench run` and `rentbench reap`. Heavy imports wait for the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rentbench.cli.console import print_error, print_json, print_line, print_table
from rentbench.core.errors import ExitCode, RentbenchError

if TYPE_CHECKING:
    from rentbench.driver.concluding import RunOutcome
    from rentbench.driver.leftovers import Reaped

__all__ = ["register"]

_CONFINEMENT = "How the container is confined"
_LIMITS = "When it is stopped"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(run)
    app.command()(reap)


def run(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE…", help="Run in this order.")],
    on: Annotated[
        str, typer.Option(metavar="HOST", help="Where: local, or ssh://USER@HOST[:PORT].")
    ] = "local",
    preset: Annotated[
        str | None, typer.Option(help="smoke, standard or full. Default: standard where there is a GPU.")
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V[,K=V…]", help="Only the cases with these values. May be repeated."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="K=V", help="Another value for a setting. May be repeated."),
    ] = None,
    repeats: Annotated[int | None, typer.Option(metavar="N", help="Independent repeats.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of all random numbers.")] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE|REFERENCE", help="In place of the one that is chosen by suite and kind of GPU."
        ),
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where the results go.")] = Path("results"),
    continue_on_fail: Annotated[
        bool, typer.Option("--continue-on-fail", help="Go on after a preflight that fails.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave container and volume, for a look at them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at the end, and no table.")] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="For each suite. Default: by its preset.", rich_help_panel=_LIMITS
        ),
    ] = None,
    idle_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Without a line of output. Default: by the preset.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="none|all|N",
            help="GPUs to hand over. Default: all that Docker can.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Docker network. Default: none, unless the suite needs one.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Such as 16g, or `unlimited`. Default: 90 % of the host's.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = None,
    shm_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Of /dev/shm. Default: what the suite needs, at least 1g.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = None,
    tmp_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Largest size of /tmp.", rich_help_panel=_CONFINEMENT)
    ] = "4g",
    pids_limit: Annotated[
        int,
        typer.Option(
            metavar="N", help="Processes and threads; 0 for no limit.", rich_help_panel=_CONFINEMENT
        ),
    ] = 4096,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="UID:GID",
            help="Default: you; the image's own user where you are root.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = None,
    read_only: Annotated[
        bool,
        typer.Option("--read-only/--no-read-only", help="Root file system.", rich_help_panel=_CONFINEMENT),
    ] = True,
    drop_capabilities: Annotated[
        bool,
        typer.Option(
            "--drop-capabilities/--no-drop-capabilities", help="All of them.", rich_help_panel=_CONFINEMENT
        ),
    ] = True,
    no_new_privileges: Annotated[
        bool,
        typer.Option(
            "--no-new-privileges/--allow-new-privileges",
            help="Through set-uid programs.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = True,
    init: Annotated[
        bool,
        typer.Option(
            "--init/--no-init", help="A first process that passes signals on.", rich_help_panel=_CONFINEMENT
        ),
    ] = True,
    lock_memory: Annotated[
        bool,
        typer.Option(
            "--lock-memory/--no-lock-memory",
            help="With GPUs: pin memory without limit, as NCCL wants it.",
            rich_help_panel=_CONFINEMENT,
        ),
    ] = True,
) -> None:
    """Run suites in containers, and leave each one's result in the results folder."""
    from rentbench.cli.run_display import Display
    from rentbench.driver.hosts import open_host
    from rentbench.driver.interrupts import Interrupts
    from rentbench.driver.planning import Wishes, plan_runs
    from rentbench.driver.runs import run_suites, worst_exit
    from rentbench.harness.privacy import redact

    wishes = Wishes(
        host=on,
        preset=preset,
        cases=case or (),
        settings=setting or (),
        repeats=repeats,
        seed=seed,
        image=image,
        results=results,
        keep=keep,
        timeout=timeout,
        idle_timeout=idle_timeout,
        gpus=gpus,
        network=network,
        memory=memory,
        shm_size=shm_size,
        tmp_size=tmp_size,
        pids_limit=pids_limit,
        user=user,
        read_only_root=read_only,
        drop_capabilities=drop_capabilities,
        no_new_privileges=no_new_privileges,
        init=init,
        lock_memory=lock_memory,
    )
    with (
        open_host(on) as (engine, host_gpus),
        Interrupts() as interrupts,
        Display(quiet_output=as_json) as display,
    ):
        outcomes = run_suites(
            engine,
            plan_runs(engine, suites, wishes, say=display.say, host_gpus=host_gpus),
            listener=display,
            interrupts=interrupts,
            redact=redact,
            continue_on_fail=continue_on_fail,
        )
    code = worst_exit([outcome.exit_code for outcome in outcomes])
    if as_json:
        print_json({"exit_code": int(code), "runs": [_summary(outcome) for outcome in outcomes]})
    else:
        for outcome in outcomes:
            _print_outcome(outcome)
    raise typer.Exit(int(code))


def reap(
    on: Annotated[
        str, typer.Option(metavar="HOST", help="Where: local, or ssh://USER@HOST[:PORT].")
    ] = "local",
    everything: Annotated[
        bool, typer.Option("--all", help="Also of drivers that live, or of whom nothing is known.")
    ] = False,
    results: Annotated[
        Path, typer.Option(metavar="DIR", help="Where results go that a dead driver did not collect.")
    ] = Path("results"),
    discard: Annotated[bool, typer.Option("--discard", help="Throw such results away.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove what drivers that died left in the engine, and keep what was measured."""
    from rentbench.driver.hosts import open_host
    from rentbench.driver.leftovers import find_leftovers
    from rentbench.driver.leftovers import reap as reap_one
    from rentbench.driver.owners import Owner
    from rentbench.harness.privacy import redact

    with open_host(on) as (engine, _):
        found = find_leftovers(engine)
        reaped = [
            reap_one(engine, leftover, results=None if discard else results, redact=redact)
            for leftover in found
            if everything or leftover.owner is Owner.DEAD
        ]
    kept = [leftover for leftover in found if not everything and leftover.owner is not Owner.DEAD]
    if as_json:
        print_json(
            {
                "reaped": [_reaped_summary(one) for one in reaped],
                "kept": [{"name": leftover.name, "owner": leftover.owner.value} for leftover in kept],
            }
        )
    elif not found:
        print_line("nothing is left behind")
    else:
        print_table(
            ("what", "driver", "now", "result"),
            [
                *(
                    (one.leftover.name, one.leftover.owner.value, one.problem or "removed", _folder(one))
                    for one in reaped
                ),
                *((leftover.name, leftover.owner.value, "left alone", "") for leftover in kept),
            ],
        )
    if any(one.problem for one in reaped):
        raise typer.Exit(int(ExitCode.FAILED))


def _print_outcome(outcome: RunOutcome) -> None:
    if outcome.failure is not None:
        error = RentbenchError(
            f"{outcome.failure.kind.value}: {outcome.failure.message}", hint=outcome.failure.hint
        )
        print_error(error)
    print_line(f"{outcome.run['suite']}: {outcome.status}  {outcome.folder}")


def _summary(outcome: RunOutcome) -> dict[str, Any]:
    run = outcome.run
    return {
        "suite": run["suite"],
        "preset": run["preset"],
        "status": outcome.status,
        "exit_code": int(outcome.exit_code),
        "error": run["error"],
        "folder": str(outcome.folder),
        "run_id": run["id"],
        "measurement_id": run["measurement"]["id"] if run["measurement"] else None,
        "image": run["image"],
    }


def _reaped_summary(one: Reaped) -> dict[str, Any]:
    return {
        "name": one.leftover.name,
        "run_id": one.leftover.run_id,
        "owner": one.leftover.owner.value,
        "problem": one.problem,
        "folder": _folder(one) or None,
    }


def _folder(one: Reaped) -> str:
    return str(one.folder) if one.folder else ""
