"""Starts a service as systemd would: a listening socket as descriptor 3, a notification socket.

service_manager.py NOTIFY_SOCKET COMMAND...; prints `port N` and then every notification line. SIGHUP and SIGTERM are
handed to the service, whose exit status is its own.
"""
import ctypes
import os
import signal
import socket
import subprocess
import sys

# Whoever starts this may block signals for its own threads.
signal.pthread_sigmask(signal.SIG_SETMASK, [])
notify_path, command = sys.argv[1], sys.argv[2:]
notifications = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notifications.bind(notify_path)
notifications.settimeout(0.05)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(16)
print("port", listener.getsockname()[1], flush=True)


def become_service():
    """Descriptor 3 and no other; the service dies with this manager (PR_SET_PDEATHSIG)."""
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    os.closerange(4, 4096)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


# LISTEN_PID must name the process that executes the service (sd_listen_fds(3)).
wrapper = 'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=bearerd exec "$@"'
service = subprocess.Popen(
    ["/bin/sh", "-c", wrapper, "sh", *command],
    preexec_fn=become_service,
    close_fds=False,
    env={**os.environ, "NOTIFY_SOCKET": notify_path},
)
for number in (signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, lambda number, frame: service.send_signal(number))
# Another process may serve the socket after this one; only the service holds it open now.
listener.close()


def receive():
    try:
        print(notifications.recv(65536).decode(), flush=True)
        return True
    except TimeoutError:
        return False


try:
    while service.poll() is None:
        receive()
    while receive():
        pass
finally:
    if service.poll() is None:
        service.kill()
        service.wait()
sys.exit(service.returncode)
