"""Templates: built, watched, and looked after."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from oncebox import (
    AuthenticationException,
    BuildException,
    BuildInfo,
    FileUploadException,
    InvalidArgumentException,
    LogEntry,
    LogEntryEnd,
    LogEntryStart,
    RateLimitException,
    TemplateBuildStatus,
    TemplateException,
    wait_for_file,
)
from oncebox.testing import LocalServer
from sides import Side, do

pytestmark = pytest.mark.usefixtures("local_server")


def fresh() -> str:
    return f"t-{uuid4().hex}"


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/hello.txt").write_text("hello")
    (tmp_path / "app/left.log").write_text("not wanted")
    return tmp_path


async def test_a_recipe_is_built_and_looked_after(side: Side, context: Path) -> None:
    template = (
        side.Template(context, ["**/*.log"])
        .from_base_image()
        .copy("app", "/srv/app", mode=0o755)
        .make_dir(["/srv/a b", "/srv/c"])
        .set_envs({"GREETING": "good morning"})
        .run_cmd(["test ! -e /srv/app/left.log", 'echo "$GREETING" > /srv/greeting'])
        .rename("/srv/greeting", "/srv/greeting.txt")
        .make_symlink("/srv/greeting.txt", "/srv/link")
        .remove("/srv/c", recursive=True)
        .set_ready_cmd(wait_for_file("/srv/greeting.txt"))
    )
    name, told = fresh(), list[LogEntry]()
    built = await do(side.Template.build(template, name, tags=["one"], on_build_logs=told.append))
    assert (built.name, built.alias) == (name, name)
    assert "one" in built.tags
    assert isinstance(told[0], LogEntryStart)
    assert isinstance(told[-1], LogEntryEnd)
    assert [entry.message for entry in told].count("Uploaded 'app'") == 1
    assert len(told) > 5
    status = await do(side.Template.get_build_status(built))
    assert (status.status, status.reason) == (TemplateBuildStatus.READY, None)
    assert status.log_entries
    assert (await do(side.Template.get_build_status(built, logs_offset=1))).log_entries == status.log_entries[1:]

    assert await do(side.Template.exists(name))
    assert await do(side.Template.alias_exists(name))
    assert not await do(side.Template.exists(fresh()))
    assigned = await do(side.Template.assign_tags(f"{name}:one", ["two", "three"]))
    assert (assigned.build_id, sorted(assigned.tags)) == (built.build_id, ["three", "two"])
    await do(side.Template.remove_tags(name, "two"))
    tags = await do(side.Template.get_tags(built.template_id))
    assert {"one", "three"} <= {tag.tag for tag in tags}
    assert "two" not in {tag.tag for tag in tags}
    with pytest.raises(TemplateException):
        await do(side.Template.assign_tags(f"{fresh()}:none", "x"))

    told.clear()
    await do(side.Template.build(template, name, on_build_logs=told.append))
    assert "The server has 'app'" in [entry.message for entry in told]


async def test_a_build_in_the_background(side: Side) -> None:
    template = side.Template().from_base_image().run_cmd("echo $((40 + 2))")
    built = await do(side.Template.build_in_background(template, alias=fresh()))
    status = await do(side.Template.get_build_status(built))
    while status.status in (TemplateBuildStatus.BUILDING, TemplateBuildStatus.WAITING):
        status = await do(side.Template.get_build_status(built))
    assert status.status == TemplateBuildStatus.READY
    assert any("42" in entry.message for entry in status.log_entries)


async def test_a_build_that_fails_says_why(side: Side) -> None:
    template, told = side.Template().from_base_image().run_cmd("echo about to; exit 3"), list[LogEntry]()
    with pytest.raises(BuildException, match="3") as caught:
        await do(side.Template.build(template, fresh(), on_build_logs=told.append))
    assert not isinstance(caught.value, FileUploadException)
    assert isinstance(told[-1], LogEntryEnd)
    assert any("about to" in entry.message for entry in told)
    with pytest.raises(BuildException):
        await do(side.Template.get_build_status(BuildInfo("none", str(uuid4()), "none", "none")))


async def test_an_error_after_a_build_was_begun_names_the_build(side: Side, local_server: LocalServer) -> None:
    template, told = side.Template().from_base_image().run_cmd("exit 3"), list[LogEntry]()
    with pytest.raises(BuildException) as failed:
        await do(side.Template.build(template, fresh(), on_build_logs=told.append))
    local_server.set_faults({"rules": [{"on": ["getBuildStatus"], "fault": {"status": {"code": 403}}}]})
    with pytest.raises(AuthenticationException) as lost:
        await do(side.Template.build(template, fresh(), on_build_logs=told.append))
    begun = [entry.message for entry in told if entry.message.endswith("is under way")]
    errors: list[BuildException | AuthenticationException] = [failed.value, lost.value]
    for error, line in zip(errors, begun, strict=True):
        assert error.may_have_been_processed
        assert error.candidates == (line.split()[1],)


async def test_a_poll_that_is_cut_is_made_again(side: Side, local_server: LocalServer) -> None:
    local_server.set_faults({"rules": [{"on": ["getBuildStatus"], "times": 6, "fault": {"cut": {"when": "after"}}}]})
    template, told = side.Template().from_base_image().run_cmd("echo once"), list[LogEntry]()
    await do(side.Template.build(template, fresh(), on_build_logs=told.append, retries=1))
    assert [entry.message for entry in told if entry.message.strip() == "once"] == ["once"]


async def test_what_a_server_says_of_files_is_about_the_upload(
    side: Side, context: Path, local_server: LocalServer
) -> None:
    template = side.Template(context).from_base_image().copy("app", f"/{fresh()}")
    local_server.set_faults({"rules": [{"on": ["getTemplateUpload"], "fault": {"status": {"code": 400}}}]})
    with pytest.raises(FileUploadException):
        await do(side.Template.build(template, fresh()))
    local_server.set_faults({"rules": [{"on": ["getTemplateUpload"], "fault": {"status": {"code": 429}}}]})
    with pytest.raises(RateLimitException):
        await do(side.Template.build(template, fresh(), retries=0))


async def test_what_a_listener_raises_ends_the_watching(side: Side) -> None:
    def listener(entry: LogEntry) -> None:
        if not isinstance(entry, (LogEntryStart, LogEntryEnd)):
            raise ZeroDivisionError

    template = side.Template().from_base_image().run_cmd("echo x")
    with pytest.raises(ZeroDivisionError):
        await do(side.Template.build(template, fresh(), on_build_logs=listener))


async def test_wrong_arguments_are_refused_before_anything_is_sent(
    side: Side, context: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("E2B_API_URL", "http://127.0.0.1:1")
    template = side.Template(context).from_base_image()
    for name in [None, "", "a b"]:
        with pytest.raises(InvalidArgumentException, match="name"):
            await do(side.Template.build(template, name))
    with pytest.raises(InvalidArgumentException, match="cpu_count"):
        await do(side.Template.build(template, "a", cpu_count=True))
    with pytest.raises(InvalidArgumentException, match="cpu_count"):
        await do(side.Template.build(template, "a", cpu_count=0))
    with pytest.raises(InvalidArgumentException, match="tag"):
        await do(side.Template.build(template, "a", tags=["b:c"]))
    with pytest.raises(InvalidArgumentException, match="retries"):
        await do(side.Template.build(template, "a", retries=1.0))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentException, match='matches "none"'):
        await do(side.Template.build(side.Template(context).from_base_image().copy("none", "/"), "a"))
