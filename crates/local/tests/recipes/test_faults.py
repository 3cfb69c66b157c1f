"""Each fault as a client by others sees it: Python's own `http.client`, which repeats nothing."""

import contextlib
import http.client
import json
import time
import urllib.parse

import pytest

LOST = (http.client.RemoteDisconnected, ConnectionResetError, http.client.IncompleteRead)


class Client:
    """One request a connection."""

    def __init__(self, server):
        self.address = urllib.parse.urlsplit(server.url).netloc
        self.server = server

    @contextlib.contextmanager
    def ask(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=20)
        fields = {"X-API-KEY": "any"} | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            fields.setdefault("Content-Type", "application/json")
        with contextlib.closing(connection):
            connection.request(method, path, data, fields)
            yield connection.getresponse()

    def get(self, path, **headers):
        with self.ask("GET", path, **headers) as answer:
            return answer.status, json.loads(answer.read())

    def create(self, **headers):
        metadata = headers.pop("metadata", {})
        with self.ask("POST", "/v2/sandboxes", {"templateID": "base", "metadata": metadata}, **headers) as answer:
            return answer.status, dict(answer.headers), answer.read()

    def created(self, test_id=None):
        return self.server.effects(test_id)["counts"].get("createSandbox", 0)

    def running(self, query=""):
        return self.get(f"/v2/sandboxes{query}")[1]

    def write(self, sandbox, data):
        with self.ask("POST", "/files?path=data", data, Content_Type="application/octet-stream", **sandbox) as answer:
            return answer.status

    def read(self, sandbox):
        with self.ask("GET", "/files?path=data", **sandbox) as answer:
            return answer.read()


@pytest.fixture()
def client(misbehaving):
    return lambda faults: Client(misbehaving(json.dumps(faults)))


def rule(on, fault, **bounds):
    return {"rules": [{"on": [on], "fault": fault, **bounds}]}


@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
def test_a_status(client, when, made):
    fault = {"status": {"code": 503, "when": when, "headers": {"Retry-After": "7", "Should-Retry": "false"}, "body": "<p>busy"}}
    client = client(rule("create", fault, times=1))
    status, headers, body = client.create()
    assert (status, body, client.created()) == (503, b"<p>busy", made)
    assert (headers["retry-after"], headers["should-retry"]) == ("7", "false")
    assert client.create()[0] == 201, "once"


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
def test_a_lost_answer(client, when, how, made):
    client = client(rule("create", {"cut": {"when": when, "how": how}}, times=1))
    with pytest.raises(LOST):
        client.create()
    assert client.created() == made


def test_an_effect_that_comes_late(client):
    client = client(rule("create", {"late": {"seconds": 0.5}}, times=1))
    with pytest.raises(LOST):
        client.create()
    assert client.running() == []
    for _ in range(200):
        if client.created():
            break
        time.sleep(0.05)
    assert len(client.running()) == 1


def test_latency(client):
    client = client(rule("list", {"latency": 0.4}))
    began = time.monotonic()
    assert client.running() == []
    assert time.monotonic() - began >= 0.4


def sandbox_with_data(client, data):
    """Headers that lead to a sandbox with this file."""
    made = json.loads(client.create()[2])
    sandbox = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983"}
    sandbox["X-Access-Token"] = made["envdAccessToken"]
    assert client.write(sandbox, data) == 200
    return sandbox


def test_an_answer_that_is_cut(client):
    client = client(rule("readFile", {"cut_answer": {"after": {"bytes": 1000}, "how": "close"}}, times=1))
    data = bytes(range(256)) * 400
    sandbox = sandbox_with_data(client, data)
    with pytest.raises(LOST) as cut:
        client.read(sandbox)
    if isinstance(cut.value, http.client.IncompleteRead):
        assert data.startswith(cut.value.partial)
    assert client.read(sandbox) == data


def test_an_answer_that_stands_still(client):
    client = client(rule("readFile", {"stall_answer": {"after": {"bytes": 1000}, "seconds": 0.4}}, times=1))
    data = bytes(range(256)) * 400
    sandbox = sandbox_with_data(client, data)
    began = time.monotonic()
    assert client.read(sandbox) == data
    assert time.monotonic() - began >= 0.4


def test_half_of_a_write(client):
    client = client(rule("writeFiles", {"half_write": {}}))
    sandbox = sandbox_with_data(client, b"0123456789")
    assert client.read(sandbox) == b"01234"


@pytest.mark.parametrize(("keys", "made"), [("honoured", 1), ("ignored", 2)])
def test_idempotency_keys(client, keys, made):
    client = client({"keys": keys})
    for _ in range(2):
        assert client.create(Idempotency_Key="a" * 32)[0] == 201
    assert client.created() == made


@pytest.mark.parametrize(("faults", "found"), [({}, 1), ({"filter": "ignored"}, 2)])
def test_the_metadata_filter(client, faults, found):
    client = client(faults)
    client.create(metadata={"job": "a"})
    client.create(metadata={"job": "b"})
    assert len(client.running("?metadata=job%3Da")) == found


@pytest.mark.parametrize(("faults", "told"), [({}, [{"job": "a"}]), ({"list_metadata": "omitted"}, [None])])
def test_metadata_in_lists(client, faults, told):
    client = client(faults)
    client.create(metadata={"job": "a"})
    assert [sandbox.get("metadata") for sandbox in client.running()] == told


def test_a_list_that_lags(client):
    client = client({"list_lag": 1.0})
    client.create()
    assert client.running() == []
    for _ in range(200):
        if client.running():
            break
        time.sleep(0.05)
    assert len(client.running()) == 1


@pytest.mark.parametrize("status", [404, 405])
def test_v2_is_missing(client, status):
    client = client({"v2_missing": status})
    assert client.create()[0] == status
    with client.ask("POST", "/sandboxes", {"templateID": "base", "timeout": 60}) as answer:
        assert answer.status == 201


def test_a_limit_of_creates(client):
    client = client({"create_limit": {"per_second": 1, "burst": 2}})
    answers = [client.create() for _ in range(3)]
    assert [status for status, _, _ in answers] == [201, 201, 429]
    headers = answers[2][1]
    assert headers["retry-after"].isdigit()
    assert {"ratelimit", "ratelimit-remaining"} <= {name.lower() for name in headers}


def test_a_test_id_keeps_tests_apart(client):
    fault = {"status": {"code": 503, "when": "before"}}
    client = client(rule("create", fault, test_id="mine"))
    assert client.create(Oncebox_Test_Id="mine")[0] == 503
    assert client.create(Oncebox_Test_Id="other")[0] == 201
    assert client.create()[0] == 201
    assert (client.created("mine"), client.created("other"), client.created()) == (0, 1, 2)
    with client.ask("DELETE", "/oncebox/effects?test_id=other") as answer:
        assert answer.status < 300
    assert (client.created("other"), client.created()) == (0, 1)


def test_bounds_of_a_rule(client):
    fault = {"status": {"code": 500, "when": "before"}}
    client = client(rule("list", fault, skip=1, times=2))
    assert [client.get("/v2/sandboxes")[0] for _ in range(5)] == [200, 500, 500, 200, 200]


def test_probability_follows_the_seed(client):
    def drawn():
        faults = {"seed": 7} | rule("list", {"status": {"code": 500, "when": "before"}}, probability=0.5)
        asked = client(faults)
        return [asked.get("/v2/sandboxes")[0] for _ in range(30)]

    first = drawn()
    assert first == drawn()
    assert set(first) == {200, 500}


@pytest.mark.parametrize("do", ["reset", "close"])
def test_frames(client, do):
    """What happens below answers: a connection dies before its request is read."""
    client = client({"frames": {"rules": [{"at": "request", "when": {"path": "*", "count": 2}, "do": [do]}]}})
    assert client.running() == []
    with pytest.raises(LOST):
        client.running()
    assert client.running() == []


def test_no_fault(client):
    client = client({})
    assert client.create()[0] == 201
    assert len(client.running()) == client.created() == 1
