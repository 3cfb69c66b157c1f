"""Recipes are those of the official SDK: the same steps, the same words, the same hashes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import oncebox
from oncebox import (
    DockerfileSyntaxError,
    InvalidArgumentException,
    Template,
    TemplateException,
)

Recipe = Callable[[Any], Any]

#: Each is done to a template of either package.
RECIPES: dict[str, Recipe] = {
    "nothing": lambda t: t.from_base_image(),
    "remove": lambda t: t.from_base_image().remove("a b").remove(["a", "b"], force=True, recursive=True, user="u"),
    "rename": lambda t: t.from_base_image().rename("a", "b c", force=True, user="root").rename("a", Path("b")),
    "make_dir": lambda t: t.from_base_image().make_dir("d").make_dir(["d", "e"], mode=0o755, user="root"),
    "make_symlink": lambda t: t.from_base_image().make_symlink("a", "b").make_symlink("a", "b", user="u", force=True),
    "run_cmd": lambda t: t.from_base_image().run_cmd("x").run_cmd(["x", "y"], user="root"),
    "set": lambda t: t.from_base_image().set_workdir("/w").set_user("u").set_envs({"A": "1", "B": "x y"}).set_envs({}),
    "pip": lambda t: t.from_base_image().pip_install().pip_install("a").pip_install(["a", "b"], g=False),
    "npm": lambda t: t.from_base_image().npm_install().npm_install("x").npm_install(["x", "y"], g=True),
    "npm dev": lambda t: t.from_base_image().npm_install("x", dev=True),
    "bun": lambda t: t.from_base_image().bun_install().bun_install("x").bun_install("x", g=True),
    "bun dev": lambda t: t.from_base_image().bun_install("x", dev=True),
    "apt": lambda t: t.from_base_image().apt_install("x").apt_install(["x", "y"], True, True),
    "git": lambda t: t.from_base_image().git_clone("https://h/r").git_clone("https://h/r", "p", "b", 1, user="root"),
    "mcp": lambda t: t.from_template("mcp-gateway").add_mcp_server("x").add_mcp_server(["x", "y"]),
    "container": lambda t: t.from_template("devcontainer").beta_dev_container_prebuild("/d"),
    "container start": lambda t: t.from_template("devcontainer").beta_set_dev_container_start("/d"),
    "skip some": lambda t: t.from_base_image().run_cmd("a").skip_cache().run_cmd("b"),
    "skip all": lambda t: t.skip_cache().from_image("x:1").run_cmd("b"),
    "start": lambda t: t.from_base_image().set_start_cmd("s", "r"),
    "ready": lambda t: t.from_base_image().set_ready_cmd("r"),
    "copy": lambda t: t.from_base_image().copy("a.txt", "/d").copy(["a.txt", "d"], "/e/", user="u", mode=0o640),
    "copy all": lambda t: t.from_base_image().copy(".", "/d"),
    "copy glob": lambda t: t.from_base_image().copy("**/*.txt", "/d"),
    "copy links": lambda t: t.from_base_image().copy("l", "/d").copy("l", "/e", resolve_symlinks=True, gzip=False),
    "copy items": lambda t: t.from_base_image().copy_items([{"src": "a.txt", "dest": "x", "mode": 0o600}]),
    "copy forced": lambda t: t.from_base_image().copy("a.txt", "/d", force_upload=True).run_cmd("x"),
    "dockerfile": lambda t: t.from_dockerfile('FROM x:1\nRUN a\nCOPY a.txt /d\nENV A=1 B=2\nUSER u\nCMD ["x","y"]\n'),
    **{
        image: (lambda t, image=image: getattr(t, f"from_{image}_image")())
        for image in ["alpine", "arch", "bun", "debian", "fedora", "node", "python", "ubuntu"]
    },
    "variants": lambda t: t.from_python_image("3.12"),
}


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "d/b.txt").write_text("b")
    (tmp_path / "d/e/c").write_bytes(bytes(range(256)))
    (tmp_path / "d/e/c").chmod(0o755)
    (tmp_path / "l").symlink_to("a.txt")
    return tmp_path


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_the_official_one(context: Path, name: str) -> None:
    e2b = pytest.importorskip("e2b")
    recipe = RECIPES[name]
    theirs = json.loads(e2b.Template.to_json(recipe(e2b.Template(context))))
    for step in theirs["steps"]:
        # Not for the server: whether to upload is for this side to decide.
        step.pop("forceUpload", None)
    assert json.loads(Template.to_json(recipe(Template(context)))) == theirs


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("wait_for_file", ("a b",)),
        ("wait_for_port", (80,)),
        ("wait_for_process", ("p",)),
        ("wait_for_timeout", (1,)),
        ("wait_for_timeout", (2500,)),
        ("wait_for_url", ("http://x/?a=1",)),
        ("wait_for_url", ("http://x", 204)),
    ],
)
def test_a_ready_command_is_the_official_one(name: str, arguments: tuple[Any, ...]) -> None:
    e2b = pytest.importorskip("e2b")
    assert getattr(oncebox, name)(*arguments).get_cmd() == getattr(e2b, name)(*arguments).get_cmd()


def test_a_login_is_in_no_text() -> None:
    template = Template().from_image("a", "user", "hunter2")
    assert "hunter2" not in Template.to_json(template) + repr(template) + Template.to_dockerfile(template)


def test_the_context_is_the_folder_of_the_calling_file() -> None:
    assert Template()._recipe.context == Path(__file__).parent


def test_a_dockerfile_is_read_from_its_path(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM x:1\nRUN a\n")
    template = Template().from_dockerfile(str(tmp_path / "Dockerfile"))
    assert "RUN a" in Template.to_dockerfile(template)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda t: t.copy("/abs", "x"), "outside of the context"),
        (lambda t: t.copy("../x", "x"), "outside of the context"),
        (lambda t: t.copy("x", "y", mode=0o10000), "0o7777"),
        (lambda t: t.copy([], "y"), "src"),
        (lambda t: t.run_cmd(""), "empty"),
        (lambda t: t.git_clone("https://me:pw@x/a.git"), "git_clone: the URL holds credentials"),
        (lambda t: t.set_envs({"A=B": "x"}), "A=B"),
        (lambda t: t.set_envs({"A": 1}), "envs"),
        (lambda t: t.make_dir("d", mode=True), "mode"),
        (lambda t: t.remove([], force=True), "nothing is named"),
        (lambda t: t.apt_install([]), "nothing is named"),
        (lambda t: t.git_clone("u", depth=-1), "depth"),
        (lambda t: t.add_mcp_server("x"), "mcp-gateway"),
        (lambda t: t.beta_set_dev_container_start("/d"), "devcontainer"),
    ],
)
def test_a_step_that_makes_no_sense_is_refused_at_once_and_not_added(step: Recipe, words: str) -> None:
    builder = Template().from_base_image()
    with pytest.raises(InvalidArgumentException, match=words):
        step(builder)
    assert json.loads(Template.to_json(builder))["steps"] == []


def test_a_path_is_wrong_in_the_official_class_too() -> None:
    with pytest.raises(TemplateException):
        Template().from_base_image().copy("../x", "y")


@pytest.mark.parametrize(
    ("text", "words"), [("FROM x\nFROM y", "line 2"), ("RUN y", "FROM"), ("FROM x\nONBUILD RUN y", "line 2")]
)
def test_a_dockerfile_that_cannot_be_a_template_names_its_line(text: str, words: str) -> None:
    with pytest.raises(DockerfileSyntaxError, match=words) as caught:
        Template().from_dockerfile(text)
    assert isinstance(caught.value, ValueError)


def test_a_registry_wants_both_or_none() -> None:
    with pytest.raises(InvalidArgumentException, match="both"):
        Template().from_image("a", "user")
