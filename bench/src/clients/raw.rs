//! The `h2` crate alone: one connection, no pool, no deadline, no retries. The least that HTTP/2 costs here.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Method;
use tokio::net::TcpStream;

use super::{BODY, Chunks, Client, Mover, Template};
use crate::Failed;

#[derive(Clone)]
pub(crate) struct Raw {
    template: Arc<Template>,
    sender: SendRequest<Bytes>,
}

impl Raw {
    pub(crate) async fn connect(port: u16) -> Result<Self, Failed> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        // The windows of the others are at least as large.
        let (sender, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 24)
            .handshake(socket)
            .await?;
        tokio::spawn(connection);
        Ok(Self { template: Template::new(port)?, sender })
    }
}

impl Client for Raw {
    async fn exchange(&self) -> Result<usize, Failed> {
        let mut sender = self.sender.clone();
        let (response, mut stream) = sender.send_request(self.template.post(()), false)?;
        drop(sender);
        stream.send_data(Bytes::from_static(&BODY), true)?;
        read(response.await?.into_body()).await
    }
}

impl Mover for Raw {
    async fn upload(&self, size: usize) -> Result<(), Failed> {
        let mut sender = self.sender.clone();
        let (response, mut stream) = sender.send_request(self.template.bare(Method::POST, ()), false)?;
        drop(sender);
        for mut chunk in Chunks::new(size) {
            while !chunk.is_empty() {
                stream.reserve_capacity(chunk.len());
                let granted = poll_fn(|cx| stream.poll_capacity(cx)).await.ok_or("the stream ended")??;
                stream.send_data(chunk.split_to(granted.min(chunk.len())), false)?;
            }
        }
        stream.send_data(Bytes::new(), true)?;
        read(response.await?.into_body()).await.map(drop)
    }

    async fn download(&self) -> Result<usize, Failed> {
        let mut sender = self.sender.clone();
        let (response, _) = sender.send_request(self.template.bare(Method::GET, ()), true)?;
        drop(sender);
        read(response.await?.into_body()).await
    }
}

async fn read(mut body: h2::RecvStream) -> Result<usize, Failed> {
    let mut read = 0;
    while let Some(data) = body.data().await {
        let len = data?.len();
        body.flow_control().release_capacity(len)?;
        read += len;
    }
    Ok(read)
}
