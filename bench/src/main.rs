//! What a request costs, beside other clients: `cargo xtask bench transport`.
//!
//! Every measurement is a process of its own, on a core of its own, and so is the server. The server answers with
//! frames written by hand, so that it is never what limits a client. Clients take turns, so that whatever else happens
//! on the machine happens to all of them.
//!
//! ```text
//! oncebox-bench [--runs N] [--seconds S]               all of it; exits non-zero outside the bands
//! oncebox-bench serve                                  the server alone; prints its ports
//! oncebox-bench answers                                the same over HTTP/1.1; prints its port
//! oncebox-bench requests CLIENT CONCURRENCY SECONDS PORT
//! oncebox-bench upload|download CLIENT PORT
//! ```

mod answers;
mod bands;
mod clients;
mod measure;
mod plan;
mod process;
mod requests;
mod server;
mod transfer;

use std::process::ExitCode;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["serve"] => server::run().map(|()| true),
        ["answers"] => answers::run().map(|()| true),
        ["requests", client, concurrency, seconds, port] => requests::run(client, concurrency, seconds, port),
        [direction @ ("upload" | "download"), client, port] => transfer::run(direction, client, port),
        options => plan::Plan::parse(options).and_then(|plan| plan.run()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
