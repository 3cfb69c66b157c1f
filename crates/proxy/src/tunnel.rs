//! Connections that change their protocol: WebSockets to programs in sandboxes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::status::TunnelWatch;

/// How long one side may be silent once the other has ended, before it is ended too.
const LINGER: Duration = Duration::from_secs(60);

/// What is read at once, each way.
const PIECE: usize = 16 << 10;

/// What becomes of one connection of an SDK: it is filled when its server answered 101, and run once that was written.
#[derive(Clone, Default)]
pub(crate) struct Place(Arc<Mutex<Option<Tunnel>>>);

/// A request's wish to change the protocol.
pub(crate) struct Wish {
    protocol: HeaderValue,
    client: OnUpgrade,
    place: Place,
}

/// Two connections that are one from now on.
struct Tunnel {
    client: OnUpgrade,
    server: OnUpgrade,
    _watch: TunnelWatch,
}

impl Wish {
    /// Takes the wish out of a request. Only HTTP/1.1 has it in this form, and `h2c` is a matter between an SDK and this hop,
    /// which may ignore it (RFC 9110 §7.8).
    pub(crate) fn of(parts: &mut Parts) -> Option<Self> {
        let (client, place) = (parts.extensions.remove::<OnUpgrade>(), parts.extensions.remove::<Place>());
        let lists = |value: &HeaderValue| {
            value
                .to_str()
                .is_ok_and(|value| value.split(',').any(|option| option.trim().eq_ignore_ascii_case("upgrade")))
        };
        let protocol = parts.headers.get(UPGRADE).filter(|_| parts.version == Version::HTTP_11)?;
        if protocol.as_bytes().eq_ignore_ascii_case(b"h2c") || !parts.headers.get_all(CONNECTION).iter().any(lists) {
            return None;
        }
        Some(Self { protocol: protocol.clone(), client: client?, place: place? })
    }

    /// Tells the server.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }

    /// The server has changed to `protocol`: the SDK is told so, and then the two connections are one.
    pub(crate) fn granted(
        self,
        server: OnUpgrade,
        protocol: Option<HeaderValue>,
        headers: &mut HeaderMap,
        watch: TunnelWatch,
    ) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.unwrap_or(self.protocol));
        *self.place.0.lock() = Some(Tunnel { client: self.client, server, _watch: watch });
    }
}

impl Place {
    /// Carries what goes over the two connections, if there are two, until both have ended.
    pub(crate) async fn run(self) {
        let Some(tunnel) = self.0.lock().take() else { return };
        if let (Ok(client), Ok(server)) = tokio::join!(tunnel.client, tunnel.server) {
            relay(TokioIo::new(client), TokioIo::new(server)).await;
        }
    }
}

type Way<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// Carries bytes both ways. An end is passed on as such, since the other side may still have something to say; one that is
/// silent then is ended as well, and so is the other side of one that broke.
async fn relay(one: impl AsyncRead + AsyncWrite + Send, other: impl AsyncRead + AsyncWrite + Send) {
    let moved = AtomicU64::new(0);
    let ((from_one, to_one), (from_other, to_other)) = (tokio::io::split(one), tokio::io::split(other));
    let mut there: Way<'_> = Box::pin(pipe(from_one, to_other, &moved));
    let mut back: Way<'_> = Box::pin(pipe(from_other, to_one, &moved));
    let (ended, mut rest) = tokio::select! {
        ended = &mut there => (ended, back),
        ended = &mut back => (ended, there),
    };
    let mut before = None;
    while ended.is_ok() && before != Some(moved.load(Ordering::Relaxed)) {
        before = Some(moved.load(Ordering::Relaxed));
        if tokio::time::timeout(LINGER, rest.as_mut()).await.is_ok() {
            return;
        }
    }
}

async fn pipe(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &AtomicU64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..read]).await?;
        to.flush().await?;
        moved.fetch_add(read as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    fn tunnel() -> (DuplexStream, DuplexStream, JoinHandle<()>) {
        let ((client, near), (far, server)) = (duplex(64), duplex(64));
        (client, server, tokio::spawn(relay(near, far)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_side_may_go_on_after_the_other_has_ended_but_not_be_silent() {
        let (mut client, mut server, tunnel) = tunnel();
        client.write_all(b"the last").await.unwrap();
        client.shutdown().await.unwrap();
        let mut heard = String::new();
        server.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "the last");
        for _ in 0..3 {
            tokio::time::sleep(LINGER - Duration::from_secs(1)).await;
            server.write_all(b"more").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
        }
        let since = Instant::now();
        tunnel.await.unwrap();
        assert!(since.elapsed() <= 2 * LINGER, "{:?}", since.elapsed());
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(server.write_all(b"nobody").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_side_that_is_gone_takes_the_other_with_it() {
        let (client, mut server, tunnel) = tunnel();
        drop(client);
        assert_eq!(server.read(&mut [0; 1]).await.unwrap(), 0);
        drop(server);
        tunnel.await.unwrap();
    }
}
