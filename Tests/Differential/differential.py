#!/usr/bin/env python3
"""Plays the same bytes through bearerd, nginx, HAProxy and squid, and compares what becomes of them.

differential.py [--bearerd PATH] [--write] [--only TEXT] [--show]

Exit code 1: bearerd did not do what inputs.py says, or a peer differs from it and nothing there says why. What a peer
does is written down (README.md, by --write), not demanded: other versions may do otherwise.
"""

import argparse
import dataclasses
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

# The checkout stays as it is.
sys.dont_write_bytecode = True

import explanations
import inputs
import wire

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["bearerd", "nginx", "haproxy", "squid"]
TITLES = {"bearerd": "bearerd", "nginx": "nginx", "haproxy": "HAProxy", "squid": "squid"}

# How long silence lasts until it is called that. Nothing is ever judged by how quick it was.
SILENCE = 3.0

# It follows each input on the same connection and asks for its end, so that the end of an input's effects is seen, not
# waited for; and it shows whether the proxy and the origin agree on where the input ended.
SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
DATE = b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
SENTINEL_ANSWER = b"HTTP/1.1 200 OK\r\n" + DATE + b"X-Origin: sentinel\r\nConnection: close\r\nContent-Length: 3\r\n\r\nend"
ANSWER = b"HTTP/1.1 200 OK\r\n" + DATE + b"X-Origin: answer\r\nContent-Length: 2\r\n\r\nok"


# Stands for bytes that no client takes for a response.
NO_HTTP = wire.Message("", [], "", b"", [], 0)


@dataclasses.dataclass
class Scene:
    """What the origin has to say while one input plays, and what it has seen."""
    answer: bytes = ANSWER
    then: str = "keep"
    messages: list = dataclasses.field(default_factory=list)
    sentinels: int = 0
    faults: list = dataclasses.field(default_factory=list)


class Origin:
    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.scene = Scene()
        self.connections = set()
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.connections.add(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            self.converse(connection)
        except OSError:
            pass
        finally:
            with self.lock:
                self.connections.discard(connection)
            connection.close()

    def converse(self, connection):
        data, told_to_continue = b"", False
        while True:
            scene = self.scene
            try:
                message = wire.read_message(data)
            except wire.Incomplete:
                head = data.partition(b"\r\n\r\n")
                if head[1] and not told_to_continue and b"\r\nexpect: 100-continue" in head[0].lower():
                    told_to_continue = True
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                received = connection.recv(65536)
                if not received:
                    return
                data += received
                continue
            except ValueError as fault:
                scene.faults.append(str(fault))
                return
            data, told_to_continue = data[message.size:], False
            if " /sentinel" in message.start:
                scene.sentinels += 1
                connection.sendall(SENTINEL_ANSWER)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
                return
            scene.messages.append(message)
            answer = scene.answer
            if message.start.startswith("HEAD ") and answer is ANSWER:
                answer = answer[:-2]
            connection.sendall(answer)
            if scene.then == "close":
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
                return
            if scene.then == "reset":
                # The bytes must have been read before the reset throws them away.
                time.sleep(0.2)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return

    def hang_up(self):
        with self.lock:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.listener.close()
        self.hang_up()


class Proxy:
    """A program in front of an origin of its own."""

    def __init__(self, name, program, directory):
        self.name, self.program = name, program
        self.directory = os.path.join(directory, name)
        os.mkdir(self.directory, 0o755)
        self.origin = Origin()
        self.process, self.port = None, 0

    def start(self):
        # Between asking for a free port and using it another may take it; then the program ends, and is tried again.
        for _ in range(5):
            self.port = 0
            if self.name != "bearerd":
                with socket.create_server(("127.0.0.1", 0)) as probe:
                    self.port = probe.getsockname()[1]
            if self.launch():
                return
            self.stop()
        with open(os.path.join(self.directory, "log"), encoding="latin-1") as log:
            raise RuntimeError(f"{self.name} does not start:\n{log.read()}")

    def launch(self):
        template = {"bearerd": "bearerd.toml", "nginx": "nginx.conf", "haproxy": "haproxy.cfg", "squid": "squid.conf"}
        with open(os.path.join(HERE, template[self.name]), encoding="utf-8") as file:
            settings = file.read()
        for word, value in {"DIRECTORY": self.directory, "PORT": self.port, "ORIGIN": self.origin.port}.items():
            settings = settings.replace(f"@{word}@", str(value))
        path = os.path.join(self.directory, template[self.name])
        with open(path, "w", encoding="utf-8") as file:
            file.write(settings)
        arguments = {
            "bearerd": ["run", "--config", path, "--log-format", "logfmt"], "nginx": ["-p", self.directory, "-c", path],
            "haproxy": ["-db", "-f", path], "squid": ["-N", "-f", path],
        }[self.name]
        log_path = os.path.join(self.directory, "log")
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                [self.program, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.name == "bearerd":
                with open(log_path, encoding="utf-8") as log:
                    lines = log.read()
                address = re.search(r"msg=listening address=127\.0\.0\.1:(\d+) for=proxy", lines)
                if address and "msg=ready" in lines:
                    self.port = int(address.group(1))
                    return True
            else:
                try:
                    socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                    return True
                except OSError:
                    pass
            time.sleep(0.05)
        return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def own_names(self):
        return {"localhost", f"127.0.0.1:{self.origin.port}", f"127.0.0.1:{self.port}", "127.0.0.1", f"localhost:{self.port}"}

    def fill(self, data):
        return data.replace(b"@ORIGIN@", b"127.0.0.1:%d" % self.origin.port)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(SILENCE)
        self.data, self.end = b"", ""

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            # Refused before the last byte was taken; what was answered is to be read all the same.
            pass

    def receive(self):
        """False at the end, of which `end` tells which it was: closed, reset or silence."""
        try:
            received = self.socket.recv(65536)
        except socket.timeout:
            self.end = "silence"
        except OSError:
            self.end = "reset"
        else:
            self.data += received
            if received:
                return True
            self.end = "closed"
        return False

    def response(self, is_head=False):
        """The next response, and the bytes of it gone from `data`; None where the connection ends inside it."""
        while True:
            try:
                line = re.match(rb"HTTP/1\.[01] ([1-9]\d{2,})[ \r]", self.data)
                if not line and (len(self.data) >= 16 or self.end and self.data):
                    return NO_HTTP
                code = int(line.group(1)) if line else 200
                has_content = not (is_head or code < 200 or code in (204, 304))
                message = wire.read_message(self.data, has_content, self.end == "closed")
            except wire.Incomplete:
                if self.end or not self.receive() and self.end != "closed":
                    return None
                if self.end == "closed":
                    try:
                        message = wire.read_message(self.data, has_content, True)
                    except (wire.Incomplete, ValueError):
                        return None
                else:
                    continue
            except ValueError:
                return None
            self.data = self.data[message.size:]
            return message


def status(message):
    found = re.match(r"HTTP/1\.[01] (\d+)", message.start)
    return int(found.group(1)) if found else 0


def play_request(proxy, row):
    scene = Scene()
    proxy.origin.scene = scene
    client = Client(proxy.port)
    with client.socket:
        client.send(proxy.fill(row.input) + SENTINEL)
        while client.receive():
            pass
    answers = []
    while True:
        answer = client.response(is_head=row.input.startswith(b"HEAD ") and not answers)
        if answer is None or answer is NO_HTTP:
            break
        if status(answer) >= 200:
            answers.append(answer)
    names = proxy.own_names()
    if scene.messages:
        words = [wire.describe_request(message, names) for message in scene.messages]
        outcome = "forwarded " + (f"{len(words)} messages: " if len(words) > 1 else "") + " + ".join(words)
        if answers and answers[0].values("x-origin") != ["answer"]:
            outcome += f"; answered {status(answers[0])}"
        if client.end == "silence":
            outcome += "; waits"
        elif not scene.sentinels:
            outcome += "; closes"
    elif answers and answers[0].values("x-origin") != ["sentinel"]:
        code = status(answers[0])
        outcome = f"refused {code}" if code >= 400 else f"answered {code}"
        if scene.sentinels:
            outcome += "; goes on"
        elif client.end == "silence":
            outcome += "; waits"
    elif answers:
        outcome = "ignored; goes on"
    elif client.data:
        outcome = "refused without a status"
    else:
        outcome = "waits" if client.end == "silence" else "closed"
    if scene.faults:
        outcome += "; malformed at the origin"
    return outcome


def play_response(proxy, row):
    proxy.origin.scene = Scene(answer=row.input, then=row.then)
    client = Client(proxy.port)
    is_head = row.request.startswith(b"HEAD ")
    interim = []
    with client.socket:
        client.send(row.request)
        while True:
            answer = client.response(is_head)
            if answer is None or answer is NO_HTTP or status(answer) >= 200 or status(answer) == 101:
                break
            interim.append(status(answer))
        began = bool(client.data)
        if answer is None:
            outcome = {"silence": "waits"}.get(client.end, "cut" if began or row.truncated else "closed")
        elif answer is NO_HTTP:
            outcome = "relayed what is no HTTP/1.1"
        elif answer.values("x-origin") != ["row"] and status(answer) >= 500:
            outcome = str(status(answer))
        elif row.truncated:
            outcome = "looks whole"
        else:
            outcome = "relayed " + "".join(f"{code} + " for code in interim) + wire.describe_response(answer)
            if row.asks_for_date and not answer.values("date"):
                outcome += " without Date"
        if answer is NO_HTTP:
            pass
        elif answer is not None and not client.end and status(answer) != 101:
            client.send(SENTINEL)
            following = client.response()
            if following is not None and following.values("x-origin") != ["sentinel"]:
                outcome += "; the next answer is not its own"
            elif following is None and client.data:
                outcome += "; bytes behind it"
        elif answer is not None and client.data:
            outcome += "; bytes behind it"
    # No connection is left over with bytes for the next input.
    proxy.origin.hang_up()
    return outcome


def play_all(proxy, rows, results, failures):
    try:
        for row in rows:
            play = play_request if row.side == "request" else play_response
            results[row.title][proxy.name] = play(proxy, row)
    except Exception as fault:  # The other threads end by themselves.
        failures.append(f"{proxy.name}: {row.title}: {fault!r}")


def version(program, name):
    output = subprocess.run([program, "-v"], capture_output=True, text=True, check=False)
    found = re.search(r"(?:nginx/|HAProxy version |Version )(\d[\w.]*)", output.stdout + output.stderr)
    return found.group(1) if found else "?"


def judge(rows, results):
    """Lines for people, and the number of differences."""
    problems, differences, inputs_that_differ = [], 0, 0
    for row in rows:
        mine = results[row.title]["bearerd"]
        if mine != row.expected:
            problems.append(f"{row.title}: bearerd: expected {row.expected!r}, got {mine!r}")
        differing = [name for name in NAMES[1:] if results[row.title][name] != mine]
        inputs_that_differ += bool(differing)
        differences += len(differing)
        for name in differing:
            if not explanations.reason(name, row.title, results[row.title][name]):
                problems.append(f"{row.title}: {name}: {results[row.title][name]!r} is not explained; bearerd: {mine!r}")
    return problems, differences, inputs_that_differ


def table(rows, results):
    def cell(words):
        return words.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_").replace("`", "\\`")

    for side, heading in (("request", "Requests"), ("response", "Responses")):
        yield f"\n## {heading}\n\n| input | RFC | bearerd | nginx | HAProxy | squid | why |\n|---|---|---|---|---|---|---|\n"
        for row in rows:
            if row.side != side:
                continue
            outcome = results[row.title]
            cells = [cell(row.title), row.section, cell(outcome["bearerd"])]
            cells += ["same" if outcome[name] == outcome["bearerd"] else cell(outcome[name]) for name in NAMES[1:]]
            # One sentence for all who have the same reason.
            reasons = {}
            for name in NAMES[1:]:
                if outcome[name] != outcome["bearerd"]:
                    reasons.setdefault(explanations.reason(name, row.title, outcome[name]), []).append(TITLES[name])
            why = " ".join([cell(row.why)] + [f"*{', '.join(names)}*: {cell(reason)}" for reason, names in reasons.items()])
            yield "| " + " | ".join(cells + [why]) + " |\n"


def write_readme(rows, results, programs, counts):
    path = os.path.join(HERE, "README.md")
    with open(path, encoding="utf-8") as file:
        head = file.read().partition("<!-- written by differential.py --write -->\n")
    versions = ", ".join(f"{TITLES[name]} {version(programs[name], name)}" for name in NAMES[1:])
    lines = [head[0], "<!-- written by differential.py --write -->\n\n"]
    lines.append(f"{len(rows)} inputs; {counts[1]} of them do not have the same outcome everywhere, {counts[0]} outcomes of a peer differ from bearerd's.\nPeers: {versions}.\n")
    lines += table(rows, results)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bearerd", default=os.path.join(HERE, "..", "..", ".build", "release", "bearerd"))
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    parser.add_argument("--only", default="", help="only inputs whose title has this")
    parser.add_argument("--show", action="store_true", help="print every outcome")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write is for the whole table")
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    programs = {name: shutil.which(name, path=path) for name in NAMES[1:]}
    programs["bearerd"] = os.path.abspath(options.bearerd)
    missing = [name for name in NAMES[1:] if not programs[name]]
    if missing:
        sys.exit(f"differential: not installed: {', '.join(missing)}")
    if not os.access(programs["bearerd"], os.X_OK):
        sys.exit(f"differential: no program: {programs['bearerd']}")
    # The proxies end with this program, also when it is told to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = [row for row in inputs.ROWS if options.only in row.title]
    results = {row.title: {} for row in rows}
    failures, proxies = [], []
    with tempfile.TemporaryDirectory(prefix="differential-") as directory:
        # squid gives up the rights of root, and must still be able to look in.
        os.chmod(directory, 0o755)
        try:
            for name in NAMES:
                proxies.append(Proxy(name, programs[name], directory))
                proxies[-1].start()
            threads = [threading.Thread(target=play_all, args=(proxy, rows, results, failures), daemon=True) for proxy in proxies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for proxy in proxies:
                proxy.stop()
                proxy.origin.close()
    if failures:
        sys.exit("\n".join(f"differential: {line}" for line in failures))
    if options.show:
        for row in rows:
            print(f"{row.section} {row.title}")
            for name in NAMES:
                print(f"  {name:8} {results[row.title][name]}")
    problems, differences, inputs_that_differ = judge(rows, results)
    if options.show and not options.only:
        # No fault: with another version, or another arrival of the bytes, they may be needed.
        for line in explanations.unused():
            print(f"explains nothing: {line}")
    for line in problems:
        print(f"differential: {line}")
    if options.write:
        write_readme(rows, results, programs, (differences, inputs_that_differ))
    print(f"differential: {len(rows)} inputs, {inputs_that_differ} with differences, {differences} differences, {len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
