"""HTTP/1.1 as bytes: the readers with which the origin and the client look at what a proxy has made of an input.

They are no guard: what a proxy lets through they describe, whatever it is, in words that can be compared.
"""

import dataclasses
import re

# What a proxy adds of its own and what only names it. Framing and Connection are told apart from the other fields.
OWN_REQUEST_FIELDS = re.compile(r"x-forwarded-.*|surrogate-capability|content-length|transfer-encoding")
OWN_RESPONSE_FIELDS = re.compile(
    r"date|server|x-cache|x-cache-lookup|connection|keep-alive|x-origin|content-length|transfer-encoding|proxy-status")
OWN_VIA = re.compile(r",?\s*\d\.\d (here|squid\.test \(squid/[^)]*\))$")


class Incomplete(Exception):
    """More bytes are needed."""


@dataclasses.dataclass
class Message:
    start: str
    fields: list
    framing: str
    content: bytes
    trailers: list
    size: int

    def values(self, name):
        return [value for key, value in self.fields if key.strip().lower() == name]


def text(data):
    """Printable on one line; Latin-1, so that each byte is one character."""
    return "".join(
        character if 32 <= ord(character) < 127 else {"\r": "\\r", "\n": "\\n", "\t": "\\t"}.get(character, f"\\x{ord(character):02x}")
        for character in data.decode("latin-1"))


def quoted(content):
    return f'"{text(content)}"' if len(content) <= 60 else f"({len(content)} bytes)"


def field(line):
    name, _, value = line.partition(b":")
    return text(name), text(value.strip(b" \t"))


def read_chunks(data):
    """Content, trailers and the number of bytes of a chunked body at the start of `data`."""
    content, at = b"", 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            raise Incomplete
        digits = re.match(rb"[0-9A-Fa-f]+", data[at:end])
        if not digits:
            raise ValueError("no chunk size")
        size, at = int(digits.group(), 16), end + 2
        if size == 0:
            break
        if len(data) < at + size + 2:
            raise Incomplete
        if data[at + size:at + size + 2] != b"\r\n":
            raise ValueError("no end of a chunk")
        content, at = content + data[at:at + size], at + size + 2
    trailers = []
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            raise Incomplete
        line, at = data[at:end], end + 2
        if not line:
            return content, trailers, at
        trailers.append(field(line))


def read_message(data, has_content=True, until_close=None):
    """The first message in `data`.

    until_close: None for a request; of a response, whether its connection has ended in order.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        raise Incomplete
    lines = data[:end].split(b"\r\n")
    message = Message(text(lines[0]), [field(line) for line in lines[1:]], "", b"", [], end + 4)
    rest = data[end + 4:]
    codings, lengths = message.values("transfer-encoding"), message.values("content-length")
    # Both are shown; an origin that follows RFC 9112 §6.3 reads chunks.
    message.framing = " and ".join([f"length {value}" for value in lengths] + [value.lower() for value in codings])
    if not has_content:
        return message
    if codings:
        message.content, message.trailers, size = read_chunks(rest)
        message.size += size
    elif lengths:
        size = int(re.match(r"\d*", lengths[0]).group() or 0)
        if len(rest) < size:
            raise Incomplete
        message.content, message.size = rest[:size], message.size + size
    elif until_close is not None:
        if not until_close:
            raise Incomplete
        message.framing, message.content, message.size = "until close", rest, len(data)
    return message


def framing(message):
    """`length "abc"`, `chunked "abc"`, `until close "abc"` or nothing."""
    if not message.framing:
        return ""
    name = message.framing
    if name == f"length {len(message.content)}":
        name = "length"
    words = f" {name} {quoted(message.content)}"
    if message.trailers:
        words += " trailers {" + "; ".join(f"{name.lower()}: {value}" for name, value in message.trailers) + "}"
    return words


def shown(fields):
    if len(fields) > 10:
        return f" ({len(fields)} fields)"
    fields = [(name, value if len(value) < 100 else f"({len(value)} bytes)") for name, value in fields]
    return " {" + "; ".join(f"{name.lower()}: {value}" for name, value in fields) + "}" if fields else ""


def describe_request(message, own_names):
    """`POST / length "abc" {a: 1}`: method, target, framing, content and the fields that are not the proxy's own."""
    method, _, rest = message.start.partition(" ")
    target, _, version = rest.rpartition(" ")
    target = re.sub(r"^(http://(?:[^/]*@)?)(?:%s)" % "|".join(re.escape(name) for name in sorted(own_names, key=len, reverse=True)), r"\1ORIGIN", target, flags=re.I)
    words = f"{method if len(method) < 100 else f'({len(method)} bytes)'} {target if len(target) < 100 else f'({len(target)} bytes)'}"
    if version != "HTTP/1.1":
        words += f" {version}"
    fields = []
    for name, value in message.fields:
        key = name.lower()
        if OWN_REQUEST_FIELDS.fullmatch(key) or (key, value) == ("cache-control", "max-age=259200"):
            continue
        if key == "host" and value.lower() in own_names:
            continue
        if key == "connection" and {part.strip().lower() for part in value.split(",")} <= {"keep-alive", "close", ""}:
            continue
        if key == "via":
            value = OWN_VIA.sub("", value)
            if not value:
                continue
        fields.append((name, value))
    # Where in the head the fields of the hop stand means nothing.
    hop = [(name, value.lower() if name.lower() == "connection" else value) for name, value in fields
           if name.lower() in ("te", "connection", "upgrade")]
    hop.sort(key=lambda line: line[0].lower())
    fields = [line for line in fields if line[0].lower() not in ("te", "connection", "upgrade")] + hop
    words += framing(message) + shown(fields)
    if not message.values("host"):
        words += " without Host"
    return words


def describe_response(message):
    """`200 length "hi" {set-cookie: a}`."""
    words = " ".join(message.start.split(" ")[1:])
    fields = []
    for name, value in message.fields:
        key = name.lower()
        if OWN_RESPONSE_FIELDS.fullmatch(key):
            continue
        if key == "via":
            value = OWN_VIA.sub("", value)
            if not value:
                continue
        fields.append((name, value))
    return words + framing(message) + shown(fields)
