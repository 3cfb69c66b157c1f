//! The Filesystem service. Contents travel over `/files`; see [`files`](super::files).

mod entry;
mod operations;

use std::path::PathBuf;
use std::sync::Arc;

use buffa::MessageField;
use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream};
use oncebox_protocol::envd::filesystem::{
    CreateWatcherRequest, CreateWatcherResponse, Filesystem, FilesystemExt, GetWatcherEventsRequest,
    GetWatcherEventsResponse, ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse, MoveRequest,
    MoveResponse, RemoveRequest, RemoveResponse, RemoveWatcherRequest, RemoveWatcherResponse, StatRequest,
    StatResponse, WatchDirRequest, WatchDirResponse,
};

use super::paths::Paths;
use super::users::User;

/// Serves the Filesystem service through `router`.
pub(super) fn register(paths: Arc<Paths>, router: connectrpc::Router) -> connectrpc::Router {
    Arc::new(FilesystemService { paths }).register(router)
}

struct FilesystemService {
    paths: Arc<Paths>,
}

impl FilesystemService {
    /// What a path of this request means.
    fn resolve(&self, path: &str, ctx: &RequestContext) -> Result<PathBuf, ConnectError> {
        let user = User::of(ctx.headers()).map_err(ConnectError::unauthenticated)?;
        self.paths.resolve(path, user).map_err(ConnectError::invalid_argument)
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

/// Watchers are for a later version; the code is what clients expect of a server without a method.
fn no_watchers<T>() -> Result<T, ConnectError> {
    Err(ConnectError::unimplemented("the local server cannot watch directories yet: poll with ListDir"))
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
        _: RequestContext,
        _: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<WatchDirResponse>> {
        no_watchers()
    }

    async fn create_watcher(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<CreateWatcherResponse> {
        no_watchers()
    }

    async fn get_watcher_events(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, GetWatcherEventsRequest>,
    ) -> ServiceResult<GetWatcherEventsResponse> {
        no_watchers()
    }

    async fn remove_watcher(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, RemoveWatcherRequest>,
    ) -> ServiceResult<RemoveWatcherResponse> {
        no_watchers()
    }
}
