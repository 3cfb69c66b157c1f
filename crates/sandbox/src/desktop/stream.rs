//! The desktop seen from elsewhere: a VNC server, and a page that shows it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use oncebox_protocol::SecretString;

use super::Desktop;
use super::windows::check;
use crate::error::{Error, ErrorKind};
use crate::rpc::query;
use crate::sandbox::Sandbox;

/// The VNC server's port, and that of the page (protocol facts).
const VNC_PORT: u16 = 5900;
const PAGE_PORT: u16 = 6080;

/// Characters of an authentication key. VNC reads eight.
const KEY_LENGTH: usize = 8;
const KEY_CHARACTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Starts both servers, each a session of its own, waits until both listen, and prints their process ids. $1: display, $2:
/// VNC's port, $3: the page's, $4: a window, or nothing; standard input: a key, or an empty line.
const START: &str = r#"IFS= read -r key || exit 1
command -v x11vnc > /dev/null || { echo 'x11vnc is not there' >&2; exit 127; }
for proxy in "$(command -v novnc_proxy)" /opt/noVNC/utils/novnc_proxy /usr/share/novnc/utils/novnc_proxy ''; do
    [ -x "$proxy" ] && break
done
[ -n "$proxy" ] || { echo 'noVNC is not there' >&2; exit 127; }
proxy=$(readlink -f "$proxy"); web=${proxy%/*}/..
# Without it noVNC would look for one on the internet.
[ -d "${proxy%/*}/websockify" ] || command -v websockify > /dev/null || { echo 'websockify is not there' >&2; exit 127; }
open() { (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; }
for port in "$2" "$3"; do
    open "$port" && { echo "port $port is taken: the stream runs already, or something else does" >&2; exit 3; }
done
args=(-display "$1" -forever -wait 50 -shared -rfbport "$2")
[ -z "$4" ] || args+=(-id "$4")
if [ -z "$key" ]; then args+=(-nopw); else
    umask 077; file=$(mktemp) || exit 1
    printf '%s\n' "$key" > "$file"
    args+=(-passwdfile "rm:$file")
fi
setsid x11vnc "${args[@]}" > /dev/null 2>&1 < /dev/null & vnc=$!
pages=(); [ ! -e "$web/vnc.html" ] || pages=(--web "$web")
setsid "$proxy" --vnc "localhost:$2" --listen "$3" "${pages[@]}" > /dev/null 2>&1 < /dev/null & page=$!
for i in $(seq 100); do
    if open "$2" && open "$3"; then echo "$vnc $page"; exit 0; fi
    kill -0 $vnc 2> /dev/null && kill -0 $page 2> /dev/null || break
    sleep 0.1
done
kill -- -$vnc -$page 2> /dev/null
[ -z "$key" ] || rm -f "$file"
echo "the stream's servers did not come up on ports $2 and $3" >&2; exit 4"#;

/// Ends both servers, which are sessions of their own, by their process ids.
const STOP: &str = r#"kill -- "-$1" "-$2" 2> /dev/null; exit 0"#;

impl<'a> Desktop<'a> {
    /// Starts to stream the desktop. Set options on what this returns, and await it.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`]; [`Conflict`](ErrorKind::Conflict) when a stream runs already.
    pub fn stream(&self) -> StartStream<'a> {
        let desktop = Clone::clone(self);
        StartStream { desktop, vnc_port: VNC_PORT, port: PAGE_PORT, require_auth: false, window: None }
    }

    /// The URL of the page that shows the desktop while it is streamed, by whomever. `port`: the page's; `None` is 6080.
    pub fn stream_url(&self, port: Option<u16>) -> DesktopUrl {
        page(self.sandbox, port.unwrap_or(PAGE_PORT))
    }
}

/// Where a stream on this port of the sandbox is seen.
fn page(sandbox: &Sandbox, port: u16) -> DesktopUrl {
    DesktopUrl {
        base: format!("{}/vnc.html", sandbox.page_url(port)),
        auto_connect: true,
        view_only: false,
        resize: "scale".to_owned(),
        key: None,
    }
}

/// A stream about to be started: see [`Desktop::stream`].
#[derive(Clone, Debug)]
#[must_use = "nothing is streamed until this is awaited"]
pub struct StartStream<'a> {
    desktop: Desktop<'a>,
    vnc_port: u16,
    port: u16,
    require_auth: bool,
    window: Option<String>,
}

impl StartStream<'_> {
    /// The VNC server's port inside the sandbox. Default 5900.
    pub fn vnc_port(mut self, port: u16) -> Self {
        self.vnc_port = port;
        self
    }

    /// The page's port. Default 6080.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Lets nobody in without the [key](DesktopStream::auth_key). Default: who knows the URL sees the desktop.
    pub fn require_auth(mut self, require: bool) -> Self {
        self.require_auth = require;
        self
    }

    /// Streams this window alone, by its id.
    pub fn window_id(mut self, id: impl Into<String>) -> Self {
        self.window = Some(id.into());
        self
    }

    async fn send(self) -> Result<DesktopStream, Error> {
        const ACTION: &str = "start the stream";
        let window = self.window.as_deref().map(|id| check("window_id", id)).transpose()?.unwrap_or_default();
        if !window.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Error::invalid(format!("window_id: {window:?} is no window's id")));
        }
        let key = if self.require_auth { Some(new_key()?) } else { None };
        let (vnc, page) = (self.vnc_port.to_string(), self.port.to_string());
        let args = ["-c", START, "stream", &self.desktop.display, &vnc, &page, window];
        let line = format!("{}\n", key.as_ref().map_or("", SecretString::expose));
        let output = self.desktop.tool("/bin/bash").args(args).ended(ACTION, Some(&line)).await?;
        match output.exit_code() {
            0 => {}
            3 => return Err(Error::new(ErrorKind::Conflict, ACTION, output.stderr_text().trim())),
            _ => return Err(super::tool::failed(ACTION, "the stream's server", output)),
        }
        Ok(DesktopStream {
            sandbox: self.desktop.sandbox.clone(),
            user: self.desktop.user.clone(),
            pids: pids(&output.stdout_text()).ok_or_else(|| Error::malformed(ACTION, "no process ids are told"))?,
            port: self.port,
            key,
        })
    }
}

impl<'a> IntoFuture for StartStream<'a> {
    type Output = Result<DesktopStream, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A desktop that is streamed. Dropping it leaves it running.
#[derive(Clone)]
pub struct DesktopStream {
    sandbox: Sandbox,
    user: Option<String>,
    /// Of the VNC server, and of the page's.
    pids: [String; 2],
    port: u16,
    key: Option<SecretString>,
}

impl DesktopStream {
    /// The URL of the page that shows the desktop.
    pub fn url(&self) -> DesktopUrl {
        page(&self.sandbox, self.port)
    }

    /// The key that the page asks for; `None`: it asks for none.
    pub fn auth_key(&self) -> Option<&SecretString> {
        self.key.as_ref()
    }

    /// Ends it.
    ///
    /// # Errors
    ///
    /// As told at [`Desktop`].
    pub async fn stop(&self) -> Result<(), Error> {
        let mut desktop = self.sandbox.desktop();
        desktop.user = self.user.clone();
        let [vnc, page] = &self.pids;
        let args = ["-c", STOP, "stream", vnc, page];
        desktop.tool("/bin/bash").args(args).run("end the stream").await.map(drop)
    }
}

impl fmt::Debug for DesktopStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DesktopStream").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The URL of a page that shows a desktop: options, and [`build`](Self::build).
#[derive(Clone, Debug)]
#[must_use = "build makes the URL"]
pub struct DesktopUrl {
    base: String,
    auto_connect: bool,
    view_only: bool,
    resize: String,
    key: Option<SecretString>,
}

impl DesktopUrl {
    /// Connects as soon as the page is open. Default: yes.
    pub fn auto_connect(mut self, auto: bool) -> Self {
        self.auto_connect = auto;
        self
    }

    /// Shows, and takes neither mouse nor keyboard. Default: no.
    pub fn view_only(mut self, view_only: bool) -> Self {
        self.view_only = view_only;
        self
    }

    /// How the page fits the desktop into its window: "off", "scale" or "remote". Default "scale".
    pub fn resize(mut self, resize: impl Into<String>) -> Self {
        self.resize = resize.into();
        self
    }

    /// Puts the key into the URL: who has the URL then needs nothing else.
    pub fn auth_key(mut self, key: impl Into<SecretString>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The URL.
    pub fn build(&self) -> String {
        let text = |yes: bool| if yes { "true" } else { "false" };
        let mut pairs = vec![("autoconnect", text(self.auto_connect)), ("resize", self.resize.as_str())];
        pairs.extend(self.view_only.then_some(("view_only", "true")));
        pairs.extend(self.key.as_ref().map(|key| ("password", key.expose())));
        format!("{}{}", self.base, query(pairs))
    }
}

fn pids(text: &str) -> Option<[String; 2]> {
    let mut pids = text.split_whitespace().filter_map(|pid| pid.parse().ok()).map(|pid: u32| pid.to_string());
    Some([pids.next()?, pids.next()?])
}

fn new_key() -> Result<SecretString, Error> {
    let mut key = String::new();
    while key.len() < KEY_LENGTH {
        let mut random = [0; KEY_LENGTH];
        getrandom::fill(&mut random).map_err(|error| {
            Error::new(ErrorKind::Unsupported, "make the stream's key", format!("no randomness: {error}"))
        })?;
        // What is above would make some characters likelier than others.
        let fair = random.iter().filter(|byte| **byte < 248);
        key.extend(fair.map(|byte| char::from(KEY_CHARACTERS[usize::from(*byte) % KEY_CHARACTERS.len()])));
    }
    key.truncate(KEY_LENGTH);
    Ok(key.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_long_as_vnc_reads_and_never_the_same() {
        let keys: Vec<_> = (0..100).map(|_| new_key().unwrap()).collect();
        assert!(
            keys.iter().all(|key| key.expose().len() == 8 && key.expose().bytes().all(|b| b.is_ascii_alphanumeric()))
        );
        let different: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(different.len(), 100);
    }
}
