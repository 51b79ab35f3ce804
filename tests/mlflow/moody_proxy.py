"""A small HTTP proxy before a real server, that can be slow, answer with errors, or not answer at all."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MoodyProxy:
    """Forwards to `server`. `delay_s` waits before each answer, `open` holds every answer until it is set; `status`
    answers with it instead of forwarding, where `only_with` is in the request, as it stood when that came in."""

    def __init__(self, server: str, port: int = 0) -> None:
        self.delay_s = 0.0
        self.status = 0
        self.only_with = b""
        self.gone = False
        self.open = threading.Event()
        self.open.set()
        self.answered = 0
        self.requests: list[str] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_all(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked = self.path.encode() + body
                status, answer = proxy.status if proxy.only_with in asked else 0, b"{}"
                proxy.requests.append(self.command + " " + self.path)
                time.sleep(proxy.delay_s)
                proxy.open.wait()
                if proxy.gone:
                    self.close_connection = True
                    return
                if not status:
                    passed = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                    request = urllib.request.Request(server + self.path, body or None, passed, method=self.command)
                    try:
                        with urllib.request.urlopen(request, timeout=60) as found:
                            status, answer = found.status, found.read()
                    except urllib.error.HTTPError as error:
                        status, answer = error.code, error.read()
                proxy.answered += 1
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = do_PUT = do_PATCH = handle_all  # noqa: N815 - the names that http.server calls

            def log_message(self, *_):
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.uri = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True, name="moody proxy").start()

    def close(self) -> None:
        self.gone = True  # also for a client that kept its connection
        self.open.set()
        self._server.shutdown()
        self._server.server_close()
