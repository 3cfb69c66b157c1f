//! The control plane: sandboxes are made, found, kept alive and ended here, and what they are made from and with.

mod account;
mod body;
mod create;
mod idempotency;
mod listing;
mod metadata;
mod observe;
mod paging;
mod sandboxes;
mod secrets;
mod templates;
mod volumes;
mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, patch, post, put};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use oncebox_protocol::SecretString;

use crate::dispatch::Call;
use crate::refusal::Refusal;
use crate::registry::Registry;
use crate::signature::same;
use crate::state::Part;
use crate::store::{Records, Store, StoreError};
use crate::volumes::Volumes;
use account::KeyRecord;
use secrets::SecretRecord;
use templates::Templates;

/// The version of envd that this server's comes closest to. Clients decide by it what they may ask for.
const ENVD_VERSION: &str = "0.6.13";

/// What the handlers work on.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) registry: Arc<Registry>,
    /// Where clients reach the server.
    addr: SocketAddr,
    /// The key that every request must come with; any will do where there is none.
    token: Option<SecretString>,
    templates: Arc<Templates>,
    volumes: Arc<Volumes>,
    secrets: Records<SecretRecord>,
    api_keys: Records<KeyRecord>,
    access_tokens: Records<KeyRecord>,
    keys: Arc<Records<idempotency::KeyRecord>>,
}

impl Control {
    /// What the store has. Blocks.
    pub(crate) fn open(registry: Arc<Registry>, store: &Store) -> Result<Self, StoreError> {
        Ok(Self {
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            token: None,
            templates: Arc::new(Templates::open(Arc::clone(&registry), store)?),
            volumes: Arc::new(Volumes::open(Arc::clone(&registry), store)?),
            secrets: Records::open(store, "secret")?,
            api_keys: Records::open(store, "api-key")?,
            access_tokens: Records::open(store, "access-token")?,
            keys: Arc::new(idempotency::open(store)?),
            registry,
        })
    }

    /// Whether a record speaks of this folder.
    pub(crate) fn knows(&self, part: Part, name: &str) -> bool {
        match part {
            Part::Sandbox => self.registry.knows(name),
            Part::Template => self.templates.knows(name),
            Part::Volume => self.volumes.get(name).is_some(),
        }
    }

    /// Whether a sandbox is being made with this volume.
    #[cfg(test)]
    pub(crate) fn is_making_with(&self, volume: &str) -> bool {
        self.volumes.are_being_used(volume)
    }

    /// A template whose start command cannot be started.
    #[cfg(test)]
    pub(crate) async fn add_template_that_does_not_start(&self, name: &str) -> Result<(), StoreError> {
        self.templates.add_broken(name).await
    }

    /// Below which name the sandboxes are found.
    fn domain(&self) -> String {
        format!("localhost:{}", self.addr.port())
    }
}

/// The control plane's routes. Must be called in a runtime.
pub(crate) fn routes(control: Control) -> Router {
    tokio::spawn(idempotency::forget(Arc::clone(&control.keys)));
    let keyed = sandbox_routes()
        .merge(template_routes())
        .merge(account_routes())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(control.clone(), idempotency::keyed))
        .layer(from_fn_with_state(control.clone(), check_key));
    // These have permissions of their own.
    Router::new()
        .route("/health", get(|| async { StatusCode::NO_CONTENT }))
        .route("/oncebox-uploads/{id}/{hash}", put(templates::receive_upload))
        .route("/volumecontent/{id}/path", get(volumes::stat).patch(volumes::update).delete(volumes::remove))
        .route("/volumecontent/{id}/dir", get(volumes::list_dir).post(volumes::make_dir))
        .route("/volumecontent/{id}/file", get(volumes::read).put(volumes::write))
        .method_not_allowed_fallback(no_such_method)
        .fallback_service(keyed.with_state(control.clone()))
        .with_state(control)
}

fn sandbox_routes() -> Router<Control> {
    Router::new()
        .route("/v2/sandboxes", get(listing::list).post(create::create))
        .route("/v2/sandboxes/{id}/connect", post(sandboxes::connect))
        .route("/v2/sandboxes/{id}/logs", get(observe::logs))
        .route("/sandboxes", get(listing::list_v1).post(create::create_v1))
        .route("/sandboxes/metrics", get(observe::metrics_of_many))
        .route("/sandboxes/{id}", get(sandboxes::info).delete(sandboxes::kill))
        .route("/sandboxes/{id}/connect", post(sandboxes::connect_v1))
        .route("/sandboxes/{id}/fork", post(create::fork))
        .route("/sandboxes/{id}/logs", get(observe::logs_v1))
        .route("/sandboxes/{id}/metrics", get(observe::metrics))
        .route("/sandboxes/{id}/network", put(sandboxes::set_network))
        .route("/sandboxes/{id}/pause", post(sandboxes::pause))
        .route("/sandboxes/{id}/refreshes", post(sandboxes::refresh))
        .route("/sandboxes/{id}/resume", post(sandboxes::resume))
        .route("/sandboxes/{id}/snapshots", post(templates::create_snapshot))
        .route("/sandboxes/{id}/timeout", post(sandboxes::set_timeout))
        .route("/snapshots", get(templates::list_snapshots))
        .route("/events/sandboxes", get(observe::events))
        .route("/events/sandboxes/{id}", get(observe::events_of_one))
}

fn template_routes() -> Router<Control> {
    Router::new()
        .route("/v3/templates", post(templates::create))
        .route("/v2/templates", get(templates::list).post(templates::create_v2))
        .route("/v2/templates/{id}", patch(templates::update))
        .route("/v2/templates/{id}/builds/{build}", post(templates::start_build))
        .route("/default-templates", get(templates::default_templates))
        .route("/templates", get(templates::list_v1))
        .route("/templates/tags", post(templates::assign_tags).delete(templates::remove_tags))
        .route("/templates/aliases/{alias}", get(templates::alias))
        .route("/templates/{id}", get(templates::get).delete(templates::delete).patch(templates::update))
        .route("/templates/{id}/files/{hash}", get(templates::upload_link))
        .route("/templates/{id}/builds/{build}/status", get(templates::build_status))
        .route("/templates/{id}/builds/{build}/logs", get(templates::build_logs))
        .route("/templates/{id}/tags", get(templates::tags))
        .route("/templates/{id}/tags/count", get(templates::count_tags))
        .route("/templates/{id}/tags/exists", get(templates::tag_exists))
}

fn account_routes() -> Router<Control> {
    Router::new()
        .route("/secrets", get(secrets::list).post(secrets::create))
        .route("/secrets/{id}", get(secrets::get).post(secrets::update).delete(secrets::delete))
        .route("/volumes", get(volumes::list).post(volumes::create))
        .route("/volumes/{id}", get(volumes::get).delete(volumes::delete))
        .route("/api-keys", get(account::list_keys).post(account::create_key))
        .route("/api-keys/{id}", patch(account::rename_key).delete(account::delete_key))
        .route("/access-tokens", post(account::create_token))
        .route("/access-tokens/{id}", delete(account::delete_token))
        .route("/teams", get(account::teams))
        .route("/teams/{id}/metrics", get(account::team_metrics))
        .route("/teams/{id}/metrics/max", get(account::max_team_metric))
        .route("/events/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/events/webhooks/{id}", get(webhooks::get).patch(webhooks::update).delete(webhooks::delete))
        .route("/events/webhooks/{id}/deliveries", get(webhooks::deliveries))
        .route("/events/webhooks/{id}/stats", get(webhooks::stats))
}

/// On a loopback port any key will do: whoever reaches it is this machine's user. A missing one is refused, so that a
/// program that forgets its key fails here as it would elsewhere. Where a token was set, only that one and keys made with
/// it will do.
async fn check_key(State(control): State<Control>, request: Request, next: Next) -> Response {
    let call = request.extensions().get::<Call>().and_then(|call| call.operation);
    if credential(request.headers()).is_none() && control.token.is_none() {
        let message = "X-API-KEY is missing; the local server takes any value";
        return Refusal::new(StatusCode::UNAUTHORIZED, message).into_response();
    }
    if let Err(refusal) = control.check_token(request.headers()) {
        return refusal.into_response();
    }
    let mut response = next.run(request).await;
    if response.status().is_server_error() && call.is_some_and(|operation| operation.mints) {
        // Clients that repeat whatever fails would make another.
        response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
    }
    response
}

/// The credential of a request: an API key, or the token of an account.
fn credential(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty());
    let bearer = || text(header::AUTHORIZATION.as_str())?.strip_prefix("Bearer ").filter(|token| !token.is_empty());
    text("x-api-key").or_else(bearer)
}

impl Control {
    /// The same for a server that is reached at this address and, if there is a token, by who knows it.
    pub(crate) fn reached_at(mut self, addr: SocketAddr, token: Option<SecretString>) -> Self {
        self.addr = addr;
        self.token = token;
        self
    }

    /// Refuses who does not know the token, where there is one.
    pub(crate) fn check_token(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let message = match credential(headers) {
            Some(given) if self.accepts(given, token) => return Ok(()),
            Some(_) => "X-API-KEY is not the token that this server was started with, nor a key made with it",
            None => "X-API-KEY is missing; this server takes the token that it was started with",
        };
        Err(Refusal::new(StatusCode::UNAUTHORIZED, message))
    }

    /// A person's browser sends a password where it was asked for one, and no header of ours.
    pub(crate) fn check_visitor(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let password =
            given.and_then(|given| given.strip_prefix("Basic ")).and_then(|given| STANDARD.decode(given).ok());
        let password = password.and_then(|given| String::from_utf8(given).ok());
        let password = password.as_deref().and_then(|given| given.split_once(':')).map(|(_, password)| password);
        match password {
            Some(password) if self.accepts(password, token) => Ok(()),
            _ => self.check_token(headers),
        }
    }

    fn accepts(&self, given: &str, token: &SecretString) -> bool {
        if same(given.as_bytes(), token.expose().as_bytes()) {
            return true;
        }
        let hash = account::hash(given);
        [&self.api_keys, &self.access_tokens].iter().any(|keys| keys.find(|key| key.is_of(&hash)).is_some())
    }
}

async fn no_such_route(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(StatusCode::NOT_FOUND, format!("the local server has no {method} {}", path.escape_debug()))
}

async fn no_such_method(request: Request) -> Refusal {
    let (method, path) = (request.method(), request.uri().path());
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} is not for {method}", path.escape_debug()))
}
