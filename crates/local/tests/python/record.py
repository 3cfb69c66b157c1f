"""Which public methods of an SDK its tests drove: each is replaced by one that calls it and notes that it returned.

A method counts when a test called it itself, not when the SDK did on the way, and when that test passed.
"""

import contextvars
import functools
import inspect

from e2b.sandbox.utils import class_method_variant
from e2b.volume.utils import DualMethod

_inside = contextvars.ContextVar("inside a method of the SDK", default=False)


class Recorder:
    def __init__(self):
        self.methods = {}
        self.passed = set()
        self._called = set()

    def watch(self, sdk, name, cls, inherited=True):
        """Watches the public methods of a class under a name."""
        for attribute in dir(cls) if inherited else list(vars(cls)):
            if attribute.startswith("_"):
                continue
            defined = inspect.getattr_static(cls, attribute)
            key = (sdk, f"{name}.{attribute}")
            if isinstance(defined, staticmethod):
                replaced = staticmethod(self._noting(key, defined.__func__))
            elif isinstance(defined, classmethod):
                replaced = classmethod(self._noting(key, defined.__func__))
            elif isinstance(defined, (class_method_variant, DualMethod)):
                replaced = _Variant(functools.partial(self._noting, key), defined)
            elif inspect.isfunction(defined):
                replaced = self._noting(key, defined)
            else:
                continue
            self.methods.setdefault(key[0], []).append(key[1])
            setattr(cls, attribute, replaced)

    def begin(self):
        self._called.clear()

    def end(self, passed):
        if passed:
            self.passed |= self._called

    def _noting(self, key, function):
        @functools.wraps(function)
        def noting(*args, **kwargs):
            if _inside.get():
                return function(*args, **kwargs)
            entered = _inside.set(True)
            try:
                result = function(*args, **kwargs)
            finally:
                _inside.reset(entered)
            if inspect.iscoroutine(result):
                return self._awaited(key, result)
            self._called.add(key)
            return result

        return noting

    async def _awaited(self, key, coroutine):
        entered = _inside.set(True)
        try:
            result = await coroutine
        finally:
            _inside.reset(entered)
        self._called.add(key)
        return result


class _Variant:
    """A method that is called on the class as well as on an instance."""

    def __init__(self, noting, defined):
        self._noting = noting
        self._defined = defined

    def __get__(self, instance, owner=None):
        return self._noting(self._defined.__get__(instance, owner))
