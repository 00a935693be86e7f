"""Nothing that names a machine, a person or a secret gets into a result, wherever it was planted."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rentbench.core.validation import check
from support.harness_runs import run

if TYPE_CHECKING:
    from support.fake_nvml import FakeNvml

# Made up, in the forms of the real ones.
TOKEN = "hf_" + "QmVyeVNlY3JldFRva2VuMTIzNDU2Nzg5"
SECRETS = {
    "token": TOKEN,
    "api key": "rc_live_" + "4f9d8a7c6b5e4d3c2b1a0987",
    "password": "correct-horse-battery",
    "cloud key": "AKIA" + "IOSFODNN7RENTB3N",
    "address": "203.0.113.77",
    "address of version 6": "2001:db8:85a3::8a2e:370:7334",
    "hardware address": "02:42:ac:11:00:9f",
    "person": "wilhelmina",
    "serial number": "1655024000000",
    "GPU": "GPU-00000000-aaaa-bbbb-cccc-0123456789ab",
}
HOST = "gpu-box-0417"


def text(host: str) -> str:
    """Return what a careless program prints."""
    return "\n".join(
        [
            f"login wilhelmina@{host} from 203.0.113.77 and 2001:db8:85a3::8a2e:370:7334 (02:42:ac:11:00:9f)",
            f"home /home/wilhelmina/models, token {TOKEN}, aws_access_key_id={SECRETS['cloud key']}",
            "from https://wilhelmina:correct-horse-battery@example.org/x",
            f"Authorization: Bearer {SECRETS['api key']}",
            f"Serial Number: 1655024000000, {SECRETS['GPU']}",
        ]
    )


@pytest.fixture(scope="module")
def host() -> tuple[str, list[str]]:
    """A host name that is long enough to be one, and what gives it to a process."""
    unshare = ["unshare", "--uts", "bash", "-c", f'hostname {HOST} && exec "$@"', "bash"]
    if shutil.which("unshare") and shutil.which("hostname"):
        named = subprocess.run([*unshare, "hostname"], capture_output=True, text=True, check=False)
        if named.stdout.strip() == HOST:
            return HOST, unshare
    return socket.gethostname(), []


@pytest.fixture
def planted(fake_nvml: FakeNvml, tmp_path: Path, host: tuple[str, list[str]]) -> list[tuple[str, str]]:
    """Run with secrets in environment, command line, log, exception, artifact and check; return all texts."""
    del fake_nvml
    name, prefix = host
    finished = run(
        tmp_path,
        "talks",
        "--preset",
        "smoke",
        "--device",
        "cpu",
        "--set",
        f"how=secrets {TOKEN}"[:200],
        prefix=prefix,
        PLANTED=text(name),
        HF_TOKEN=TOKEN,
        RUNCRATE_API_KEY=SECRETS["api key"],
        USER="wilhelmina",
        LOGNAME="wilhelmina",
        CUDA_CACHE_PATH="/home/wilhelmina/.nv",
        NCCL_SOCKET_IFNAME=f"203.0.113.77,{name}",
    )
    assert finished.document is not None, finished.stderr
    assert finished.folder is not None
    assert check(finished.document, "measurement", folder=finished.folder) == []
    texts = [("standard output", finished.stdout), ("standard error", finished.stderr)]
    return texts + [(path.name, path.read_text()) for path in finished.folder.iterdir()]


def test_no_secret_is_in_any_file_or_output(
    planted: list[tuple[str, str]], host: tuple[str, list[str]]
) -> None:
    names = {name for name, _ in planted}
    assert {"measurement.json", "log.txt", "tool.txt", "standard output"} <= names
    secrets = {**SECRETS, "host name": host[0]}
    for name, content in planted:
        found = [what for what, secret in secrets.items() if secret in content]
        assert not found, f"{name} holds {found}"


def test_what_is_no_secret_is_still_told(planted: list[tuple[str, str]]) -> None:
    texts = dict(planted)
    document = json.loads(texts["measurement.json"])
    assert document["cases"][0]["error"]["message"].startswith("RuntimeError: login ")
    assert "example.org/x" in texts["log.txt"]
    assert document["host"]["kernel"]
    assert document["environment_variables"]["CUDA_CACHE_PATH"].endswith("/.nv")


CRASHING_SAMPLER = """
import os, sys, traceback

def crash():
    raise RuntimeError(os.environ["PLANTED"])

if "rentbench.harness.telemetry" in sys.orig_argv:
    try:
        crash()
    except RuntimeError:
        traceback.print_exc()
        os._exit(1)
"""


def test_a_sampler_that_crashes_tells_no_secret(
    fake_nvml: FakeNvml, tmp_path: Path, host: tuple[str, list[str]]
) -> None:
    del fake_nvml
    name, prefix = host
    site = tmp_path / "home" / "wilhelmina" / "lib"
    site.mkdir(parents=True)
    (site / "sitecustomize.py").write_text(CRASHING_SAMPLER)
    fake_torch = Path(__file__).resolve().parents[1] / "fixtures" / "fake_torch"
    finished = run(
        tmp_path,
        "uses-gpu",
        prefix=prefix,
        PYTHONPATH=f"{site}:{fake_torch}",
        PLANTED=text(name),
        HF_TOKEN=TOKEN,
        RUNCRATE_API_KEY=SECRETS["api key"],
        USER="wilhelmina",
        LOGNAME="wilhelmina",
    )
    assert finished.folder is not None, finished.stderr
    assert finished.document is not None
    assert check(finished.document, "measurement", folder=finished.folder) == []
    told = finished.text("telemetry.jsonl")
    assert "RuntimeError: login " in told
    found = [what for what, secret in {**SECRETS, "host name": name}.items() if secret in told]
    assert not found, f"telemetry.jsonl holds {found}"


def test_serials_and_uuids_of_a_gpu_run_stay_here(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.plug(2)
    fake_torch = Path(__file__).resolve().parents[1] / "fixtures" / "fake_torch"
    finished = run(tmp_path, "uses-gpu", PYTHONPATH=str(fake_torch))
    assert finished.code == 0, finished.stderr
    assert finished.folder is not None
    for path in finished.folder.iterdir():
        content = path.read_text()
        assert "1655024000000" not in content, path.name
        assert "aaaa-bbbb-cccc" not in content, path.name
