//! A download that goes on after a cut.
//!
//! A file may change between the cut and the request for the rest. It is the same one where a strong entity tag says so
//! (RFC 9110 §8.8.3), or where size and time of the last change are the same before and after and that time was old enough
//! when the first part came (§8.8.2.2). Anything less is not resumed: the bytes could be of two files.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use oncebox_protocol::operations;
use oncebox_transport::{Body, ResponseBody};

use super::Files;
use crate::error::{Error, ErrorKind};
use crate::rpc::{header, query};
use crate::sandbox::Sandbox;

const ACTION: &str = "read the file";

/// Resumes in a row without a byte.
pub(super) const RESUMES: u32 = 5;

/// The first wait between two resumes without a byte; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// How much older than the answer's `Date` a time of the last change has to be, to be a strong validator: clocks of
/// servers differ, and times have whole seconds (RFC 9110 §8.8.2.2; 60 s is what RFC 7232 names).
const OLD_ENOUGH: Duration = Duration::from_secs(60);

/// A file that is being read.
pub(super) struct Download {
    file: Source,
    body: Option<ResponseBody>,
    /// In bytes.
    size: Option<u64>,
    same: Same,
    offset: u64,
    /// Resumes since the last byte.
    in_vain: u32,
    resumed: bool,
    /// How it was cut last.
    cut: String,
}

/// Which file it is.
struct Source {
    sandbox: Sandbox,
    user: Option<String>,
    path: String,
}

/// How it is told that a file is still the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Same {
    /// A strong entity tag.
    Tag(HeaderValue),
    /// A time of the last change that was old enough.
    Time(HeaderValue),
    /// It cannot be: why.
    Unknown(&'static str),
}

impl Download {
    pub(super) async fn open(files: &Files<'_>, path: &str) -> Result<Self, Error> {
        let file =
            Source { sandbox: files.sandbox.gathering(), user: files.user.map(str::to_owned), path: path.to_owned() };
        let mut download = Self {
            file,
            body: None,
            size: None,
            same: Same::Unknown("nothing of it had come"),
            offset: 0,
            in_vain: 0,
            resumed: false,
            cut: String::new(),
        };
        let response = download.file.get(HeaderMap::new()).await?;
        let headers = response.headers();
        // What is packed although that was not asked for has neither a length nor parts that could be told.
        if headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
            return Err(Error::malformed(ACTION, "it is encoded, although that was not asked for"));
        }
        download.size = number(headers, &CONTENT_LENGTH);
        download.same = Same::of(headers);
        download.body = Some(response.into_body());
        Ok(download)
    }

    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next piece; `None` at the end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        let piece = self.next_piece().await;
        piece.map_err(|error| self.file.sandbox.tell(error))
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let Some(body) = &mut self.body else {
                self.resume().await?;
                continue;
            };
            let how = match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.is_empty() {
                        continue;
                    }
                    self.offset += data.len() as u64;
                    if let Some(size) = self.size.filter(|size| self.offset > *size) {
                        return Err(Error::malformed(
                            ACTION,
                            format!("it has more than the {size} bytes it was to have"),
                        ));
                    }
                    self.in_vain = 0;
                    return Ok(Some(data));
                }
                Some(Err(error)) => error.to_string(),
                None if self.size.is_none_or(|size| self.offset == size) => return self.end().await,
                None => "the stream ended too early".to_owned(),
            };
            self.body = None;
            // All that was announced is here: what was cut is the end alone.
            if self.size == Some(self.offset) {
                return self.end().await;
            }
            let of = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
            self.cut = format!("{how}, after {}{of} bytes", self.offset);
        }
    }

    /// What was told by times has to be so at the end, too: what changed while its last part was read had the old time when
    /// that part began.
    async fn end(&mut self) -> Result<Option<Bytes>, Error> {
        let Same::Time(time) = &self.same else { return Ok(None) };
        if !self.resumed || self.offset == 0 {
            return Ok(None);
        }
        let time = time.clone();
        let answer = self.file.get(header(RANGE, "bytes=0-0")?).await?;
        let total = content_range(answer.headers()).and_then(|(_, total)| total);
        if answer.headers().get(LAST_MODIFIED) != Some(&time) || total != Some(self.offset) {
            return Err(self.cannot("it changed while it was read"));
        }
        self.resumed = false;
        Ok(None)
    }

    /// Asks for what is left.
    async fn resume(&mut self) -> Result<(), Error> {
        let validator = match &self.same {
            Same::Tag(validator) | Same::Time(validator) => validator.clone(),
            Same::Unknown(why) => return Err(self.cannot(why)),
        };
        if self.in_vain == RESUMES {
            let message = format!("{}; resumed {RESUMES} times in a row without a byte", self.cut);
            let lost = Error::new(ErrorKind::ConnectionLost, ACTION, message);
            return Err(self.file.sandbox.after_loss(lost).await);
        }
        if self.in_vain > 0 {
            let wait = FIRST_WAIT * 2_u32.pow(self.in_vain - 1);
            tokio::time::sleep(wait.mul_f64(0.5 + self.file.sandbox.client().transport().draw() / 2.0)).await;
        }
        self.in_vain += 1;
        self.resumed = true;
        tracing::debug!(path = self.file.path, offset = self.offset, cut = self.cut, "a download is resumed");
        let mut headers = header(RANGE, &format!("bytes={}-", self.offset))?;
        headers.insert(IF_RANGE, validator);
        match self.file.get(headers).await {
            Ok(answer) if answer.status() == StatusCode::PARTIAL_CONTENT => self.go_on(answer),
            Ok(_) => Err(self.cannot("it changed, so that the server gave all of it instead of what was left")),
            Err(error) if matches!(error.status(), Some(412 | 416)) => {
                Err(self.cannot(&format!("it changed: the server answered {}", error.status().unwrap_or_default())))
            }
            Err(error) if is_final(&error) => Err(error),
            Err(error) => {
                self.cut = error.message().to_owned();
                Ok(())
            }
        }
    }

    fn go_on(&mut self, answer: Response<ResponseBody>) -> Result<(), Error> {
        let headers = answer.headers();
        let Some((first, total)) = content_range(headers) else {
            return Err(Error::malformed(ACTION, "a part of the file does not say which one it is"));
        };
        if first != self.offset {
            let message = format!("the part from byte {} was asked for, and the one from {first} came", self.offset);
            return Err(Error::malformed(ACTION, message));
        }
        let same = match &self.same {
            // A part that names no tag is of the one that was asked for (RFC 9110 §14.4 wants it named).
            Same::Tag(tag) => headers.get(ETAG).is_none_or(|now| now == tag),
            Same::Time(time) => headers.get(LAST_MODIFIED) == Some(time),
            Same::Unknown(_) => false,
        };
        if !same || (self.size.is_some() && total.is_some() && self.size != total) {
            return Err(self.cannot("it changed"));
        }
        self.size = self.size.or(total);
        self.body = Some(answer.into_body());
        Ok(())
    }

    fn cannot(&self, why: &str) -> Error {
        let message = match self.cut.as_str() {
            "" => why.to_owned(),
            cut => format!("{cut}, and what is left could not be asked for: {why}"),
        };
        Error::new(ErrorKind::CannotResume, ACTION, message)
    }
}

impl Source {
    async fn get(&self, mut headers: HeaderMap) -> Result<Response<ResponseBody>, Error> {
        headers.extend(header(ACCEPT_ENCODING, "identity")?);
        let user = self.user.as_deref().map(|user| ("username", user));
        let query = query([("path", self.path.as_str())].into_iter().chain(user));
        self.sandbox.envd().send(ACTION, &operations::READ_FILE, &query, headers, Body::empty()).await
    }
}

impl Same {
    fn of(headers: &HeaderMap) -> Self {
        match headers.get(ETAG) {
            Some(tag) if tag.as_bytes().starts_with(b"\"") => return Self::Tag(tag.clone()),
            _ => {}
        }
        let date = |name| crate::once::http_date(headers.get(name)?);
        match (date(LAST_MODIFIED), date(DATE), headers.get(LAST_MODIFIED)) {
            (Some(modified), Some(now), Some(time)) if now.saturating_sub(modified) >= OLD_ENOUGH => {
                Self::Time(time.clone())
            }
            (Some(_), Some(_), _) => {
                Self::Unknown("it had changed within a minute before, and has no strong entity tag")
            }
            _ => Self::Unknown("the server gave neither a strong entity tag nor times to tell whether it changed"),
        }
    }
}

/// Which no further request would change.
fn is_final(error: &Error) -> bool {
    use ErrorKind as Kind;
    let kinds =
        [Kind::SandboxNotRunning, Kind::NotFound, Kind::Authentication, Kind::InvalidArgument, Kind::Superseded];
    kinds.contains(&error.kind())
}

fn number(headers: &HeaderMap, name: &http::HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// The first byte, and the size of the whole where it is told.
fn content_range(headers: &HeaderMap) -> Option<(u64, Option<u64>)> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?.trim().strip_prefix("bytes ")?;
    let (range, total) = range.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, total.trim().parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(http::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_what_is_strong_tells_that_a_file_is_the_same() {
        let (old, now) = ("Tue, 15 Nov 1994 08:12:31 GMT", "Tue, 15 Nov 1994 08:13:31 GMT");
        let young = "Tue, 15 Nov 1994 08:13:30 GMT";
        assert_eq!(Same::of(&headers(&[(ETAG, "\"a\"")])), Same::Tag("\"a\"".parse().unwrap()));
        let weak = [(ETAG, "W/\"a\""), (LAST_MODIFIED, old), (DATE, now)];
        assert_eq!(Same::of(&headers(&weak)), Same::Time(old.parse().unwrap()));
        for unknown in [
            &[(ETAG, "W/\"a\"")][..],
            &[(LAST_MODIFIED, old)],
            &[(LAST_MODIFIED, young), (DATE, now)],
            &[(LAST_MODIFIED, "yesterday"), (DATE, now)],
            &[],
        ] {
            assert!(matches!(Same::of(&headers(unknown)), Same::Unknown(_)), "{unknown:?}");
        }
    }

    #[test]
    fn a_range_says_where_it_begins_and_perhaps_of_how_much() {
        let range = |text| content_range(&headers(&[(CONTENT_RANGE, text)]));
        assert_eq!(range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((5, None)));
        for wrong in ["bytes */10", "items 1-2/3", "bytes 1/2"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }
}
