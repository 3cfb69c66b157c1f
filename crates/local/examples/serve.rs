//! Serves sandboxes until it is interrupted.
//!
//! ```sh
//! cargo build -p oncebox-local && cargo run -p oncebox-local --example serve
//! ```
//!
//! Arguments, all optional: `--port N`, `--state-base DIR`, `--state DIR`, `--no-isolation`.

use std::process::ExitCode;

use oncebox_local::{Isolation, LocalServer};

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut server =
        LocalServer::builder().no_isolation_hint("cargo run -p oncebox-local --example serve -- --no-isolation");
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        server = match arg.as_str() {
            "--port" => server.port(value()?.parse()?),
            "--state-base" => server.state_base(value()?),
            "--state" => server.state(value()?),
            "--no-isolation" => server.isolation(Isolation::None),
            other => return Err(format!("unknown argument {other}").into()),
        };
    }
    let server = server.start().await?;
    println!("{}", server.url());
    tokio::signal::ctrl_c().await?;
    server.stop().await;
    Ok(())
}
