"""How far a fleet is, and what it came to: what both sides of the package have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import _core
from ._options import client_for
from ._params import ApiParams

T = TypeVar("T")


class FleetParams(ApiParams, total=False):
    """How the sandboxes of a fleet are made, and the options of all calls."""

    template: str | None
    """A template's name, ``name:tag`` or id. Default: that of the class of sandboxes."""
    timeout: int | None
    """How long a sandbox lives at most, in seconds. Default: the server's."""
    metadata: dict[str, str] | None
    """Labels."""
    envs: dict[str, str] | None
    """Environment variables for all commands."""
    allow_internet_access: bool | None
    """Whether they may reach the internet."""
    volume_mounts: Mapping[str, Any] | None
    """Volumes, or their names, by the paths they are mounted at."""


@dataclass(frozen=True)
class FleetProgress:
    """How far a fleet is."""

    total: int
    """Sandboxes in all."""
    waiting: int
    """Not begun."""
    creating: int
    """Being created."""
    running: int
    """At work."""
    done: int
    """Done."""
    failed: int
    """The create or the work failed."""
    unknown: int
    """Nobody knows whether their sandbox was made."""
    rate: float | None
    """Creates a second that the server allows, as far as that is known."""
    elapsed: float
    """Seconds since the fleet began."""
    eta: float | None
    """Seconds that it will take still, at the pace so far; ``None`` before anything has ended."""


@dataclass(frozen=True)
class FleetReport(Generic[T]):
    """What a fleet came to."""

    results: list[T | Exception]
    """What the function returned for each number, or why it did not."""
    created: int
    """Sandboxes whose create was answered."""
    adopted: int
    """Sandboxes whose create's answer was lost, and which were found again."""
    lost: int
    """Sandboxes that had ended before their work had."""
    doubled: int
    """Sandboxes that were made twice, and whose handle was not the one that stayed."""
    unknown: list[str]
    """Intents of creates whose outcome nobody knows: ``Sandbox.resolve`` finds out."""
    left: list[str]
    """Sandboxes that could not be killed and may live on."""
    limited: int
    """How often a create was answered 429."""
    elapsed: float
    """How long it took, in seconds."""
    text: str
    """All of it in a few lines."""

    @property
    def succeeded(self) -> int:
        """Numbers whose work succeeded."""
        return len(self.results) - len(self.failures)

    @property
    def failures(self) -> dict[int, Exception]:
        """The exceptions of those that failed, by their numbers."""
        return {number: result for number, result in enumerate(self.results) if isinstance(result, Exception)}

    def __str__(self) -> str:
        return self.text


class FleetRun(Generic[T]):
    """A fleet under way."""

    def __init__(
        self,
        owner: Any,
        count: int,
        concurrency: int,
        on_progress: Callable[[FleetProgress], object] | None,
        params: FleetParams,
    ) -> None:
        order: dict[str, Any] = {"template": owner.default_template}
        options: dict[str, Any] = dict(owner._resolved(params))
        for name in ("template", "timeout", "metadata", "envs", "allow_internet_access", "volume_mounts"):
            if name in options:
                order[name] = options.pop(name)
        if "volume_mounts" in order:
            order["volume_mounts"] = {path: getattr(of, "name", of) for path, of in order["volume_mounts"].items()}
        self.core: _core.Fleet = client_for(options).fleet(count, concurrency, order)
        self.results: dict[int, Any] = {}
        self._count = count
        self._owner, self._options, self._on_progress = owner, options, on_progress

    def sandbox(self, core: _core.Sandbox) -> Any:
        """A sandbox for the function."""
        return self._owner._of(core, self._options)

    def tell(self, progress: dict[str, Any] | None) -> None:
        """Tells how far it is."""
        if progress is not None and self._on_progress is not None:
            self._on_progress(FleetProgress(**progress))

    def report(self) -> FleetReport[T]:
        """What it came to."""
        told = self.core.report()
        if told is None:
            raise RuntimeError("oncebox: the fleet ended without a report")
        self.results.update(told.pop("failures"))
        return FleetReport([self._result(number) for number in range(self._count)], **told)

    def _result(self, number: int) -> Any:
        if number in self.results:
            return self.results[number]
        # A task that was cancelled from within has neither returned nor raised. Its place is kept: a list without it would
        # give each number after it the result of another.
        return RuntimeError("the function ended without a result: it was cancelled from within")
