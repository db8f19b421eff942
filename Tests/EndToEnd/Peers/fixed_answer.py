"""fixed_answer.py FILE: an upstream that reads a request's head, sends the bytes of the file and closes.

Prints its loopback port, which also stands for @PORT@ in the bytes. It stands for origins that answer what no
well-behaved server does.
"""
import socket
import sys

with open(sys.argv[1], "rb") as file:
    answer = file.read()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
answer = answer.replace(b"@PORT@", str(listener.getsockname()[1]).encode())
listener.listen(16)
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                break
            head += piece
        # The answer's last segment carries the FIN, so that both come as one event.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        # A close with unread bytes would reset the connection under the answer.
        while connection.recv(65536):
            pass
