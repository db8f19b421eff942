"""pages.py: an API with CORS and, on the same port, the page of a browser test.

Prints its loopback port, then a JSON line for each result that a page reports. `/seen` tells which API requests came.
The page tries what a page can: it is the same for every origin, so that the origin alone makes the difference.
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"""<!doctype html><meta charset=utf-8><title>page</title><body><script>
const query = new URLSearchParams(location.search);
const gateway = query.get('gateway'), admin = query.get('admin');
const outcome = async (promise) => { try { return await promise; } catch (error) { return 'blocked'; } };
const text = async (url, options) => (await fetch(url, options)).text();
const element = (name, url) => new Promise((resolve) => {
  const made = document.createElement(name);
  made.onload = () => resolve('loaded');
  made.onerror = () => resolve('blocked');
  made.src = url;
  document.body.append(made);
});
const form = (url) => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.name = 'target';
  frame.onload = () => resolve('sent');
  document.body.append(frame);
  const made = document.createElement('form');
  made.method = 'POST';
  made.action = url;
  made.target = 'target';
  made.innerHTML = '<input name=amount value=100>';
  document.body.append(made);
  made.submit();
});
const socket = (url) => new Promise((resolve) => {
  const made = new WebSocket(url);
  made.onopen = () => resolve('open');
  made.onerror = () => resolve('blocked');
});
(async () => {
  const results = {
    read: await outcome(text(gateway + '/api/read')),
    written: await outcome(text(gateway + '/api/written', {method: 'PUT', headers: {'X-Own': '1'}, body: 'x'})),
    opaqueRead: await outcome(text(gateway + '/api/opaque-read', {mode: 'no-cors'})),
    opaqueWrite: await outcome(text(gateway + '/api/opaque-write', {mode: 'no-cors', method: 'POST', body: 'x'})),
    image: await element('img', gateway + '/api/image'),
    script: await element('script', gateway + '/api/script'),
    form: await form(gateway + '/api/form'),
    socket: await socket(gateway.replace('http', 'ws') + '/api/socket'),
    metrics: await outcome(text(admin + '/metrics')),
  };
  await fetch('/result', {method: 'POST', body: JSON.stringify({page: location.host, results})});
})();
</script>"""

seen = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, content, kind="application/json", status=200):
        self.send_response(status)
        origin = self.headers.get("Origin")
        if origin and self.path.startswith("/api/"):
            self.send_header("Access-Control-Allow-Origin", origin)
            self.send_header("Access-Control-Allow-Methods", "GET, PUT, POST")
            self.send_header("Access-Control-Allow-Headers", "x-own")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def api(self):
        length = int(self.headers.get("Content-Length", "0"))
        self.rfile.read(length)
        request = {
            "method": self.command,
            "path": self.path,
            "origin": self.headers.get("Origin"),
            "authorization": self.headers.get("Authorization"),
        }
        seen.append(request)
        self.answer(json.dumps(request).encode())

    def do_GET(self):
        if self.path.startswith("/api/"):
            self.api()
        elif self.path == "/seen":
            self.answer(json.dumps(seen).encode())
        else:
            self.answer(PAGE, "text/html")

    def do_POST(self):
        if self.path == "/result":
            length = int(self.headers.get("Content-Length", "0"))
            print(self.rfile.read(length).decode(), flush=True)
            self.answer(b"{}")
        else:
            self.api()

    do_PUT = do_OPTIONS = api


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
sys.stdout.flush()
server.serve_forever()
