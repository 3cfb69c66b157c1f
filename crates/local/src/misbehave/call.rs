//! A request on its way through what is amiss with the server.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use oncebox_protocol::headers::{IDEMPOTENCY_KEY, ONCEBOX_TEST_ID};
use oncebox_protocol::{Operation, Plane, Repeat};
use serde_json::Value;

use super::document::{Filter, Keys, is_of};
use super::effects::What;
use super::plan::{Allowance, Plan};
use super::{Handle, Misbehaviour, lists, read, watch};
use crate::refusal::Refusal;

/// A request on its way into the server.
pub(super) struct Call {
    misbehaviour: Arc<Misbehaviour>,
    what: Option<What>,
    mints_sandbox: bool,
    is_sandboxes: bool,
    operation: Option<String>,
    pub(super) request: Request<Body>,
    handle: Handle,
}

impl Call {
    pub(super) async fn new(
        misbehaviour: &Arc<Misbehaviour>,
        sandbox: Option<&str>,
        operation: Option<&Operation>,
        request: Request<Body>,
        handle: Handle,
    ) -> Result<Self, Refusal> {
        let id = operation.map(|operation| operation.id.clone().into_owned());
        let is_create = id.as_deref().is_some_and(|id| is_of("create", id));
        let mut what = operation.filter(|operation| operation.repeat != Repeat::Safe).map(|operation| What {
            operation: operation.id.clone().into_owned(),
            key: request.headers().get(IDEMPOTENCY_KEY).and_then(|key| Some(key.to_str().ok()?.to_owned())),
            intent: None,
            test: request.headers().get(ONCEBOX_TEST_ID).and_then(|test| Some(test.to_str().ok()?.to_owned())),
            sandbox: sandbox.map(str::to_owned).or_else(|| sandbox_in(request.uri().path())),
        });
        let is_sandboxes = sandbox.is_none();
        let mut request = request;
        let is_control = operation.is_some_and(|operation| operation.plane == Plane::ControlPlane);
        if is_sandboxes && is_control && what.is_some() {
            // What a client sent before it went away has arrived. Files are streams, and larger than what is looked into.
            let (head, body) = request.into_parts();
            let body = read(body).await?;
            if let (true, Some(what)) = (is_create, &mut what) {
                what.intent = intent_in(&body);
            }
            request = Request::from_parts(head, Body::from(body));
        }
        let misbehaviour = Arc::clone(misbehaviour);
        Ok(Self { misbehaviour, what, mints_sandbox: is_create, is_sandboxes, operation: id, request, handle })
    }

    /// The intent that a create names.
    pub(super) fn intent(&self) -> Option<&str> {
        self.what.as_ref()?.intent.as_deref()
    }

    fn is_list(&self) -> bool {
        self.operation.as_deref().is_some_and(|id| is_of("list", id))
    }

    /// Applies what is amiss with the server as a whole. The answer, if that is one.
    pub(super) fn bend(&mut self, plan: &Plan) -> Option<Response> {
        let document = &plan.document;
        let path = self.request.uri().path();
        if self.is_sandboxes
            && let Some(status) = document.v2_missing
            && path.starts_with("/v2/sandboxes")
        {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::NOT_FOUND);
            let words = if status == StatusCode::NOT_FOUND { "no such route" } else { "method not allowed" };
            return Some(Refusal::new(status, words).into_response());
        }
        if document.keys == Keys::Ignored {
            self.request.headers_mut().remove(IDEMPOTENCY_KEY);
        }
        if document.filter == Filter::Ignored && self.is_list() {
            lists::drop_filter(&mut self.request);
        }
        None
    }

    pub(super) fn allowance(&self, plan: &Plan) -> Option<Allowance> {
        if self.mints_sandbox { plan.take_create() } else { None }
    }

    /// Has it done, and throws the answer away once it is known whether it was.
    pub(super) async fn carry_out(self) {
        let response = self.respond().await;
        // A stream's first message tells whether it began.
        let mut body = response.into_body();
        let _ = body.frame().await;
    }

    /// Has it done; of a list that is amiss, what is left.
    pub(super) async fn listed(self, plan: &Plan) -> Response {
        let is_list = self.is_list();
        let response = self.respond().await;
        if is_list { lists::bend(response, &plan.document).await } else { response }
    }

    /// Has it done, whatever becomes of the client.
    pub(super) async fn respond(self) -> Response {
        let Self { misbehaviour, what, mints_sandbox, is_sandboxes, request, handle, .. } = self;
        let Some(what) = what else { return handle(request).await };
        let watched = async move { watch::effect(handle(request).await, what, mints_sandbox, &misbehaviour).await };
        if !is_sandboxes {
            return watched.await;
        }
        match tokio::spawn(watched).await {
            Ok(response) => response,
            Err(error) => Refusal::internal(error).into_response(),
        }
    }
}

fn intent_in(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    Some(body.get("metadata")?.get("oncebox.intent")?.as_str()?.to_owned())
}

/// The sandbox that a control-plane path names.
pub(super) fn sandbox_in(path: &str) -> Option<String> {
    let mut segments = path.split('/').skip_while(|segment| *segment != "sandboxes").skip(1);
    segments.next().filter(|id| !id.is_empty()).map(str::to_owned)
}
