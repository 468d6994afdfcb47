"""A proxy in front of a service that loses requests and answers on demand."""

from __future__ import annotations

import http.client
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: a request is lost before the service gets it, or its answer is lost
BEFORE, AFTER = "before", "after"


class Proxy:
    """Forwards requests, except where ``faults`` says otherwise for the next one.

    A fault is BEFORE, AFTER, None to let the request through, or a reply of the proxy's own: a
    status, headers and possibly a body. ``seen`` has the method, path and headers of every request.
    """

    def __init__(self, port):
        self.faults, self.seen = deque(), []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                proxy.seen.append((self.command, self.path, dict(self.headers)))
                fault = proxy.faults.popleft() if proxy.faults else None
                if fault == BEFORE:
                    self.close_connection = True
                    return
                if isinstance(fault, tuple):
                    status, headers, *body = fault
                    self.reply(status, headers.items(), "".join(body).encode())
                    return
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                content = response.read()
                connection.close()
                if fault == AFTER:
                    self.close_connection = True
                else:
                    self.reply(response.status, response.getheaders(), content)

            def reply(self, status, headers, content):
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in ("content-length", "connection", "date"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

            do_GET = do_POST = do_DELETE = answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
