//! Connections that change their protocol on the way to the upstream.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::read::RequestSide;
use crate::engine::Request;
use crate::exchange::Gone;
use crate::head::Head;
use crate::log::Happening;
use crate::upstream::Flight;

/// What is read at once.
const PIECE: usize = 16 * 1024;

/// The protocol that a request asks for (RFC 9110, section 7.8).
pub(super) fn wish(head: &Head) -> Option<String> {
    let lists = |name: &[u8], value: &[u8]| {
        name == b"connection"
            && value.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
    };
    let asks = head.fields.iter().any(|field| lists(&field.name, &field.value));
    head.value("upgrade").filter(|_| asks).map(|protocol| String::from_utf8_lossy(protocol).into_owned())
}

impl RequestSide<'_> {
    /// Carries bytes both ways. What a script does at a number of bytes or at a time happens here too; answers have no more
    /// moments, since there is none.
    pub(super) async fn carry(&mut self, request: &Request, mut flight: Flight) -> Result<(), Gone> {
        self.keeps = false;
        let conn = self.conn.clone();
        let fields = flight.take_fields();
        let Some((begun, connection)) = flight.into_connection() else { return Err(Gone::Over) };
        conn.out.put(|out| {
            out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\n");
            for field in &fields {
                out.extend_from_slice(&field.name);
                out.extend_from_slice(b": ");
                out.extend_from_slice(&field.value);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&begun);
        });
        conn.log.a_try(conn.number, request.stream, |a_try| a_try.status = Some(101));
        let (mut from, mut to) = tokio::io::split(connection);
        let out = &conn.out;
        let back = async {
            let mut piece = vec![0; PIECE];
            while out.room().await {
                match from.read(&mut piece).await {
                    Ok(0) => return Ok(()),
                    Ok(read) => out.put(|out| out.extend_from_slice(&piece[..read])),
                    Err(error) => {
                        conn.log.happened(conn.number, request.stream, Happening::Upstream(error.to_string()));
                        return Err(Gone::Over);
                    }
                }
            }
            Err(Gone::Over)
        };
        let inbound = &mut *self.inbound;
        let there = async {
            loop {
                let piece = inbound.take(inbound.buffer.len());
                to.write_all(&piece).await?;
                to.flush().await?;
                if !inbound.fill().await? {
                    return to.shutdown().await;
                }
            }
        };
        tokio::pin!(back);
        tokio::select! {
            ended = &mut back => ended,
            ended = there => match ended {
                // The upstream may have something to say to the end.
                Ok(()) => back.await,
                Err(_) => Err(Gone::Cancelled),
            },
        }
    }
}
