//! What all examples begin with: `--local` starts an embedded server, else E2B_API_KEY and friends say where to go.

use oncebox::{Client, Error};

pub(crate) async fn client() -> Result<Client, Error> {
    if std::env::args().any(|arg| arg == "--local") { Client::local().await } else { Client::from_env() }
}
