"""2,000 POSTs by httpx over HTTP/2: `URL CA REQUESTS CONCURRENCY bytes|stream`."""

import asyncio
import json
import ssl
import sys

import httpx

url, ca, requests, concurrency, kind = sys.argv[1:]
BODY = b"x" * 10_000


async def pieces():
    for start in range(0, len(BODY), 4096):
        yield BODY[start : start + 4096]


async def main():
    ok = 0
    errors = {}
    left = iter(range(int(requests)))
    async with httpx.AsyncClient(http2=True, http1=False, verify=ssl.create_default_context(cafile=ca)) as client:

        async def caller():
            nonlocal ok
            for n in left:
                body = BODY if kind == "bytes" else pieces()
                try:
                    answer = await client.post(url, headers={"x-request-id": f"r{n}"}, content=body)
                    ok += answer.status_code == 200
                except Exception as error:
                    text = f"{type(error).__name__} {error}"[:120]
                    errors[text] = errors.get(text, 0) + 1

        await asyncio.gather(*[caller() for _ in range(int(concurrency))])
    print(json.dumps({"ok": ok, "failed": int(requests) - ok}))
    for error, count in sorted(errors.items(), key=lambda entry: -entry[1])[:3]:
        print(count, error, file=sys.stderr)


asyncio.run(main())
