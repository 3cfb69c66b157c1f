//! Windows, programs, and the size of the display.

use super::Desktop;
use super::tool::failed;
use crate::error::Error;

impl Desktop<'_> {
    /// The display's width and height, in pixels.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn screen_size(&self) -> Result<(u32, u32), Error> {
        const ACTION: &str = "read the display's size";
        let output = self.tool("xdotool").args(["getdisplaygeometry"]).run(ACTION).await?.stdout_text();
        let mut numbers = output.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(width)), Some(Ok(height))) => Ok((width, height)),
            _ => Err(Error::malformed(ACTION, "xdotool does not tell it")),
        }
    }

    /// The id of the window that has the keyboard.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn current_window_id(&self) -> Result<String, Error> {
        let output = self.tool("xdotool").args(["getwindowfocus"]).run("find the current window").await?;
        Ok(output.stdout_text().trim().to_owned())
    }

    /// The ids of an application's windows that can be seen, by its class, such as "firefox".
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn application_windows(&self, application: &str) -> Result<Vec<String>, Error> {
        const ACTION: &str = "find the application's windows";
        let application = check("application", application)?;
        let args = ["search", "--onlyvisible", "--class", application];
        let output = self.tool("xdotool").args(args).ended(ACTION, None).await?;
        match output.exit_code() {
            0 => Ok(output.stdout_text().lines().map(str::to_owned).collect()),
            // What it ends with, without a word, when there is none.
            1 if output.stderr.is_empty() => Ok(Vec::new()),
            _ => Err(failed(ACTION, "xdotool", output)),
        }
    }

    /// A window's title, by its id.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn window_title(&self, id: &str) -> Result<String, Error> {
        let id = check("id", id)?;
        let output = self.tool("xdotool").args(["getwindowname", id]).run("read the window's title").await?;
        Ok(output.stdout_text().trim_end_matches('\n').to_owned())
    }

    /// Opens a file, or a URL, with the program that is meant for it, and leaves that running.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn open(&self, file_or_url: &str) -> Result<(), Error> {
        self.tool("xdg-open").args([check("file_or_url", file_or_url)?]).leave("open it").await
    }

    /// Starts an application by the name of its desktop entry, such as "google-chrome", and leaves it running.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn launch(&self, application: &str, uri: Option<&str>) -> Result<(), Error> {
        let mut args = vec![check("application", application)?];
        if let Some(uri) = uri {
            args.push(check("uri", uri)?);
        }
        self.tool("gtk-launch").args(args).leave("start the application").await
    }
}

/// An argument that a program takes for no option.
pub(super) fn check<'a>(what: &str, text: &'a str) -> Result<&'a str, Error> {
    if text.is_empty() || text.starts_with('-') || text.contains('\0') {
        return Err(Error::invalid(format!("{what}: {text:?} is empty, begins with a hyphen, or holds NUL")));
    }
    Ok(text)
}
