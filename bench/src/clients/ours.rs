//! Ours, as a user makes it: default options, and HTTP/2 with prior knowledge.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use oncebox_transport::{Body, CallOptions, Client as Transport, HttpVersion};

use super::{BODY, Chunks, Client, Mover, Template};
use crate::Failed;

#[derive(Clone)]
pub(crate) struct Ours {
    template: Arc<Template>,
    client: Transport,
}

impl Ours {
    pub(crate) fn new(port: u16) -> Result<Self, Failed> {
        let client = Transport::builder().http_version(HttpVersion::Http2).build();
        Ok(Self { template: Template::new(port)?, client })
    }
}

impl Client for Ours {
    async fn exchange(&self) -> Result<usize, Failed> {
        let request = self.template.post(Body::from(Bytes::from_static(&BODY)));
        Ok(self.client.send_collected(request, CallOptions::new()).await?.body().len())
    }
}

impl Mover for Ours {
    async fn upload(&self, size: usize) -> Result<(), Failed> {
        let request = self.template.bare(Method::POST, Body::stream(Chunks::new(size)));
        self.client.send_collected(request, CallOptions::new()).await?;
        Ok(())
    }

    async fn download(&self) -> Result<usize, Failed> {
        let request = self.template.bare(Method::GET, Body::empty());
        let mut body = self.client.send(request, CallOptions::new()).await?.into_body();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok(read)
    }
}
