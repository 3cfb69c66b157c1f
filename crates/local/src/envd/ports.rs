//! The ports of the sandbox's own programs, relayed to the server.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use axum::Router;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

use crate::lifeline::{PORT_IS_CLOSED, PORT_IS_OPEN};

/// A program on the same machine accepts at once, unless it has too much to do.
const CONNECT_LIMIT: Duration = Duration::from_secs(4);

/// Connects the server to the program that listens on `port`. Where none does, it is told so, or `otherwise` answers, where
/// there is one.
pub(super) async fn relay(mut server: UnixStream, port: u16, otherwise: Option<Router>) {
    let program = tokio::time::timeout(CONNECT_LIMIT, connect(port)).await;
    // Errors are the end of one side or the other, which the other sees.
    let _ = match program {
        Ok(Ok(mut program)) => match server.write_u8(PORT_IS_OPEN).await {
            Ok(()) => tokio::io::copy_bidirectional(&mut server, &mut program).await.map(drop),
            Err(error) => Err(error),
        },
        _ => match otherwise {
            Some(router) => match server.write_u8(PORT_IS_OPEN).await {
                Ok(()) => {
                    super::serve_connection(server, router).await;
                    Ok(())
                }
                Err(error) => Err(error),
            },
            None => server.write_u8(PORT_IS_CLOSED).await,
        },
    };
}

/// Programs listen on the loopback address of either family, or on any address.
async fn connect(port: u16) -> io::Result<TcpStream> {
    let program = match TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
        Ok(program) => program,
        Err(_) => TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await?,
    };
    let _ = program.set_nodelay(true);
    Ok(program)
}
