# Written by tools/twin.py from _async/desktop.py: change it there.
"""Sandboxes with a desktop."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Literal, overload

from typing_extensions import Self, Unpack

from .. import _core
from .. import _create_types as t
from .._params import ApiParams
from .._run import run_sync, sleep_sync
from ..exceptions import DesktopStreamException, InvalidArgumentException
from .sandbox import Sandbox as Base

#: A picture's stream comes in pieces of so many bytes.
_PIECE = 65_536


class DesktopStream:
    """The desktop seen from elsewhere: a VNC server, and a page that shows it. Of :attr:`Sandbox.stream`."""

    def __init__(self, desktop: _core.Desktop) -> None:
        self._desktop = desktop
        self._view: _core.DesktopView | None = None
        self._port: int | None = None

    def start(
        self,
        vnc_port: int | None = None,
        port: int | None = None,
        require_auth: bool = False,
        window_id: str | None = None,
    ) -> None:
        """Starts it.

        :param vnc_port: the VNC server's; 5900 by default
        :param port: the page's; 6080 by default
        :param require_auth: nobody is let in without :meth:`get_auth_key`. By default who knows the URL sees the desktop
        :param window_id: of the one window that is shown; by default all are
        :raises DesktopStreamException: it runs already, or its ports are taken
        :raises UnsupportedException: the template has no x11vnc, noVNC or websockify
        """
        options = {"vnc_port": vnc_port, "port": port, "require_auth": require_auth, "window_id": window_id}
        self._view = run_sync(self._desktop.stream(options))
        self._port = port

    def get_auth_key(self) -> str:
        """What the page asks for.

        :raises DesktopStreamException: it asks for nothing, or there is no stream
        """
        key = None if self._view is None else self._view.auth_key
        if key is None:
            raise DesktopStreamException("the stream asks for no key: start it with require_auth=True")
        return key

    def get_url(
        self, auto_connect: bool = True, view_only: bool = False, resize: str = "scale", auth_key: str | None = None
    ) -> str:
        """The URL of the page.

        :param auto_connect: it connects as soon as it is open
        :param view_only: it shows, and takes neither mouse nor keyboard
        :param resize: how it fits the desktop into its window: ``off``, ``scale``, ``remote``
        :param auth_key: put into the URL, so that who has it needs nothing else
        """
        options = {"auto_connect": auto_connect, "view_only": view_only, "resize": resize, "auth_key": auth_key}
        return self._desktop.stream_url({**options, "port": self._port})

    def stop(self) -> None:
        """Ends what :meth:`start` of this object started."""
        view, self._view = self._view, None
        if view is not None:
            run_sync(view.stop())


class Sandbox(Base):
    """A sandbox with a desktop. Each of these calls is a command in it, which is started once.

    :raises UnsupportedException: of each: the template has not the program that it takes
    :raises CommandExitException: of each: the program failed, with its own words
    """

    default_template = "desktop"

    _display: str | None = None
    _stream: DesktopStream | None = None

    @classmethod
    def create(  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        cls,
        template: str | None = None,
        resolution: tuple[int, int] | None = None,
        dpi: int | None = None,
        display: str | None = None,
        timeout: int | None = None,
        metadata: dict[str, str] | None = None,
        envs: dict[str, str] | None = None,
        secure: bool | None = None,
        allow_internet_access: bool | None = None,
        network: t.SandboxNetworkOpts | None = None,
        iam: t.SandboxIamOpts | None = None,
        lifecycle: t.SandboxLifecycle | None = None,
        volume_mounts: Mapping[str, Any] | None = None,
        logger: logging.Logger | None = None,
        *,
        idempotency_key: str | None = None,
        intent: str | None = None,
        **opts: Unpack[ApiParams],
    ) -> Self:
        """Makes a sandbox, once, and starts a display in it, with an Xfce session where the template has one.

        Where that does not succeed, or is given up, the sandbox is killed. The other arguments are those of the base class.

        :param template: ``desktop`` by default
        :param resolution: width and height in pixels; 1024 by 768 by default
        :param dpi: 96 by default
        :param display: ``:0`` by default; all commands have it as ``DISPLAY``
        :raises TimeoutException: the display was not there within 10 s, or the session within 60 s
        """
        width, height = _resolution(resolution)
        display, dpi = display or ":0", 96 if dpi is None else dpi
        _core.check_display(display, width, height, dpi)
        sandbox = super().create(
            template=template,
            timeout=timeout,
            metadata=metadata,
            envs={**(envs or {}), "DISPLAY": display},
            secure=secure,
            allow_internet_access=allow_internet_access,
            network=network,
            iam=iam,
            lifecycle=lifecycle,
            volume_mounts=volume_mounts,
            logger=logger,
            idempotency_key=idempotency_key,
            intent=intent,
            **opts,
        )
        sandbox._display = display
        run_sync(sandbox._desktop.start(width, height, dpi))
        return sandbox

    @property
    def _desktop(self) -> _core.Desktop:
        return self._core.desktop(self._display)

    @property
    def stream(self) -> DesktopStream:
        """The desktop seen from elsewhere."""
        if self._stream is None:
            self._stream = DesktopStream(self._desktop)
        return self._stream

    @overload
    def screenshot(self, format: Literal["stream"]) -> Iterator[bytes]: ...
    @overload
    def screenshot(self, format: Literal["bytes"] = "bytes") -> bytearray: ...
    def screenshot(self, format: Literal["bytes", "stream"] = "bytes") -> bytearray | Iterator[bytes]:
        """A picture of the whole display, with the mouse's pointer where the template has ``scrot``: a PNG file.

        :param format: ``bytes``: as a bytearray; ``stream``: in pieces
        """
        if format not in ("bytes", "stream"):
            raise InvalidArgumentException(f"format: {format!r} is neither 'bytes' nor 'stream'")
        picture = run_sync(self._desktop.screenshot())
        return bytearray(picture) if format == "bytes" else _pieces(picture)

    def left_click(self, x: int | None = None, y: int | None = None) -> None:
        """Clicks the left button, at this point or where the mouse is."""
        run_sync(self._desktop.click("left", x, y))

    def double_click(self, x: int | None = None, y: int | None = None) -> None:
        """Clicks the left button twice, at this point or where the mouse is."""
        run_sync(self._desktop.double_click(x, y))

    def right_click(self, x: int | None = None, y: int | None = None) -> None:
        """Clicks the right button, at this point or where the mouse is."""
        run_sync(self._desktop.click("right", x, y))

    def middle_click(self, x: int | None = None, y: int | None = None) -> None:
        """Clicks the button in the middle, at this point or where the mouse is."""
        run_sync(self._desktop.click("middle", x, y))

    def scroll(self, direction: Literal["up", "down"] = "down", amount: int = 1) -> None:
        """Scrolls by so many notches of the wheel."""
        run_sync(self._desktop.scroll(direction, amount))

    def move_mouse(self, x: int, y: int) -> None:
        """Moves the mouse to this point, in pixels from the left and from above. One outside of the display is its edge."""
        run_sync(self._desktop.move_mouse(x, y))

    def mouse_press(self, button: Literal["left", "right", "middle"] = "left") -> None:
        """Presses a button, and holds it."""
        run_sync(self._desktop.mouse_press(button))

    def mouse_release(self, button: Literal["left", "right", "middle"] = "left") -> None:
        """Lets a button go."""
        run_sync(self._desktop.mouse_release(button))

    def get_cursor_position(self) -> tuple[int, int]:
        """Where the mouse is, in pixels from the left and from above."""
        return run_sync(self._desktop.cursor_position())

    def get_screen_size(self) -> tuple[int, int]:
        """The display's width and height, in pixels."""
        return run_sync(self._desktop.screen_size())

    def write(self, text: str, *, chunk_size: int = 25, delay_in_ms: int = 75) -> None:
        """Types text; a line's end is the key Return. It is in no argument of a command, since it may be a password.

        :param chunk_size: has no effect: text is typed by one command, however long it is
        :param delay_in_ms: so many milliseconds a key
        """
        if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
            raise InvalidArgumentException(f"chunk_size: {chunk_size!r} is no whole number from 1 on")
        run_sync(self._desktop.write(text, delay_in_ms))

    def press(self, key: str | list[str]) -> None:
        """Presses a key, or several at once, and lets them go.

        :param key: ``enter``, ``ctrl``, ``page_up``, ``f5``, … in any case, a letter, or what X calls it, such as ``plus``
        """
        run_sync(self._desktop.press(key))

    def drag(self, fr: tuple[int, int], to: tuple[int, int]) -> None:
        """Drags with the left button, from one point to another."""
        run_sync(self._desktop.drag(fr, to))

    def wait(self, ms: int) -> None:
        """Waits for so many milliseconds. Nothing is sent."""
        if isinstance(ms, bool) or not isinstance(ms, (int, float)) or ms < 0:
            raise InvalidArgumentException(f"ms: {ms!r} is no number from 0 on")
        sleep_sync(ms / 1000)

    def open(self, file_or_url: str) -> None:
        """Opens a file, or a URL, with the program that is meant for it, and leaves that running."""
        run_sync(self._desktop.open(file_or_url))

    def get_current_window_id(self) -> str:
        """The id of the window that has the keyboard."""
        return run_sync(self._desktop.current_window_id())

    def get_application_windows(self, application: str) -> list[str]:
        """The ids of an application's windows that can be seen, by its class, such as ``firefox``. None: an empty list."""
        return run_sync(self._desktop.application_windows(application))

    def get_window_title(self, window_id: str) -> str:
        """A window's title."""
        return run_sync(self._desktop.window_title(window_id))

    def launch(self, application: str, uri: str | None = None) -> None:
        """Starts an application by the name of its desktop entry, such as ``google-chrome``, and leaves it running."""
        run_sync(self._desktop.launch(application, uri))


def _pieces(picture: bytes) -> Iterator[bytes]:
    for at in range(0, len(picture), _PIECE):
        yield picture[at : at + _PIECE]


def _resolution(given: tuple[int, int] | None) -> tuple[int, int]:
    if given is None:
        return 1024, 768
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise InvalidArgumentException(f"resolution: {given!r} is no tuple of width and height")
    return given[0], given[1]
