//! A server that misbehaves, and a client of it.

use std::collections::HashMap;
use std::time::Duration;

use http::{Method, Request};
use oncebox::local::{Isolation, LocalServer};
use oncebox::{Client, ClientBuilder, HttpVersion};
use serde_json::{Value, json};

/// How long look-ups must stay empty in these tests.
pub(crate) const SETTLE: Duration = Duration::from_millis(1200);

pub(crate) struct Server {
    pub(crate) local: LocalServer,
    http: oncebox_transport::Client,
}

impl Server {
    pub(crate) async fn start() -> Self {
        // Without a limit of memory: each sandbox would look at all processes of the machine, several times a second.
        let local =
            LocalServer::builder().isolation(Isolation::None).memory(None).max_sandboxes(4000).start().await.unwrap();
        Self::of(local)
    }

    pub(crate) fn of(local: LocalServer) -> Self {
        Self { local, http: oncebox_transport::Client::new() }
    }

    pub(crate) async fn with_faults(document: Value) -> Self {
        let server = Self::start().await;
        server.faults(document).await;
        server
    }

    pub(crate) async fn faults(&self, document: Value) {
        let (status, body) = self.send(Method::PUT, "/oncebox/faults", document.to_string()).await;
        assert_eq!(status, 204, "{body}");
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: String) -> (u16, Value) {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.local.url()));
        let request = request.header("x-api-key", "test").body(body.into()).unwrap();
        let response = self.http.send_collected(request, oncebox_transport::CallOptions::new()).await.unwrap();
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }

    /// A client of this server, or of what stands in front of it.
    pub(crate) fn client_at(&self, url: &str, set_up: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
        let builder = Client::builder().api_key("test").api_url(url).sandbox_url(url).volume_api_url(url);
        let builder = builder.http_version(HttpVersion::Http1).settle(SETTLE).request_timeout(Duration::from_secs(30));
        set_up(builder).build().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_at(&self.local.url(), |builder| builder)
    }

    /// The ids of all sandboxes by the intent that made them.
    pub(crate) async fn alive(&self) -> HashMap<String, Vec<String>> {
        let (mut alive, mut token) = (HashMap::<String, Vec<String>>::new(), String::new());
        loop {
            let path = format!("/v2/sandboxes?limit=100&nextToken={token}");
            let request = Request::builder().uri(format!("{}{path}", self.local.url())).header("x-api-key", "test");
            let options = oncebox_transport::CallOptions::new();
            let page = self.http.send_collected(request.body(String::new().into()).unwrap(), options).await.unwrap();
            let listed: Vec<Value> = serde_json::from_slice(page.body()).unwrap();
            for sandbox in listed {
                let intent = sandbox["metadata"]["oncebox.intent"].as_str().unwrap_or_default().to_owned();
                alive.entry(intent).or_default().push(sandbox["sandboxID"].as_str().unwrap().to_owned());
            }
            match page.headers().get("x-next-token") {
                Some(next) => token = next.to_str().unwrap().to_owned(),
                None => return alive,
            }
        }
    }

    /// How often rules fired, all together.
    pub(crate) async fn fired(&self) -> u64 {
        let told = self.send(Method::GET, "/oncebox/faults", String::new()).await.1;
        told["fired"].as_array().unwrap().iter().filter_map(Value::as_u64).sum()
    }

    pub(crate) async fn counts(&self) -> Value {
        self.send(Method::GET, "/oncebox/effects", String::new()).await.1["counts"].take()
    }
}

/// A rule about creates.
pub(crate) fn on_create(times: u64, fault: Value) -> Value {
    json!({"on": ["create"], "times": times, "fault": fault})
}

pub(crate) fn cut(when: &str) -> Value {
    json!({"cut": {"when": when}})
}

pub(crate) fn status(code: u16, when: &str) -> Value {
    json!({"status": {"code": code, "when": when}})
}
