"""Why a peer does otherwise than bearerd.

A rule explains an outcome of a peer for the inputs with those titles, and no other outcome of it: when a peer changes,
its difference is to be looked at again.
"""

import re

RULES = []
USED = set()


def because(names, titles, outcome, reason):
    """titles: a regular expression for all of the title; outcome: one for a part of the outcome."""
    RULES.append((names.split(), re.compile(titles), re.compile(outcome), reason))


def reason(name, title, outcome):
    for index, (names, titles, outcomes, words) in enumerate(RULES):
        if name in names and titles.fullmatch(title) and outcomes.search(outcome):
            USED.add((index, name))
            return words
    return ""


def unused():
    return [f"{name}: {rule[1].pattern}" for index, rule in enumerate(RULES) for name in rule[0] if (index, name) not in USED]


# Framing of requests.

because("haproxy", "Content-Length, then.*|Transfer-Encoding, then.*|Content-Length: 0 with.*", "chunked.*closes$",
        "Takes the chunks, drops the length and closes, which item 3 allows.")
because("squid", "Content-Length, then.*|Transfer-Encoding, then.*|Content-Length: 0 with.*", "2 messages",
        "Takes the chunks and goes on with what follows; item 3 demands that the connection is closed.")
because("squid", "Transfer-Encoding: identity with Content-Length|a coding that is not chunked", "forwarded POST /; closes",
        "Knows the old coding identity, and forwards without content.")
because("nginx", "Transfer-Encoding: identity with.*|chunked (is not|in quotes|behind|twice|with a parameter|and a).*|a coding that .*|an empty (Transfer-Encoding|element before).*", "refused 501",
        "Refuses with 501, as for a coding it does not know.")
because("squid", "chunked (is not|in quotes|twice|on two|with a parameter|and a control|, then another).*|chunked, then.*|a coding that .*|an empty (Transfer-Encoding|element before).*", "refused 501",
        "Refuses with 501, as for a coding it does not know.")
because("squid", ".*Content-Length.*", "refused 411", "Throws the invalid field away and then misses a length: refused with another status.")
because("squid", "an empty element in a Content-Length|a Content-Length behind a vertical tab|chunked behind a vertical tab", "2 messages",
        "Its reader of numbers and lists is lenient about commas and control characters around the value.")
because("haproxy squid", "identical Content-Length lines|a list of identical Content-Lengths", "length",
        "Folds identical numbers into one, which item 5 allows too.")
because("haproxy squid", "leading zeros in a Content-Length( \\(response\\))?", "length 00", "Passes the number on as it is spelled.")
because("squid", "a GET with content", "refused 411", "Refuses a GET with content unless request_entities is on.")
because("haproxy", "an empty element before chunked|gzip, chunked", "refused 422", "Refuses with 422 what it cannot take off.")
because("haproxy", "Transfer-Encoding (and Content-Length )?in HTTP/1.0", "HTTP/1.0 chunked", "Takes the chunks and closes, which §6.1 allows.")
because("squid", "Transfer-Encoding (and Content-Length )?in HTTP/1.0", 'length ""; closes', "Takes the chunks and closes, which §6.1 allows.")

# Chunks of requests.

because("nginx", "bare LF (behind|for) .*", "forwarded", "Takes a bare LF for CRLF in the chunked coding.")
because("haproxy", "bare LF (behind|for) .*", "forwarded", "Version 2.6 takes a bare LF for CRLF in the chunked coding and in heads.")
because("nginx haproxy", "a space behind a chunk size", "forwarded", "Takes white space there even without an extension behind it.")
because("nginx haproxy", "NUL in a chunk extension", "forwarded", "Skips extensions to the end of the line, whatever they contain.")
because("nginx haproxy", "a chunk shorter than its size", r'"abc\\r"', "Counts the CR as content and then takes the bare LF for the chunk's CRLF.")
because("nginx haproxy squid", "a chunk size of forty zeros.*", "forwarded", "Bounds the value of the number, not its digits; the grammar has no limit either.")
because("nginx squid", "a very long chunk extension", "forwarded", "Has no limit for extensions as long as each piece fits its buffer.")
because("squid", "no chunk size|.* chunk size.*|bare .* (chunk extension|behind a chunk|behind the last chunk)|NUL in a chunk extension|a chunk (longer|shorter) .*", "^closed",
        "Closes without an answer once the content turns out malformed.")
because("squid", "bare LF for the last empty line|(obs-fold|bare LF) in the trailer section|a space before a trailer's colon|a trailer without a colon", "forwarded", "Skips the trailer section to the empty line without reading it.")
because("nginx", "(obs-fold|bare LF) in the trailer section|a space before a trailer's colon|a trailer without a colon", "forwarded", "Skips the trailer section to the empty line without reading it.")
because("haproxy", "(obs-fold|bare LF) in the trailer section", "forwarded", "Reads trailers as it reads heads: the fold becomes spaces, a bare LF ends a line.")
because("nginx squid", "trailers.*", "forwarded POST", "Forwards no trailers, which 9110 §6.5.1 allows.")
because("haproxy", "a space before a trailer's colon", "forwarded", "Takes the space for a part of the name, or refuses the message, according to how the bytes arrive.")
because("haproxy", "trailers that frame.*", "refused 400", "Refuses the message for them.")
BUFFERED = "Collects the content before it forwards, and sends it with a length: the same message in the other framing."
because("nginx", "a GET with chunked.*|Transfer-Encoding in capitals|a chunk with an ext.*|white space before a chunk.*|chunk sizes with.*|chunked without.*|Connection: transfer-encoding", "forwarded [A-Z]+ / length", BUFFERED)
because("squid", "a GET with chunked.*|Transfer-Encoding in capitals|a chunk with an ext.*|white space before a chunk.*|chunk sizes with.*|chunked without.*|Connection: transfer-encoding", "forwarded [A-Z]+ / length",
        "Sends content that has all arrived with a length: the same message in the other framing.")

# Field lines of requests.

because("haproxy squid", "obs-fold( with a tab)?", "forwarded", "Replaces the fold by spaces, which §5.2 allows.")
because("haproxy squid", "obs-fold of Transfer-Encoding", "forwarded", "Replaces the fold by spaces, which §5.2 allows, and then takes the field for what it frames.")
because("squid", "white space before the first field", "forwarded", "Ignores such a line, which §2.2 allows; so there is no Host.")
because("squid", "bare CR in a value", "forwarded", "Replaces a bare CR by a space, which §2.2 allows.")
because("nginx squid", "CR CR LF behind a field", "forwarded", "Ignores CRs before the end of a line.")
because("nginx haproxy squid", "bare LF (everywhere|behind a field|ends the header section)", "forwarded", "Takes a bare LF for CRLF in heads, which §2.2 allows.")
because("haproxy", "NUL in a value", "forwarded", "Version 2.6 passes NUL on, which §5.5 forbids.")
because("nginx haproxy squid", "(DEL|another control character) in a value", "forwarded", "Passes control characters on as they are.")
because("nginx", "a name outside ASCII|a name in parentheses|a name with an underscore|a name of odd token.*", "forwarded GET /$", "Drops fields whose names have other characters than letters, digits and hyphens (ignore_invalid_headers) and forwards the rest.")
because("nginx", r"a line without a colon( \(response\))?", "nonsense", "Takes the line for a field with an empty value.")

# Request line, target, methods, Host.

because("nginx haproxy squid", "two spaces behind the method", "forwarded", "Takes several spaces for one, which §3 allows.")
because("haproxy squid", "a tab behind the method", "forwarded", "Takes a tab for a space, which §3 allows.")
because("squid", "a space in the target", "forwarded", "Its relaxed reader takes the space out of the target.")
because("nginx", "a space behind the version", "forwarded", "Ignores white space behind the version, which §3 allows.")
because("squid", "a space behind the version|no version|a version in lower case|another protocol", "forwarded", "Takes a line that does not end in a version for HTTP/0.9, and all behind the method for its target.")
because("nginx", "no version", "forwarded", "Serves HTTP/0.9.")
because("nginx", "a version of more digits", "forwarded", "Reads minor versions of several digits.")
because("squid", "a version of more digits", "refused 505", "Refuses the version, with another status.")
because("haproxy", "HTTP/(2.0|0.9) in a request line", "forwarded", "Version 2.6 takes any digit for a version there.")
because("nginx", "HTTP/0.9 in a request line", "refused 400", "Refuses it with another status.")
because("squid", "HTTP/0.9 in a request line", "forwarded", "Serves HTTP/0.9.")
because("nginx squid", "a byte beyond ASCII in the target", "forwarded", "Takes bytes above 127 in a target.")
because("nginx squid", "a fragment in the target", "forwarded", "Takes a fragment for a part of the target.")
because("nginx", "a percent sign without digits", "refused 400", "Decodes the path to choose a location, so it must be decodable.")
because("nginx squid", "OPTIONS \\*", "refused", "Does not serve asterisk-form.")
because("haproxy", "GET \\*", "forwarded", "Does not judge the form by the method.")
because("haproxy", "CONNECT( with.*)?", "forwarded", "Leaves CONNECT to the server behind it.")
because("nginx squid", "CONNECT.*", "refused 40[05]", "No tunnels either, with another status.")
because("haproxy", "absolute-form and another Host|absolute-form with a query.*", "refused 400", "Refuses a Host that differs from the target's authority as it reads that.")
because("haproxy", "absolute-form without a path|OPTIONS in absolute-form.*|a scheme in capitals", "(?i)http://ORIGIN", "Is no origin's gateway in its own eyes: passes absolute-form on as it came.")
because("nginx squid", "OPTIONS in absolute-form.*", "OPTIONS /$", "Makes a slash of every empty path.")
because("haproxy", "absolute-form without a Host|no Host|an empty Host|two Hosts.*|a Host (with|whose|of) .*", "forwarded", "Leaves Host to the server behind it.")
because("squid", "absolute-form without a Host|no Host|two .*Hosts.*|a Host (with|whose) .*", "forwarded", "An accelerator takes the target's authority, the first Host or its defaultsite.")
because("nginx", "a Host (with user information|whose port is none)", "forwarded", "Reads a Host less strictly, and forwards its own.")
because("haproxy", "user information in the target", "forwarded", "Does not read the authority.")
because("squid", "user information in the target", "authorization", "Makes Basic credentials of the user information.")
because("nginx squid", "a target of another scheme", "forwarded", "A gateway needs no scheme: only path and query are used.")
because("haproxy", "a target (of another scheme|with an empty host)", "forwarded", "Passes absolute-form on as it came.")
because("squid", "a method in lower case", "GET", "Its relaxed reader knows methods in any case.")
because("nginx", "a method in lower case|a method of odd token characters", "refused 400", "Takes methods of capitals, hyphens and underscores only.")
because("nginx", "TRACE( with content)?|Max-Forwards: 0 of TRACE", "refused 405", "Never serves TRACE.")
because("nginx squid", "a Host of elsewhere", "forwarded", "Serves every name, unless it is configured otherwise.")

because("nginx squid", "the preface of HTTP/2", "refused 400", "Refuses it in HTTP/1.1, which a client of HTTP/2 cannot read.")
because("haproxy squid", "TRACE with content", "length", "Frames the content and leaves the rest to the server behind it.")
because("nginx", "a method of 9000 bytes", "refused 414", "Has one limit for the line, and one status for it.")
because("haproxy", "a method of 9000 bytes", "forwarded", "Its limit is a buffer of 16 KiB for the whole head.")
because("squid", "a method of 9000 bytes", "refused 400", "Its limit is 8 KiB too, with another status.")
because("nginx squid", "an empty Host", "refused 400", "Refuses an empty Host.")
because("squid", "a Host with an empty port", "refused 400", "Refuses an empty port.")
because("haproxy squid", "a Host that is an IPv6 address|a Host with an empty port", "forwarded GET / {host", "Forwards the client's Host, as any other.")
because("squid", "Authorization", "forwarded GET /$", "Keeps Authorization from a peer unless login=PASS says otherwise.")

# Hop-by-hop fields of requests.

because("haproxy", "fields that Connection names|Connection with.*|fields named on two.*|Connection: .*|Keep-Alive|Proxy-Connection|Proxy-Authorization|Trailer|TE: .*|an Upgrade that Connection.*|Upgrade: h2c.*", "forwarded",
        "Manages the connection of each side but passes the fields of the hop on, unless rules delete them.")
because("nginx", "fields that Connection names|fields named on two.*|Connection: (authorization|x-real)|Proxy-Connection|Proxy-Authorization|Trailer", "forwarded",
        "Replaces Connection by its own without reading which fields it names, and leaves out only those it knows.")
because("nginx squid", "TE: trailers", "forwarded GET /$", "Takes no trailers.")
because("nginx squid", "an Upgrade that is asked for|Upgrade: h2c.*", "forwarded", "Asks for no switch of protocols unless it is configured; squid and nginx drop the field.")
because("nginx haproxy squid", "Via of this proxy", "forwarded", "The pseudonym is not its own.")
because("haproxy nginx", "(a |two )?Max-Forwards.*", "forwarded", "Does not read Max-Forwards, though §7.6.2 demands it.")
because("nginx squid", "Max-Forwards: 0 of OPTIONS", "refused", "Does not serve asterisk-form.")
because("squid", "Max-Forwards: 0 of GET|a Max-Forwards that is no number", "forwarded [A-Z]+ /$", "Drops the field when it is not a positive number.")
because("squid", "two Max-Forwards", "max-forwards: 4", "Takes the first.")
because("haproxy", "an Upgrade with content", "connection: upgrade", "Drops Upgrade, but not the option that named it.")
because("haproxy squid", "Expect without content|Expect of HTTP/1.0|an unknown expectation", "forwarded.*expect", "Passes Expect on as it came.")
because("nginx", "Expect: 100-continue|an unknown expectation", "forwarded POST", "Answers 100 by itself, and drops Expect towards the origin.")

# HTTP/1.0, pipelining and limits.

because("haproxy", "HTTP/1.0.*|no Host in HTTP/1.0|Expect of HTTP/1.0", "HTTP/1.0", "Keeps the version of the message, where 9110 §2.5 has an intermediary send its own; and HTTP/1.0 needs no Host.")
because("haproxy", "a target of 9000 bytes", "forwarded", "Its limit is a buffer of 16 KiB for the whole head.")
because("squid", "a target of 9000 bytes", "refused 400", "Its limit for a target is 8 KiB too, with another status.")
because("haproxy", "a field of (33000|20000) bytes|130 fields", "refused 400", "Its limits are 16 KiB and 101 fields, with another status.")
because("nginx", "a field of (33000|20000) bytes", "refused 400", "Its limit for a field is 8 KiB, with another status.")
because("squid", "a field of 33000 bytes.*", "forwarded|relayed", "Its limit for a head is 64 KiB.")
because("nginx squid", "130 fields.*", "forwarded|relayed", "Limits bytes, not fields.")

# Framing of responses.

because("haproxy", "content until the connection closes|the same of HTTP/1.0", "until close", "Leaves content delimited by close as it is.")
because("haproxy", "chunks for an HTTP/1.0 client", "chunked", "Sends chunks to HTTP/1.0 too, which 9112 §6.1 forbids.")
because("haproxy nginx", r"a space before a colon \(response\)", "502", "Refuses the response, where §5.1 has a proxy remove the space.")
because("nginx haproxy squid", r"Content-Length and Transfer-Encoding \(response\)", "chunked", "Takes the chunks and drops the length, which item 3 allows.")
because("nginx", r"(a list of (identical|differing)|a|a signed|an empty|a negative) Content-Lengths?( that is no number)? \(response\)", "chunked", "Takes no notice of a length it cannot read, and reads until close; item 5 demands 502.")
because("nginx", r"differing Content-Length lines \(response\)", "cut", "Version 1.22 takes the last of them, which the content does not reach.")
because("nginx", r".*(chunked is not the last|not chunked|chunked twice|gzip, chunked).*\(response\)", "chunked", "Looks for the word chunked or else reads until close, and frames the content anew without the other codings.")
because("squid", r"a coding that is not chunked \(response\)", "chunked", "Knows the old coding identity.")
because("nginx haproxy squid", r"Transfer-Encoding in HTTP/1.0 \(response\)", "chunked", "Takes the chunks although HTTP/1.0 has none.")
because("haproxy", "a reset inside content until close", "looks whole", "Takes the reset for the end: the client cannot see the cut.")
because("nginx squid", "no last chunk, for an HTTP/1.0 client", "looks whole", "Ends the connection in order: an HTTP/1.0 client cannot see the cut.")
because("haproxy", r"(a chunk size|a chunk longer|a negative chunk).*\(response\)", "^502", "Has not sent the head yet when the fault comes in the same segment.")
because("haproxy nginx", r"bare LF behind a chunk size \(response\)", "looks whole", "Takes a bare LF for CRLF in the chunked coding: to it the content is whole.")
because("nginx haproxy squid", r"obs-fold in the trailer section \(response\)", "looks whole", "Reads or skips the trailer section with less care: to it the content is whole.")
because("squid", "(HEAD|204|304) with content|HEAD with a second .*|more content than.*|a second response behind.*", "not its own",
        "Looks at an idle connection for stray bytes, but may use it again before it has seen them.")
because("nginx", "204 with a Content-Length", "length", "Passes the field on, which §8.6 forbids a server to send.")

because("haproxy", "HEAD with chunked|304 with Transfer-Encoding", "chunked", "Passes the field on, which §6.1 allows.")

# Interim responses and status lines.

because("nginx", "an interim response with a Content-Length", "waits", "Version 1.22 takes 103 for a final response; the client waits for another.")
because("squid", "a 101 (that was asked for|to another.*|without Upgrade)", "502", "Asked for no switch, so it takes none.")

because("nginx haproxy", "103 for an HTTP/1.0 client", "103", "Passes it on, which §15.2 forbids to HTTP/1.0.")
because("nginx haproxy", "a 101 (to another.*|without Upgrade)", "relayed 101", "Takes any 101 where a switch was asked for.")
because("nginx", "a 101 that nobody asked for", "101", "Passes it on and opens a tunnel.")
because("nginx", "the end behind an interim response", "waits", "Version 1.22 takes 103 for a final response; the client waits for another.")
because("squid", "no reason phrase|no space behind the status|a reason of odd bytes|an unknown status|a 401", "relayed", "Writes its own phrase for the status; a phrase means nothing (§4).")
because("nginx", "no space behind the status", "relayed", "Passes the line on without the space.")
because("squid", "a status past 599", "502", "Takes 100 to 599 only.")
because("nginx", r"another protocol \(response\)|a version in lower case \(response\)|a status (of two digits|below 100)|a tab before the status|no status line at all|an empty line before the status line", "no HTTP/1.1", "Takes what has no status line for HTTP/0.9 and passes the bytes on without a head.")
because("squid", r"another protocol \(response\)|HTTP/2.0 in a status line|a version in lower case \(response\)|no status line at all|an empty line before the status line", "HTTP/0.9|no HTTP/1.1", "Takes what has no status line for content of HTTP/0.9 (ICY it passes on as it is).")
because("nginx haproxy", "HTTP/2.0 in a status line|a status of four digits|two spaces before the status", "relayed", "Reads the status line less strictly.")
because("haproxy", "a status (of two digits|below 100)", "no HTTP/1.1", "Does not judge the number, and passes the line on.")
because("haproxy squid", "a tab before the status", "relayed 200", "Takes a tab for a space.")
because("haproxy", "an empty line before the status line", "relayed", "Skips empty lines before a response.")
because("nginx haproxy squid", r"bare LF (everywhere|behind a field) \(response\)", "relayed", "Takes a bare LF for CRLF in heads, which §2.2 allows.")
because("squid", "the end inside the head", "relayed", "Takes the end of the connection for the end of the head.")

# Fields of responses.

because("haproxy squid", r"obs-fold \(response\)", "relayed", "Replaces the fold by spaces, which §5.2 allows.")
because("squid", r"bare CR in a value \(response\)", "relayed", "Replaces a bare CR by a space, which §2.2 allows.")
because("haproxy", r"NUL in a value \(response\)", "relayed", "Version 2.6 passes NUL on, which §5.5 forbids.")
because("nginx haproxy", r"(hop-by-hop fields|Proxy-Connection|Proxy-Authenticate|Upgrade|Trailer) \(response\)", "relayed", "Manages Connection and Keep-Alive, and passes other fields of the hop on.")
because("haproxy", "no Date", "without Date", "Leaves Date to the server behind it.")
because("haproxy", "trailers for a client that takes them", "content-length: 9", "Passes all trailers on, also those that §6.5.1 forbids.")
because("haproxy", "trailers for a client that does not say so", "trailers", "Passes trailers on whoever asks.")
because("nginx squid", "trailers for a client that takes them", "relayed", "Forwards no trailers, which §6.5.1 allows.")
