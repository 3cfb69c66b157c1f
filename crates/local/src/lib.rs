//! The embedded sandbox host: control plane and envd for local processes, on one loopback port.
//!
//! [`LocalServer`] is an E2B-compatible server in one process: no Docker, no virtual machine, no account. Each sandbox it
//! makes is a root folder of its own and commands in their own namespaces, started in milliseconds and gone without trace
//! when it is killed, when its time is over, or when the server ends, however it ends.
//!
//! # In a test
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use oncebox_local::{LocalServer, StartError};
//!
//! let server = match LocalServer::start().await {
//!     Ok(server) => server,
//!     // Says what to build, or what the kernel does not allow.
//!     Err(error @ (StartError::HelperNotFound { .. } | StartError::IsolationUnavailable { .. })) => {
//!         println!("SKIP: {error}");
//!         return Ok(());
//!     }
//!     Err(error) => return Err(error.into()),
//! };
//! // Any client of the protocol works: one URL for the control plane, sandboxes and volumes, and any API key.
//! let tests = std::process::Command::new("env") // pytest, for instance
//!     .env("E2B_API_URL", server.url())
//!     .env("E2B_SANDBOX_URL", server.url())
//!     .env("E2B_VOLUME_API_URL", server.url())
//!     .env("E2B_API_KEY", "local")
//!     .env("NO_PROXY", "127.0.0.1,localhost")
//!     .status()?;
//! assert!(tests.success());
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! The server runs on the caller's tokio runtime. Inside each sandbox runs a helper, a program that calls
//! [`helper_main`]: `oncebox-envd` of this package, or the caller itself; see [`Helper`].
//!
//! # In a program that is its own helper
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use oncebox_local::{Helper, LocalServer};
//!
//! fn main() -> ExitCode {
//!     // First of all: a sandbox cannot be made by a program that has started threads.
//!     let mut args = std::env::args_os().skip(1).peekable();
//!     if args.next_if(|arg| arg == "envd-helper").is_some() {
//!         return oncebox_local::helper_main(args);
//!     }
//!     match run() {
//!         Ok(()) => ExitCode::SUCCESS,
//!         Err(error) => {
//!             eprintln!("{error}");
//!             ExitCode::FAILURE
//!         }
//!     }
//! }
//!
//! #[tokio::main]
//! async fn run() -> Result<(), Box<dyn std::error::Error>> {
//!     let helper = Helper::new(std::env::current_exe()?).arg("envd-helper");
//!     let server = LocalServer::builder().helper(helper).start().await?;
//!     println!("{}", server.url());
//!     server.stop().await;
//!     Ok(())
//! }
//! ```
//!
//! # What a sandbox is
//!
//! A sandbox has its own user, mount, pid, network, IPC and UTS namespaces. Its root shows `/usr`, `/bin`, `/sbin`, `/lib*`
//! and `/opt` of the machine, read-only, and a few files of `/etc`; `/home/user`, `/root`, `/tmp`, `/var/tmp` and `/run` are
//! its own, `/proc` and `/dev` are new. It has a loopback interface and no other. It has no home of the machine's users, no
//! descriptor, variable or terminal of the server's, and no way to the server's port.
//!
//! One user exists in it, the one who runs the server. It has two names, `user` and `root`, with homes of their own;
//! `whoami` says `user`, `id -u` says 0, and neither may do more than the other.
//!
//! Where the kernel does not allow namespaces, the server does not start, and [`StartError::IsolationUnavailable`] says
//! which step failed. [`Isolation::None`] is for those who want to go on all the same: a sandbox then is a folder, and its
//! commands are processes of this user's that can do what this user can. Linux is supported so far.
//!
//! # What it does where the protocol leaves room
//!
//! - `Connect-Timeout-Ms` of `Start` is the time after which the process is killed, and nothing else: the stream goes on to
//!   the end event that tells of it.
//! - Signals and that kill go to the process, not to its group, as in E2B's envd: what it left in the background goes on.
//! - The end event comes when the process has ended and all it wrote has been handed on. Children that still hold its pipes
//!   do not delay it; what they write later is read and dropped.
//! - Output is not kept: without a listener it is dropped. A listener that reads slowly slows the process down.
//! - The end of a process can be asked for during 30 seconds.
//! - A file that is written appears when all of it has arrived, or not at all.
//! - `DELETE` answers when no process and no file of the sandbox is left.
//! - A program that listens on a port of the sandbox's loopback is reached through the server: by the host
//!   `<port>-<sandbox>.localhost`, or by the routing headers. HTTP/1.1 and HTTP/2 come in, HTTP/1.1 goes on; connections that
//!   change their protocol, such as WebSockets, are relayed.
//! - `/files` gives strong entity tags, parts of files (one range a request; several are answered with the whole), and gzip
//!   to whoever takes it and asks for no part. `X-Metadata-*` is kept where the file system has extended attributes.
//! - `/files/compose` removes the parts when the whole is there.
//! - Watches tell of uploads as a write under the file's own name. More events than can be kept end a watch with an error.
//! - Port 49999 is the code interpreter, over kernels of Jupyter, unless a program of the sandbox listens there. Code whose
//!   client leaves is interrupted.
//! - A pause stops the sandbox's processes where they are, and they go on when it is resumed; a pause without memory ends
//!   them and keeps the files. Forks and snapshots are copies of files; processes are not copied.
//! - Templates are built on this machine's programs or on other templates; there are no images to begin with.
//! - With [`state`](LocalServerBuilder::state), sandboxes outlive the server as paused ones, with their files.
//! - Processors, memory and the number of processes are limited by control groups where the server has some of its own, and
//!   else by weaker means; [`explain`](LocalServerBuilder::explain) tells which. Disk space is not limited.
//! - What is asked for and cannot be done is refused in words.
//!
//! # Faults on demand
//!
//! `PUT /oncebox/faults` with a JSON document makes the server misbehave, and `GET /oncebox/effects` tells what really
//! happened, so that a client's promises can be tested:
//!
//! ```json
//! {"seed": 7, "list_lag": 2.0, "rules": [
//!     {"on": ["create"], "probability": 0.2, "fault": {"cut": {"when": "after", "how": "reset"}}},
//!     {"on": ["create"], "times": 3, "fault": {"late": {"seconds": [0, 5], "answer": {"code": 504}}}},
//!     {"on": ["kill"], "fault": {"status": {"code": 503, "when": "before"}}}
//! ]}
//! ```
//!
//! A mistake in it is refused whole, with its place and reason. `docs/design/0011-control-plane-sdk.md` describes all of it.
//!
//! # Who may speak to it
//!
//! It listens on 127.0.0.1 unless [`listen`](LocalServerBuilder::listen) says otherwise, and then only with a
//! [`token`](LocalServerBuilder::token). A request must name this machine as its host, and one that comes from a web page
//! (`Origin`) is refused unless [`allow_origin`](LocalServerBuilder::allow_origin) allows the page's origin; otherwise any
//! page the user opens could run programs here. Other users of the same machine can reach the port: it is for machines whose
//! users trust each other.
#![deny(missing_docs)]

mod cgroups;
mod confined;
mod control;
mod cut;
mod dashboard;
mod dispatch;
mod drain;
mod egress;
mod envd;
mod error;
mod events;
mod explain;
mod file_body;
mod freeze;
mod front;
mod gate;
mod helper;
mod idle;
mod ids;
mod interpreter;
mod lifeline;
mod limits;
mod misbehave;
mod proxy;
mod refusal;
mod registry;
mod removal;
mod rpc;
mod server;
mod signature;
mod state;
mod store;
#[cfg(test)]
mod unwritten;
mod uses;
mod volumes;

pub use confined::{Isolation, Network};
pub use envd::helper_main;
pub use error::StartError;
pub use explain::{Explanation, Part};
pub use helper::Helper;
pub use server::{LocalServer, LocalServerBuilder};
