"""What is asked for of a sandbox, in the protocol's words. Servers decide what of it makes sense."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from . import _create_types as t
from .exceptions import InvalidArgumentException

#: The official SDK's keys, and the protocol's.
_NETWORK = {
    "allow_out": "allowOut",
    "deny_out": "denyOut",
    "rules": "rules",
    "egress_proxy": "egressProxy",
    "dns_servers": "dnsServers",
    "allow_public_traffic": "allowPublicTraffic",
    "mask_request_host": "maskRequestHost",
    "https_ports": "httpsPorts",
    "allow_internet_access": "allow_internet_access",
}


def network_json(network: t.SandboxNetworkOpts | t.SandboxNetworkUpdate, iam: t.SandboxIamOpts | None = None) -> str:
    """The network, callables called."""
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", network))
    wrong = [key for key in given if key not in _NETWORK]
    if wrong:
        raise InvalidArgumentException(f"network: there is no {wrong[0]!r}")
    given_rules: t.SandboxNetworkRules = given.get("rules") or {}
    rules = {host: [_rule(rule, iam) for rule in of_host] for host, of_host in given_rules.items()}
    context = t.SandboxNetworkSelectorContext(all_traffic=t.ALL_TRAFFIC, rules=given_rules)
    told: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        if key in ("allow_out", "deny_out"):
            selector: t.SandboxNetworkSelector = value
            told[_NETWORK[key]] = list(selector(context) if callable(selector) else selector)
        elif key == "rules":
            told[key] = rules
        elif key == "egress_proxy":
            told[_NETWORK[key]] = _proxy(value)
        else:
            told[_NETWORK[key]] = value
    return json.dumps(told)


def _rule(rule: t.SandboxNetworkRule, iam: t.SandboxIamOpts | None) -> dict[str, Any]:
    transform = rule.get("transform")
    if transform is None:
        return {}
    if callable(transform):
        names = (iam or {}).get("tokens", {})
        tokens = {name: f"${{e2b.identity.tokens.{name}}}" for name in names}
        transform = transform(t.SandboxNetworkTransformContext(iam=t.SandboxNetworkTransformIam(tokens=tokens)))
    return {"transform": transform}


def _proxy(proxy: t.SandboxEgressProxyOpts) -> dict[str, Any]:
    told = {key: value for key, value in proxy.items() if key in ("address", "username", "password")}
    tls = proxy.get("tls")
    if isinstance(tls, bool):
        told["tls"] = {"enabled": tls}
    elif tls is not None:
        names = {"server_name": "serverName", "ca_cert": "caCert"}
        told["tls"] = {"enabled": True, **{names[key]: value for key, value in tls.items()}}
    return told


def iam_json(iam: t.SandboxIamOpts) -> str:
    """The identities."""
    tokens = {
        name: {"audience": token["audience"], "tokenType": token["token_type"]}
        for name, token in iam.get("tokens", {}).items()
    }
    return json.dumps({"tokens": tokens})


def lifecycle_options(lifecycle: t.SandboxLifecycle) -> dict[str, Any]:
    """What happens at the end of the lifetime, as options of a create."""
    at_end = lifecycle.get("on_timeout", "kill")
    options: dict[str, Any] = {}
    if isinstance(at_end, str):
        action, mode = at_end, None
    else:
        action, mode = at_end["action"], at_end.get("mode")
        if mode is None and at_end.get("keep_memory") is False:
            mode = "filesystem"
    if action == "pause":
        options["pause_at_end"] = mode or "full"
    elif action != "kill":
        raise InvalidArgumentException(f"lifecycle: on_timeout {action!r} is neither pause nor kill")
    if "auto_resume" in lifecycle:
        options["auto_resume"] = lifecycle["auto_resume"]
    return options


def is_filesystem_only(mode: str | None, keep_memory: bool | None) -> bool:
    """What a pause or a snapshot keeps. ``keep_memory`` is the old way to say it."""
    if mode not in (None, "full", "filesystem"):
        raise InvalidArgumentException(f"mode: {mode!r} is neither 'full' nor 'filesystem'")
    if mode is not None and keep_memory is not None and (mode == "full") != keep_memory:
        raise InvalidArgumentException(f"mode and keep_memory: {mode!r} and {keep_memory} contradict each other")
    return mode == "filesystem" or (mode is None and keep_memory is False)
