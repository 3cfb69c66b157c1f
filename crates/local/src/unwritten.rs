//! What is done and said where the server's records cannot be written, and what holds while a sandbox is being made.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::Request;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::confined::Isolation;
use crate::control::{Control, routes};
use crate::helper::Helper;
use crate::registry::{Registry, Sandbox};
use crate::state::State;
use crate::store::Store;

/// A server's inside, without a port.
struct Inside {
    _folder: tempfile::TempDir,
    control: Control,
    store: Store,
}

impl Inside {
    fn new(helper: Helper, isolation: Isolation, writes: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = Arc::new(State::keep(&folder.path().join("state")).unwrap());
        let store = if writes { Store::open(&state.records().unwrap()).unwrap() } else { Store::default() };
        let registry = Registry::open(helper, isolation, state, &store, 10).unwrap();
        let control = Control::open(Arc::new(registry), &store).unwrap();
        Self { _folder: folder, control, store }
    }

    /// With sandboxes that run; `None` where the helper was not built.
    fn running(test: &str, writes: bool) -> Option<Self> {
        match Helper::find() {
            Ok(helper) => Some(Self::new(helper, Isolation::None, writes)),
            Err(error) => {
                println!("SKIP {test}: {error}");
                None
            }
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("x-api-key", "k");
        let request = request.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap();
        let answer = routes(self.control.clone()).oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn sandbox(&self) -> Arc<Sandbox> {
        let (status, made) = self.ask(Method::POST, "/v2/sandboxes", json!({"templateID": "base"})).await;
        assert_eq!(status, 201, "{made}");
        self.control.registry.look_up(made["sandboxID"].as_str().unwrap()).unwrap()
    }

    /// What the same request ends with when nothing can be written, and then when it can.
    async fn in_vain_and_then(&self, path: &str, body: Value) -> (StatusCode, StatusCode) {
        self.store.fail_after(0);
        let (status, told) = self.ask(Method::POST, path, body.clone()).await;
        assert!(told["message"].as_str().unwrap().ends_with("; nothing was changed"), "{told}");
        self.store.fail_after(usize::MAX);
        (status, self.ask(Method::POST, path, body).await.0)
    }
}

#[tokio::test]
async fn nothing_was_changed_where_it_is_said() {
    let Some(inside) = Inside::running("nothing_was_changed_where_it_is_said", true) else { return };
    let sandbox = inside.sandbox().await;
    let (id, before) = (&sandbox.id, sandbox.record());
    inside.store.fail_after(0);
    for (path, body) in [
        ("timeout", json!({"timeout": 1})),
        ("refreshes", json!({"duration": 3600})),
        ("connect", json!({"timeout": 100_000})),
        ("pause", json!({})),
        ("pause", json!({"memory": false})),
    ] {
        let (status, told) = inside.ask(Method::POST, &format!("/sandboxes/{id}/{path}"), body).await;
        assert_eq!(status, 503, "{path}: {told}");
        assert!(told["message"].as_str().unwrap().ends_with("; nothing was changed"), "{path}: {told}");
        let now = sandbox.record();
        assert_eq!((now.end_at, now.lifecycle, now.paused), (before.end_at, before.lifecycle, None), "{path}");
        assert!(sandbox.is_running(), "{path}");
    }
    inside.store.fail_after(usize::MAX);
    for memory in [true, false] {
        let pause = format!("/sandboxes/{id}/pause");
        let (in_vain, then) = inside.in_vain_and_then(&pause, json!({"memory": memory})).await;
        assert_eq!((in_vain.as_u16(), then.as_u16()), (503, 204));
        let paused = sandbox.record();
        assert!(paused.paused.is_some() && !sandbox.is_running());
        inside.store.fail_after(0);
        let connect = format!("/v2/sandboxes/{id}/connect");
        let (status, told) = inside.ask(Method::POST, &connect, json!({"timeout": 77})).await;
        assert_eq!(status, 503, "{told}");
        let still = sandbox.record();
        assert_eq!((still.paused, still.end_at), (paused.paused, paused.end_at));
        assert!(!sandbox.is_running());
        inside.store.fail_after(usize::MAX);
        assert_eq!(inside.ask(Method::POST, &connect, json!({"timeout": 77})).await.0, 201);
        assert!(sandbox.is_running() && sandbox.record().paused.is_none());
    }
    assert!(inside.control.registry.kill(id).await.unwrap());
}

#[tokio::test]
async fn a_sandbox_that_is_there_though_its_create_failed_is_no_503() {
    let test = "a_sandbox_that_is_there_though_its_create_failed_is_no_503";
    let Some(inside) = Inside::running(test, true) else { return };
    inside.control.add_template_that_does_not_start("broken").await.unwrap();
    // Its record is written, and the removal of that is not.
    inside.store.fail_after(1);
    let (status, told) = inside.ask(Method::POST, "/v2/sandboxes", json!({"templateID": "broken"})).await;
    assert_eq!(status, 500, "{told}");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("the start command") && message.contains("the server's records"), "{told}");
    assert!(!message.contains("nothing was changed"), "{told}");
    let left = inside.control.registry.all();
    assert_eq!(left.len(), 1);
    inside.store.fail_after(usize::MAX);
    assert!(inside.control.registry.kill(&left[0].id).await.unwrap());
}

#[tokio::test]
async fn a_volume_stays_while_a_sandbox_is_made_with_it() {
    let inside = Inside::new(Helper::new("/no/such/helper"), Isolation::Namespaces, true);
    let (status, volume) = inside.ask(Method::POST, "/volumes", json!({"name": "v"})).await;
    assert_eq!(status, 201, "{volume}");
    let id = volume["volumeID"].as_str().unwrap();
    let path = format!("/volumes/{id}");
    let held = inside.control.registry.hold_starts().await;
    let app = routes(inside.control.clone());
    let body = json!({"templateID": "base", "volumeMounts": [{"name": "v", "path": "/data"}]}).to_string();
    let request = Request::post("/v2/sandboxes").header("x-api-key", "k").header("content-type", "application/json");
    let making = tokio::spawn(app.oneshot(request.body(Body::from(body)).unwrap()));
    let told = loop {
        let (status, told) = inside.ask(Method::GET, &path, Value::Null).await;
        assert_eq!(status, 200, "{told}");
        if inside.control.is_making_with(id) {
            break inside.ask(Method::DELETE, &path, Value::Null).await;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(told.0, 409, "{}", told.1);
    assert!(told.1["message"].as_str().unwrap().contains("being made"), "{}", told.1);
    drop(held);
    assert_eq!(making.await.unwrap().unwrap().status(), 500, "there is no helper");
    // The task that made it may end a moment after the answer.
    while inside.control.is_making_with(id) {
        tokio::task::yield_now().await;
    }
    assert_eq!(inside.ask(Method::DELETE, &path, Value::Null).await.0, 204);
}

/// Counts what is said of lifetimes that are over.
struct Over(Arc<AtomicUsize>);

impl tracing::Subscriber for Over {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Says(bool);
        impl tracing::field::Visit for Says {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 |= field.name() == "message" && format!("{value:?}") == "the sandbox's time is over";
            }
        }
        let mut says = Says(false);
        event.record(&mut says);
        self.0.fetch_add(usize::from(says.0), Ordering::SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_sandbox_whose_end_has_to_wait_is_not_ended_again_and_again() {
    let test = "a_sandbox_whose_end_has_to_wait_is_not_ended_again_and_again";
    let Some(inside) = Inside::running(test, false) else { return };
    let sandbox = inside.sandbox().await;
    let told = Arc::new(AtomicUsize::new(0));
    let _telling = tracing::subscriber::set_default(Over(Arc::clone(&told)));
    // Somebody copies it.
    let turn = sandbox.hold_turn().await;
    let (registry, id) = (Arc::clone(&inside.control.registry), sandbox.id.clone());
    let killing = tokio::spawn(async move { registry.kill(&id).await });
    while inside.control.registry.look_up(&sandbox.id).is_some() {
        tokio::task::yield_now().await;
    }
    sandbox.is_over();
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(told.load(Ordering::SeqCst), 0);
    drop(turn);
    assert!(killing.await.unwrap().unwrap());
}
