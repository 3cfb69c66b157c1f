"""2,000 POSTs by pyqwest, the transport of the official Python SDK: `URL CA REQUESTS CONCURRENCY bytes|stream`."""

import asyncio
import json
import sys

import pyqwest

url, ca, requests, concurrency, kind = sys.argv[1:]
BODY = b"x" * 10_000
# After this, who has no answer gets none: it has no limit of its own, and waits for ever now and then.
PATIENCE = 30.0


async def pieces():
    for start in range(0, len(BODY), 4096):
        yield BODY[start : start + 4096]


async def main():
    with open(ca, "rb") as file:
        transport = pyqwest.HTTPTransport(tls_ca_cert=file.read(), http_version=pyqwest.HTTPVersion.HTTP2)
    client = pyqwest.Client(transport)
    left = iter(range(int(requests)))
    errors = {}
    ok = 0

    async def caller():
        nonlocal ok
        for n in left:
            body = BODY if kind == "bytes" else pieces()
            try:
                answer = await asyncio.wait_for(client.post(url, {"x-request-id": f"r{n}"}, body), PATIENCE)
                ok += answer.status == 200
            except Exception as error:
                text = f"{type(error).__name__} {error}"[-120:]
                errors[text] = errors.get(text, 0) + 1

    await asyncio.gather(*[caller() for _ in range(int(concurrency))])
    print(json.dumps({"ok": ok, "failed": int(requests) - ok}))
    for error, count in sorted(errors.items(), key=lambda entry: -entry[1])[:3]:
        print(count, error, file=sys.stderr)


asyncio.run(main())
