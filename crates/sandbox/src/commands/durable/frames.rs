//! What the wrapper writes: lines, and outputs with their lengths before them.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

/// The longest line.
const MAX_LINE: usize = 256;

/// One of the two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// Something that the wrapper said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The spool is there, and so many bytes of input are in it.
    Hello {
        input: u64,
    },
    /// A piece of output, as far as it has come.
    Piece(Output, Bytes),
    /// There may be more: ask again.
    More,
    Ended(Status),
    /// Nobody is left who could tell how the command ended.
    Lost,
    /// An output is there from this offset on only.
    From(Output, u64),
    /// It did what it was asked.
    Done,
    /// It waits for the command to read.
    Waits,
    /// Why it does not do what it was asked.
    Refused(String),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// As a shell has it.
    pub(super) code: u8,
    pub(super) left_behind: bool,
    pub(super) reason: Reason,
    /// What the spool holds at most, in bytes.
    pub(super) bound: u64,
}

/// Why it ended, where that was not its own doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Own,
    Timeout,
    Full,
    Disk,
}

/// Reads what comes in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Frames {
    line: Vec<u8>,
    rest: Option<(Output, u64)>,
}

impl Frames {
    /// Takes what came, and appends what that says. Fails on what no wrapper says.
    pub(super) fn push(&mut self, mut bytes: Bytes, said: &mut VecDeque<Said>) -> Result<(), String> {
        while !bytes.is_empty() {
            if let Some((output, rest)) = self.rest {
                let piece = bytes.split_to(usize::try_from(rest).map_or(bytes.len(), |rest| rest.min(bytes.len())));
                let rest = rest - piece.len() as u64;
                self.rest = (rest > 0).then_some((output, rest));
                said.push_back(Said::Piece(output, piece));
                continue;
            }
            let byte = bytes.get_u8();
            if byte != b'\n' {
                self.line.push(byte);
                if self.line.len() > MAX_LINE {
                    return Err(self.shown());
                }
                continue;
            }
            match parse(&self.line) {
                Some(Line::Output(output, length)) => self.rest = (length > 0).then_some((output, length)),
                Some(Line::Said(words)) => said.push_back(words),
                None => return Err(self.shown()),
            }
            self.line.clear();
        }
        Ok(())
    }

    fn shown(&self) -> String {
        format!("the wrapper said {:?}", String::from_utf8_lossy(&self.line))
    }
}

enum Line {
    Output(Output, u64),
    Said(Said),
}

fn parse(line: &[u8]) -> Option<Line> {
    let words: Vec<&str> = std::str::from_utf8(line).ok()?.split(' ').collect();
    Some(match *words.as_slice() {
        [name @ ("o" | "e"), length] => Line::Output(output(name)?, length.parse().ok()?),
        ["h", "1", input] => Line::Said(Said::Hello { input: input.parse().ok()? }),
        ["m"] => Line::Said(Said::More),
        ["l"] => Line::Said(Said::Lost),
        ["f" | "k"] => Line::Said(Said::Done),
        ["w"] => Line::Said(Said::Waits),
        ["g", name, offset] => Line::Said(Said::From(output(name)?, offset.parse().ok()?)),
        ["x", why] => Line::Said(Said::Refused(why.to_owned())),
        ["s", code, _, _, left, reason, bound] => {
            let reason = match reason {
                "-" => Reason::Own,
                "timeout" => Reason::Timeout,
                "full" => Reason::Full,
                "disk" => Reason::Disk,
                _ => return None,
            };
            let status =
                Status { code: code.parse().ok()?, left_behind: left == "1", reason, bound: bound.parse().ok()? };
            Line::Said(Said::Ended(status))
        }
        _ => return None,
    })
}

fn output(name: &str) -> Option<Output> {
    match name {
        "o" => Some(Output::Stdout),
        "e" => Some(Output::Stderr),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said, with pieces of one output joined.
    fn said(pieces: &[&[u8]]) -> Result<Vec<Said>, String> {
        let (mut frames, mut said) = (Frames::default(), VecDeque::new());
        for piece in pieces {
            frames.push(Bytes::copy_from_slice(piece), &mut said)?;
        }
        let mut joined: Vec<Said> = Vec::new();
        for words in said {
            match (joined.last_mut(), words) {
                (Some(Said::Piece(last, bytes)), Said::Piece(output, more)) if *last == output => {
                    *bytes = [&bytes[..], &more[..]].concat().into();
                }
                (_, words) => joined.push(words),
            }
        }
        Ok(joined)
    }

    #[test]
    fn outputs_and_lines_are_told_apart_wherever_they_are_cut() {
        let text = b"h 1 7\no 4\na\nm\ne 2\nl\no 0\ns 137 4 2 1 timeout 99\n";
        let expected = vec![
            Said::Hello { input: 7 },
            Said::Piece(Output::Stdout, Bytes::from_static(b"a\nm\n")),
            Said::Piece(Output::Stderr, Bytes::from_static(b"l\n")),
            Said::Ended(Status { code: 137, left_behind: true, reason: Reason::Timeout, bound: 99 }),
        ];
        // The second line of the error output's piece is "l", and no word of the wrapper's.
        let text = [&text[..20], &text[20..]].concat();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let got = said(&[&text[..first], &text[first..second], &text[second..]]);
                assert_eq!(got.unwrap(), expected, "{first} {second}");
            }
        }
    }

    #[test]
    fn what_no_wrapper_says_is_refused() {
        for text in
            ["hello\n", "o x\n", "h 2 0\n", "s 300 0 0 0 - 1\n", "s 0 0 0 0 why 1\n", "\n", "o 1 \n", "\u{fffd}\n"]
        {
            assert!(said(&[text.as_bytes()]).unwrap_err().contains("the wrapper said"), "{text:?}");
        }
        assert!(said(&[&[b'a'; 1000]]).is_err());
    }
}
