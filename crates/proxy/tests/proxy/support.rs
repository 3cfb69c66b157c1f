//! A local server, a proxy before it, and plain requests to it.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use oncebox::local::{Isolation, LocalServer};
use oncebox::{Body, Client, ClientBuilder, HttpVersion};
use oncebox_proxy::{Proxy, ProxyBuilder};
use oncebox_transport::CallOptions;
use serde_json::{Value, json};

/// How long look-ups must stay empty in these tests.
pub(crate) const SETTLE: Duration = Duration::from_millis(1200);

pub(crate) struct Setting {
    pub(crate) local: LocalServer,
    pub(crate) proxy: Proxy,
    http: oncebox_transport::Client,
}

impl Setting {
    pub(crate) async fn with(
        faults: Value,
        options: impl FnOnce(ClientBuilder) -> ClientBuilder,
        set_up: impl FnOnce(ProxyBuilder) -> ProxyBuilder,
    ) -> Self {
        let local = LocalServer::builder().isolation(Isolation::None).memory(None).start().await.unwrap();
        let url = local.url();
        let builder = Client::builder().api_key("unused").api_url(&url).sandbox_url(&url).volume_api_url(&url);
        let builder = builder.settle(SETTLE).request_timeout(Duration::from_secs(20)).http_version(HttpVersion::Http2);
        let client = options(builder).build().unwrap();
        let proxy = set_up(Proxy::builder(&client)).start().await.unwrap();
        // What it sends is sent once: the proxy alone repeats anything.
        let http = oncebox_transport::Client::builder().retries(0).connection_retries(0).no_proxy().build();
        let setting = Self { local, proxy, http };
        setting.faults(faults).await;
        setting
    }

    pub(crate) async fn start(rules: &[Value]) -> Self {
        Self::with(json!({ "rules": rules }), |options| options, |builder| builder).await
    }

    pub(crate) async fn faults(&self, document: Value) {
        let answer =
            self.send(&self.local.url(), Method::PUT, "/oncebox/faults", &[], document.to_string().into()).await;
        assert_eq!(answer.status(), 204, "{answer:?}");
    }

    pub(crate) async fn send(
        &self,
        to: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(format!("{to}{path}")).header("x-api-key", "mine");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).unwrap();
        self.http.send_collected(request, CallOptions::new()).await.unwrap().into_http()
    }

    /// Through the proxy.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Bytes> {
        self.send(&self.proxy.url(), method, path, headers, body.to_owned().into()).await
    }

    pub(crate) async fn create(&self, headers: &[(&str, &str)]) -> Response<Bytes> {
        self.ask(Method::POST, "/v2/sandboxes", headers, CREATE).await
    }

    /// How many creates had an effect.
    pub(crate) async fn created(&self) -> u64 {
        let url = self.local.url();
        let answer = self.send(&url, Method::GET, "/oncebox/effects", &[], Body::empty()).await;
        json_of(&answer)["counts"]["createSandbox"].as_u64().unwrap_or_default()
    }

    /// The ids of the sandboxes there are, past the proxy.
    pub(crate) async fn alive(&self) -> Vec<String> {
        let url = self.local.url();
        let answer = self.send(&url, Method::GET, "/v2/sandboxes", &[], Body::empty()).await;
        json_of(&answer).as_array().unwrap().iter().map(|one| one["sandboxID"].as_str().unwrap().to_owned()).collect()
    }
}

/// What an SDK asks for.
pub(crate) const CREATE: &str = r#"{"templateID":"base","metadata":{"task":"1"},"envVars":{}}"#;

pub(crate) fn json_of(answer: &Response<Bytes>) -> Value {
    serde_json::from_slice(answer.body()).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

pub(crate) fn id(answer: &Response<Bytes>) -> String {
    assert_eq!(answer.status(), 201, "{answer:?}");
    json_of(answer)["sandboxID"].as_str().unwrap().to_owned()
}

pub(crate) fn header(answer: &Response<Bytes>, name: &str) -> Option<String> {
    answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
}

/// Waits until something is so, for as long as anything here may take.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    for _ in 0..200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} did not come to be");
}
