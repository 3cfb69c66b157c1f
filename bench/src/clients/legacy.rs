//! The client of `hyper-util`.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::{BODY, Client, Template};
use crate::Failed;

#[derive(Clone)]
pub(crate) struct Legacy {
    template: Arc<Template>,
    client: Pool<HttpConnector, Full<Bytes>>,
}

impl Legacy {
    pub(crate) fn new(port: u16) -> Result<Self, Failed> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Pool::builder(TokioExecutor::new()).http2_only(true).build(connector);
        Ok(Self { template: Template::new(port)?, client })
    }
}

impl Client for Legacy {
    async fn exchange(&self) -> Result<usize, Failed> {
        let response = self.client.request(self.template.post(Full::new(Bytes::from_static(&BODY)))).await?;
        Ok(response.into_body().collect().await?.to_bytes().len())
    }
}
