"""What is known of secrets: what both sides of the package have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import _core
from ._create_types import SandboxIamToken, SandboxIamTokenType
from ._options import ClientFactory
from ._types import moment


@dataclass
class SecretInfo:
    """A secret without its value, which never comes back."""

    secret_id: str
    """Its id."""
    name: str
    """Its name, in lower case."""
    version: int
    """The version in use; the first is 1."""
    metadata: dict[str, str]
    """Its labels."""
    created_at: datetime
    """When it was stored."""
    updated_at: datetime
    """When its latest version was stored."""


class SecretBase(ClientFactory):
    """What stands for secrets in the headers that a sandbox's network adds to requests."""

    @staticmethod
    def fill(secret: str) -> str:
        """What stands for a secret's value there: ``${e2b.secrets.<name>}``.

        :raises InvalidArgumentException: it is no name of a secret
        """
        return _core.placeholder("secret", secret)

    @staticmethod
    def iam_token(*, audience: str, token_type: SandboxIamTokenType) -> SandboxIamToken:
        """An identity token for the option ``iam`` of a sandbox."""
        return {"audience": audience, "token_type": token_type}


def secret_info(told: Mapping[str, Any]) -> SecretInfo:
    """A secret, as the extension module tells of it."""
    return SecretInfo(
        told["secret_id"],
        told["name"],
        told["version"],
        told["metadata"],
        moment(told["created_at"]),
        moment(told["updated_at"]),
    )
