"""What the cells of a repeat share: one server, or somebody else's, and one load client."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serving_api import Api, base_url
from serving_client import APIS, LoadClient, Target, vllm_python
from serving_log import read_stages
from serving_model import write_random_model
from serving_server import Server, ServerError, free_port

from rentbench.core.errors import ErrorKind

if TYPE_CHECKING:
    from rentbench.harness.context import Context

__all__ = ["Serving", "open_serving", "tell_log"]

_LOG_LINES = 60


@dataclass(kw_only=True)
class Serving:
    """A server to measure and the client to measure it with.

    Attributes:
        python: That has vLLM.
        target: Whom requests go to.
        api: The same server, for questions of our own.
        server: Its processes; None where it is somebody else's.
        client: Sends the load.
        starts: How many servers this repeat has started.
        lost: Why the last start failed; None where none did.
    """

    python: str
    target: Target
    api: Api
    server: Server | None
    client: LoadClient
    starts: int
    lost: ServerError | None = None

    def restore(self, context: Context) -> bool:
        """Bring back a server or a client that an earlier cell has lost.

        Returns:
            Whether there is a new server, which has to be warmed up.

        Raises:
            ServerError: It does not start, or did not before: that is tried once.
        """
        if self.lost is not None:
            raise self.lost
        if not self.client.alive():
            self.client = _load_client(self.python, context, _key(context))
        if self.server is None or self.server.alive():
            return False
        _keep_log(self.server, self.starts - 1, context)
        try:
            self.server = _start_server(self.python, self.target.tokenizer, self.starts, context)
        except ServerError as error:
            self.lost = error
            raise
        self.api, self.starts = self.server.api, self.starts + 1
        self.target = _target(self.api.url, self.server.model_name, self.target.tokenizer, context)
        return True

    def close(self, context: Context) -> None:
        """End the client and, where it is ours, the server, and keep the server's log."""
        self.client.close()
        if self.server is not None:
            self.server.stop()
            _keep_log(self.server, self.starts - 1, context)


def open_serving(context: Context) -> Serving:
    """Start a server and wait for it, or find the one that the setting `endpoint` names.

    Raises:
        ServerError: It does not start.
        ClientError: vLLM is not installed, or cannot be loaded.
    """
    python = vllm_python()
    serving = _connect(python, context) if context.settings["endpoint"] else _start(python, context)
    try:
        serving.client.wait_until_loaded()
    except BaseException:
        serving.close(context)
        raise
    return serving


def _connect(python: str, context: Context) -> Serving:
    """Return what is needed to measure a server that somebody else runs."""
    settings = context.settings
    try:
        url = base_url(str(settings["endpoint"]))
    except ValueError as error:
        context.fail(ErrorKind.USAGE, str(error))
    variable, key = settings["key_variable"], _key(context)
    api = Api(url, key)
    models = api.models()
    if models is None and not settings["model"]:
        hint = f"is it up, and is its key in the environment variable {variable}? Or name the model"
        context.fail(ErrorKind.NETWORK, "the endpoint does not tell which models it serves", hint)
    model = str(settings["model"]) or (models or [""])[0]
    tokenizer = str(settings["tokenizer"]) or _model_folder(context)
    context.describe(
        weights={"kind": "pretrained", "repository": model, "revision": None}, data=_data(context)
    )
    version = api.version()
    detail = f"vLLM {version}" if version else "the server does not tell its version"
    context.check("server_version", True if version else None, detail, value=version)
    return Serving(
        python=python,
        target=_target(url, model, tokenizer, context),
        api=api,
        server=None,
        client=_load_client(python, context, key),
        starts=0,
    )


def _start(python: str, context: Context) -> Serving:
    if context.device == "cpu" and context.preset != "smoke":
        message = f"preset {context.preset} needs a GPU for its server, and none is used here"
        context.fail(ErrorKind.NO_GPU, message, "on a CPU: --preset smoke, or --set endpoint=URL")
    _skip_unsupported_dtype(context)
    kind = "random" if context.settings["weights"] == "random" else "pretrained"
    repository = str(context.settings["architecture"] if kind == "random" else context.settings["weights"])
    context.describe(
        weights={"kind": kind, "repository": Path(repository).name, "revision": None}, data=_data(context)
    )
    folder = _model_folder(context)
    client = _load_client(python, context, None)
    try:
        server = _start_server(python, folder, 0, context)
    except BaseException:
        client.close()
        raise
    return Serving(
        python=python,
        target=_target(server.api.url, server.model_name, folder, context),
        api=server.api,
        server=server,
        client=client,
        starts=1,
    )


def _start_server(python: str, folder: str, starts: int, context: Context) -> Server:
    """Start a server and wait for it; its log says when loading ends and compiling begins."""
    settings, limit = context.settings, float(context.settings["start_limit_seconds"])
    server = Server(
        command=[python, "-m", "vllm.entrypoints.cli.main"],
        model=Path(folder),
        arguments=_server_arguments(context),
        environment=_server_environment(context),
        port=int(settings["port"]) or free_port(),
        log=context.scratch / f"server-{starts}.log",
    )
    try:
        with context.phase("load"):
            server.wait_until(lambda at: read_stages(at.log).load_seconds is not None or at.healthy(), limit)
        with context.phase("compile"):
            server.wait_until(
                lambda at: read_stages(at.log).engine_seconds is not None or at.healthy(), limit
            )
        with context.phase("load"):
            server.wait_until(Server.healthy, limit)
    except BaseException:
        server.stop()
        tell_log(server, context)
        _keep_log(server, starts, context)
        raise
    stages = read_stages(server.log)
    detail = f"ready after {server.ready_seconds:.1f} s; its log tells: {stages.sentence}"
    context.check("server_start", True, detail, value=round(server.ready_seconds or 0.0, 3), unit="s")
    version = server.api.version()
    context.check("server_version", True if version else None, f"vLLM {version}", value=version)
    return server


def _keep_log(server: Server, starts: int, context: Context) -> None:
    context.artifact(f"server-{context.repeat}-{starts}.log", server.log, "what the server printed")


def tell_log(server: Server | None, context: Context) -> None:
    """Put the end of the server's log into the run's own, from where an error takes its last lines."""
    if server is not None:
        context.log("\n".join(server.log.splitlines()[-_LOG_LINES:]))


def _target(url: str, model: str, tokenizer: str, context: Context) -> Target:
    api = str(context.settings["api"])
    assert api in APIS  # noqa: S101  suite.toml allows no other
    ignore_eos = bool(context.settings["ignore_eos"])
    return Target(url=url, model=model, tokenizer=tokenizer, api=api, ignore_eos=ignore_eos)


def _model_folder(context: Context) -> str:
    """Return the folder of the model, writing one where weights are random."""
    if context.settings["weights"] != "random":
        return str(context.settings["weights"])
    folder = context.scratch / "model"
    if not folder.exists():
        write_random_model(str(context.settings["architecture"]), folder)
    return str(folder)


def _server_arguments(context: Context) -> list[str]:
    settings = context.settings
    return [
        *("--dtype", str(settings["dtype"]), "--max-model-len", str(settings["max_model_len"])),
        # On a CPU it would be a share of the main memory.
        *(
            ["--gpu-memory-utilization", str(settings["gpu_memory_utilization"])]
            if context.device == "cuda"
            else ["--enforce-eager"]
        ),
        *(["--load-format", "dummy"] if settings["weights"] == "random" else []),
        *shlex.split(str(settings["server_arguments"])),
    ]


def _server_environment(context: Context) -> dict[str, str]:
    """Return the environment of the server: no usage statistics, no other machine."""
    environment = {**_environment(), "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    # Everything is on this machine; without a network, vLLM would find no address of its own.
    environment.setdefault("VLLM_HOST_IP", "127.0.0.1")
    # Its kernels are compiled at the start with nvcc, which images do not carry; the load draws no samples.
    environment.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    if context.device == "cpu":
        environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        environment.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


def _load_client(python: str, context: Context, key: str | None) -> LoadClient:
    environment = _environment()
    # vLLM's client reads this one; a key that is there for something else goes to nobody.
    environment.pop("OPENAI_API_KEY", None)
    if key:
        environment["OPENAI_API_KEY"] = key
    return LoadClient(python=python, environment=environment, folder=context.scratch)


def _key(context: Context) -> str | None:
    return (
        os.environ.get(str(context.settings["key_variable"])) if context.settings["endpoint"] else None
    ) or None


def _environment() -> dict[str, str]:
    """Return our environment, with no proxy before this machine, and no hidden download."""
    exempt = ",".join(filter(None, (os.environ.get("NO_PROXY", ""), "127.0.0.1", "localhost")))
    environment = {**os.environ, "NO_PROXY": exempt, "no_proxy": exempt}
    environment.setdefault("HF_HUB_OFFLINE", "1")
    return environment


def _skip_unsupported_dtype(context: Context) -> None:
    if context.settings["dtype"] != "bfloat16" or context.device != "cuda":
        return
    for gpu in context.host["gpus"]:
        capability = gpu.get("compute_capability")
        if capability and float(capability) < 8:
            reason = f"{gpu['name']} (compute capability {capability}) has no bf16: --set dtype=float16"
            context.skip(reason)


def _data(context: Context) -> dict[str, Any]:
    return {"kind": "synthetic", "name": "vllm bench random", "revision": None, "seed": context.seed}
