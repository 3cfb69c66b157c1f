"""The official code interpreter SDK, unmodified, on the local server."""

import asyncio

import pytest
from e2b import NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox


@pytest.fixture(scope="module")
def sandbox(server):
    sandbox = Sandbox.create(timeout=300)
    yield sandbox
    sandbox.kill()


def test_state_stays_and_what_code_yields_is_told_apart(sandbox):
    sandbox.run_code("x = 20")
    execution = sandbox.run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)\nx + 1")
    assert execution.text == "21"
    assert "".join(execution.logs.stdout) == "out\n"
    assert "".join(execution.logs.stderr) == "err\n"
    assert execution.error is None
    assert execution.execution_count == 2


def test_results_come_in_the_forms_they_have(sandbox):
    code = """
from IPython.display import HTML, JSON, display
display(HTML("<b>bold</b>"))
display(JSON({"a": 1}))
"""
    execution = sandbox.run_code(code)
    assert execution.results[0].html == "<b>bold</b>"
    assert execution.results[1].json == {"a": 1}
    assert not execution.results[0].is_main_result


def test_errors_are_those_of_the_code(sandbox):
    execution = sandbox.run_code("1 / 0")
    assert (execution.error.name, execution.error.value) == ("ZeroDivisionError", "division by zero")
    assert "ZeroDivisionError" in execution.error.traceback


def test_output_is_streamed(sandbox):
    heard = []
    sandbox.run_code(
        "import time\nprint('first', flush=True)\ntime.sleep(0.3)\nprint('second')",
        on_stdout=lambda message: heard.append(message.line),
    )
    assert "".join(heard) == "first\nsecond\n" and len(heard) == 2


def test_variables_are_for_one_run(sandbox):
    assert sandbox.run_code("import os; os.environ['A']", envs={"A": "it's"}).text == repr("it's")
    assert sandbox.run_code("os.environ.get('A')").text is None


def test_files_and_commands_are_the_same_sandbox(sandbox):
    sandbox.files.write("data.txt", "from outside")
    assert sandbox.run_code("open('data.txt').read()").text == "'from outside'"
    sandbox.run_code("open('back.txt', 'w').write('from inside')")
    assert sandbox.commands.run("cat back.txt").stdout == "from inside"


def test_contexts_are_made_listed_restarted_and_removed(sandbox):
    sandbox.files.make_dir("elsewhere")
    context = sandbox.create_code_context(cwd="/home/user/elsewhere")
    assert (context.language, context.cwd) == ("python", "/home/user/elsewhere")
    assert sandbox.run_code("import os; y = 1; os.path.basename(os.getcwd())", context=context).text == "'elsewhere'"
    assert sandbox.run_code("y").error.name == "NameError"
    assert context.id in [c.id for c in sandbox.list_code_contexts()]
    sandbox.restart_code_context(context)
    assert sandbox.run_code("y", context=context).error.name == "NameError"
    sandbox.remove_code_context(context)
    with pytest.raises(NotFoundException):
        sandbox.run_code("1", context=context)


def test_code_whose_caller_leaves_is_interrupted(sandbox):
    with pytest.raises(TimeoutException):
        sandbox.run_code("z = 0\nimport time\ntime.sleep(1000)\nz = 1", timeout=1)
    assert sandbox.run_code("z").text == "0"


def test_a_kernel_that_dies_is_started_afresh(sandbox):
    context = sandbox.create_code_context()
    execution = sandbox.run_code("import os; os._exit(1)", context=context)
    assert execution.error is not None
    assert sandbox.run_code("1 + 1", context=context).text == "2"


def test_other_languages_are_refused_in_words(sandbox):
    with pytest.raises(SandboxException, match="Unsupported language 'javascript'"):
        sandbox.run_code("1", language="javascript")


def test_the_asynchronous_sdk(server):
    async def use():
        sandbox = await AsyncSandbox.create(timeout=300)
        try:
            assert (await sandbox.run_code("2 + 2")).text == "4"
            context = await sandbox.create_code_context()
            assert (await sandbox.run_code("y = 1; y", context=context)).text == "1"
            assert context.id in [c.id for c in await sandbox.list_code_contexts()]
            await sandbox.restart_code_context(context)
            assert (await sandbox.run_code("y", context=context)).error.name == "NameError"
            await sandbox.remove_code_context(context)
        finally:
            await sandbox.kill()

    asyncio.run(use())
