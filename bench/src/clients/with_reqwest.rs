//! The client of `reqwest`.

use std::sync::Arc;

use reqwest::Url;

use super::{BODY, Client, Template};
use crate::Failed;

#[derive(Clone)]
pub(crate) struct Reqwest {
    template: Arc<Template>,
    url: Url,
    client: reqwest::Client,
}

impl Reqwest {
    pub(crate) fn new(port: u16) -> Result<Self, Failed> {
        let template = Template::new(port)?;
        let url = Url::parse(&template.uri.to_string())?;
        Ok(Self { template, url, client: reqwest::Client::builder().http2_prior_knowledge().build()? })
    }
}

impl Client for Reqwest {
    async fn exchange(&self) -> Result<usize, Failed> {
        let request = self.client.post(self.url.clone()).headers(self.template.headers.clone()).body(&BODY[..]);
        Ok(request.send().await?.bytes().await?.len())
    }
}
