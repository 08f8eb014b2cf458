"""A real HTTP server in this process, in the place of those that pgengram asks: embedders and issuers of tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl

FORM = "application/x-www-form-urlencoded"
Reply = tuple[int, dict[str, str], Any]  # status, headers, body: bytes, or what is sent as JSON


@contextmanager
def listening(answer: Callable[[BaseHTTPRequestHandler, Any], Reply]) -> Iterator[str]:
    """Answer every request in a thread of its own, and yield the address.

    Args:
        answer: gets the request, of which it may read path and headers, and the JSON or form that was posted, if any.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(dict(parse_qsl(body.decode())) if self.headers["Content-Type"] == FORM else json.loads(body))

        def do_GET(self) -> None:
            self.reply(None)

        def reply(self, posted: Any) -> None:
            status, headers, body = answer(self, posted)
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, text in ({"Content-Length": str(len(sent))} | headers).items():
                self.send_header(name, text)
            with suppress(ConnectionError):  # a client that timed out is gone
                self.end_headers()
                self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()
