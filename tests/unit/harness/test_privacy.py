"""What must not come out does not, and what must stay does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rentbench.harness.privacy import (
    allowed_environment,
    redact,
    redact_command,
    remember,
)
from rentbench.harness.privacy.credentials import is_secret_name
from rentbench.harness.privacy.identity import of_this_machine

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = {
    "AKIAIOSFODNN7EXAMPLE": "aws: AKIAIOSFODNN7EXAMPLE",
    "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345": "using hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345 to log in",
    "rc_live_51HxyzABC": "runcrate key rc_live_51HxyzABC",
    "abcDEF123456ghi": "Authorization: Bearer abcDEF123456ghi",
    "wJalrXUtnFEMI/K7MDENG": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "s3cr3tpass": "clone https://deploy:s3cr3tpass@git.example.org/x.git",
    "onlytoken77": "clone https://onlytoken77@git.example.org/x.git",
    "zq81mmx0": "run --token=zq81mmx0 --verbose",
    "pp93kk1z": "run --api-key pp93kk1z --verbose",
    "hunter2hunter2": 'config {"password": "hunter2hunter2", "n": 3}',
    "escaped77quoted": '{\\"secret\\": \\"escaped77quoted\\"}',
    "two words inside": "{'passphrase': 'two words inside'}",
    "0f3a9c77be": "GET /v1?key=0f3a9c77be&n=1",
    "sigsigsig42": "GET https://bucket.example/x?X-Amz-Signature=sigsigsig42&y=1",
    "tok.in.query": "GET https://api.example/x?token=tok.in.query&y=1",
    "eyJzdWIiOiIxMjM0In0": "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdef",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "MIIEvQIBADANBg": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----",
    "session=abcdef": "Cookie: session=abcdef; theme=dark",
    "jane.doe": "mail jane.doe@example.org for access",
    "203.0.113.77": "connected to 203.0.113.77:8000",
    "198.51.100.23": "inet 198.51.100.23/24 scope global",
    "10.3.9.90": "worker 10.3.9.90 joined",
    "192.0.2.55": "'peer\\n192.0.2.55'",
    "2001:db8::8a2e:370:7334": "listening on [2001:db8::8a2e:370:7334]:22",
    "fe80::fc:ff:fe00:1": "inet6 fe80::fc:ff:fe00:1%eth0 scope link",
    "02:42:ac:11:00:02": "link/ether 02:42:ac:11:00:02 brd",
    "ip-172-31-9-4": "host ip-172-31-9-4.ec2.internal is up",
    "7d19-9063-b049": "CUDA_VISIBLE_DEVICES=GPU-513536b6-7d19-9063-b049-1e69664bb298",
    "1e69664bb298": "MIG-GPU-513536b6-7d19-9063-b049-1e69664bb298/1/0",
    "513536b6": "short GPU-513536b6 form",
    "1650522003820": "    Serial Number                          : 1650522003820",
    "1650124014249": "NVRM: GPU Board Serial Number: 1650124014249",
    "1322919011111": "<serial>1322919011111</serial>",
    "0xd52bae2e458244e2": "    GPU PDI                                : 0xd52bae2e458244e2",
    "alice": "File /home/alice/bench.py, line 3",
    "robert": "C:\\Users\\robert\\bench.py",
    "carol": "carol@gpu-7:~$ ls",
}

HARMLESS = [
    "driver 580.159.04, NVML 13.580.159.04",
    "CUDA version 12.8.1.2, cuDNN 9.10.2.21",
    "nvidia-cublas-cu12==12.8.4.1",
    "nvidia-curand-cu12     10.3.9.90",
    '"nvidia-cudnn-cu12": "9.10.2.21"',
    "/opt/venv/lib/libcudnn.so.9.10.2.21",
    "nvidia_cublas_cu12-12.8.4.1-py3-none-manylinux_2_27_x86_64.whl",
    "NV_CUDNN_VERSION=9.10.2.21",
    "opencv-python 4.11.0.86",
    "VBIOS 96.00.A5.00.01, image G520.0200.00.05",
    "2026-11-30T22:05:00.123Z took 01:02:03",
    "20261130T220500Z-0190b3a1-7c11-7def-8abc-0123456789ab",
    "PCI 00000000:9B:00.0, 0000:9b:00.0",
    "sha256:" + "9f86d081884c7d659a2feaa0c55ad015" * 2,
    "image registry/x@sha256:" + "9f86d081884c7d659a2feaa0c55ad015" * 2,
    "785.31 TFLOPS, 4.1e12 B/s, 99 %, 631.95 W, 81559 MiB",
    "tokens/s: 10592.3, total_tokens: 163840, max_tokens=256",
    "Mean time per output token: 7.83 ms, time_to_first_token=0.128",
    "eos_token='</s>' pad_token_id: 151643 eos_token: 151645",
    "sorted(rows, key=str) KeyError: 'p99_ttft_ms' cache_key=abcdefgh12345",
    "hf_hub_download(hf_transformers) hf_home",
    "serving on http://127.0.0.1:8000 and 0.0.0.0",
    "x[::2] std::vector c10::cuda at::native::add",
    "Qwen/Qwen2.5-7B-Instruct@main torch==2.8.0+cu128",
    "/tmp/home/.cache/torch and /opt/rentbench/src",
    "secret=None token='' password=****",
    "GPU-accelerated, GPU0 NV18 GPU1",
]


@pytest.mark.parametrize(("secret", "text"), SECRETS.items())
def test_a_secret_goes(secret: str, text: str) -> None:
    assert secret not in redact(text)


@pytest.mark.parametrize(("secret", "text"), SECRETS.items())
def test_a_secret_goes_from_json_and_from_the_middle_of_a_log(secret: str, text: str) -> None:
    assert secret not in redact(f"[12:00:01] step 3\n{text}\nloss 0.25")
    assert json.dumps(secret)[1:-1] not in redact(json.dumps({"log": f"a {text} b"}))


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [*SECRETS.values(), *HARMLESS])
def test_twice_is_as_once(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.text(alphabet=st.sampled_from("ab1.:-/=@ \n\"'\\<>{}_tokenpswdhfGPU0")))
def test_any_text_is_redacted_once_and_for_all(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["a", "a-", "a.", "1.", "1:", "ab:", "a=", "x@", "--a ", "/home/", "\\", '"', "_", "eyJ"]
)
def test_a_hostile_log_takes_no_time(piece: str) -> None:
    redact(piece * 100_000)


def test_a_version_field_may_look_like_an_address() -> None:
    assert redact("12.8.1.2", versions=True) == "12.8.1.2"
    assert redact("12.8.1.2") == "<ip>"


def test_identifiers_that_a_probe_met_go_wherever_they_stand() -> None:
    remember({"1650533044777", "GPU-99999999-7d19-9063-b049-1e69664bb298", "0000000000000", "0"})
    clean = redact("row, 1650533044777, 99999999-7d19-9063-b049-1e69664bb298, 0000000000000, 0")
    assert clean == "row, <identifier>, <identifier>, 0000000000000, 0"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("HF_TOKEN", True), ("hf_token", True), ("RUNCRATE_API_KEY", True), ("AWS_SECRET_ACCESS_KEY", True),
        ("AWS_ACCESS_KEY_ID", True), ("--api-key", True), ("apiKey", True), ("x-amz-signature", True),
        ("accessToken", True), ("DB_PASSWORD", True),
        ("max_tokens", False), ("tokenizer", False), ("eos_token", False), ("time_per_output_token", False),
        ("sort_key", False), ("monkey", False), ("author", False), ("keys", False), ("", False),
        ("KeyError", False),
    ],
)  # fmt: skip
def test_names_of_secrets(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


def test_a_command_loses_the_argument_after_a_secret_option() -> None:
    command = ["python", "x.py", "--token", "abc", "--n", "3", "--password=xyz", "/home/alice/d"]
    assert redact_command(command) == [
        "python", "x.py", "--token", "<secret>", "--n", "3", "--password=<secret>", "/home/<user>/d",
    ]  # fmt: skip


def test_the_environment_is_an_allow_list() -> None:
    environment = {
        "CUDA_VISIBLE_DEVICES": "GPU-513536b6-7d19-9063-b049-1e69664bb298",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_COMM_ID": "10.0.0.5:1234",
        "NV_SOMETHING": "x",
        "NVIDIA_CUDNN_VERSION": "9.10.2.21",
        "VLLM_API_KEY": "abcdef",
        "HF_TOKEN": "hf_abc",
        "HF_HUB_OFFLINE": "1",
        "LD_LIBRARY_PATH": "/home/alice/lib:/usr/lib",
        "USER": "alice",
        "OMP_NUM_THREADS": "8",
        "TORCH_LOGS": "\udcff broken",
        "PATH": "/bin",
    }
    assert allowed_environment(environment) == {
        "CUDA_VISIBLE_DEVICES": "<gpu-uuid>",
        "HF_HUB_OFFLINE": "1",
        "LD_LIBRARY_PATH": "/home/<user>/lib:/usr/lib",
        "NCCL_COMM_ID": "<ip>:1234",
        "NCCL_P2P_DISABLE": "1",
        "NVIDIA_CUDNN_VERSION": "9.10.2.21",
        "OMP_NUM_THREADS": "8",
        "TORCH_LOGS": "? broken",
    }


PLANTED = {
    "HOSTNAME": "wintermute-gpu-03.dc1.example.org",
    "USER": "molly",
    "HF_TOKEN": "weirdFormat.token/without+prefix",
    "RUNCRATE_API_KEY": "rc_live_9f8e7d6c5b4a",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "SERVICE_PASSWORD": "correct horse battery",
}
WHOLE = """
import json, sys
from rentbench.harness.privacy import allowed_environment, redact, redact_document
document = json.load(sys.stdin)
clean = redact_document(document)
clean["environment_variables"] = allowed_environment()
json.dump(clean, sys.stdout)
"""


def test_a_document_full_of_planted_identifiers_comes_out_clean() -> None:
    """In a process of its own, whose environment says who and where it is, as a run's supervisor is."""
    sentence = (
        "molly on WINTERMUTE-GPU-03 (wintermute-gpu-03.dc1.example.org, 203.0.113.9) used "
        "weirdFormat.token/without+prefix and 'correct horse battery', rc_live_9f8e7d6c5b4a, "
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY; driver 580.159.04, 785.3 TFLOPS, 0000:9b:00.0"
    )
    document: dict[str, Any] = {
        "id": "0190b3a1-7c11-7def-8abc-0123456789ab",
        "suite": {"name": "gemm", "version": "1.0.0"},
        "started": "2026-11-30T22:05:00.123Z",
        "command": ["python", "--token", "molly-secret", sentence],
        "error": {"kind": "oom", "message": sentence, "hint": None, "phase": "load", "log_tail": sentence},
        "host": {
            "gpus": [{"name": "NVIDIA H200", "vbios": "96.00.CC.00.0D", "uuid_hash": "sha256:" + "0" * 64}],
            "driver_version": "12.8.1.2",
        },
        "software": {"nvidia-cublas-cu12": "12.8.4.1", "torch": "2.8.0"},
        "cases": [{"reason": sentence, "measurements": [{"metric": "steady_tflops", "values": [785.3]}]}],
        "validity": [{"name": "gpu_used", "detail": sentence}],
        "artifacts": [{"name": "log.txt", "sha256": "sha256:" + "1" * 64, "description": sentence}],
        "unavailable": [{"path": "/host/cpu", "reason": sentence}],
    }
    finished = subprocess.run(
        [sys.executable, "-c", WHOLE],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        check=True,
        env=PLANTED,
    )
    text = finished.stdout.lower()
    for planted in [*PLANTED.values(), "wintermute", "molly", "203.0.113.9"]:
        assert planted.lower() not in text
    clean = json.loads(finished.stdout)
    for part in ("id", "suite", "started", "software"):
        assert clean[part] == document[part]
    assert clean["host"] == document["host"]
    assert clean["cases"][0]["measurements"] == document["cases"][0]["measurements"]
    assert clean["artifacts"][0]["sha256"] == document["artifacts"][0]["sha256"]
    for survivor in ("580.159.04", "785.3 TFLOPS", "0000:9b:00.0"):
        assert survivor in clean["error"]["message"]


def test_who_the_machine_is(tmp_path: Path) -> None:
    for name, text in {
        "etc/hostname": "neuromancer\n",
        "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 case.example.org case\n"
        "10.9.8.7 straylight # own\n1.2.3.4 x1\n",
        "proc/net/fib_trie": " |-- 10.9.8.7\n  /32 host LOCAL\n |-- 10.9.8.255\n  /32 link BROADCAST\n",
        "proc/net/if_inet6": "20010db8000000000000000000000042 02 40 00 80 eth0\n"
        + "0" * 31
        + "1 01 80 10 80 lo\n",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    environment = {
        "HOSTNAME": "0123456789ab",
        "USER": "case1984",
        "LOGNAME": "root",
        "API_TOKEN": "t0ps3cret",
        "N": "1",
    }
    found = of_this_machine(environment, tmp_path)
    assert {"neuromancer", "case.example.org", "case", "straylight", "0123456789ab"} <= found.hosts
    assert not {"localhost", "x1"} & found.hosts
    assert "case1984" in found.users
    assert "root" not in found.users
    assert found.addresses == {"10.9.8.7", "2001:db8::42"}
    assert found.secrets == {"t0ps3cret"}
