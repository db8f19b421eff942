#!/usr/bin/env python3
"""guards.py: what a request, the process at rest and the binary cost, against budgets.toml; no clock is asked.

What one request costs is the difference between two runs, of which one serves more requests, divided by how many more.
"""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib

import bench

# Calls that give memory out, as callgrind names them.
ALLOCATING = re.compile(r"(malloc|calloc|realloc|aligned_alloc|posix_memalign|memalign)(@.*)?$")
PLAIN = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
# Each another than the one before it, which bearerd decides anew; of the same length.
ANOTHER = "GET /{:06} HTTP/1.1\r\nHost: localhost\r\n\r\n"
# A control field is read into a string: this one must allocate, or the count counts nothing.
ALLOCATES = "GET /{:06} HTTP/1.1\r\nHost: localhost\r\nBearerd-Session: main\r\n\r\n"


def serve(port, connections, rounds, request=PLAIN):
    """As many requests on each connection, one after the other, the connections at the same time."""
    clients = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(connections)]
    for number in range(rounds):
        for client in clients:
            client.sendall(request.format(number).encode())
        for client in clients:
            answer = b""
            while b"\r\n\r\n" not in answer:
                piece = client.recv(65536)
                if not piece:
                    raise SystemExit("guards: bearerd closed a connection")
                answer += piece
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise SystemExit(f"guards: {answer[:60]!r}")
    for client in clients:
        client.close()


def run(setup, launcher, connections, rounds, request=PLAIN, settling=0):
    peer = bench.Bearerd(launcher=launcher)
    peer.start(setup, setup.cpu)
    # What is done once, a moment after the start, must not fall into the longer of two runs only.
    time.sleep(settling)
    serve(peer.plain, connections, rounds, request)
    peer.process.end()


def callgrind(setup, rounds, request):
    """Instructions, and calls that allocate, of a run with four connections."""
    path = f"{setup.work}/callgrind"
    launcher = ["valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={path}"]
    run(setup, launcher, 4, rounds, request, settling=4)
    names, called, instructions, allocations = {}, "", 0, 0
    with open(path) as file:
        for line in file:
            if found := re.match(r"c?fn=\((\d+)\)(?: (.*))?", line):
                if found.group(2):
                    names[found.group(1)] = found.group(2)
                if line.startswith("cfn="):
                    called = names[found.group(1)]
            elif line.startswith("calls=") and ALLOCATING.match(called):
                allocations += int(line[6:].split()[0])
            elif line.startswith("totals:"):
                instructions = int(line.split()[1])
    return instructions, allocations


def of_a_request(setup, request=PLAIN):
    few, many = 100, 900
    first, second = callgrind(setup, few, request), callgrind(setup, many, request)
    return [(b - a) / (4 * (many - few)) for a, b in zip(first, second)]


def system_calls(setup, connections, few, many):
    def count(rounds):
        path = f"{setup.work}/strace"
        run(setup, ["strace", "-D", "-f", "-c", "-U", "calls,name", "-o", path], connections, rounds)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            # The tracer ends after the traced.
            with open(path) as file:
                counted = {line.split()[1]: int(line.split()[0]) for line in file if re.match(r"\s*\d+ \w+$", line)}
            if "total" in counted:
                os.unlink(path)
                return counted
            time.sleep(0.05)
        raise SystemExit("guards: strace has counted nothing")

    first, second = count(few), count(many)
    each = {name: (calls - first.get(name, 0)) / (connections * (many - few)) for name, calls in second.items()}
    each.pop("total", None)
    return {name: calls for name, calls in each.items() if abs(calls) >= 0.005}


def resident(setup):
    peer = bench.Bearerd()
    peer.start(setup, setup.cpu)
    time.sleep(2)
    at_rest = peer.process.rss_kib
    serve(peer.plain, 64, 50)
    after = peer.process.rss_kib
    peer.process.end()
    return at_rest, after


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bearerd", default=f"{bench.TREE}/.build/release/bearerd")
    parser.add_argument("--budgets", default=f"{bench.HERE}/budgets.toml")
    arguments = parser.parse_args()
    arguments.envoy, arguments.cpu = None, min(os.sched_getaffinity(0))
    with open(arguments.budgets, "rb") as file:
        budgets = tomllib.load(file)
    setup, broken = None, []

    def check(what, value, budget, tolerance=0.0):
        is_kept = value <= budget * (1 + tolerance)
        print(f"guard: {what}: {value:,.2f}, budget {budget:,}{'' if is_kept else '  <- BROKEN'}", flush=True)
        if not is_kept:
            broken.append(what)

    try:
        setup = bench.Setup(arguments)
        # As it is installed; and valgrind cannot read all of its debug information.
        stripped = f"{setup.work}/bearerd"
        subprocess.run(["strip", "-o", stripped, setup.bearerd], check=True)
        setup.bearerd = stripped
        check("KiB of the binary", os.path.getsize(stripped) / 1024, budgets["binary"]["size"])
        at_rest, after = resident(setup)
        check("KiB resident at rest", at_rest, budgets["memory"]["at_rest"])
        check("KiB resident after load", after, budgets["memory"]["after_load"])
        for connections, key in ((1, "system_calls"), (64, "system_calls_of_64")):
            calls = system_calls(setup, connections, *((200, 1200) if connections == 1 else (10, 60)))
            print(f"guard: at {connections} connections: " + ", ".join(f"{n} {c:.2f}" for n, c in sorted(calls.items())))
            # Now and then an event comes by itself that mostly comes with another.
            if sum(calls.values()) < 4:
                raise SystemExit("guards: a request cannot do with so few: the count counts nothing")
            check(f"system calls per request, {connections} connections", sum(calls.values()), budgets["request"][key], 0.01)
        if of_a_request(setup, ALLOCATES)[1] < 1:
            raise SystemExit("guards: a request that must allocate was not seen to: the count counts nothing")
        for request, key, what in (
            (PLAIN, "instructions", "request"), (ANOTHER, "instructions_of_another", "request that is another than the last")
        ):
            instructions, allocations = of_a_request(setup, request)
            check(f"instructions per {what}", instructions, budgets["request"][key], 0.02)
            # Two starts differ by a few, which some thousand requests share.
            check(f"allocations per {what}", max(0.0, round(allocations, 1)), budgets["request"]["allocations"])
    finally:
        for process in list(bench.Process.running):
            process.end()
        if setup:
            shutil.rmtree(setup.work, ignore_errors=True)
    if broken:
        raise SystemExit(f"guards: over budget: {', '.join(broken)}")


main()
