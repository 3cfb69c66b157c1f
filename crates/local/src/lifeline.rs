//! The socket that ties a sandbox to its server.
//!
//! The server makes a pair of stream sockets and gives one end to the helper as its standard input. Over it go, in this
//! order: the [`Setup`] (server to helper), one [`Report`] line (helper to server), then one four-byte message with a
//! descriptor for each connection the server opens into the sandbox. When the server ends, however it ends, the helper
//! reads the end of the stream and ends too; when the last process of the sandbox is gone, the server reads it.
//!
//! Handing over descriptors means that no socket has a path: there is no name to guard, to hide from the sandbox, or to
//! outgrow the 108 bytes a socket's path may have.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use oncebox_protocol::SecretString;
use oncebox_protocol::api::EnvVars;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::limits::{Inside, Limits};

/// The port of envd itself; connections for other ports are for programs in the sandbox.
pub(crate) const ENVD_PORT: u16 = 49983;

/// The first byte on a connection to a port of the sandbox's programs: whether one listens there. Connections to envd have
/// none.
pub(crate) const PORT_IS_OPEN: u8 = 1;
pub(crate) const PORT_IS_CLOSED: u8 = 0;

/// What a helper is told before it becomes a sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The sandbox's id.
    pub(crate) sandbox_id: String,
    /// The template it was made from.
    pub(crate) template_id: String,
    /// What `X-Access-Token` must say.
    pub(crate) access_token: SecretString,
    /// The environment its commands get.
    pub(crate) env: EnvVars,
    /// The sandbox's directory: its root when isolated, its home when not.
    pub(crate) directory: PathBuf,
    /// The volumes it shows.
    pub(crate) mounts: Vec<Mount>,
    /// Who commands run as and where, unless a request says.
    pub(crate) defaults: Defaults,
    /// Whether it reaches the network beyond this machine from a network of its own.
    pub(crate) egress: bool,
}

/// What a template says of the commands in its sandboxes: its steps `ENV`, `WORKDIR` and `USER`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Defaults {
    /// Variables, where the sandbox has none of that name.
    pub(crate) env: EnvVars,
    /// Where commands run, and what an empty path stands for; the user's home without it.
    pub(crate) workdir: Option<String>,
    /// The user of requests that name none.
    pub(crate) user: Option<String>,
}

/// A folder outside that a sandbox shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    /// Where it lies on the machine.
    pub(crate) source: PathBuf,
    /// Where the sandbox has it: an absolute path without `..`.
    pub(crate) target: String,
}

/// What all sandboxes of a server have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Options {
    /// The Python of the code interpreter, if not the system's.
    pub(crate) interpreter: Option<PathBuf>,
    /// Folders of the machine that isolated sandboxes show, read-only.
    pub(crate) shown: Vec<PathBuf>,
    /// What each sandbox may use.
    pub(crate) limits: Limits,
    /// By what the limits are kept.
    pub(crate) kept: Inside,
}

/// Setups above this are refused: nothing legitimate is near it.
const MAX_SETUP: usize = 4 << 20;

impl Setup {
    /// The bytes of a setup with the server's options: a length, then JSON.
    pub(crate) fn to_bytes(&self, options: &Options) -> io::Result<Vec<u8>> {
        let json = serde_json::to_vec(&(self, options))?;
        let length = u32::try_from(json.len()).ok().filter(|_| json.len() <= MAX_SETUP);
        let length = length.ok_or_else(|| io::Error::other(format!("the setup is larger than {MAX_SETUP} bytes")))?;
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend(json);
        Ok(bytes)
    }

    /// Reads a setup from a socket in blocking mode.
    pub(crate) fn read(mut socket: &std::os::unix::net::UnixStream) -> io::Result<(Self, Options)> {
        let mut length = [0; 4];
        socket.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_SETUP {
            return Err(io::Error::other(format!("a setup of {length} bytes; the limit is {MAX_SETUP}")));
        }
        let mut json = vec![0; length];
        socket.read_exact(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}

/// How the start of a sandbox went.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It serves.
    Ready,
    /// The kernel did not allow the isolation asked for.
    NotAllowed(String),
    /// Something else failed.
    Failed(String),
}

/// A report is one short line.
pub(crate) const MAX_REPORT: usize = 4096;

impl Report {
    /// Writes the report as a line.
    pub(crate) fn write(&self, mut socket: impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        socket.write_all(&line)
    }
}

/// Opens a connection into the sandbox behind `lifeline`.
pub(crate) async fn open(lifeline: &UnixStream, port: u16) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = theirs.into_std()?;
    let [high, low] = port.to_be_bytes();
    let message = [high, low, 0, 0];
    lifeline
        .async_io(Interest::WRITABLE, || {
            let descriptors = [theirs.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            // Four bytes are one packet of the socket: never sent in part.
            let sent = rustix::net::sendmsg(lifeline, &[IoSlice::new(&message)], &mut control, SendFlags::NOSIGNAL)?;
            if sent == message.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        })
        .await?;
    Ok(ours)
}

/// Takes the next connection, inside the sandbox. `None` is the end of the server.
pub(crate) async fn accept(lifeline: &UnixStream) -> io::Result<Option<(u16, UnixStream)>> {
    loop {
        let received = lifeline
            .async_io(Interest::READABLE, || {
                let mut message = [0; 4];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                let got = rustix::net::recvmsg(
                    lifeline,
                    &mut [IoSliceMut::new(&mut message)],
                    &mut control,
                    RecvFlags::CMSG_CLOEXEC,
                )?;
                let mut descriptor: Option<OwnedFd> = None;
                for ancillary in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(mut descriptors) = ancillary {
                        descriptor = descriptors.next();
                    }
                }
                Ok((got.bytes, message, descriptor))
            })
            .await?;
        match received {
            (0, ..) => return Ok(None),
            (_, [high, low, ..], Some(descriptor)) => {
                let socket = std::os::unix::net::UnixStream::from(descriptor);
                socket.set_nonblocking(true)?;
                return Ok(Some((u16::from_be_bytes([high, low]), UnixStream::from_std(socket)?)));
            }
            // The descriptor was dropped by the kernel, for want of room in our table. The server sees the
            // connection end and answers its client.
            _ => {}
        }
    }
}
