//! Building a template, and watching a build.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use oncebox_protocol::api::{self, BuildLogEntry, BuildStatus, BuildStatusInfo};
use oncebox_protocol::{SecretString, operations};

use super::{Template, upload};
use crate::Client;
use crate::client::{ApiCall, parse};
use crate::error::{Error, ErrorKind};
use crate::rpc::query;

/// How often a build is asked how far it is (protocol fact: as the official SDKs do).
const POLL_EVERY: Duration = Duration::from_millis(200);

/// So many polls may fail one after the other, each with its own retries, before the build is given up on, and the longest
/// wait between two of them. About a minute.
const MAX_FAILED_POLLS: u32 = 16;
const MAX_POLL_WAIT: Duration = Duration::from_secs(5);

/// Entries of one answer (protocol fact).
const PAGE: usize = 100;

/// Is told what happens.
pub(super) type Told = dyn Fn(BuildEvent) + Send + Sync;

/// What happens while a template is built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BuildEvent {
    /// The server has these files already.
    AlreadyThere {
        /// What was to be copied, as the recipe names it.
        from: String,
    },
    /// So many bytes of these files' archive have been read to be sent. Begins again when the upload does.
    Uploading {
        /// What is copied, as the recipe names it.
        from: String,
        /// Bytes so far.
        sent: u64,
        /// Bytes in all.
        of: u64,
    },
    /// The build was started: who knows its ids can [ask for it](super::Templates::known_build) whatever comes of the watching.
    Started {
        /// The template that it builds.
        template_id: String,
        /// The build's id.
        build_id: String,
        /// The template's names.
        names: Vec<String>,
        /// The build's tags.
        tags: Vec<String>,
    },
    /// The build wrote to its log.
    Log(BuildLogEntry),
}

/// A build about to begin: see [`Templates::build`](super::Templates::build). Await it, which waits for the build's end.
#[must_use = "a build does nothing until it is awaited"]
pub struct BuildTemplate {
    client: Client,
    template: Template,
    body: api::NewTemplate,
    forced: bool,
    told: Arc<Told>,
}

/// A build that was started.
#[derive(Clone)]
pub struct TemplateBuild {
    client: Client,
    /// This started the build, which is part of what it is asked to do.
    ours: bool,
    /// Of the image's registry, where this started the build.
    password: Option<SecretString>,
    template_id: String,
    build_id: String,
    names: Vec<String>,
    tags: Vec<String>,
}

impl BuildTemplate {
    pub(super) fn new(client: &Client, template: &Template, name: String) -> Self {
        Self {
            client: client.clone(),
            template: template.clone(),
            body: api::NewTemplate { name: Some(name), ..Default::default() },
            forced: false,
            told: Arc::new(|_| {}),
        }
    }

    /// Lets a tag point to the build.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.body.tags.get_or_insert_default().push(tag.into());
        self
    }

    /// CPU cores of its sandboxes. Default: the server's.
    pub fn cpu_count(mut self, cores: u32) -> Self {
        self.body.cpu_count = Some(i32::try_from(cores).unwrap_or(i32::MAX));
        self
    }

    /// Memory of its sandboxes in MiB. Default: the server's.
    pub fn memory_mb(mut self, mebibytes: u32) -> Self {
        self.body.memory_mb = Some(i32::try_from(mebibytes).unwrap_or(i32::MAX));
        self
    }

    /// Disk that shall be left free after the build, in MiB. Default: the server's.
    pub fn min_free_disk_mb(mut self, mebibytes: u32) -> Self {
        self.body.min_free_disk_mb = Some(i32::try_from(mebibytes).unwrap_or(i32::MAX));
        self
    }

    /// Builds every step anew.
    pub fn skip_cache(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Is told what happens. It should not block.
    pub fn on_event(mut self, told: impl Fn(BuildEvent) + Send + Sync + 'static) -> Self {
        self.told = Arc::new(told);
        self
    }

    /// Registers the template, uploads its files and starts the build, and does not wait for its end.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](ErrorKind::InvalidArgument) for a step or name that makes no sense, and for files that are not
    /// there, before any I/O with the server; otherwise that it could not be registered, uploaded or started. Asked to build
    /// the same name once more, a server builds the same template.
    pub async fn start(self) -> Result<TemplateBuild, Error> {
        let password = self.template.password().cloned();
        self.register_and_start().await.map_err(|error| without(error, password.as_ref()))
    }

    async fn register_and_start(self) -> Result<TemplateBuild, Error> {
        const ACTION: &str = "build the template";
        self.check()?;
        let found = upload::find_all(&self.template).await?;
        let hashes: Vec<String> = found.iter().map(|(_, files)| files.hash.clone()).collect();

        let call = ApiCall::new(&operations::CREATE_TEMPLATE, ACTION, []).json(&self.body)?;
        let made: api::RequestedBuild = parse(ACTION, &self.client.call(call).await?)?;
        for (copy, files) in found {
            let sent = upload::upload(&self.client, &made.template_id, &copy, files, &self.told).await;
            sent.map_err(|error| of_build(error, &made.template_id, &made.build_id))?;
        }
        let start = self.template.start_build(self.forced, &hashes);
        let parameters = [&*made.template_id, &*made.build_id];
        let call = ApiCall::new(&operations::START_BUILD, ACTION, parameters).json(&start)?;
        let begun = self.client.call(call).await;
        begun.map_err(|error| of_build(error, &made.template_id, &made.build_id))?;
        (self.told)(BuildEvent::Started {
            template_id: made.template_id.clone(),
            build_id: made.build_id.clone(),
            names: made.names.clone(),
            tags: made.tags.clone(),
        });
        Ok(TemplateBuild {
            password: self.template.password().cloned(),
            client: self.client,
            ours: true,
            template_id: made.template_id,
            build_id: made.build_id,
            names: made.names,
            tags: made.tags,
        })
    }

    fn check(&self) -> Result<(), Error> {
        self.template.check()?;
        let name = self.body.name.as_deref().unwrap_or_default();
        if name.trim().is_empty() || name.contains(char::is_whitespace) {
            return Err(Error::invalid(format!(
                "name: {name:?} is no template's name, such as my-template or my-template:v1"
            )));
        }
        if let Some(tag) = self.body.tags.iter().flatten().find(|tag| tag.is_empty() || tag.contains([':', '/', ' '])) {
            return Err(Error::invalid(format!("tag: {tag:?} is no tag")));
        }
        let zero = [("cpu_count", self.body.cpu_count), ("memory_mb", self.body.memory_mb)];
        match zero.into_iter().find(|(_, value)| *value == Some(0)) {
            Some((option, _)) => Err(Error::invalid(format!("{option}: 0 is too few"))),
            None => Ok(()),
        }
    }

    async fn build(self) -> Result<TemplateBuild, Error> {
        let told = Arc::clone(&self.told);
        let build = self.start().await?;
        let mut log = std::pin::pin!(build.logs());
        while let Some(entry) = log.try_next().await? {
            told(BuildEvent::Log(entry));
        }
        Ok(build)
    }
}

impl IntoFuture for BuildTemplate {
    type Output = Result<TemplateBuild, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.build())
    }
}

impl TemplateBuild {
    /// A build by its ids, started by whomever.
    pub(super) fn known(client: &Client, template_id: &str, build_id: &str) -> Self {
        Self {
            client: client.clone(),
            ours: false,
            password: None,
            template_id: template_id.to_owned(),
            build_id: build_id.to_owned(),
            names: Vec::new(),
            tags: Vec::new(),
        }
    }

    /// The template that it builds.
    pub fn template_id(&self) -> &str {
        &self.template_id
    }

    /// The build's id.
    pub fn build_id(&self) -> &str {
        &self.build_id
    }

    /// The template's names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The build's tags.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// How far it is, and at most 100 entries of its log from the `offset`-th on.
    ///
    /// # Errors
    ///
    /// [`NotFound`](ErrorKind::NotFound) when there is no such build.
    pub async fn status(&self, offset: usize) -> Result<BuildStatusInfo, Error> {
        const ACTION: &str = "ask how far the build is";
        let mut call = ApiCall::new(&operations::GET_BUILD_STATUS, ACTION, [&*self.template_id, &*self.build_id]);
        call.query = query([("logsOffset", &*offset.to_string()), ("limit", &*PAGE.to_string())]);
        let answer = self.client.call(call).await.and_then(|answer| parse(ACTION, &answer));
        answer.map_err(|error| without(error, self.password.as_ref()))
    }

    /// Its log from the beginning, until it ends; the stream's last item is an error if the build failed.
    ///
    /// A poll that fails is made again, also after its own retries: a build goes on whoever watches. Only when about a minute
    /// of them failed one after the other is that the stream's error.
    ///
    /// Where this handle is that of [`BuildTemplate::start`], errors say that the build was started, and
    /// [name](Error::candidates) it.
    pub fn logs(&self) -> impl Stream<Item = Result<BuildLogEntry, Error>> + Send + use<> {
        let watch = Watch { build: self.clone(), offset: 0, read: VecDeque::new(), over: false };
        futures_util::stream::try_unfold(watch, |mut watch| async move {
            let next = watch.next().await.map_err(|error| watch.build.told(error))?;
            Ok(next.map(|entry| (entry, watch)))
        })
    }

    /// An error of watching it, as it is told.
    fn told(&self, error: Error) -> Error {
        let error = without(error, self.password.as_ref());
        if self.ours { of_build(error, &self.template_id, &self.build_id) } else { error }
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// [`BuildFailed`](ErrorKind::BuildFailed) with the step and the server's reason; or that it could not be asked.
    pub async fn wait(&self) -> Result<(), Error> {
        self.logs().try_for_each(|_| std::future::ready(Ok(()))).await
    }
}

/// One reader of a build's log.
struct Watch {
    build: TemplateBuild,
    offset: usize,
    read: VecDeque<BuildLogEntry>,
    over: bool,
}

impl Watch {
    async fn next(&mut self) -> Result<Option<BuildLogEntry>, Error> {
        loop {
            if let Some(entry) = self.read.pop_front() {
                return Ok(Some(entry));
            }
            if self.over {
                return Ok(None);
            }
            let info = self.poll().await?;
            let entries = info.log_entries.len();
            self.offset += entries;
            self.read.extend(info.log_entries);
            match info.status {
                // There may be more of its log.
                BuildStatus::Ready | BuildStatus::Error if entries >= PAGE => {}
                BuildStatus::Ready => self.over = true,
                BuildStatus::Error if self.read.is_empty() => return Err(failed(info.reason)),
                // What is left of the log first.
                BuildStatus::Error => {}
                _ if entries >= PAGE => {}
                _ => tokio::time::sleep(POLL_EVERY).await,
            }
        }
    }

    async fn poll(&self) -> Result<BuildStatusInfo, Error> {
        let mut failed = 0;
        loop {
            match self.build.status(self.offset).await {
                Ok(info) => return Ok(info),
                Err(error) if failed < MAX_FAILED_POLLS && may_pass(&error) => {
                    tracing::debug!("asking again how far the build is: {error}");
                    tokio::time::sleep((POLL_EVERY * 2_u32.saturating_pow(failed)).min(MAX_POLL_WAIT)).await;
                    failed += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// An error after the build was registered: it names what can be asked for, whatever became of it.
fn of_build(error: Error, template_id: &str, build_id: &str) -> Error {
    let error = error.also(&format!("this was build {build_id} of template {template_id}")).partly();
    error.with_candidates(vec![build_id.to_owned()])
}

/// What logs in at a registry may have been repeated by the server.
fn without(error: Error, password: Option<&SecretString>) -> Error {
    match password {
        Some(password) => error.without(password.expose()),
        None => error,
    }
}

/// Whether the same question may be answered later.
fn may_pass(error: &Error) -> bool {
    use ErrorKind::{Authentication, InvalidArgument, NotFound, Unsupported};
    !matches!(error.kind(), InvalidArgument | Authentication | NotFound | Unsupported)
}

fn failed(reason: Option<api::BuildStatusReason>) -> Error {
    const ACTION: &str = "build the template";
    let message = match reason {
        None => "the server gives no reason".to_owned(),
        Some(reason) => match reason.step {
            Some(step) => format!("step {step}: {}", reason.message),
            None => reason.message,
        },
    };
    Error::new(ErrorKind::BuildFailed, ACTION, message)
}

impl fmt::Debug for BuildTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildTemplate")
            .field("name", &self.body.name)
            .field("template", &self.template)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TemplateBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = (&self.template_id, &self.build_id);
        f.debug_struct("TemplateBuild").field("template_id", ids.0).field("build_id", ids.1).finish_non_exhaustive()
    }
}
