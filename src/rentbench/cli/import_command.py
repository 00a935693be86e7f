"""`rentbench import`: published figures and other tools' output as documents with a label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rentbench.cli.console import print_json, print_line

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="import")(import_references)


def import_references(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to read.", readable=False)],
    form: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="FORM",
            help="published, vllm-bench, nccl-tests, guidellm or aiperf; told from the file by default.",
        ),
    ] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="The GPU it ran on.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, max=1024, help="How many of them.")] = None,
    gpu_memory_gb: Annotated[float | None, typer.Option(min=0.5, help="Memory of one.")] = None,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the documents go; nothing there is overwritten.")
    ] = Path("results/published"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read published tables, and results of vllm bench serve, nccl-tests, guidellm and aiperf.

    They become documents of kind published, labelled published or imported: shown beside our own results,
    never ranked with them. What a file does not say is null.
    """
    from rentbench.references.documents import Device, keep
    from rentbench.references.importing import read_references

    device = Device(gpu_name=gpu, gpu_count=gpus, gpu_memory_gb=gpu_memory_gb)
    # All are read before any is written: a mistake in the last one leaves nothing half done.
    references = [one for path in paths for one in read_references(path, form=form, device=device)]
    for reference in references:
        reference.as_document()
    kept = [keep(reference, output) for reference in references]
    if as_json:
        print_json([str(path) for path in kept])
        return
    for reference, path in zip(references, kept, strict=True):
        failed = sum(case.status == "failed" for case in reference.cases)
        told = f", {failed} failed" if failed else ""
        print_line(f"{path}: {reference.label}, {len(reference.cases)} cases{told}")
