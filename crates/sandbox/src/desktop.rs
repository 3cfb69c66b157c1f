//! The desktop of a sandbox: mouse, keyboard, pictures, windows, and its stream, over commands.

mod input;
mod stream;
mod tool;
mod windows;

pub use input::{MouseButton, ScrollDirection};
pub use stream::{DesktopStream, DesktopUrl, StartStream};

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::sandbox::Sandbox;
use tool::Tool;

/// The display that there is by default.
const DISPLAY: &str = ":0";

/// What starting one is called.
const START: &str = "start the desktop";

/// How often a display that starts is looked for, and how far apart.
const LOOKS: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// How long a desktop session may take until all of it runs (protocol fact: what the official SDK waits).
const SESSION: Duration = Duration::from_secs(60);

/// Waits until those parts of Xfce run that are installed; $1: seconds. Where nothing lists processes, it cannot be told.
const SESSION_UP: &str = r#"command -v pgrep > /dev/null || exit 0
end=$((SECONDS + $1))
for part in xfce4-session xfwm4 xfdesktop; do
    command -v "$part" > /dev/null || continue
    until pgrep -x "$part" > /dev/null; do
        [ $SECONDS -lt $end ] || { echo "$part does not run" >&2; exit 1; }
        sleep 0.2
    done
done"#;

/// Takes a picture of the whole display, as PNG on standard output.
const SCREENSHOT: &str = r#"f=$(mktemp -d) || exit 1
trap 'rm -rf "$f"' EXIT
if command -v scrot > /dev/null; then scrot --pointer "$f/s.png" >&2
elif command -v import > /dev/null; then import -window root "png:$f/s.png" >&2
else echo 'neither scrot nor import is there' >&2; exit 127; fi && cat "$f/s.png""#;

/// A sandbox's desktop: see [`Sandbox::desktop`]. The sandbox's template must have its programs, as E2B's `desktop` has:
/// `xdotool`, `scrot` or `import`, and for the stream `x11vnc` and noVNC.
///
/// ```no_run
/// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
/// use oncebox::{MouseButton, Sandbox};
///
/// let sandbox = Sandbox::create(&client).template("desktop").await?;
/// let desktop = sandbox.desktop();
/// desktop.start(1024, 768, 96).await?;
/// desktop.click(MouseButton::Left, Some((100, 200))).await?;
/// desktop.write("hello").await?;
/// desktop.press(&["ctrl", "s"]).await?;
/// std::fs::write("desktop.png", desktop.screenshot().await?).ok();
/// # Ok(()) }
/// ```
///
/// Each call is a command, which is started once. Errors: [`Unsupported`](ErrorKind::Unsupported) where the program is not
/// there, [`CommandFailed`](ErrorKind::CommandFailed) with its own words where it fails; and those of
/// [`Commands::run`](crate::Commands::run).
#[derive(Clone, Debug)]
pub struct Desktop<'a> {
    sandbox: &'a Sandbox,
    display: String,
    user: Option<String>,
}

impl Sandbox {
    /// The sandbox's desktop.
    pub fn desktop(&self) -> Desktop<'_> {
        Desktop { sandbox: self, display: DISPLAY.to_owned(), user: None }
    }
}

impl Desktop<'_> {
    /// The X display that is meant. Default ":0".
    #[must_use]
    pub fn display(mut self, display: impl Into<String>) -> Self {
        self.display = display.into();
        self
    }

    /// Whom its commands run as. Default: the sandbox's default user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// Starts a display of this size, in pixels and dots per inch, and on it an Xfce session where the template has one, until
    /// all of it runs. `false`: the display was there.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`]; [`Timeout`](ErrorKind::Timeout) when the display is not there within 10 s, or the session within
    /// 60 s.
    pub async fn start(&self, width: u32, height: u32, dpi: u32) -> Result<bool, Error> {
        if width == 0 || height == 0 || dpi == 0 {
            return Err(Error::invalid(format!("the display's size: {width}x{height} at {dpi} dpi is none")));
        }
        if self.is_up().await? {
            return Ok(false);
        }
        let (screen, dpi) = (format!("{width}x{height}x24"), dpi.to_string());
        let args = [&*self.display, "-ac", "-screen", "0", &screen, "-retro", "-dpi", &dpi, "-nolisten", "tcp"];
        // A display begins anew when its last program ends, such as one that moves the mouse, and cuts those that begin just then.
        self.tool("Xvfb").args(args.into_iter().chain(["-noreset"])).leave(START).await?;
        for _ in 0..LOOKS {
            tokio::time::sleep(BETWEEN_LOOKS).await;
            if self.is_up().await.map_err(Error::partly)? {
                return self.start_session().await.map(|()| true).map_err(Error::partly);
            }
        }
        let message = format!("display {} did not come up within {:?}", self.display, BETWEEN_LOOKS * LOOKS);
        Err(Error::new(ErrorKind::Timeout, START, message).begun())
    }

    async fn start_session(&self) -> Result<(), Error> {
        match self.tool("startxfce4").leave(START).await {
            Ok(()) => {}
            // A display without a desktop is one all the same.
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            Err(error) => return Err(error),
        }
        let args = ["-c", SESSION_UP, "session", &SESSION.as_secs().to_string()];
        let looked = self.tool("/bin/bash").args(args).timeout(SESSION * 2).ended(START, None).await?;
        if looked.success() {
            return Ok(());
        }
        let message = format!("the session did not come up within {SESSION:?}: {}", looked.stderr_text().trim());
        Err(Error::new(ErrorKind::Timeout, START, message))
    }

    async fn is_up(&self) -> Result<bool, Error> {
        match self.screen_size().await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::CommandFailed => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A picture of the whole display, with the mouse's pointer where the template has `scrot`: a PNG file's bytes.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn screenshot(&self) -> Result<Vec<u8>, Error> {
        const ACTION: &str = "take a screenshot";
        let output = self.tool("/bin/bash").args(["-c", SCREENSHOT]).run(ACTION).await?;
        if !output.stdout.starts_with(b"\x89PNG") {
            return Err(Error::malformed(ACTION, "it is no PNG picture"));
        }
        Ok(output.stdout)
    }

    fn tool(&self, program: &str) -> Tool<'_> {
        Tool::new(self, program)
    }
}
