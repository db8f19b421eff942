"""The inputs: what is sent, what bearerd makes of it, and why. Why a peer does otherwise: explanations.py."""

import dataclasses

ORIGIN_DATE = b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclasses.dataclass
class Row:
    side: str
    section: str
    title: str
    input: bytes
    expected: str
    why: str
    # Responses only: what is asked, how the origin's connection goes on, whether a whole response cannot come of it.
    request: bytes = b"GET /row HTTP/1.1\r\nHost: localhost\r\n\r\n"
    then: str = "close"
    truncated: bool = False
    asks_for_date: bool = False


ROWS = []
BAD = "refused 400"


def raw(value):
    """Characters are bytes."""
    return value if isinstance(value, bytes) else value.encode("latin-1")


def request(section, title, data, expected, why):
    ROWS.append(Row("request", section, title, raw(data), expected, why))


def get(section, title, fields, expected, why, line="GET / HTTP/1.1", content=""):
    """Field lines end in `\\n`, which is sent as CRLF."""
    lines = "".join(part + "\r\n" for part in fields.split("\n") if part)
    request(section, title, f"{line}\r\nHost: localhost\r\n{lines}\r\n{content}", expected, why)


def post(section, title, fields, expected, why, content="0\r\n\r\n", smuggled=True):
    get(section, title, fields, expected, why, "POST / HTTP/1.1", content + (SMUGGLED.decode() if smuggled else ""))


def chunked(title, content, expected, why, section="9112 §7.1"):
    post(section, title, "Transfer-Encoding: chunked", expected, why, content, smuggled=False)


def line(section, title, start, expected, why):
    get(section, title, "", expected, why, line=start)


def response(section, title, fields, expected, why, content="", start="HTTP/1.1 200 OK", **rest):
    head = start + "\r\n" + ORIGIN_DATE.decode() + "X-Origin: row\r\n" + "".join(part + "\r\n" for part in fields.split("\n") if part)
    ROWS.append(Row("response", section, title, raw(head + "\r\n" + content), expected, why, **rest))


def answer(section, title, data, expected, why, **rest):
    ROWS.append(Row("response", section, title, raw(data), expected, why, **rest))


# ---------------------------------------------------------------------------------------------------------------------
# Requests: Content-Length and Transfer-Encoding.

BOTH = "Two framings are an attempt at smuggling (§6.3 item 3 allows to refuse, §11.2 says why): never guessed."
post("9112 §6.3", "Content-Length, then Transfer-Encoding", "Content-Length: 5\nTransfer-Encoding: chunked", BAD, BOTH)
post("9112 §6.3", "Transfer-Encoding, then Content-Length", "Transfer-Encoding: chunked\nContent-Length: 5", BAD, BOTH)
post("9112 §6.3", "Content-Length: 0 with Transfer-Encoding", "Content-Length: 0\nTransfer-Encoding: chunked", BAD, BOTH)
post("9112 §6.3", "Transfer-Encoding: identity with Content-Length", "Transfer-Encoding: identity\nContent-Length: 5", BAD, BOTH)
INVALID_LENGTH = "Item 5: an invalid Content-Length is an unrecoverable error; a server answers 400 and closes."
for title, value in [
    ("differing Content-Length lines", "5\nContent-Length: 6"), ("a list of differing Content-Lengths", "5, 6"),
    ("a signed Content-Length", "+5"), ("a negative Content-Length", "-5"), ("a hexadecimal Content-Length", "0x5"),
    ("two numbers in a Content-Length", "5 6"), ("an empty Content-Length", ""), ("a fraction in a Content-Length", "5.0"),
    ("a Content-Length in quotes", '"5"'), ("a Content-Length past 64 bits", "18446744073709551621"),
    ("an underscore in a Content-Length", "1_0"), ("an empty element in a Content-Length", "5,"),
    ("a Content-Length behind a vertical tab", "\x0b5"),
]:
    post("9112 §6.3", title, f"Content-Length: {value}", BAD, INVALID_LENGTH)
IDENTICAL = "Item 5 allows to refuse repeats of one number as well as to fold them; no client that means well sends them."
post("9112 §6.3", "identical Content-Length lines", "Content-Length: 5\nContent-Length: 5", BAD, IDENTICAL)
post("9112 §6.3", "a list of identical Content-Lengths", "Content-Length: 5, 5", BAD, IDENTICAL)
post("9110 §8.6", "leading zeros in a Content-Length", "Content-Length: 005", 'forwarded 2 messages: POST / length "0\\r\\n\\r\\n" + GET /smuggled', "1*DIGIT may begin with zeros; it is written anew as 5, and what follows is the next request.")
post("9110 §8.6", "a Content-Length and content", "Content-Length: 3", 'forwarded POST / length "abc"', "The plain case.", "abc", False)
post("9110 §8.6", "a Content-Length of zero", "Content-Length: 0", "forwarded POST / length \"\"", "Zero is told apart from none and goes on.", "", False)
post("9110 §8.6", "a POST without content", "", "forwarded POST /", "No framing field means no content; none is made up (§8.6 asks the user agent, not the proxy).", "", False)
get("9110 §9.3.1", "a GET with content", "Content-Length: 3", 'forwarded GET / length "abc"', "Content of a GET has no meaning, but it is framed and goes on.", content="abc")
get("9110 §9.3.1", "a GET with chunked content", "Transfer-Encoding: chunked", 'forwarded GET / chunked "abc"', "The same in chunks.", content="3\r\nabc\r\n0\r\n\r\n")
get("9110 §9.3.5", "a DELETE with content", "Content-Length: 3", 'forwarded DELETE / length "abc"', "Any method may have content (9112 §6).", "DELETE / HTTP/1.1", "abc")

NOT_CHUNKED = "Item 4: where chunked is not the last coding of a request its length is not known; 400 and close."
for title, value in [
    ("chunked is not the last coding", "chunked, identity"), ("a coding that is not chunked", "identity"),
    ("a coding that begins like chunked", "chunkedx"), ("a coding that ends like chunked", "xchunked"),
    ("chunked in quotes", '"chunked"'), ("an empty Transfer-Encoding", ""), ("chunked behind a vertical tab", "\x0bchunked"),
    ("chunked, then another line with identity", "chunked\nTransfer-Encoding: identity"),
]:
    post("9112 §6.3", title, f"Transfer-Encoding: {value}", BAD, NOT_CHUNKED)
TWICE = "Chunked must not be applied more than once (§6.1)."
post("9112 §6.1", "chunked twice", "Transfer-Encoding: chunked, chunked", BAD, TWICE)
post("9112 §6.1", "chunked on two lines", "Transfer-Encoding: chunked\nTransfer-Encoding: chunked", BAD, TWICE)
post("9112 §7", "chunked with a parameter", "Transfer-Encoding: chunked;a=b", BAD, "Chunked has no parameters; parsers differ on whether this is chunked (§7).")
post("9110 §5.6.1", "an empty element before chunked", "Transfer-Encoding: ,chunked", BAD, "Stricter than the list rule, because parsers differ on it; an empty element in this field is no accident.")
post("9112 §6.1", "chunked and a control character", "Transfer-Encoding: chunked\x01", BAD, "A control character is not part of a field value (9110 §5.5).")
post("9112 §6.1", "gzip, chunked", "Transfer-Encoding: gzip, chunked", "refused 501", "A server that does not understand a transfer coding should answer 501.")
post("9112 §6.1", "Transfer-Encoding in capitals", "TRANSFER-ENCODING: CHUNKED", 'forwarded POST / chunked "abc"', "Names of fields and of codings are case-insensitive.", "3\r\nabc\r\n0\r\n\r\n", False)
request("9112 §6.1", "Transfer-Encoding in HTTP/1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, BAD, "In HTTP/1.0 the framing is taken as faulty; its length is not known.")
request("9112 §6.1", "Transfer-Encoding and Content-Length in HTTP/1.0", b"POST / HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, BAD, BOTH)

# Chunks.

chunked("a chunk with an extension", '3;a="b;c"\r\nabc\r\n0\r\n\r\n', 'forwarded POST / chunked "abc"', "A recipient ignores extensions it does not know; they are of the hop and end here (§7.1.1).", "9112 §7.1.1")
chunked("white space before a chunk's extension", "3 ;a=b\r\nabc\r\n0\r\n\r\n", 'forwarded POST / chunked "abc"', "BWS is allowed before the semicolon, and removed.", "9112 §7.1.1")
chunked("chunk sizes with leading zeros", "00A\r\n0123456789\r\n000\r\n\r\n", 'forwarded POST / chunked "0123456789"', "1*HEXDIG may begin with zeros, and the last chunk is 1*\"0\".")
chunked("chunked without content", "0\r\n\r\n", 'forwarded POST / chunked ""', "The last chunk may be the only one.")
MALFORMED = "The line is no chunk: the end of the message cannot be known, so 400, and the origin is left without its end."
for title, content in [
    ("no chunk size", "\r\nabc\r\n0\r\n\r\n"), ("a chunk size that is no number", "x\r\nabc\r\n0\r\n\r\n"), ("a signed chunk size", "+3\r\nabc\r\n0\r\n\r\n"),
    ("a negative chunk size", "-1\r\nabc\r\n0\r\n\r\n"), ("a chunk size with 0x", "0x3\r\nabc\r\n0\r\n\r\n"),
    ("a chunk size past 64 bits", "10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("a space before a chunk size", " 3\r\nabc\r\n0\r\n\r\n"), ("bare LF behind a chunk size", "3\nabc\r\n0\r\n\r\n"),
    ("bare CR behind a chunk size", "3\rabc\r\n0\r\n\r\n"), ("a space behind a chunk size", "3 \r\nabc\r\n0\r\n\r\n"),
    ("a comma behind a chunk size", "3,\r\nabc\r\n0\r\n\r\n"),
    ("bare LF in a chunk extension", "3;a\nb\r\nabc\r\n0\r\n\r\n"), ("bare CR in a chunk extension", "3;a\rb\r\nabc\r\n0\r\n\r\n"),
    ("NUL in a chunk extension", "3;a\0\r\nabc\r\n0\r\n\r\n"), ("a chunk longer than its size", "2\r\nabc\r\n0\r\n\r\n"),
    ("a chunk shorter than its size", "4\r\nabc\r\n0\r\n\r\n"), ("bare LF behind a chunk", "3\r\nabc\n0\r\n\r\n"),
    ("bare LF behind the last chunk", "3\r\nabc\r\n0\n\n"), ("bare LF for the last empty line", "3\r\nabc\r\n0\r\n\n"),
]:
    chunked(title, content, BAD, MALFORMED)
chunked("a chunk size of forty zeros and a 3", "0" * 40 + "3\r\nabc\r\n0\r\n\r\n", BAD, "A limit: more than 16 digits are no number that anybody means (§7.1: anticipate large numerals).")
chunked("a very long chunk extension", "3;" + "a" * 70000 + "\r\nabc\r\n0\r\n\r\n", BAD, "A server ought to limit the length of extensions and answer 4xx.", "9112 §7.1.1")
chunked("trailers", "3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", 'forwarded POST / chunked "abc" trailers {x-sum: 1}', "Trailers may be forwarded where the next hop has the chunked coding (9110 §6.5.1).", "9112 §7.1.2")
chunked("trailers that frame, route or authenticate", "3\r\nabc\r\n0\r\nX-Sum: 1\r\nContent-Length: 5\r\nHost: evil\r\nAuthorization: x\r\nTransfer-Encoding: x\r\n\r\n", 'forwarded POST / chunked "abc" trailers {x-sum: 1}', "Those fields must not be sent as trailers, and are left out.", "9110 §6.5.1")
BAD_TRAILER = "The trailer section consists of field lines; what is none makes the message malformed."
chunked("obs-fold in the trailer section", "3\r\nabc\r\n0\r\nX: a\r\n b\r\n\r\n", BAD, BAD_TRAILER, "9112 §7.1.2")
chunked("a space before a trailer's colon", "3\r\nabc\r\n0\r\nX : a\r\n\r\n", BAD, BAD_TRAILER, "9112 §7.1.2")
chunked("bare LF in the trailer section", "3\r\nabc\r\n0\r\nX: a\n\r\n", BAD, BAD_TRAILER, "9112 §7.1.2")
chunked("a trailer without a colon", "3\r\nabc\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n", BAD, BAD_TRAILER, "9112 §7.1.2")

# Field lines.

post("9112 §5.1", "a space before the colon", "Transfer-Encoding : chunked", BAD, "A server must refuse white space between name and colon with 400.")
post("9112 §5.1", "a tab before the colon", "Content-Length\t: 5", BAD, "A server must refuse white space between name and colon with 400.")
post("9112 §5.2", "obs-fold", "X: a\n Transfer-Encoding: chunked", BAD, "A server must refuse obs-fold or replace it; refused, because the next hop may read a line of its own.")
post("9112 §5.2", "obs-fold with a tab", "X: a\n\tb", BAD, "The same with a tab.")
post("9112 §5.2", "obs-fold of Transfer-Encoding", "Transfer-Encoding:\n chunked", BAD, "The same, where it would frame the message.")
request("9112 §2.2", "white space before the first field", "GET / HTTP/1.1\r\n Host: localhost\r\nX: y\r\n\r\n", BAD, "Refuse, or ignore the line: refused.")
BARE_CR = "A bare CR in a protocol element makes it invalid, or is replaced by a space: refused."
post("9112 §2.2", "bare CR in a value", "X: a\rTransfer-Encoding: chunked", BAD, BARE_CR)
post("9112 §2.2", "bare CR before a colon", "Transfer-Encoding\r: chunked", BAD, BARE_CR)
request("9112 §2.2", "CR CR LF behind a field", "GET / HTTP/1.1\r\nHost: localhost\r\r\n\r\n", BAD, BARE_CR)
BARE_LF = "A recipient may take a single LF as the end of a line; it need not, and where two hops differ on it a message is smuggled."
request("9112 §2.2", "bare LF everywhere", "GET / HTTP/1.1\nHost: localhost\n\n", BAD, BARE_LF)
request("9112 §2.2", "bare LF behind a field", "POST / HTTP/1.1\r\nHost: localhost\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD, BARE_LF)
request("9112 §2.2", "bare LF ends the header section", "GET / HTTP/1.1\r\nHost: localhost\r\n\n", BAD, BARE_LF)
VALUE = "A value with NUL, CR or LF is refused or made harmless; another control character may be kept only where it is safe: refused."
get("9110 §5.5", "NUL in a value", "X: a\0b", BAD, VALUE)
get("9110 §5.5", "DEL in a value", "X: a\x7fb", BAD, VALUE)
get("9110 §5.5", "another control character in a value", "X: a\x01b", BAD, VALUE)
NAME = "A field name is a token."
for title, fields in [
    ("NUL in a name", "X\0: a"), ("an empty name", ": a"), ("a space in a name", "X Y: a"), ("a name outside ASCII", "X\xe9: a"),
    ("a name in parentheses", "(X): a"), ("a line without a colon", "nonsense"),
]:
    get("9110 §5.1", title, fields, BAD, NAME)
get("9110 §5.3", "repeated field lines", "A: 1\nB: 2\na: 3\nA: 4", "forwarded GET / {a: 1; b: 2; a: 3; a: 4}", "The order of lines of one name must stay.")
get("9110 §5.5", "empty values", "A:\nB:   ", "forwarded GET / {a: ; b: }", "A value may be empty.")
get("9110 §5.5", "white space around a value", "A: \t x \t y\t ", "forwarded GET / {a: x \\t y}", "White space around a value is no part of it; within it stays.")
get("9110 §5.5", "obs-text in a value", "A: \xe9\x85\xff", "forwarded GET / {a: \\xe9\\x85\\xff}", "Bytes above 127 are opaque.")
get("9110 §5.1", "a name of odd token characters", "!#$%&'*+-.^_`|~: x", "forwarded GET / {!#$%&'*+-.^_`|~: x}", "Every token is a field name.")
get("9110 §5.1", "a name with an underscore", "X_Y: 1", "forwarded GET / {x_y: 1}", "Every token is a field name.")
get("6265 §5.4", "two Cookie lines", "Cookie: a=b\nCookie: c=d", "forwarded GET / {cookie: a=b; cookie: c=d}", "They pass as they came.")

# Request line and target.

REQUEST_LINE = "The request line has single spaces; a lenient reader and a strict one may see two requests (§3)."
for title, start in [
    ("two spaces behind the method", "GET  / HTTP/1.1"), ("a tab behind the method", "GET\t/ HTTP/1.1"), ("a space in the target", "GET /a b HTTP/1.1"),
    ("a space behind the version", "GET / HTTP/1.1 "), ("a space before the method", " GET / HTTP/1.1"), ("no version", "GET /"),
    ("no target", "GET HTTP/1.1"), ("a method that is no token", "G(ET / HTTP/1.1"),
]:
    line("9112 §3", title, start, BAD, REQUEST_LINE)
line("9112 §2.3", "a version in lower case", "GET / http/1.1", BAD, "HTTP-name is case-sensitive.")
line("9112 §2.3", "a version of more digits", "GET / HTTP/1.10", BAD, "DIGIT \".\" DIGIT.")
line("9110 §15.6.6", "HTTP/2.0 in a request line", "GET / HTTP/2.0", "refused 505", "Another major version is not supported here.")
line("9110 §15.6.6", "HTTP/0.9 in a request line", "GET / HTTP/0.9", "refused 505", "Another major version is not supported here.")
line("9112 §2.3", "another protocol", "GET / ICY/1.1", BAD, "HTTP-name.")
line("9110 §2.5", "a higher minor version", "GET / HTTP/1.7", "forwarded GET /", "It is read as the highest minor version known, and sent on as our own.")
line("9112 §3.2", "NUL in the target", "GET /\0 HTTP/1.1", BAD, "An invalid request line is refused.")
line("9112 §3.2", "a byte beyond ASCII in the target", "GET /\xe9 HTTP/1.1", BAD, "A target consists of characters of a URI.")
line("9112 §3.2", "a fragment in the target", "GET /a#b HTTP/1.1", BAD, "A target has no fragment.")
line("9112 §3.2.1", "reserved characters in the target", "GET /a;b=c,d:e@f!$'()*+?x=/?y HTTP/1.1", "forwarded GET /a;b=c,d:e@f!$'()*+?x=/?y", "Path and query are not touched.")
line("9110 §7.7", "dots, empty segments and odd percent signs", "GET /a//b/../c/%2e%2E/%41?q=%00&%2f HTTP/1.1", "forwarded GET /a//b/../c/%2e%2E/%41?q=%00&%2f", "A proxy must not rewrite path and query.")
line("9110 §7.7", "a percent sign without digits", "GET /%zz HTTP/1.1", "forwarded GET /%zz", "What it means is for the origin.")
line("9112 §3.2.4", "OPTIONS *", "OPTIONS * HTTP/1.1", "forwarded OPTIONS *", "Asterisk-form of OPTIONS.")
line("9112 §3.2.4", "GET *", "GET * HTTP/1.1", BAD, "Asterisk-form is for OPTIONS only.")
line("9112 §3.2.3", "authority-form of GET", "GET localhost:80 HTTP/1.1", BAD, "Authority-form is for CONNECT only.")
line("9112 §3.2.3", "CONNECT", "CONNECT localhost:80 HTTP/1.1", "refused 403", "No tunnels unless configured (SPEC §1): a tunnel hides the request. What was sent ahead was meant for the tunnel, so the connection ends.")
line("9112 §3.2.3", "CONNECT without a port", "CONNECT localhost HTTP/1.1", BAD, "Authority-form has a port.")
request("9112 §3.2.2", "absolute-form and another Host", "GET http://@ORIGIN@/x HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n", "forwarded GET /x", "The target overrides Host.")
request("9112 §3.2.1", "absolute-form without a path", "GET http://@ORIGIN@ HTTP/1.1\r\nHost: @ORIGIN@\r\n\r\n", "forwarded GET /", "An empty path is sent as a slash.")
request("9112 §3.2.1", "absolute-form with a query and no path", "GET http://@ORIGIN@?q HTTP/1.1\r\nHost: @ORIGIN@\r\n\r\n", "forwarded GET /?q", "An empty path is sent as a slash.")
request("9112 §3.2.4", "OPTIONS in absolute-form without a path", "OPTIONS http://@ORIGIN@ HTTP/1.1\r\nHost: @ORIGIN@\r\n\r\n", "forwarded OPTIONS *", "The last proxy sends an asterisk.")
request("9112 §3.2.2", "absolute-form without a Host", "GET http://@ORIGIN@/ HTTP/1.1\r\n\r\n", BAD, "Host is demanded with every form (§3.2).")
request("9110 §4.2.3", "a scheme in capitals", "GET HTTP://@ORIGIN@/x HTTP/1.1\r\nHost: @ORIGIN@\r\n\r\n", "forwarded GET /x", "Schemes are case-insensitive.")
request("9110 §4.2.4", "user information in the target", "GET http://a@@ORIGIN@/ HTTP/1.1\r\nHost: @ORIGIN@\r\n\r\n", BAD, "A sender must not make it, and a recipient from an untrusted source should take it as an error.")
line("9112 §3.2.2", "a target with an empty host", "GET http:///x HTTP/1.1", BAD, "An http URI with an empty host is invalid (9110 §4.2.1).")
line("9112 §3.2.2", "a target of another scheme", "GET ftp://localhost/ HTTP/1.1", BAD, "bearerd speaks no ftp.")
request("9112 §2.2", "empty lines before the request line", "\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "forwarded GET /", "A server should ignore at least one empty line there.")

# Methods.

line("9110 §9.1", "an unknown method", "BREW /pot HTTP/1.1", "forwarded BREW /pot", "A proxy does not judge methods.")
line("9110 §9.1", "a method in lower case", "get / HTTP/1.1", "forwarded get /", "Methods are case-sensitive; this one is unknown, and passes.")
line("9110 §5.6.2", "a method of odd token characters", "M!#$%&'*+-.^_`|~9 / HTTP/1.1", "forwarded M!#$%&'*+-.^_`|~9 /", "Every token is a method.")
line("9110 §9.3.8", "TRACE", "TRACE / HTTP/1.1", "forwarded TRACE /", "TRACE passes, without a token of ours.")

get("9110 §9.3.8", "TRACE with content", "Content-Length: 3", BAD, "A client must not send content in TRACE.", "TRACE / HTTP/1.1", "abc")
get("9110 §9.3.6", "CONNECT with a Content-Length", "Content-Length: 3", "refused 403", "CONNECT has no content, so what follows cannot be framed: refused, and the connection ends.", "CONNECT localhost:80 HTTP/1.1", "abc")
request("9113 §3.4", "the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "refused without a status", "Answered in frames of HTTP/2: HTTP_1_1_REQUIRED (README: not there yet).")
line("9110 §9.1", "a method of 9000 bytes", "A" * 9000 + " / HTTP/1.1", "refused 501", "9112 §3: a method longer than any that is known is answered 501.")

# Host.

HOST = "A request without exactly one valid Host is answered 400."
request("9112 §3.2", "no Host", "GET / HTTP/1.1\r\n\r\n", BAD, HOST)
for title, fields in [
    ("two Hosts", "Host: localhost\r\nHost: localhost"), ("two differing Hosts", "Host: localhost\r\nHost: evil.test"), ("two Hosts in one line", "Host: localhost, localhost"),
    ("a Host with a path", "Host: localhost/x"), ("a Host with user information", "Host: a@localhost"), ("a Host with a space", "Host: local host"),
    ("a Host whose port is none", "Host: localhost:x"),
]:
    request("9112 §3.2", title, f"GET / HTTP/1.1\r\n{fields}\r\n\r\n", BAD, HOST)
request("9112 §3.2", "two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: localhost\r\nHost: evil.test\r\n\r\n", BAD, HOST)
request("9112 §3.2", "an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "refused 421; goes on", "Valid by the RFC; SPEC §1 serves no name that is not its own, and excuses HTTP/1.0 without Host only.")
request("9110 §4.2.3", "a Host in capitals", "GET / HTTP/1.1\r\nHost: LOCALHOST\r\n\r\n", "forwarded GET /", "Hosts are case-insensitive.")
request("9110 §7.2", "a Host that is an IPv6 address", "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "forwarded GET /", "A loopback address is bearerd's own.")
request("9110 §7.2", "a Host with an empty port", "GET / HTTP/1.1\r\nHost: localhost:\r\n\r\n", "forwarded GET /", "The port may be empty (3986 §3.2.3).")
request("9112 §3.2", "no Host in HTTP/1.0", "GET /x HTTP/1.0\r\nConnection: close\r\n\r\n", "forwarded GET /x; closes", "HTTP/1.0 need not have one.")
request("9110 §7.4", "a Host of elsewhere", "GET / HTTP/1.1\r\nHost: elsewhere.test\r\n\r\n", "refused 421; goes on", "A name that is not its own is misdirected (SPEC §1: the guard against DNS rebinding).")

# Hop-by-hop fields.

get("9110 §7.6.1", "fields that Connection names", "Connection: x-a,, X-B ,keep-alive\nX-A: 1\nx-b: 2\nX-C: 3", "forwarded GET / {x-c: 3}", "Connection and what it names must be removed.")
get("9110 §7.6.1", "fields named on two Connection lines", "Connection: a\nA: 1\nConnection: b\nB: 2", "forwarded GET /", "The lines are one list.")
get("9110 §7.6.1", "Connection: host", "Connection: host", "forwarded GET /", "Host is no option of a connection; to drop it would change where the request goes.")
get("9110 §7.6.1", "Connection: content-length", "Connection: content-length\nContent-Length: 3", 'forwarded POST / length "abc"', "Framing cannot be taken away by name.", "POST / HTTP/1.1", "abc")
get("9110 §7.6.1", "Connection: transfer-encoding", "Connection: transfer-encoding\nTransfer-Encoding: chunked", 'forwarded POST / chunked "abc"', "Framing cannot be taken away by name.", "POST / HTTP/1.1", "3\r\nabc\r\n0\r\n\r\n")
get("9110 §7.6.1", "Connection: authorization", "Connection: authorization\nAuthorization: Basic YTpi", "forwarded GET /", "What Connection names is removed, whatever it is.")
get("9110 §7.6.1", "Connection: x-real", "Connection: x-real\nX-Real: 1\nX-Other: 2", "forwarded GET / {x-other: 2}", "What Connection names is removed.")
get("9110 §7.6.1", "Keep-Alive", "Keep-Alive: timeout=5", "forwarded GET /", "A field of the hop, also where Connection does not name it.")
get("9110 §7.6.1", "Proxy-Connection", "Proxy-Connection: keep-alive", "forwarded GET /", "A field of the hop, also where Connection does not name it.")
get("9110 §11.7.2", "Proxy-Authorization", "Proxy-Authorization: Basic YTpi", "forwarded GET /", "It is for the first proxy that asks; a secret for this proxy must not reach an origin.")
get("9110 §6.6.2", "Trailer", "Trailer: X", "forwarded GET /", "It is about the framing of this hop's message, which is framed anew.")
get("9110 §10.1.4", "TE: gzip", "TE: gzip", "forwarded GET /", "TE is of the hop; bearerd takes no codings.")
get("9110 §10.1.4", "TE: trailers", "TE: trailers, deflate;q=0.5\nConnection: TE", "forwarded GET / {connection: te; te: trailers}", "bearerd takes trailers for a client that does, and says so for itself.")
get("9110 §7.8", "an Upgrade that is asked for", "Connection: Upgrade\nUpgrade: chat", "forwarded GET / {connection: upgrade; upgrade: chat}", "A proxy may ask for the switch in its own name (SPEC §7); answered 200, the connection goes on as it was.")
get("9110 §7.8", "an Upgrade that Connection does not name", "Upgrade: chat", "forwarded GET /", "Without the connection option the field was not meant for this hop.")
get("9110 §7.8", "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__", "forwarded GET /", "RFC 9113 §3.1 made it obsolete; the tunnel would carry requests that nobody judged.")
get("9110 §7.8", "Upgrade: h2c whose settings Connection does not name", "Connection: Upgrade\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__", "forwarded GET /", "RFC 9113 §3.1 made it obsolete; the tunnel would carry requests that nobody judged.")
get("9110 §7.8", "an Upgrade with content", "Connection: upgrade\nUpgrade: chat\nContent-Length: 3", 'forwarded POST / length "abc"', "A server may ignore Upgrade, so a proxy may leave it out; with content the switch would come in the middle of a message.", "POST / HTTP/1.1", "abc")
get("9110 §7.8", "Connection: upgrade without Upgrade", "Connection: upgrade", "forwarded GET /", "There is nothing to ask for; the option ends here.")
get("9110 §7.6.1", "Connection with a value that is no token", "Connection: a b, @\nA: 1", "forwarded GET / {a: 1}", "What is no token names no field; Connection itself ends here.")
get("9110 §11.6.2", "Authorization", "Authorization: Basic YTpi", "forwarded GET / {authorization: Basic YTpi}", "Of an upstream without a token of ours, the client's own passes (SPEC §2).")
get("9110 §7.6.3", "Via of others", "Via: 1.0 a, 1.1 b", "forwarded GET / {via: 1.0 a, 1.1 b}", "Via is added to, not replaced.")
get("9110 §7.6.3", "Via of this proxy", "Via: 1.1 a, 1.1 here (x)", "refused 508; goes on", "The pseudonym is bearerd's own: a loop.")
get("9110 §7.6.2", "Max-Forwards of OPTIONS", "Max-Forwards: 10", "forwarded OPTIONS / {max-forwards: 9}", "It must be counted down.", "OPTIONS / HTTP/1.1")
get("9110 §7.6.2", "Max-Forwards: 0 of OPTIONS", "Max-Forwards: 0", "answered 200; goes on", "At zero a proxy must not forward, and answers.", "OPTIONS * HTTP/1.1")
get("9110 §7.6.2", "Max-Forwards: 0 of TRACE", "Max-Forwards: 0", "answered 200; goes on", "At zero a proxy must not forward, and answers.", "TRACE / HTTP/1.1")
get("9110 §7.6.2", "Max-Forwards: 0 of GET", "Max-Forwards: 0", "forwarded GET / {max-forwards: 0}", "May be ignored for other methods; it is.")
get("9110 §7.6.2", "a Max-Forwards that is no number", "Max-Forwards: x", BAD, "1*DIGIT; what is none cannot be counted down.", "OPTIONS / HTTP/1.1")
get("9110 §7.6.2", "two Max-Forwards", "Max-Forwards: 5\nMax-Forwards: 0", BAD, "The field is one number; which of two counts is not guessed.", "OPTIONS / HTTP/1.1")
get("9110 §10.1.1", "Expect: 100-continue", "Content-Length: 3\nExpect: 100-continue", 'forwarded POST / length "abc" {expect: 100-continue}', "The expectation goes on to the origin, which answers 100.", "POST / HTTP/1.1", "abc")
get("9110 §10.1.1", "Expect without content", "Expect: 100-continue", "forwarded GET /", "Without content there is nothing to wait for, and a client must not send it.")
get("9110 §10.1.1", "an unknown expectation", "Content-Length: 3\nExpect: 200-ok", "refused 417", "A server may answer 417 to an expectation it does not know.", "POST / HTTP/1.1", "abc")

# HTTP/1.0, pipelining and limits.

request("9110 §2.5", "HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "forwarded GET /; closes", "A message is sent on in the sender's own version; without keep-alive the connection ends.")
request("9112 §9.3", "HTTP/1.0 with keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "forwarded GET /", "A gateway may keep the connection.")
request("9110 §10.1.1", "Expect of HTTP/1.0", "POST / HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc", 'forwarded POST / length "abc"; closes', "A 100-continue expectation of HTTP/1.0 must be ignored.")
request("9112 §6.3", "HTTP/1.0 with content", "POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", 'forwarded POST / length "abc"; closes', "The plain case.")
request("9112 §9.3.2", "three requests at once", b"GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\nPOST /2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET /3 HTTP/1.1\r\nHost: localhost\r\n\r\n", 'forwarded 3 messages: GET /1 + POST /2 length "abc" + GET /3', "Pipelined requests are answered in their order.")
request("9112 §9.3.2", "a request, then a malformed one", b"GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /2 HTTP/1.1\r\nHost: localhost\r\nX Y: a\r\n\r\n", "forwarded GET /1; closes", "The first is served, the second refused with 400.")
get("9112 §9.6", "Connection: close", "Connection: close", "forwarded GET /; closes", "What follows the last request must not be processed.")
get("9112 §6.3", "bytes behind the content of the last request", "Connection: close\nContent-Length: 3", 'forwarded POST / length "abc"; closes', "What follows the content is no part of it, and after close is not read.", "POST / HTTP/1.1", "abc" + SMUGGLED.decode())
line("9110 §15.5.15", "a target of 9000 bytes", "GET /" + "a" * 9000 + " HTTP/1.1", "refused 414", "A limit (README: limits.request_line, 8 KiB).")
get("6585 §5", "a field of 33000 bytes", "X: " + "a" * 33000, "refused 431", "A limit (README: limits.header_section, 32 KiB).")
get("6585 §5", "a field of 20000 bytes", "X: " + "a" * 20000, "forwarded GET / {x: (20000 bytes)}", "Within bearerd's limits.")
get("6585 §5", "130 fields", "X: a\n" * 130, "refused 431", "A limit (README: limits.header_fields, 128).")

# ---------------------------------------------------------------------------------------------------------------------
# Responses: framing.

OK = 'relayed 200 OK length "hi"'
response("9112 §6.2", "Content-Length and content (response)", "Content-Length: 2", OK, "The plain case.", "hi")
response("9112 §7.1", "chunks (response)", "Transfer-Encoding: chunked", 'relayed 200 OK chunked "hi"', "Chunks are framed anew; extensions end here.", "2;x=y\r\nhi\r\n0\r\n\r\n")
response("9112 §6.3", "content until the connection closes", "", 'relayed 200 OK chunked "hi"', "Sent on in chunks, so that the client sees a cut.", "hi")
response("9112 §6.3", "the same of HTTP/1.0", "", 'relayed 200 OK chunked "hi"', "Sent on in chunks, in our own version.", "hi", "HTTP/1.0 200 OK")
response("9112 §6.3", "chunks for an HTTP/1.0 client", "Transfer-Encoding: chunked", 'relayed 200 OK until close "hi"', "HTTP/1.0 knows no chunks (§7): they are taken away, and the close ends the content.", "2\r\nhi\r\n0\r\n\r\n", request=b"GET /row HTTP/1.0\r\nHost: localhost\r\n\r\n")
response("9110 §8.6", "identical Content-Length lines (response)", "Content-Length: 2\nContent-Length: 2", OK, "One valid number may be taken of a list of identical ones; one line goes on.", "hi")
response("9110 §8.6", "a list of identical Content-Lengths (response)", "Content-Length: 2, 2", OK, "One valid number may be taken of a list of identical ones; one number goes on.", "hi")
response("9110 §8.6", "leading zeros in a Content-Length (response)", "Content-Length: 002", OK, "1*DIGIT may begin with zeros; it is written anew.", "hi")
response("9112 §5.1", "a space before a colon (response)", "X-A : 1\nContent-Length : 2", OK + " {x-a: 1}", "A proxy must remove it from a response.", "hi")
RESPONSE_BOTH = "An ambiguous response is not relayed: who reads it otherwise takes content for the next response (§6.3, §11.1)."
response("9112 §6.3", "Content-Length and Transfer-Encoding (response)", "Content-Length: 5\nTransfer-Encoding: chunked", "502", RESPONSE_BOTH, "2\r\nhi\r\n0\r\n\r\n")
INVALID = "Item 5: a proxy must close the connection to the server, discard the response and send 502."
for title, value in [
    ("differing Content-Length lines (response)", "2\nContent-Length: 3"), ("a list of differing Content-Lengths (response)", "2, 3"),
    ("a Content-Length that is no number (response)", "x"), ("a signed Content-Length (response)", "+2"), ("an empty Content-Length (response)", ""),
    ("a negative Content-Length (response)", "-1"),
]:
    response("9112 §6.3", title, f"Content-Length: {value}", "502", INVALID, "hi")
CODING = "Item 4 would read until close; a coding that bearerd cannot take off is not relayed, because its end cannot be told from a cut."
response("9112 §6.3", "chunked is not the last coding (response)", "Transfer-Encoding: chunked, identity", "502", CODING, "2\r\nhi\r\n0\r\n\r\n")
response("9112 §6.3", "a coding that is not chunked (response)", "Transfer-Encoding: identity", "502", CODING, "hi")
response("9112 §6.1", "chunked twice (response)", "Transfer-Encoding: chunked, chunked", "502", "Chunked must not be applied more than once.", "2\r\nhi\r\n0\r\n\r\n")
response("9112 §6.1", "gzip, chunked (response)", "Transfer-Encoding: gzip, chunked", "502", "A coding that was not asked for by TE must not be sent, and bearerd cannot take it off.", "2\r\nhi\r\n0\r\n\r\n")
response("9112 §6.1", "Transfer-Encoding in HTTP/1.0 (response)", "Transfer-Encoding: chunked", "502", "In HTTP/1.0 the framing is taken as faulty.", "2\r\nhi\r\n0\r\n\r\n", "HTTP/1.0 200 OK")

# Truncated and malformed content.

CUT = "An incomplete message must not look complete (I9): the connection is cut without the end that its framing has."
for title, fields, content in [
    ("fewer bytes than Content-Length", "Content-Length: 10", "hello"), ("no last chunk", "Transfer-Encoding: chunked", "5\r\nhello\r\n"),
    ("the end inside a chunk", "Transfer-Encoding: chunked", "9\r\nhello"), ("the end inside a chunk's header", "Transfer-Encoding: chunked", "5\r\nhello\r\n1"),
    ("the end inside the trailer section", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\nX: y\r\n"), ("no empty line behind the last chunk", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n"),
]:
    response("9112 §8", title, fields, "cut", CUT, content, truncated=True)
response("9112 §8", "fewer bytes than Content-Length, for an HTTP/1.0 client", "Content-Length: 10", "cut", CUT, "hello", truncated=True, request=b"GET /row HTTP/1.0\r\nHost: localhost\r\n\r\n")
response("9112 §8", "no last chunk, for an HTTP/1.0 client", "Transfer-Encoding: chunked", "cut", "HTTP/1.0 cannot see it in the framing: the connection is reset (I9).", "5\r\nhello\r\n", truncated=True, request=b"GET /row HTTP/1.0\r\nHost: localhost\r\n\r\n")
response("9112 §8", "a reset inside the content", "Content-Length: 10", "cut", CUT, "hello", truncated=True, then="reset")
response("9112 §8", "a reset inside the chunks", "Transfer-Encoding: chunked", "cut", CUT, "5\r\nhello\r\n", truncated=True, then="reset")
response("9112 §8", "a reset inside content until close", "", "cut", "Only an orderly end ends such content; a reset is a cut.", "hello", truncated=True, then="reset")
BAD_CHUNK = "The line is no chunk, so the end is not known; what has gone cannot be taken back, so the connection is cut."
for title, content in [
    ("a chunk size that is no number (response)", "5\r\nhello\r\nx\r\n"), ("bare LF behind a chunk size (response)", "5\r\nhello\r\n1\na\r\n0\r\n\r\n"),
    ("a chunk longer than its size (response)", "5\r\nhello!\r\n0\r\n\r\n"), ("obs-fold in the trailer section (response)", "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
    ("a chunk size past 64 bits (response)", "5\r\nhello\r\n10000000000000001\r\na\r\n0\r\n\r\n"), ("a negative chunk size (response)", "5\r\nhello\r\n-1\r\na\r\n0\r\n\r\n"),
]:
    response("9112 §7.1", title, "Transfer-Encoding: chunked", "cut", BAD_CHUNK, content, truncated=True)

# Responses without content.

HEAD = b"HEAD /row HTTP/1.1\r\nHost: localhost\r\n\r\n"
NO_CONTENT = "Item 1: such a response ends with its header section, whatever its fields say; bytes behind it are nobody's and the origin's connection is given up."
response("9112 §6.3", "HEAD with a Content-Length", "Content-Length: 5", "relayed 200 OK length 5 \"\"", "The length that a GET would have goes on.", request=HEAD)
response("9112 §6.3", "HEAD with content", "Content-Length: 5", "relayed 200 OK length 5 \"\"", NO_CONTENT, "hello", request=HEAD, then="keep")
response("9112 §6.3", "HEAD with a second response behind it", "Content-Length: 36", "relayed 200 OK length 36 \"\"", NO_CONTENT, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", request=HEAD, then="keep")
response("9112 §6.3", "204 with content", "", "relayed 204 No Content", NO_CONTENT, "hello", "HTTP/1.1 204 No Content", then="keep")
response("9110 §8.6", "204 with a Content-Length", "Content-Length: 5", "relayed 204 No Content", "A 204 must not have the field; it is left out.", "", "HTTP/1.1 204 No Content", then="keep")
response("9112 §6.1", "204 with Transfer-Encoding", "Transfer-Encoding: chunked", "relayed 204 No Content", "A 204 must not have the field; it is left out.", "", "HTTP/1.1 204 No Content", then="keep")
response("9112 §6.3", "304 with content", "Content-Length: 5", "relayed 304 Not Modified length 5 \"\"", NO_CONTENT, "hello", "HTTP/1.1 304 Not Modified", then="keep")
response("9110 §15.4.5", "304 with a Content-Length", "Content-Length: 5\nETag: \"a\"", "relayed 304 Not Modified length 5 \"\" {etag: \"a\"}", "The length of what it stands for goes on.", "", "HTTP/1.1 304 Not Modified")
response("9112 §9.3", "more content than Content-Length", "Content-Length: 2", OK, "What is behind the content is not relayed, and the origin's connection is given up.", "hi and more", then="keep")
response("9112 §9.3", "a second response behind the first", "Content-Length: 2", OK, "A response that nobody asked for is nobody's: the origin's connection is given up.", "hiHTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Origin: evil\r\n\r\nevil", then="keep")

response("9112 §6.3", "HEAD with chunked", "Transfer-Encoding: chunked", "relayed 200 OK", "Transfer-Encoding is of the hop; the response to HEAD may leave it out (§6.1).", request=HEAD)
response("9110 §15.3.6", "205 with content", "Content-Length: 2", 'relayed 205 Reset Content length "hi"', "A server must not send it; it is framed, so it is passed on.", "hi", "HTTP/1.1 205 Reset Content")
response("9112 §6.1", "304 with Transfer-Encoding", "Transfer-Encoding: chunked", "relayed 304 Not Modified", "It would only tell how a 200 would be sent on this hop (§6.1); left out.", "", "HTTP/1.1 304 Not Modified")
response("9112 §6.3", "an interim response with a Content-Length", "Content-Length: 5", 'relayed 103 + 200 OK length "hi"', "An interim response has no content, whatever its fields say; the field is left out.", "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nX-Origin: row\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 103 Early Hints")
answer("9110 §7.8", "a 101 that was asked for", "HTTP/1.1 101 Switching Protocols\r\nX-Origin: row\r\nUpgrade: chat\r\nConnection: upgrade\r\n\r\n", 'relayed 101 Switching Protocols {upgrade: chat}', "The client asked for it: a tunnel follows.", request=b"GET /row HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n")
answer("9110 §7.8", "a 101 to another protocol than was asked for", "HTTP/1.1 101 Switching Protocols\r\nX-Origin: row\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n", "502", "A server must not switch to what was not asked for.", request=b"GET /row HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n")
answer("9110 §15.2.2", "a 101 without Upgrade", "HTTP/1.1 101 Switching Protocols\r\nX-Origin: row\r\nConnection: upgrade\r\n\r\n", "502", "A server must say to what it switches.", request=b"GET /row HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n")
response("9112 §9.6", "Connection: close (response)", "Connection: close\nContent-Length: 2", OK, "The origin's close is not the client's.", "hi")

# Interim responses.

INTERIM_END = "HTTP/1.1 200 OK\r\n" + ORIGIN_DATE.decode() + "X-Origin: row\r\nContent-Length: 2\r\n\r\nhi"
INTERIM = "A proxy must forward 1xx responses, unless it asked for them itself."
answer("9110 §15.2", "103 Early Hints", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + INTERIM_END, 'relayed 103 + 200 OK length "hi"', INTERIM)
answer("9110 §15.2", "102 and 103", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + INTERIM_END, 'relayed 102 + 103 + 200 OK length "hi"', INTERIM)
answer("9110 §15.2", "a 100 that nobody expects", "HTTP/1.1 100 Continue\r\n\r\n" + INTERIM_END, 'relayed 100 + 200 OK length "hi"', INTERIM)
answer("9110 §15.2", "an unknown interim response", "HTTP/1.1 199 What\r\n\r\n" + INTERIM_END, 'relayed 199 + 200 OK length "hi"', INTERIM)
answer("9110 §15.2", "103 for an HTTP/1.0 client", "HTTP/1.1 103 Early Hints\r\n\r\n" + INTERIM_END, OK, "HTTP/1.0 knows no 1xx: none must be sent to it.", request=b"GET /row HTTP/1.0\r\nHost: localhost\r\n\r\n")
answer("9110 §15.2.2", "a 101 that nobody asked for", "HTTP/1.1 101 Switching Protocols\r\nX-Origin: row\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "502", "A server must not switch to what was not asked for (§7.8); relayed it would end HTTP on both sides.")
answer("9112 §8", "the end behind an interim response", "HTTP/1.1 103 Early Hints\r\n\r\n", "502", "There is no final response.")

# Status lines.

response("9112 §4", "no reason phrase", "Content-Length: 2", 'relayed 200  length "hi"', "The phrase may be empty.", "hi", "HTTP/1.1 200 ")
response("9112 §4", "no space behind the status", "Content-Length: 2", 'relayed 200  length "hi"', "The space must be there even without a phrase; its lack is tolerated and mended, for it is frequent and harmless.", "hi", "HTTP/1.1 200")
response("9112 §4", "a reason of odd bytes", "Content-Length: 2", 'relayed 200 Tr\\xe8s\\tbien length "hi"', "A phrase may have tabs and obs-text.", "hi", "HTTP/1.1 200 Tr\xe8s\tbien")
response("9110 §15", "an unknown status", "Content-Length: 2", 'relayed 299 Odd length "hi"', "A client treats it as 200; a proxy passes it on.", "hi", "HTTP/1.1 299 Odd")
response("9110 §15", "a status past 599", "Content-Length: 2", 'relayed 799 Odd length "hi"', "Three digits; passed on as it came.", "hi", "HTTP/1.1 799 Odd")
START = "What is no status line is no response: 502."
for title, start in [
    ("another protocol (response)", "ICY 200 OK"), ("HTTP/2.0 in a status line", "HTTP/2.0 200 OK"), ("a version in lower case (response)", "http/1.1 200 OK"),
    ("a status of two digits", "HTTP/1.1 20 OK"), ("a status of four digits", "HTTP/1.1 2000 OK"),
    ("a status below 100", "HTTP/1.1 099 OK"), ("two spaces before the status", "HTTP/1.1  200 OK"), ("a tab before the status", "HTTP/1.1\t200 OK"),
]:
    response("9112 §4", title, "Content-Length: 2", "502", START, "hi", start)
answer("9112 §4", "no status line at all", "<html>hi</html>\r\n\r\n", "502", "HTTP/0.9 is over.")
answer("9112 §2.2", "an empty line before the status line", b"\r\n" + INTERIM_END.encode(), "502", "Only a server may ignore empty lines before a message; in a response they show that framing has been lost.")
answer("9112 §2.2", "bare LF everywhere (response)", INTERIM_END.replace("\r\n", "\n"), "502", BARE_LF)
answer("9112 §8", "the end inside the head", "HTTP/1.1 200 OK\r\nX-Origin: row\r\n", "502", "An incomplete head is no response.")
answer("9112 §8", "the end before the head", "", "502", "There is no response.")

# Fields.

FIELD = "A malformed field line makes the head malformed; a proxy must not pass it on (9110 §5.5: replace, or refuse)."
response("9112 §5.2", "obs-fold (response)", "X: a\n b\nContent-Length: 2", "502", "A proxy discards the message (502) or replaces the fold by spaces: discarded.", "hi")
response("9112 §2.2", "bare CR in a value (response)", "X: a\rY: b\nContent-Length: 2", "502", FIELD, "hi")
answer("9112 §2.2", "bare LF behind a field (response)", INTERIM_END.replace("X-Origin: row\r\n", "X-Origin: row\n"), "502", BARE_LF)
response("9110 §5.5", "NUL in a value (response)", "X: a\0b\nContent-Length: 2", "502", FIELD, "hi")
response("9110 §5.1", "a space in a name (response)", "X Y: a\nContent-Length: 2", "502", FIELD, "hi")
response("9110 §5.1", "an empty name (response)", ": a\nContent-Length: 2", "502", FIELD, "hi")
response("9110 §5.1", "a line without a colon (response)", "nonsense\nContent-Length: 2", "502", FIELD, "hi")
response("9110 §5.4", "130 fields (response)", "X: y\n" * 130 + "Content-Length: 2", "502", "A limit (README: limits.header_fields, 128).", "hi")
response("9110 §5.4", "a field of 33000 bytes (response)", "X: " + "y" * 33000 + "\nContent-Length: 2", "502", "A limit (README: limits.header_section, 32 KiB).", "hi")
response("9110 §7.6.1", "hop-by-hop fields (response)", "Connection: x-a, keep-alive\nX-A: 1\nX-B: 2\nKeep-Alive: 5\nContent-Length: 2", OK + " {x-b: 2}", "Connection and what it names must be removed.", "hi")
response("9110 §7.6.1", "Proxy-Connection (response)", "Proxy-Connection: close\nContent-Length: 2", OK, "A field of the hop.", "hi")
response("9110 §11.7.1", "Proxy-Authenticate (response)", "Proxy-Authenticate: Basic\nContent-Length: 2", OK, "Only the next proxy's challenge has meaning here; an origin has none to give to the client.", "hi")
response("9110 §7.8", "Upgrade (response)", "Upgrade: h2\nContent-Length: 2", OK, "An offer for the origin's connection, not for the client's.", "hi")
response("9110 §6.6.2", "Trailer (response)", "Trailer: x\nContent-Length: 2", OK, "About framing, which is done anew.", "hi")
response("9110 §5.3", "Set-Cookie lines", "Set-Cookie: a=1, b\nX: y\nset-cookie: c=2\nContent-Length: 2", OK + " {set-cookie: a=1, b; x: y; set-cookie: c=2}", "They cannot be joined, and keep their order.", "hi")
response("9110 §5.5", "empty values and obs-text (response)", "A:\nB: \xe9\x85\nContent-Length: 2", OK + " {a: ; b: \\xe9\\x85}", "Both are valid.", "hi")
response("9110 §7.6.3", "Via of others (response)", "Via: 1.1 other\nContent-Length: 2", OK + " {via: 1.1 other}", "Via is added to, not replaced.", "hi")
answer("9110 §6.6.1", "no Date", "HTTP/1.1 200 OK\r\nX-Origin: row\r\nContent-Length: 2\r\n\r\nhi", OK, "A recipient with a clock that passes a response on should add the missing Date.", asks_for_date=True)
response("9110 §15.4", "a redirect", "Location: http://elsewhere.test/\nContent-Length: 0", 'relayed 302 Found length "" {location: http://elsewhere.test/}', "It is not followed (SPEC §10).", "", "HTTP/1.1 302 Found")
response("9110 §15.5.2", "a 401", "WWW-Authenticate: Basic\nContent-Length: 0", 'relayed 401 No length "" {www-authenticate: Basic}', "Of an upstream without a token it is the origin's own.", "", "HTTP/1.1 401 No")
response("9110 §6.5", "trailers for a client that takes them", "Transfer-Encoding: chunked", 'relayed 200 OK chunked "a" trailers {x-sum: 1}', "They go on, but for those that frame.", "1\r\na\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n", request=b"GET /row HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\nConnection: TE\r\n\r\n")
response("9110 §6.5.1", "trailers for a client that does not say so", "Transfer-Encoding: chunked", 'relayed 200 OK chunked "a"', "Without TE: trailers they should not be generated; they are left out.", "1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")
response("9110 §5.3", "two Location lines", "Location: /a\nLocation: /b\nContent-Length: 0", 'relayed 302 Found length "" {location: /a; location: /b}', "Passed on as they came: what they mean is for the client.", "", "HTTP/1.1 302 Found")

assert len({row.title for row in ROWS}) == len(ROWS), "two inputs have one title"
