"""One Jupyter kernel, driven over standard input and output: one JSON object a line, both ways.

In: {"code": ..., "env": {...}} or {"restart": true}. Out, for each: lines in the code interpreter's form, and
{"type": "done"} as the last. At the end of the input the kernel is shut down.
"""

import base64
import contextlib
import json
import os
import queue
import signal
import sys
import time

try:
    import ipykernel  # noqa: F401  (what the kernel is started from)
    from jupyter_client import KernelManager
except ImportError as error:
    print(json.dumps({"type": "unsupported", "why": str(error)}), flush=True)
    sys.exit(0)

FORMATS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
}


def say(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def result(data, is_main):
    fields = {"is_main_result": is_main}
    for mime, value in data.items():
        name = FORMATS.get(mime)
        if name is None:
            fields.setdefault("extra", {})[mime] = value
        else:
            fields[name] = "".join(value) if isinstance(value, list) and name != "json" else value
    say("result", **fields)


def set_variables(env):
    """Code that sets variables, and code that puts back what they were."""
    encoded = base64.b64encode(json.dumps(env).encode()).decode()
    before = (
        "import os as _o, json as _j, base64 as _b\n"
        f"_oncebox_set = _j.loads(_b.b64decode('{encoded}'))\n"
        "_oncebox_was = {n: _o.environ.get(n) for n in _oncebox_set}\n"
        "_o.environ.update(_oncebox_set)\n"
        "del _o, _j, _b"
    )
    after = (
        "import os as _o\n"
        "for _n, _v in _oncebox_was.items():\n"
        "    _o.environ.pop(_n, None) if _v is None else _o.environ.__setitem__(_n, _v)\n"
        "del _o, _n, _v, _oncebox_was, _oncebox_set"
    )
    return before, after


def run(manager, client, code, hear=None):
    """Runs code; `hear` gets the kernel's messages about it. Raises RuntimeError if the kernel dies meanwhile."""
    request = client.execute(code, silent=hear is None, store_history=hear is not None, allow_stdin=False)
    idle = False
    while not idle:
        try:
            message = client.get_iopub_msg(timeout=0.5)
        except queue.Empty:
            if not manager.is_alive():
                raise RuntimeError("the kernel died; it has been started afresh") from None
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"
        if hear:
            hear(message)
    # The reply says what was heard already, and must not be taken for another's.
    try:
        while client.get_shell_msg(timeout=5)["parent_header"].get("msg_id") != request:
            pass
    except queue.Empty:
        pass


def execute(manager, client, code):
    count = None

    def hear(message):
        nonlocal count
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            say(content["name"], text=content["text"], timestamp=time.time_ns())
        elif kind in ("execute_result", "display_data"):
            result(content["data"], kind == "execute_result")
        elif kind == "error":
            say("error", name=content["ename"], value=content["evalue"], traceback="\n".join(content["traceback"]))
        elif kind == "execute_input":
            count = content["execution_count"]

    run(manager, client, code, hear)
    if count is not None:
        say("number_of_executions", execution_count=count)


def main():
    # By socket files: other programs of the sandbox may use any port.
    manager = KernelManager(transport="ipc")
    # This very Python, whatever kernels are registered.
    manager.kernel_spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.blocking_client()

    def interrupt(*_):
        # Of a kernel that is being started afresh there is nothing to interrupt, and perhaps no process.
        with contextlib.suppress(AttributeError, OSError, TypeError):
            os.kill(manager.provisioner.pid, signal.SIGINT)

    def end(*_):
        os.killpg(manager.provisioner.pgid or manager.provisioner.pid, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGUSR1, interrupt)
    signal.signal(signal.SIGTERM, end)
    client.start_channels()
    client.wait_for_ready(timeout=60)
    # Plots are results where there is matplotlib.
    run(manager, client, "try:\n    get_ipython().run_line_magic('matplotlib', 'inline')\nexcept Exception:\n    pass")
    say("done")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request.get("restart"):
                manager.restart_kernel(now=True)
                client.wait_for_ready(timeout=60)
            else:
                env = request.get("env") or {}
                before, after = set_variables(env)
                if env:
                    run(manager, client, before)
                try:
                    execute(manager, client, request["code"])
                finally:
                    if env and manager.is_alive():
                        # Even where the code was interrupted.
                        run(manager, client, after)
        except RuntimeError as error:
            say("error", name="KernelDied", value=str(error), traceback="")
            manager.restart_kernel(now=True)
            client.wait_for_ready(timeout=60)
        say("done")
    end()


main()
