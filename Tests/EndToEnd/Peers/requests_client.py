"""requests_client.py PROXY TARGET GATEWAY SECONDS: gets the target through the proxy, and writes to it.

Ends when the time is over and prints the statuses as JSON.
"""
import collections
import json
import sys
import time
import uuid

import requests

proxy, target, _, seconds = sys.argv[1:]
until = time.monotonic() + float(seconds)
statuses = collections.Counter()
session = requests.Session()
session.trust_env = False
session.proxies = {"http": proxy}
while time.monotonic() < until:
    statuses[session.get(target, timeout=30).status_code] += 1
    written = session.post(target, data={"a": "b"}, headers={"Idempotency-Key": str(uuid.uuid4())}, timeout=30)
    statuses[written.status_code] += 1
print(json.dumps(statuses))
