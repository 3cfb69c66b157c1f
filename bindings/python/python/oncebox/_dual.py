"""Methods that are called on a sandbox, or on the class with a sandbox's id."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from ._core import Client
from ._core import Sandbox as CoreSandbox
from ._options import ClientFactory, client_for, is_debug, with_options

P = ParamSpec("P")
R = TypeVar("R")


class HasCore(Protocol):
    """A sandbox, as far as it matters here."""

    @property
    def _core(self) -> CoreSandbox: ...
    @property
    def _options(self) -> Mapping[str, Any]: ...


class Target:
    """The sandbox that a call is about."""

    def __init__(self, owner: type[Any], sandbox_id: str, instance: HasCore | None = None) -> None:
        self.owner: type[Any] = owner
        self.id = sandbox_id
        self.instance = instance

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options that a call has."""
        if self.instance is not None:
            return {**self.instance._options, **{k: v for k, v in options.items() if v is not None}}
        return cast("type[ClientFactory]", self.owner)._resolved(options)

    def client(self, options: Mapping[str, Any]) -> Client:
        """The client of a call."""
        return client_for(self.options(options))

    def core(self, options: Mapping[str, Any]) -> CoreSandbox:
        """The sandbox, with the options of a call."""
        if self.instance is not None:
            return with_options(self.instance._core, self.instance._options, options)
        return self.client(options).by_id(self.id)

    def is_debug(self, options: Mapping[str, Any]) -> bool:
        """Whether everything is on this machine, so that there is nothing to ask a control plane for."""
        return is_debug(self.options(options))


class dual(Generic[P, R]):
    """Makes a function of a :class:`Target` a method of both: ``sandbox.f(…)`` and ``Sandbox.f(sandbox_id, …)``."""

    def __init__(self, function: Callable[Concatenate[Target, P], R]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[Concatenate[str, P], R]: ...
    @overload
    def __get__(self, instance: HasCore, owner: type[Any]) -> Callable[P, R]: ...
    def __get__(self, instance: HasCore | None, owner: type[Any]) -> Callable[..., R]:
        function = self._function

        if instance is None:

            @functools.wraps(function)
            def of_class(sandbox_id: str, *args: P.args, **kwargs: P.kwargs) -> R:
                return function(Target(owner, sandbox_id), *args, **kwargs)

            return of_class

        @functools.wraps(function)
        def of_instance(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(Target(owner, instance._core.id, instance), *args, **kwargs)

        return of_instance


class dual_or_all(Generic[P, R]):
    """As :class:`dual`, where the class's method is about all sandboxes unless an id is given."""

    def __init__(self, function: Callable[Concatenate[Target, P], R]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[..., R]: ...
    @overload
    def __get__(self, instance: HasCore, owner: type[Any]) -> Callable[P, R]: ...
    def __get__(self, instance: HasCore | None, owner: type[Any]) -> Callable[..., R]:
        function = self._function

        if instance is None:

            @functools.wraps(function)
            def of_class(sandbox_id: str | None = None, *args: P.args, **kwargs: P.kwargs) -> R:
                return function(Target(owner, sandbox_id or ""), *args, **kwargs)

            return of_class

        @functools.wraps(function)
        def of_instance(*args: P.args, **kwargs: P.kwargs) -> R:
            return function(Target(owner, instance._core.id, instance), *args, **kwargs)

        return of_instance
