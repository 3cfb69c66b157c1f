//! Colours and progress: on a terminal, and only there.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

/// A colour of the terminal's own sixteen, so that it suits every theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Good,
    Warning,
    Faint,
}

impl Colour {
    /// Text for standard output, coloured where that is a terminal that wants colours.
    pub(crate) fn paint<'a>(self, text: impl Into<Cow<'a, str>>) -> Painted<'a> {
        let wants = io::stdout().is_terminal() && wants_colour(|name| std::env::var(name).ok());
        Painted { colour: wants.then_some(self), text: text.into() }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warning => "33",
            Self::Faint => "2",
        }
    }
}

/// Text with its colour. A width pads the text and not the codes around it.
#[derive(Debug)]
pub(crate) struct Painted<'a> {
    colour: Option<Colour>,
    text: Cow<'a, str>,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(colour) = self.colour else { return f.pad(&self.text) };
        write!(f, "\u{1b}[{}m", colour.code())?;
        f.pad(&self.text)?;
        f.write_str("\u{1b}[0m")
    }
}

/// Whether lines on standard error may be coloured.
pub(crate) fn colours_errors() -> bool {
    io::stderr().is_terminal() && wants_colour(|name| std::env::var(name).ok())
}

/// <https://no-color.org>: any value that is not empty says no.
fn wants_colour(variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && variable("TERM").is_none_or(|term| term != "dumb")
}

/// A bar of so many things, drawn on standard error where that is a terminal, and nowhere when a program reads the output.
pub(crate) fn bar(count: usize, is_read_by_programs: bool) -> ProgressBar {
    if is_read_by_programs {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(count as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_is_respected() {
        let wants = |name: &'static str, value: &'static str| {
            wants_colour(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(!wants("NO_COLOR", "1") && !wants("TERM", "dumb"));
        assert!(wants("NO_COLOR", "") && wants("TERM", "xterm") && wants("OTHER", "1"));
    }

    #[test]
    fn a_width_counts_letters() {
        let shown = |colour| format!("{:<4}|", Painted { colour, text: "ab".into() });
        assert_eq!(shown(None), "ab  |");
        assert_eq!(shown(Some(Colour::Good)), "\u{1b}[32mab  \u{1b}[0m|");
    }
}
