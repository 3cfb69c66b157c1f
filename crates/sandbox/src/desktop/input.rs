//! Mouse and keyboard.

use std::time::Duration;

use super::Desktop;
use super::tool::failed;
use crate::error::Error;

/// How long keys are apart when text is typed (protocol fact: what the official SDK waits).
const TYPING_DELAY: Duration = Duration::from_millis(75);

/// What typing may take besides.
const TYPING_SLACK: Duration = Duration::from_secs(60);

/// More than that between keys is a mistake; `xdotool` counts no longer than 71 minutes.
const LONGEST_DELAY: Duration = Duration::from_secs(60 * 60);

/// Types standard input, in no argument of any program; $1: milliseconds between keys. `xdotool` types what its locale knows,
/// and a line's end as a key that no keyboard has.
const TYPE: &str = r#"export LC_ALL=C.UTF-8
while ended=; IFS= read -r line && ended=1 || [ -n "$line" ]; do
    [ -z "$line" ] || printf '%s' "$line" | xdotool type --delay "$1" --file - || exit
    [ -z "$ended" ] || xdotool key Return || exit
done"#;

/// What `xdotool` writes, and nothing else, about a key that it does not know.
const NO_SUCH_KEY: &str = "No such key name";

/// A button of the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseButton {
    /// The left one.
    Left,
    /// The one in the middle.
    Middle,
    /// The right one.
    Right,
}

/// Where to scroll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrollDirection {
    /// Towards the beginning.
    Up,
    /// Towards the end.
    Down,
}

impl Desktop<'_> {
    /// Moves the mouse to this point, in pixels from the left and from above. One that is outside of the display is its edge.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn move_mouse(&self, x: u32, y: u32) -> Result<(), Error> {
        // Asking where it is waits until the display has moved it. `--sync` would wait for ever where it is there already.
        self.xdotool("move the mouse", ["mousemove", &x.to_string(), &y.to_string(), "getmouselocation"]).await
    }

    /// Clicks, at this point or where the mouse is.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn click(&self, button: MouseButton, at: Option<(u32, u32)>) -> Result<(), Error> {
        self.clicks("click", button, at, 1).await
    }

    /// Clicks the left button twice, at this point or where the mouse is.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn double_click(&self, at: Option<(u32, u32)>) -> Result<(), Error> {
        self.clicks("click twice", MouseButton::Left, at, 2).await
    }

    /// Presses a button, and holds it.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn mouse_press(&self, button: MouseButton) -> Result<(), Error> {
        self.xdotool("press the mouse's button", ["mousedown", button.number()]).await
    }

    /// Lets a button go.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn mouse_release(&self, button: MouseButton) -> Result<(), Error> {
        self.xdotool("let the mouse's button go", ["mouseup", button.number()]).await
    }

    /// Drags with the left button, from one point to another.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn drag(&self, from: (u32, u32), to: (u32, u32)) -> Result<(), Error> {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(|number| number.to_string());
        let from = ["mousemove", &x1, &y1, "mousedown", "1"];
        let to = ["mousemove", &x2, &y2, "mouseup", "1"];
        self.xdotool("drag", from.into_iter().chain(to)).await
    }

    /// Scrolls by so many notches of the wheel.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`]; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for 0.
    pub async fn scroll(&self, direction: ScrollDirection, amount: u32) -> Result<(), Error> {
        if amount == 0 {
            return Err(Error::invalid("amount: 0 would scroll nowhere"));
        }
        let wheel = match direction {
            ScrollDirection::Up => "4",
            ScrollDirection::Down => "5",
        };
        self.xdotool("scroll", ["click", "--repeat", &amount.to_string(), wheel]).await
    }

    /// Types text, 75 ms a key; a line's end is the key Return. It is in no argument of a command, since it may be a password.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn write(&self, text: &str) -> Result<(), Error> {
        self.write_with_delay(text, TYPING_DELAY).await
    }

    /// As [`write`](Self::write), with so much time between keys, in whole milliseconds, at most an hour.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`]; [`InvalidArgument`](crate::ErrorKind::InvalidArgument) for a longer time.
    pub async fn write_with_delay(&self, text: &str, delay: Duration) -> Result<(), Error> {
        if text.contains('\0') {
            return Err(Error::invalid("the text holds a NUL character, for which there is no key"));
        }
        if delay > LONGEST_DELAY {
            return Err(Error::invalid(format!("delay: {delay:?} between keys; at most {LONGEST_DELAY:?}")));
        }
        let keys = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        // Each key is pressed and let go, and sending both takes time too.
        let limit = TYPING_SLACK.saturating_add((delay * 2 + TYPING_DELAY).saturating_mul(keys));
        let delay = delay.as_millis().to_string();
        let typed = self.tool("/bin/bash").args(["-c", TYPE, "type", &delay]).timeout(limit);
        typed.run_with_input("type the text", &text.replace("\r\n", "\n")).await.map(drop)
    }

    /// Presses keys at once, such as `["ctrl", "c"]`, and lets them go. They are called as X calls them ("Return",
    /// "ISO_Level3_Shift"), or by names in any case, with or without underscores: "enter", "esc", "ctrl", "alt", "shift", "super",
    /// "space", "tab", "backspace", "delete", "up", "down", "left", "right", "home", "end", "page_up", "page_down", "insert",
    /// "caps_lock", "num_lock", "scroll_lock", "print", "pause", "menu", "f1" to "f24", also "ctrl_right" and its kin. A letter is
    /// the key that bears it, whatever its case: "shift" is a key of its own.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`], also where the display knows no such key; [`InvalidArgument`](crate::ErrorKind::InvalidArgument)
    /// for none, or for what cannot be a key's name.
    pub async fn press(&self, keys: &[&str]) -> Result<(), Error> {
        const ACTION: &str = "press the keys";
        if keys.is_empty() {
            return Err(Error::invalid("keys: none is given"));
        }
        let names = keys.iter().map(|key| key_name(key)).collect::<Result<Vec<String>, _>>()?;
        let output = self.tool("xdotool").args(["key", "--", &names.join("+")]).run(ACTION).await?;
        if output.stderr_text().contains(NO_SUCH_KEY) {
            return Err(failed(ACTION, "xdotool", output));
        }
        Ok(())
    }

    /// Where the mouse is, in pixels from the left and from above.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn cursor_position(&self) -> Result<(u32, u32), Error> {
        const ACTION: &str = "find the mouse";
        let output = self.tool("xdotool").args(["getmouselocation", "--shell"]).run(ACTION).await?.stdout_text();
        let of = |name| output.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        match (of("X="), of("Y=")) {
            (Some(x), Some(y)) => Ok((x, y)),
            _ => Err(Error::malformed(ACTION, "xdotool does not say where it is")),
        }
    }

    async fn clicks(&self, action: &str, button: MouseButton, at: Option<(u32, u32)>, times: u32) -> Result<(), Error> {
        let at = at.map(|(x, y)| ["mousemove".to_owned(), x.to_string(), y.to_string()]);
        let click = ["click", "--repeat", &times.to_string(), button.number()].map(str::to_owned);
        self.xdotool(action, at.into_iter().flatten().chain(click)).await
    }

    pub(super) async fn xdotool<S: Into<String>>(
        &self,
        action: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Result<(), Error> {
        self.tool("xdotool").args(args).run(action).await.map(drop)
    }
}

impl MouseButton {
    fn number(self) -> &'static str {
        match self {
            Self::Left => "1",
            Self::Middle => "2",
            Self::Right => "3",
        }
    }
}

/// A key as X calls it.
fn key_name(key: &str) -> Result<String, Error> {
    let plain = key.to_ascii_lowercase().replace('_', "");
    let named = match plain.as_str() {
        "enter" | "return" => "Return",
        "esc" | "escape" => "Escape",
        "ctrl" | "control" | "ctrlleft" | "controlleft" => "Control_L",
        "ctrlright" | "controlright" => "Control_R",
        "alt" | "altleft" => "Alt_L",
        "altright" => "Alt_R",
        "shift" | "shiftleft" => "Shift_L",
        "shiftright" => "Shift_R",
        "super" | "superleft" | "win" | "windows" | "cmd" | "command" => "Super_L",
        "superright" => "Super_R",
        "meta" => "Meta_L",
        "space" => "space",
        "tab" => "Tab",
        "backspace" => "BackSpace",
        "delete" | "del" => "Delete",
        "insert" => "Insert",
        "up" => "Up",
        "down" => "Down",
        "left" => "Left",
        "right" => "Right",
        "home" => "Home",
        "end" => "End",
        "pageup" => "Page_Up",
        "pagedown" => "Page_Down",
        "capslock" => "Caps_Lock",
        "numlock" => "Num_Lock",
        "scrolllock" => "Scroll_Lock",
        "print" => "Print",
        "pause" | "break" => "Pause",
        "menu" => "Menu",
        _ => "",
    };
    let is_function_key = || plain.strip_prefix('f').is_some_and(|number| number.parse::<u8>().is_ok());
    if !named.is_empty() {
        Ok(named.to_owned())
    } else if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        Err(Error::invalid(format!(
            "keys: {key:?} is no key's name, which has letters, digits and _ alone, such as \"plus\""
        )))
    } else if key.len() == 1 {
        Ok(key.to_ascii_lowercase())
    } else if is_function_key() {
        Ok(key.to_ascii_uppercase())
    } else {
        Ok(key.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_short_names() {
        assert_eq!(
            ["Enter", "ctrl", "F5", "f11", "a", "C", "_", "ISO_Level3_Shift", "Page_Up", "alt_right", "udiaeresis"]
                .map(|key| key_name(key).unwrap()),
            ["Return", "Control_L", "F5", "F11", "a", "c", "_", "ISO_Level3_Shift", "Page_Up", "Alt_R", "udiaeresis"]
        );
        for bad in ["", "a b", "ctrl+c", "--window"] {
            assert!(key_name(bad).is_err(), "{bad}");
        }
    }
}
