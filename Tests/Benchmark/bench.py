#!/usr/bin/env python3
"""bench.py: bearerd beside HAProxy, nginx, Envoy and a relay that does nothing, in one run.

All take turns at the same work, on the same origin, from the same load generator, pinned to one processor together; each
has one thread. What counts are ratios to the peers of the same round, medians over the rounds. See README.md.
"""
import argparse
import json
import os
import platform
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
TOKEN = "t" * 64
BULK = 1 << 30
BULK_TIMES = 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program, pinned; killed by its pid at the latest when the run ends."""

    running = []

    def __init__(self, command, cpu, **options):
        self.popen = subprocess.Popen(["taskset", "-c", str(cpu)] + command, **options)
        self.pid = self.popen.pid
        Process.running.append(self)

    def end(self):
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(10)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        if self in Process.running:
            Process.running.remove(self)

    @property
    def cpu_ns(self):
        total = 0
        tasks = f"/proc/{self.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        return total

    @property
    def rss_kib(self):
        with open(f"/proc/{self.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


class Peer:
    """A proxy: started anew for each round, with its plain and its TLS upstream on two ports."""

    def __init__(self, name, has_tls=True):
        self.name = name
        self.has_tls = has_tls

    def takes_part(self, workload):
        return self.has_tls or not workload.startswith("TLS")

    def wait(self, port):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.popen.poll() is not None:
                    raise SystemExit(f"{self.name} ended at its start")
                time.sleep(0.005)
        raise SystemExit(f"{self.name} does not listen")

    def template(self, name, ports, work):
        with open(f"{HERE}/{name}") as file:
            text = file.read()
        values = {"TOKEN": TOKEN, "WORK": work, **ports}
        text = re.sub(r"@([A-Z_]+)@", lambda found: str(values[found.group(1)]), text)
        path = f"{work}/{name}"
        with open(path, "w") as file:
            file.write(text)
        return path


class Nginx(Peer):
    def start(self, setup, cpu):
        self.plain, self.tls = free_port(), free_port()
        ports = {**setup.ports, "PLAIN": self.plain, "TLS": self.tls}
        work = tempfile.mkdtemp(dir=setup.work)
        path = self.template("nginx.conf", ports, work)
        self.process = Process(["nginx", "-p", work, "-c", path], cpu, stderr=subprocess.DEVNULL)
        self.wait(self.plain)


class HAProxy(Peer):
    def start(self, setup, cpu):
        self.plain, self.tls = free_port(), free_port()
        ports = {**setup.ports, "PLAIN": self.plain, "TLS": self.tls}
        path = self.template("haproxy.cfg", ports, tempfile.mkdtemp(dir=setup.work))
        self.process = Process(["haproxy", "-db", "-q", "-f", path], cpu)
        self.wait(self.plain)


class Envoy(Peer):
    def start(self, setup, cpu):
        self.plain, self.tls = free_port(), free_port()
        ports = {**setup.ports, "PLAIN": self.plain, "TLS": self.tls}
        path = self.template("envoy.yaml", ports, tempfile.mkdtemp(dir=setup.work))
        command = [setup.envoy, "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "error"]
        self.process = Process(command, cpu, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait(self.plain)


class Relay(Peer):
    mode = []

    def start(self, setup, cpu):
        command = [f"{setup.work}/relay", str(setup.ports["ORIGIN"])] + self.mode
        self.process = Process(command, cpu, stdout=subprocess.PIPE)
        self.plain = int(self.process.popen.stdout.readline())


class Floor(Relay):
    """Four calls that block, for one connection."""

    mode = ["floor"]

    def takes_part(self, workload):
        return workload == FLOOR_WORKLOAD


class Bearerd(Peer):
    """Its sessions are stored by the real command."""

    def __init__(self, name="bearerd", log="access = false", launcher=()):
        super().__init__(name)
        self.log = log
        self.launcher = list(launcher)

    def start(self, setup, cpu, sessions=("main",), expires_in=360000, token_port=9, kind="plain",
              timing='refresh_ahead = "off"'):
        self.work = work = tempfile.mkdtemp(dir=setup.work)
        origin = f"https://localhost:{setup.ports['TLS_ORIGIN']}" if kind == "tls" else f"http://127.0.0.1:{setup.ports['ORIGIN']}"
        upstream = f'origin = "{origin}"\n' + ('pool = "load-*"' if kind == "pool" else 'session = "main"')
        if kind == "tls":
            upstream += f'\naddress = "127.0.0.1:{setup.ports["TLS_ORIGIN"]}"\ntls.ca_file = "{setup.work}/cert.pem"'
        ports = {"TOKEN_PORT": token_port, "LOG": self.log, "UPSTREAM": upstream, "TIMING": timing}
        path = self.template("bearerd.toml", ports, work)
        os.mkdir(f"{work}/state", 0o700)
        for name in sessions:
            answer = {"access_token": TOKEN, "refresh_token": f"r-{name}", "expires_in": expires_in}
            command = [setup.bearerd, "session", "add", name, "--config", path, "--provider", "bench", "--from-json", "-"]
            subprocess.run(command, input=json.dumps(answer), text=True, check=True, stdout=subprocess.DEVNULL)
        log = open(f"{work}/log", "w")
        began = time.monotonic()
        command = self.launcher + [setup.bearerd, "run", "--config", path, "--log-format", "logfmt"]
        self.process = Process(command, cpu, stderr=log)
        ports = []
        while not ports:
            if self.process.popen.poll() is not None or time.monotonic() - began > 60:
                raise SystemExit(f"bearerd does not start: {open(f'{work}/log').read()}")
            with open(f"{work}/log") as file:
                ports = re.findall(r"address=127\.0\.0\.1:(\d+) for=proxy", file.read())
            time.sleep(0.001)
        self.plain, self.tls = int(ports[0]), int(ports[0])


class Setup:
    def __init__(self, arguments):
        self.bearerd = os.path.abspath(arguments.bearerd)
        self.envoy = arguments.envoy
        self.cpu = arguments.cpu
        self.work = tempfile.mkdtemp(prefix="bearerd-bench-")
        for program in ("relay", "origin"):
            subprocess.run(["cc", "-O2", "-o", f"{self.work}/{program}", f"{HERE}/{program}.c"], check=True)
        with open(f"{self.work}/bulk", "w") as file:
            file.truncate(BULK)
        # Who is measured first would wait for the file system.
        subprocess.run(["cat", f"{self.work}/bulk"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-keyout", f"{self.work}/key.pem", "-out", f"{self.work}/cert.pem", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        origin = Process([f"{self.work}/origin"], self.cpu, stdout=subprocess.PIPE)
        self.ports = {"ORIGIN": int(origin.popen.stdout.readline()), "TLS_ORIGIN": free_port()}
        front = Peer("origin")
        path = front.template("tls-origin.conf", self.ports, self.work)
        front.process = Process(["nginx", "-p", self.work, "-c", path], self.cpu, stderr=subprocess.DEVNULL)
        front.wait(self.ports["TLS_ORIGIN"])


def load(cpu, port, connections, seconds, path="/", close=False, script=None):
    """wrk: requests, requests/s, p50 and p99 and maximum in µs, errors."""
    command = ["taskset", "-c", str(cpu), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "20s"]
    if close:
        command += ["-H", "Connection: close"]
    if script:
        command += ["-s", f"{HERE}/{script}"]
    output = subprocess.run(command + [f"http://127.0.0.1:{port}{path}"], capture_output=True, text=True, check=True).stdout
    unit = {"us": 1, "ms": 1000, "s": 1e6, "m": 6e7}

    def micros(text):
        found = re.match(r"([\d.]+)(us|ms|s|m)$", text)
        return float(found.group(1)) * unit[found.group(2)]

    latency = re.search(r"Latency\s+\S+\s+\S+\s+(\S+)", output).group(1)
    errors = re.search(r"Socket errors: (.*)", output)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    return {
        "requests": int(re.search(r"(\d+) requests in", output).group(1)),
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1)),
        "p50": micros(re.search(r"\n\s+50%\s+(\S+)", output).group(1)),
        "p99": micros(re.search(r"\n\s+99%\s+(\S+)", output).group(1)),
        "max": micros(latency),
        "errors": (errors.group(1) if errors and not close else "") + (f" {bad.group(1)} not 2xx" if bad else ""),
    }


def measure_load(setup, peer, port, connections, seconds, **kind):
    load(setup.cpu, port, connections, 1, **kind)
    before = peer.process.cpu_ns
    result = load(setup.cpu, port, connections, seconds, **kind)
    result["cpu"] = (peer.process.cpu_ns - before) / 1000 / max(result["requests"], 1)
    result["rss"] = peer.process.rss_kib
    return result


def measure_bulk(setup, peer, port, is_upload):
    """Several transfers in a row, and their mean: one alone varies by half, by who is woken when."""
    command = ["taskset", "-c", str(setup.cpu), "curl", "-q", "-sS", "-f", "-o", "/dev/null", "-H", "Expect:"]
    command += ["-T", f"{setup.work}/bulk"] if is_upload else []
    before, began = peer.process.cpu_ns, time.monotonic()
    for _ in range(BULK_TIMES):
        subprocess.run(command + [f"http://127.0.0.1:{port}/bulk"], check=True)
    seconds = (time.monotonic() - began) / BULK_TIMES
    cpu = (peer.process.cpu_ns - before) / 1e9 / BULK_TIMES
    return {"cpu": cpu, "rate": BULK / seconds / 2**20, "rss": peer.process.rss_kib, "errors": ""}


FLOOR_WORKLOAD = "GET, 1 connection"
WORKLOADS = {
    FLOOR_WORKLOAD: lambda s, p, t: measure_load(s, p, p.plain, 1, t),
    "GET, 64 connections": lambda s, p, t: measure_load(s, p, p.plain, 64, t),
    "GET, 512 connections": lambda s, p, t: measure_load(s, p, p.plain, 512, t),
    "GET, 64 connections, each another": lambda s, p, t: measure_load(s, p, p.plain, 64, t, script="another.lua"),
    "a connection for each GET": lambda s, p, t: measure_load(s, p, p.plain, 64, t, close=True),
    "download of 1 GiB": lambda s, p, t: measure_bulk(s, p, p.plain, False),
    "upload of 1 GiB": lambda s, p, t: measure_bulk(s, p, p.plain, True),
    "TLS upstream, GET, 64 connections": lambda s, p, t: measure_load(s, p, p.tls, 64, t),
    "TLS upstream, download of 1 GiB": lambda s, p, t: measure_bulk(s, p, p.tls, False),
}


def rounds(setup, arguments):
    """results[workload][peer]: a list of what each round measured."""
    peers = [Bearerd(), Nginx("nginx"), HAProxy("HAProxy"), Relay("relay", has_tls=False), Floor("floor")]
    if setup.envoy:
        peers.insert(3, Envoy("Envoy"))
    results = {name: {} for name in WORKLOADS if re.search(arguments.only, name)}
    for number in range(arguments.rounds):
        for name in results:
            # Each begins as often as another, and the neighbours in time change.
            order = peers[number % len(peers):] + peers[:number % len(peers)]
            for peer in order:
                if not peer.takes_part(name):
                    continue
                if isinstance(peer, Bearerd):
                    peer.start(setup, setup.cpu, kind="tls" if name.startswith("TLS") else "plain")
                else:
                    peer.start(setup, setup.cpu)
                result = WORKLOADS[name](setup, peer, arguments.seconds)
                if result["errors"]:
                    print(f"bench: {peer.name}, {name}: {result['errors']}", file=sys.stderr)
                results[name].setdefault(peer.name, []).append(result)
                peer.process.end()
        print(f"bench: round {number + 1} of {arguments.rounds}", file=sys.stderr)
    return results


def processor():
    with open("/proc/cpuinfo") as file:
        names = re.findall(r"model name\s*: (.*)", file.read())
    return names[0] if names else platform.machine()


def versions(setup):
    def said(command, pattern):
        done = subprocess.run(command, capture_output=True, text=True)
        found = re.search(pattern, done.stdout + done.stderr)
        return found.group(1) if found else "?"

    known = [f"nginx {said(['nginx', '-v'], r'nginx/([0-9.]+)')}", f"HAProxy {said(['haproxy', '-v'], r'version ([0-9.]+)')}"]
    if setup.envoy:
        known.append(f"Envoy {said([setup.envoy, '--version'], r'/([0-9]+[.][0-9.]+)/')}")
    return ", ".join(known)


def median(results, key):
    return statistics.median(result[key] for result in results)


def ratio(results, peer, other):
    """The median of the rounds' own ratios: what disturbed a round disturbed both."""
    return statistics.median(a["cpu"] / b["cpu"] for a, b in zip(results[peer], results[other]))


# ---------------------------------------------------------------------------------------------------------------
# What is measured once.


def raise_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65536, hard), hard))


def idle_bytes(setup, peer, count=10_000):
    peer.start(setup, setup.cpu)
    load(setup.cpu, peer.plain, 1, 1)
    before = peer.process.rss_kib
    held = [socket.create_connection(("127.0.0.1", peer.plain)) for _ in range(count)]
    time.sleep(1)
    after = peer.process.rss_kib
    for connection in held:
        connection.close()
    peer.process.end()
    return (after - before) * 1024 / count


def cold_start(setup, peer, count=9):
    """Milliseconds from the start of the process to the end of the first proxied response, and KiB at rest."""
    times = []
    for _ in range(count):
        began = None
        original = Process.__init__

        def timed(self, *arguments, **options):
            nonlocal began
            began = time.monotonic()
            original(self, *arguments, **options)

        Process.__init__ = timed
        try:
            peer.start(setup, setup.cpu)
        finally:
            Process.__init__ = original
        with socket.create_connection(("127.0.0.1", peer.plain)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(4096)
        times.append((time.monotonic() - began) * 1000)
        # bearerd gives back what only its start needed after half a second.
        time.sleep(1.5)
        rest = peer.process.rss_kib
        peer.process.end()
    return statistics.median(times), rest


class TokenEndpoint:
    """Answers a refresh after a known time, counted from its connection: one for each request."""

    def __init__(self, seconds):
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(seconds)
                body = json.dumps({"access_token": TOKEN, "refresh_token": "next", "expires_in": 360000}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                answers.took.append(time.monotonic() - answers.began)

        class Server(ThreadingHTTPServer):
            def get_request(self):
                accepted = super().get_request()
                answers.began = time.monotonic()
                return accepted

        self.took, self.began = [], None
        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def longest_request(setup, expires_in, timing, refreshes, count=5):
    """The longest request and p99 of 64 connections, ms, while a token is refreshed in their middle, or none is."""
    longest, p99s, took = [], [], []
    for _ in range(count):
        endpoint = TokenEndpoint(0.05)
        peer = Bearerd()
        peer.start(setup, setup.cpu, expires_in=expires_in, token_port=endpoint.port, timing=timing)
        result = load(setup.cpu, peer.plain, 64, 5)
        peer.process.end()
        if len(endpoint.took) != refreshes or result["errors"]:
            raise SystemExit(f"bench: {len(endpoint.took)} refreshes, {result['errors']}")
        longest.append(result["max"] / 1000)
        p99s.append(result["p99"] / 1000)
        took += endpoint.took
    return statistics.median(longest), statistics.median(p99s), statistics.median(took) * 1000 if took else 0


def pool(setup, seconds):
    peer = Bearerd()
    peer.start(setup, setup.cpu, sessions=[f"load-{index}" for index in range(1000)], kind="pool")
    result = measure_load(setup, peer, peer.plain, 64, seconds)
    peer.process.end()
    return result


# ---------------------------------------------------------------------------------------------------------------


NAMES = ["bearerd", "nginx", "HAProxy", "Envoy", "relay"]


def cpu_table(results):
    names = NAMES
    lines = ["| workload | " + " | ".join(names) + " | ÷ better of nginx, HAProxy | ÷ Envoy | ÷ relay |", "|---" * 9 + "|"]
    for workload, peers in results.items():
        unit = "s" if "GiB" in workload else "µs"
        cells = [f"{median(peers[name], 'cpu'):.{2 if unit == 's' else 1}f}" if name in peers else "" for name in names]
        best = min((ratio(peers, "bearerd", name) for name in ("nginx", "HAProxy")), default=0, key=lambda r: -r)
        others = [f"{ratio(peers, 'bearerd', name):.2f}" if name in peers else "" for name in ("Envoy", "relay")]
        what = f"{workload}, CPU {unit}" + (" per request" if unit == "µs" else "")
        lines.append("| " + " | ".join([what] + cells + [f"{best:.2f}"] + others) + " |")
    return "\n".join(lines)


def floor_line(results):
    """A proxy that needs less than twice the floor cannot be had at half of its CPU."""
    peers = results.get(FLOOR_WORKLOAD)
    if not peers:
        return []
    ratios = ", ".join(f"{ratio(peers, 'floor', name):.2f} of {name}" for name in NAMES if name in peers)
    return [f"The floor, {FLOOR_WORKLOAD}, recv and send on each side, which block, and nothing else: "
            f"{median(peers['floor'], 'cpu'):.1f} µs; {ratios}."]


def rate_table(results):
    names = NAMES
    lines = ["| workload | figure | " + " | ".join(names) + " |", "|---" * 7 + "|"]
    for workload, peers in results.items():
        figures = [("MiB/s", "rate")] if "GiB" in workload else [("requests/s", "rate"), ("p50 µs", "p50"), ("p99 µs", "p99")]
        for title, key in figures + [("RSS MiB", "rss")]:
            scale = 1024 if key == "rss" else 1
            cells = [f"{median(peers[name], key) / scale:.0f}" if name in peers else "" for name in names]
            lines.append("| " + " | ".join([workload, title] + cells) + " |")
    return "\n".join(lines)


def once_table(once):
    names = NAMES[:-1]
    lines = ["| measured once | " + " | ".join(names) + " |", "|---" * 5 + "|"]
    for title, values in once.items():
        lines.append("| " + " | ".join([title] + [values.get(name, "") for name in names]) + " |")
    return "\n".join(lines)


def replace_table(path, text):
    with open(path) as file:
        page = file.read()
    begin, end = "<!-- bench -->", "<!-- /bench -->"
    first, last = page.index(begin) + len(begin), page.index(end)
    with open(path, "w") as file:
        file.write(page[:first] + "\n" + text + "\n" + page[last:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bearerd", default=f"{TREE}/.build/release/bearerd")
    parser.add_argument("--envoy", default=shutil.which("envoy"), help="Envoy's binary; without it Envoy is left out")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--cpu", type=int, default=0, help="the processor that everything shares")
    parser.add_argument("--only", default="", help="a regular expression of workloads")
    parser.add_argument("--skip-once", action="store_true")
    parser.add_argument("--write", action="store_true", help="put the tables into the two README.md that carry them")
    arguments = parser.parse_args()
    raise_descriptors()
    setup = None
    try:
        setup = Setup(arguments)
        results = rounds(setup, arguments)
        once = {}
        if not arguments.skip_once:
            peers = [Bearerd(), Nginx("nginx"), HAProxy("HAProxy")] + ([Envoy("Envoy")] if setup.envoy else [])
            once["bytes for an idle connection, of 10 000"] = {p.name: f"{idle_bytes(setup, p):.0f}" for p in peers}
            starts = {p.name: cold_start(setup, p) for p in peers}
            once["start to first response, ms"] = {name: f"{values[0]:.0f}" for name, values in starts.items()}
            once["at rest, MiB"] = {name: f"{values[1] / 1024:.1f}" for name, values in starts.items()}
            # With a leeway of 60 s a token of 62 s expires, for requests, after two. Ahead: ten seconds, and a tenth.
            cases = {
                "no refresh": (360000, 'refresh_ahead = "off"', 0),
                "a refresh ahead of time": (12, 'leeway = "1s"\nrefresh_ahead = "10s"', 1),
                "a refresh that requests wait for": (62, 'refresh_ahead = "off"', 1),
            }
            for title, case in cases.items():
                longest, p99, took = longest_request(setup, *case)
                what = f"{longest:.1f} (p99 {p99:.1f}" + (f"; the token endpoint took {took:.1f})" if took else ")")
                once[f"64 connections, {title}: longest request, ms"] = {"bearerd": what}
            pooled = pool(setup, arguments.seconds)
            once["1 000 sessions in a pool, 64 connections: CPU µs per request"] = {"bearerd": f"{pooled['cpu']:.1f}"}
        where = (f"`make bench ROUNDS={arguments.rounds}`: medians of {arguments.rounds} rounds of {arguments.seconds} s; "
                 f"{processor()}, Linux {platform.release()}; {versions(setup)}.")
        tables = [where, cpu_table(results)] + floor_line(results)
        rest = [once_table(once)] if once else []
        short, whole = "\n\n".join(tables + rest), "\n\n".join(tables + [rate_table(results)] + rest)
        print(whole)
        if arguments.write:
            replace_table(f"{TREE}/README.md", short)
            replace_table(f"{HERE}/README.md", whole)
    finally:
        for process in list(Process.running):
            process.end()
        if setup:
            shutil.rmtree(setup.work, ignore_errors=True)


if __name__ == "__main__":
    main()
