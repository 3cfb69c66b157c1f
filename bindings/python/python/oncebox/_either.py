"""A name that is one method on a class, and another one on its instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

OfClass = ParamSpec("OfClass")
OfInstance = ParamSpec("OfInstance")
A = TypeVar("A")
B = TypeVar("B")


class either(Generic[OfClass, A, OfInstance, B]):
    """``Class.name(…)`` calls the first function with the class, ``instance.name(…)`` the second one with the instance."""

    def __init__(
        self,
        of_class: Callable[Concatenate[Any, OfClass], A],
        of_instance: Callable[Concatenate[Any, OfInstance], B],
    ) -> None:
        self._of_class = of_class
        self._of_instance = of_instance
        self.__doc__ = of_instance.__doc__

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Callable[OfClass, A]: ...
    @overload
    def __get__(self, instance: object, owner: type[Any]) -> Callable[OfInstance, B]: ...
    def __get__(self, instance: object | None, owner: type[Any]) -> Callable[..., Any]:
        if instance is None:
            return self._of_class.__get__(owner)  # type: ignore[no-any-return]
        return self._of_instance.__get__(instance, owner)  # type: ignore[no-any-return]
