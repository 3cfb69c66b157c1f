//! Why a local server did not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a local server did not start. Each says what was found and which option changes it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {addr}: {source}; `port` chooses another port, and 0 any free one")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },

    /// A value of `allow_origin` is not an origin as browsers write it.
    #[error(
        "'{origin}' is not an origin that can be allowed: {rule}; `allow_origin` takes values such as http://localhost:5173",
        origin = .origin.escape_debug()
    )]
    Origin {
        /// The value.
        origin: String,
        /// The rule that it breaks.
        rule: &'static str,
    },

    /// The server would let other machines in, and has no token.
    #[error(
        "listening on {ip} lets other machines run programs here, which needs a token: `token` sets it, and without `listen` \
         the server listens on 127.0.0.1 only"
    )]
    TokenMissing {
        /// The address.
        ip: std::net::IpAddr,
    },

    /// The token is one that can be guessed, or that no header can have.
    #[error("`token` takes at least {at_least} printable characters of ASCII, without spaces")]
    Token {
        /// The least number of characters.
        at_least: usize,
    },

    /// The faults to begin with make no sense.
    #[error("the fault document (`faults`): {0}")]
    Faults(String),

    /// A limit is none that a sandbox could live with.
    #[error("`{option}` is {value}: it takes {rule}")]
    Limit {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it takes.
        rule: &'static str,
    },

    /// A value of `allow_host` is not a name.
    #[error("'{name}' is not a host name: `allow_host` takes names in lower case, such as build-box.internal", name = .name.escape_debug())]
    Host {
        /// The value.
        name: String,
    },

    /// The state folder cannot be used.
    #[error("cannot keep sandboxes in {path}: {why}; `state_base` chooses another folder", path = .path.display())]
    State {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// The folder that the server is to keep everything in cannot be used.
    #[error("cannot keep records and files in {path}: {why}; `state` chooses another folder", path = .path.display())]
    KeptState {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },

    /// The program that becomes the process inside each sandbox was not found.
    #[error(
        "the sandbox helper was not found; looked at {looked_at}; build it with `cargo build -p oncebox-local`, or name it \
         with the `helper` option or the environment variable ONCEBOX_HELPER"
    )]
    HelperNotFound {
        /// Where it was looked for.
        looked_at: String,
    },

    /// The helper did not start, or is not the helper.
    #[error("the sandbox helper {helper} did not become a sandbox: {why}; the `helper` option chooses another")]
    HelperFailed {
        /// The helper's program.
        helper: String,
        /// What happened.
        why: String,
    },

    /// The Python that was named for the code interpreter cannot be it.
    #[error("{python} cannot be the code interpreter: {why}; `code_interpreter` names a Python that has ipykernel", python = .python.display())]
    CodeInterpreter {
        /// The program that was named.
        python: PathBuf,
        /// What it said, or why it did not start.
        why: String,
    },

    /// This machine does not allow the isolation that sandboxes are to have.
    #[error(
        "sandboxes cannot be isolated on this machine: {why}. Nothing was started. To run commands without isolation, as \
         processes that can read your files and use your network: {hint}"
    )]
    IsolationUnavailable {
        /// The step that was not allowed, and what the system said.
        why: String,
        /// How to go on without isolation, as the embedding program said.
        hint: String,
    },
    /// Sandboxes were to reach the network from one of their own, and do not.
    #[error(
        "sandboxes have no way to the network ({why}). Nothing was started. `network(Network::None)` (--network none) starts without"
    )]
    EgressUnavailable {
        /// What is missing, or what `pasta` said.
        why: String,
    },
}
