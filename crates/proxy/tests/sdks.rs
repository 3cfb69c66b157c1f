//! The official SDKs, as published, through the proxy, before a server whose connections are retired every 20 streams and
//! that answers 503 to the first try of a tenth of the requests: of the control plane's, or of all where the proxy was told to
//! repeat those to sandboxes too.
//!
//! `ONCEBOX_PYTHON_WITH_E2B` is a Python that has `e2b`, `ONCEBOX_NODE_WITH_E2B` a folder that has it for Node; `cargo xtask
//! test` makes both.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use oncebox::local::{Isolation, LocalServer};
use oncebox::{Body, Client, HttpVersion};
use oncebox_faults::{Script, Server};
use oncebox_protocol::{Plane, operations};
use oncebox_proxy::Proxy;
use serde_json::{Value, json};
use tokio::process::Command;

/// Sandboxes that each SDK makes.
const COUNT: u64 = 40;

/// Attempts of one call at the server, at most: 1 + `retries` + `connection_retries`.
const BOUND: u64 = 7;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_loses_and_doubles_nothing() {
    let Some(python) = std::env::var_os("ONCEBOX_PYTHON_WITH_E2B") else {
        println!("SKIP the_python_sdk_loses_and_doubles_nothing: ONCEBOX_PYTHON_WITH_E2B names no Python");
        return;
    };
    for busy in [Busy::ControlPlane, Busy::All] {
        let mut command = Command::new(&python);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdks/load.py"));
        loses_and_doubles_nothing(command, busy).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_sdk_loses_and_doubles_nothing() {
    if std::env::var_os("ONCEBOX_NODE_WITH_E2B").is_none() {
        println!("SKIP the_javascript_sdk_loses_and_doubles_nothing: ONCEBOX_NODE_WITH_E2B names no folder");
        return;
    }
    for busy in [Busy::ControlPlane, Busy::All] {
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdks/load.mjs"));
        loses_and_doubles_nothing(command, busy).await;
    }
}

/// What is answered 503 now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Busy {
    /// Calls to sandboxes have no retries, also through the proxy: a 503 would be theirs to hear.
    ControlPlane,
    /// Those too, of a proxy that was told to repeat them, and to keep what is uploaded for it.
    All,
}

async fn loses_and_doubles_nothing(mut sdk: Command, kind: Busy) {
    let local = LocalServer::builder().isolation(Isolation::None).memory(None).start().await.unwrap();
    let is_meant = |plane| kind == Busy::All || plane == Plane::ControlPlane;
    let busy: Vec<&str> = operations::ALL.iter().filter(|op| is_meant(op.plane)).map(|op| &*op.id).collect();
    let busy = json!({"seed": 1, "rules": [
        {"on": busy, "attempt": 1, "probability": 0.1, "fault": {"status": {"code": 503}}},
    ]});
    ask(&local.url(), "PUT", "/oncebox/faults", busy.to_string()).await;
    let script = Script::ready("requests-lost-when-connections-retire").unwrap();
    let retiring = Server::builder(script).proxy_to(&local.url()).keep_host().start().await.unwrap();

    let url = retiring.url("");
    let url = url.trim_end_matches('/');
    let client = Client::builder().api_key("unused").api_url(url).sandbox_url(url).http_version(HttpVersion::Http2);
    let client = client.settle(Duration::from_secs(2)).no_proxy();
    // What is uploaded can be sent again whatever happens as long as it fits what is kept.
    let (retries, kept, size) = if kind == Busy::All { (3, 1 << 20, 300_000) } else { (0, 65_536, 60_000) };
    let client = client.replay_buffer_limit(kept).build().unwrap();
    let proxy = Proxy::builder(&client).sandbox_retries(retries).start().await.unwrap();
    for name in ["E2B_API_URL", "E2B_SANDBOX_URL"] {
        sdk.env(name, proxy.url());
    }
    sdk.env("E2B_API_KEY", "any").env("NO_PROXY", "127.0.0.1").env("ONCEBOX_COUNT", COUNT.to_string());
    sdk.env("ONCEBOX_FILE_SIZE", size.to_string());
    let output = sdk.env_remove("E2B_DEBUG").stderr(Stdio::inherit()).output().await.unwrap();
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)));
    let status = proxy.status();
    assert!(proxy.stop().await.is_empty());

    // Nothing failed, and it was the faults that did not fail it.
    assert_eq!(told["failed"], json!([]), "{status:#?}");
    let made = told["made"].as_array().unwrap();
    assert_eq!(made.len() as u64, COUNT);
    let report = serde_json::to_value(retiring.report()).unwrap();
    let fired = ask(&local.url(), "GET", "/oncebox/faults", String::new()).await["fired"][0].as_u64().unwrap();
    let retired = report["fired"]["retire"].as_u64().unwrap();
    assert!(fired > 0 && retired > 3, "503s: {fired}, GOAWAYs: {retired}");
    assert!(status.counts.saved > 0);

    // Each call had its effect once: as many as were asked for, and one sandbox for each intent.
    let effects = ask(&local.url(), "GET", "/oncebox/effects", String::new()).await;
    assert_eq!(effects["doubled"], json!({}));
    let calls: BTreeMap<String, u64> = serde_json::from_value(told["calls"].clone()).unwrap();
    for operation in
        ["createSandbox", "setSandboxTimeout", "killSandbox", "processStart", "writeFiles", "filesystemRemove"]
    {
        assert_eq!(effects["counts"][operation].as_u64(), Some(calls[operation]), "{operation}: {}", effects["counts"]);
    }

    // What the server in front saw: each call has an id, and its tries are counted there.
    let requests = report["requests"].as_array().unwrap();
    let asked: u64 = calls.values().sum();
    assert!(requests.len() as u64 >= asked, "{} requests with an id for {asked} calls", requests.len());
    // A create's look-ups, also those of the sweep after its end, carry its id and have a bound of their own.
    let of_the_call = |request: &Value| {
        let tries = request["tries"].as_array().unwrap();
        tries.iter().filter(|one| one["method"] == tries[0]["method"]).count() as u64
    };
    let most = requests.iter().map(of_the_call).max().unwrap();
    assert!(most <= BOUND && status.counts.most_attempts <= BOUND, "{most}, {}", status.counts.most_attempts);
    println!(
        "{kind:?}: {asked} calls, {retired} connections retired, {fired} answers 503, {} calls saved, at most {most} attempts",
        status.counts.saved
    );
}

async fn ask(url: &str, method: &str, path: &str, body: String) -> Value {
    let request = http::Request::builder().method(method).uri(format!("{url}{path}")).header("x-api-key", "any");
    let request = request.body(Body::from(body)).unwrap();
    let http = oncebox_transport::Client::builder().no_proxy().build();
    let answer = http.send_collected(request, oncebox_transport::CallOptions::new()).await.unwrap();
    assert!(answer.status().is_success(), "{:?}", answer.body());
    serde_json::from_slice(answer.body()).unwrap_or_default()
}
