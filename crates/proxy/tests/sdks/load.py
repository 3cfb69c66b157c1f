"""The official Python SDK at work: what it was asked to do, and what of it failed, as one JSON object.

ONCEBOX_COUNT sandboxes, a quarter of them with asyncio, eight at a time, each with a file of ONCEBOX_FILE_SIZE bytes.
"""

import asyncio
import collections
import concurrent.futures
import json
import os

from e2b import AsyncSandbox, Sandbox, SandboxQuery

COUNT = int(os.environ["ONCEBOX_COUNT"])
SIZE = int(os.environ["ONCEBOX_FILE_SIZE"])
calls, failed, made = collections.Counter(), [], []


def attempt(name, call):
    calls[name] += 1
    try:
        return call()
    except BaseException as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
        raise


async def attempt_async(name, call):
    calls[name] += 1
    try:
        return await call()
    except BaseException as error:
        failed.append(f"{name}: {type(error).__name__}: {error}")
        raise


def check(name, seen, wanted):
    if seen != wanted:
        failed.append(f"{name}: {seen!r} in place of {wanted!r}")


def life(number):
    sandbox = attempt("createSandbox", lambda: Sandbox.create(timeout=120, metadata={"n": str(number)}))
    made.append(sandbox.sandbox_id)
    attempt("setSandboxTimeout", lambda: sandbox.set_timeout(200))
    info = attempt("getSandbox", sandbox.get_info)
    check("metadata", info.metadata, {"n": str(number)})
    output = attempt("processStart", lambda: sandbox.commands.run(f"echo {number}")).stdout
    check("output", output, f"{number}\n")
    path, text = f"/tmp/oncebox-proxied-{sandbox.sandbox_id}", "x" * SIZE + str(number)
    attempt("writeFiles", lambda: sandbox.files.write(path, text))
    check("file", attempt("readFile", lambda: sandbox.files.read(path)), text)
    attempt("filesystemRemove", lambda: sandbox.files.remove(path))
    query = SandboxQuery(metadata={"n": str(number)})
    attempt("listSandboxes", lambda: Sandbox.list(query=query).next_items())
    check("kill", attempt("killSandbox", sandbox.kill), True)


async def async_life(number):
    create = lambda: AsyncSandbox.create(timeout=120, metadata={"n": str(number)})
    sandbox = await attempt_async("createSandbox", create)
    made.append(sandbox.sandbox_id)
    await attempt_async("setSandboxTimeout", lambda: sandbox.set_timeout(200))
    output = (await attempt_async("processStart", lambda: sandbox.commands.run(f"echo {number}"))).stdout
    check("output", output, f"{number}\n")
    check("kill", await attempt_async("killSandbox", sandbox.kill), True)


async def async_lives(numbers):
    await asyncio.gather(*map(async_life, numbers), return_exceptions=True)


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    futures = [pool.submit(life, number) for number in range(COUNT - COUNT // 4)]
    concurrent.futures.wait(futures)
asyncio.run(async_lives(range(COUNT - COUNT // 4, COUNT)))
print(json.dumps({"calls": calls, "failed": failed, "made": made}))
