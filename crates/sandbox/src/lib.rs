//! Sandboxes over HTTP whose effects happen once.
//!
//! A [`Sandbox`] is a machine of its own, reached over HTTP, in which [commands](Sandbox::commands) run and
//! [files](Sandbox::files) live. This crate speaks the E2B sandbox protocol: to E2B's cloud, to self-hosted clusters,
//! and to an embedded host on this machine (feature `local`), which needs no account:
//!
//! ```no_run
//! # #[cfg(feature = "local")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox::Error> {
//! use oncebox::{Client, Sandbox};
//!
//! let client = Client::local().await?; // or Client::from_env()? for E2B_API_KEY and friends
//! let sandbox = Sandbox::create(&client).await?;
//!
//! sandbox.files().write("greeting.txt", "hello").await?;
//! let output = sandbox.commands().run("cat greeting.txt; exit 7").await?;
//! assert_eq!((output.stdout_text().as_str(), output.exit_code()), ("hello", 7));
//!
//! sandbox.kill().await?;
//! client.close().await;
//! # Ok(()) }
//! # #[cfg(not(feature = "local"))]
//! # fn main() {}
//! ```
//!
//! # What happens when the network fails
//!
//! Each call ends as *done*, *not done*, or *unknown*, and its [`Error`] says which, with every attempt that was
//! made. What was provably not processed is sent again within the call's deadline; what may have been processed is
//! repeated only where a repeat has no further effect. A command is never started twice.
//!
//! ```
//! # fn example(result: Result<(), oncebox::Error>) {
//! match result {
//!     Ok(()) => println!("done"),
//!     Err(error) if error.may_have_been_processed() => println!("unknown: {error}"),
//!     Err(error) => println!("not done: {error}"),
//! }
//! # }
//! ```

#![deny(missing_docs)]

mod account;
mod client;
mod commands;
mod config;
mod desktop;
mod endpoint;
mod error;
mod files;
mod fleet;
pub mod forward;
mod git;
mod interpreter;
mod mint;
mod once;
mod options;
mod paged;
mod rpc;
mod sandbox;
mod secrets;
mod shell;
mod template;
mod trail;
mod volumes;

pub use account::{Account, ApiKey, CreatedApiKey, Team};
pub use client::{Client, ClientBuilder};
pub use commands::{
    AttachDurable, Command, CommandEvent, CommandHandle, CommandOutput, Commands, DurableCommand, DurableControl, Exit,
    Offsets, ProcessInfo, Pty, StartDurable, StreamOptions, TerminalSize, Utf8Decoder, WhenFull,
};
pub use desktop::{Desktop, DesktopStream, DesktopUrl, MouseButton, ScrollDirection, StartStream};
pub use endpoint::Endpoint;
pub use error::{Error, ErrorKind};
pub use files::{
    DirWatch, DownloadDir, Entry, EntryKind, FileEvent, FileEventKind, FileStream, Files, TransferProgress,
    Transferred, UploadDir, WatchDir, Watcher, WriteFile, WriteFiles,
};
pub use fleet::{Fleet, FleetProgress, FleetReport};
pub use git::{
    Git, GitBranches, GitClone, GitCommit, GitFileStatus, GitPull, GitPush, GitRemoteAdd, GitReset, GitResetMode,
    GitRestore, GitScope, GitStatus,
};
pub use interpreter::{
    BarChart, BoxAndWhiskerChart, BoxElement, CODE_INTERPRETER_TEMPLATE, Chart, ChartAxes, CodeContext, CodeEvent,
    CodeOutput, CodeResult, CodeRun, CreateCodeContext, Execution, ExecutionError, LabeledValue, Logs, PieChart,
    PieElement, PointChart, PointSeries, RunCode, SuperChart,
};
pub use once::Leftover;
pub use options::CallOptions;
pub use sandbox::{
    Came, ConnectSandbox, CreateSandbox, Killed, ListSandboxes, ListSnapshots, NetworkUpdate, Order, Pages, Pause,
    Paused, Sandbox, SandboxInfo, SandboxLogEntry, SandboxMetric, SandboxState, Snapshot, SnapshotPages,
};
pub use secrets::{CreateSecret, ListSecrets, Secret, SecretInfo, SecretPages, UpdateSecret};
pub use template::{
    BuildEvent, BuildTemplate, CopyFiles, InstallFor, ListTemplates, Ready, Template, TemplateBuild, TemplateStep,
    Templates,
};
pub use volumes::{
    MakeVolumeDir, UpdateVolumeEntry, Volume, VolumeEntry, VolumeEntryKind, VolumeInfo, WriteVolumeFile,
};

pub use oncebox_protocol::SecretString;
pub use oncebox_protocol::api::{
    AssignedTags, BuildLogEntry, BuildStatus, BuildStatusInfo, LogLevel, Template as TemplateInfo, TemplateTag,
    TemplateWithBuilds,
};
pub use oncebox_protocol::api::{SandboxIam, SandboxIamToken, SandboxLifecycle, SandboxNetwork, VolumeMount};
pub use oncebox_protocol::envd_rest::WrittenFile;
pub use oncebox_transport::policy::{IdempotencyKeys, Policy};
pub use oncebox_transport::{Body, BodyError, BoxError, HttpVersion, Proxy, ResponseBody};

#[cfg(feature = "local")]
pub use oncebox_local as local;

/// The transport below: connections, attempts, outcomes.
pub use oncebox_transport as transport;

/// The examples of the README.
#[cfg(all(doctest, feature = "local"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the guide.
#[cfg(all(doctest, feature = "local"))]
#[doc = include_str!("../../../docs/GUIDE.md")]
struct Guide;
