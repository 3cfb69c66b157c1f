//! A line of chosen quality between a connection and its socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::conn::Conn;
use crate::script::Link;
use crate::socket::Socket;

/// What is read from the connection at once.
const PIECE: usize = 16 * 1024;

/// How many pieces are under way at most.
const UNDER_WAY: usize = 256;

/// The connection's end of such a line.
pub(crate) fn lay(socket: Arc<TcpStream>, link: Link, conn: Arc<Conn>) -> DuplexStream {
    let (near, far) = tokio::io::duplex(64 * 1024);
    // It ends when the connection drops its end and all that is under way was delivered.
    tokio::spawn(async move {
        let (from_server, mut to_server) = tokio::io::split(far);
        let mut from_client = Socket::new(socket.clone());
        let inbound = async {
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            let _ = to_server.shutdown().await;
            // The client may close first; what the server sends decides when the line ends.
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = inbound => {}
            _ = deliver(from_server, Socket::new(socket.clone()), link, &conn) => {}
        }
    });
    near
}

async fn deliver(mut from: ReadHalf<DuplexStream>, mut to: Socket, link: Link, conn: &Conn) -> io::Result<()> {
    let (send, mut under_way) = mpsc::channel::<(Instant, Bytes)>(UNDER_WAY);
    let delay = Duration::from_millis(link.rtt_ms);
    let take = async move {
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            if !matches!(from.read_buf(&mut piece).await, Ok(read) if read > 0) {
                return;
            }
            if send.send((Instant::now() + delay, piece.freeze())).await.is_err() {
                return;
            }
        }
    };
    let give = async {
        // When the line is free again, at the bandwidth it has.
        let mut free = Instant::now();
        while let Some((due, mut piece)) = under_way.recv().await {
            tokio::time::sleep_until(due).await;
            while !piece.is_empty() {
                let slice = if link.slice == 0 { piece.len() } else { link.slice.min(piece.len()) };
                let slice = piece.split_to(slice);
                if link.bytes_per_second > 0 {
                    let takes = Duration::from_secs_f64(slice.len() as f64 / link.bytes_per_second as f64);
                    free = free.max(Instant::now()) + takes;
                    tokio::time::sleep_until(free).await;
                }
                // A reset does not wait for a client that does not read.
                tokio::select! {
                    biased;
                    written = to.write_all(&slice) => written?,
                    () = conn.out.reset_without(|| 0) => return Err(io::ErrorKind::ConnectionReset.into()),
                }
                if link.slice_pause_ms > 0 {
                    tokio::time::sleep(Duration::from_millis(link.slice_pause_ms)).await;
                }
            }
        }
        to.shutdown().await
    };
    tokio::pin!(take, give);
    tokio::select! {
        // Nothing more is taken than can be given.
        given = &mut give => given,
        () = &mut take => give.await,
    }
}
