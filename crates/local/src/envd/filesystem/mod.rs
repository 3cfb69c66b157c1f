//! The Filesystem service. Contents travel over `/files`; see [`files`](super::files).

mod entry;
mod operations;
mod watch;
mod watchers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use buffa::MessageField;
use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream};
use futures_util::Stream;
use oncebox_protocol::envd::filesystem::__buffa::oneof::watch_dir_response::Event;
use oncebox_protocol::envd::filesystem::watch_dir_response::{KeepAlive, StartEvent};
use oncebox_protocol::envd::filesystem::{
    CreateWatcherRequest, CreateWatcherResponse, Filesystem, FilesystemExt, GetWatcherEventsRequest,
    GetWatcherEventsResponse, ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse, MoveRequest,
    MoveResponse, RemoveRequest, RemoveResponse, RemoveWatcherRequest, RemoveWatcherResponse, StatRequest,
    StatResponse, WatchDirRequest, WatchDirResponse,
};

use self::watch::Watch;
use self::watchers::{Asked, Watchers};
use super::paths::Paths;
use super::process::keepalive_of;
use super::timeout::{at_most, timeout_of};

/// Serves the Filesystem service through `router`.
pub(super) fn register(paths: Arc<Paths>, router: connectrpc::Router) -> connectrpc::Router {
    Arc::new(FilesystemService { paths, watchers: Watchers::default() }).register(router)
}

struct FilesystemService {
    paths: Arc<Paths>,
    watchers: Watchers,
}

impl FilesystemService {
    /// What a path of this request means.
    fn resolve(&self, path: &str, ctx: &RequestContext) -> Result<PathBuf, ConnectError> {
        let user = self.paths.user_of(ctx.headers()).map_err(ConnectError::unauthenticated)?;
        self.paths.resolve(path, user).map_err(ConnectError::invalid_argument)
    }

    async fn watch(
        &self,
        ctx: &RequestContext,
        path: &str,
        recursive: bool,
        include_entry: bool,
        allow_network_mounts: bool,
    ) -> Result<Watch, ConnectError> {
        let asked = Asked { path: self.resolve(path, ctx)?, recursive, include_entry, allow_network_mounts };
        let paths = Arc::clone(&self.paths);
        // A watch registers with the runtime, which the threads for blocking work belong to.
        tokio::task::spawn_blocking(move || watchers::watch(asked, &paths))
            .await
            .unwrap_or_else(|error| Err(ConnectError::internal(format!("the watch was not set: {error}"))))
    }

    /// File operations block, and must not hold up everybody else.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Paths) -> Result<T, ConnectError> + Send + 'static,
    ) -> Result<T, ConnectError> {
        let paths = Arc::clone(&self.paths);
        tokio::task::spawn_blocking(move || work(&paths))
            .await
            .unwrap_or_else(|error| Err(ConnectError::internal(format!("the operation was not finished: {error}"))))
    }
}

/// The events of a watch, the start first; keepalives in between.
fn changes(
    mut watch: Watch,
    keepalive: Duration,
) -> impl Stream<Item = Result<WatchDirResponse, ConnectError>> + Send + 'static {
    let response = |event: Event| WatchDirResponse { event: Some(event), ..WatchDirResponse::default() };
    async_stream::stream! {
        yield Ok(response(StartEvent::default().into()));
        loop {
            match tokio::time::timeout(keepalive, watch.next()).await {
                Ok(Ok(events)) => for event in events {
                    yield Ok(response(event.into()));
                },
                Ok(Err(error)) => {
                    yield Err(ConnectError::resource_exhausted(format!("the watch has ended: {error}")));
                    return;
                }
                Err(_) => yield Ok(response(KeepAlive::default().into())),
            }
        }
    }
}

#[allow(refining_impl_trait, reason = "the concrete types are nobody's API")]
impl Filesystem for FilesystemService {
    async fn stat(&self, ctx: RequestContext, request: ServiceRequest<'_, StatRequest>) -> ServiceResult<StatResponse> {
        let path = self.resolve(request.view().path, &ctx)?;
        let entry = self.blocking(move |paths| operations::stat(&path, paths)).await?;
        Response::ok(StatResponse { entry: MessageField::some(entry), ..StatResponse::default() })
    }

    async fn make_dir(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, MakeDirRequest>,
    ) -> ServiceResult<MakeDirResponse> {
        let path = self.resolve(request.view().path, &ctx)?;
        let entry = self.blocking(move |paths| operations::make_dir(&path, paths)).await?;
        Response::ok(MakeDirResponse { entry: MessageField::some(entry), ..MakeDirResponse::default() })
    }

    async fn r#move(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, MoveRequest>,
    ) -> ServiceResult<MoveResponse> {
        let source = self.resolve(request.view().source, &ctx)?;
        let destination = self.resolve(request.view().destination, &ctx)?;
        let entry = self.blocking(move |paths| operations::move_entry(&source, &destination, paths)).await?;
        Response::ok(MoveResponse { entry: MessageField::some(entry), ..MoveResponse::default() })
    }

    async fn list_dir(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, ListDirRequest>,
    ) -> ServiceResult<ListDirResponse> {
        let path = self.resolve(request.view().path, &ctx)?;
        let depth = request.view().depth;
        let entries = self.blocking(move |paths| operations::list(&path, depth, paths)).await?;
        Response::ok(ListDirResponse { entries, ..ListDirResponse::default() })
    }

    async fn remove(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, RemoveRequest>,
    ) -> ServiceResult<RemoveResponse> {
        let path = self.resolve(request.view().path, &ctx)?;
        self.blocking(move |paths| operations::remove(&path, paths)).await?;
        Response::ok(RemoveResponse::default())
    }

    async fn watch_dir(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<WatchDirResponse>> {
        let request = request.to_owned_message();
        let watch =
            self.watch(&ctx, &request.path, request.recursive, request.include_entry, request.allow_network_mounts);
        let timeout = timeout_of(ctx.headers())?;
        Ok(Response::stream(at_most(timeout, changes(watch.await?, keepalive_of(ctx.headers())))))
    }

    async fn create_watcher(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<CreateWatcherResponse> {
        let request = request.to_owned_message();
        let watch =
            self.watch(&ctx, &request.path, request.recursive, request.include_entry, request.allow_network_mounts);
        let watcher_id = self.watchers.add(watch.await?)?;
        Response::ok(CreateWatcherResponse { watcher_id, ..CreateWatcherResponse::default() })
    }

    async fn get_watcher_events(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GetWatcherEventsRequest>,
    ) -> ServiceResult<GetWatcherEventsResponse> {
        let events = self.watchers.take(request.view().watcher_id)?;
        Response::ok(GetWatcherEventsResponse { events, ..GetWatcherEventsResponse::default() })
    }

    async fn remove_watcher(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, RemoveWatcherRequest>,
    ) -> ServiceResult<RemoveWatcherResponse> {
        self.watchers.remove(request.view().watcher_id)?;
        Response::ok(RemoveWatcherResponse::default())
    }
}
