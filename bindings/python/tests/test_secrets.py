"""Secrets: stored, found, and never shown."""

from __future__ import annotations

import logging
from uuid import uuid4

import pytest

from oncebox import (
    InvalidArgumentException,
    OutcomeUnknownException,
    SecretException,
    SecretNotFoundException,
)
from oncebox.testing import LocalServer
from sides import Side, do

VALUE = "hunter2-very-secret"

pytestmark = pytest.mark.usefixtures("local_server")


async def test_a_secret_is_stored_and_found(side: Side) -> None:
    name = f"Key-{uuid4().hex}"
    made = await do(side.Secret.create(name, VALUE, {"team": "a"}))
    assert (made.name, made.version, made.metadata) == (name.lower(), 1, {"team": "a"})
    assert made.created_at.tzinfo is not None
    assert await do(side.Secret.get_info(name)) == made
    assert await do(side.Secret.exists(made.secret_id))
    updated = await do(side.Secret.update(name, "another", {"team": "b"}))
    assert (updated.secret_id, updated.version, updated.metadata) == (made.secret_id, 2, {"team": "b"})
    with pytest.raises(SecretException, match="exists"):
        await do(side.Secret.create(name, VALUE))
    assert await do(side.Secret.destroy(name))
    assert not await do(side.Secret.destroy(name))
    assert not await do(side.Secret.exists(name))
    with pytest.raises(SecretNotFoundException) as caught:
        await do(side.Secret.get_info(name))
    assert caught.value.status_code == 404


async def test_pages_follow_one_another(side: Side) -> None:
    names = sorted(f"page-{uuid4().hex}" for _ in range(3))
    for name in names:
        await do(side.Secret.create(name, VALUE))
    pages = side.Secret.list(limit=2)
    assert pages.has_next
    assert pages.next_token is None
    found = await do(pages.next_items())
    assert len(found) == 2
    token = pages.next_token
    assert token
    while pages.has_next:
        found += await do(pages.next_items())
    assert set(names) <= {secret.name for secret in found}
    with pytest.raises(InvalidArgumentException):
        await do(pages.next_items())
    rest = await do(side.Secret.list(limit=2, next_token=token).next_items())
    assert rest[0] == found[2]
    for name in names:
        await do(side.Secret.destroy(name))


async def test_a_lost_answer_is_found_again(side: Side, local_server: LocalServer) -> None:
    name = f"lost-{uuid4().hex}"
    local_server.set_faults({"rules": [{"on": ["createSecret"], "times": 1, "fault": {"cut": {"when": "after"}}}]})
    made = await do(side.Secret.create(name, VALUE))
    assert (made.name, made.version) == (name, 1)
    assert await do(side.Secret.get_info(name)) == made


async def test_a_value_is_in_no_text(side: Side, local_server: LocalServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    echo = {"code": 400, "body": {"code": 400, "message": VALUE}}
    local_server.set_faults({"rules": [{"on": ["createSecret"], "fault": {"status": echo}}]})
    with pytest.raises(SecretException) as refused:
        await do(side.Secret.create("echoed", VALUE))
    texts += [str(refused.value), repr(refused.value), *map(str, refused.value.attempts)]
    local_server.set_faults({"rules": [{"on": ["listSecrets", "createSecret"], "fault": {"cut": {"when": "after"}}}]})
    with pytest.raises(OutcomeUnknownException) as lost:
        await do(side.Secret.create(f"lost-{uuid4().hex}", VALUE, request_timeout=2))
    texts += [str(lost.value), repr(lost.value)]
    with pytest.raises(InvalidArgumentException) as wrong:
        await do(side.Secret.create("a b", VALUE))
    texts += [str(wrong.value), caplog.text, repr(side.Secret.list())]
    assert not [text for text in texts if VALUE in text]


async def test_placeholders(side: Side) -> None:
    assert side.Secret.fill("API-Key") == "${e2b.secrets.api-key}"
    token = side.Secret.iam_token(audience="x", token_type="JWT-SVID")
    assert token == {"audience": "x", "token_type": "JWT-SVID"}
    with pytest.raises(InvalidArgumentException, match="letters"):
        side.Secret.fill("a}b")


async def test_wrong_arguments_are_refused_before_anything_is_sent(side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_URL", "http://127.0.0.1:1")
    with pytest.raises(InvalidArgumentException, match="retries"):
        await do(side.Secret.get_info("a", retries=True))
    with pytest.raises(InvalidArgumentException, match="value"):
        await do(side.Secret.create("a", 1))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentException, match="metadata"):
        await do(side.Secret.create("a", "b", {"n": 1}))  # type: ignore[dict-item]
    with pytest.raises(InvalidArgumentException, match="limit"):
        side.Secret.list(limit=-1)
