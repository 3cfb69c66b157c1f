//! What all examples begin with: `--local` starts an embedded server, else E2B_API_KEY and friends say where to go.

use oncebox::{Client, Error};

pub(crate) async fn client() -> Result<Client, Error> {
    if std::env::args().all(|arg| arg != "--local") {
        return Client::from_env();
    }
    // Code runs in kernels of this Python.
    let Some(python) = std::env::var_os("ONCEBOX_PYTHON_WITH_IPYKERNEL") else { return Client::local().await };
    match oncebox::local::LocalServer::builder().code_interpreter(python).start().await {
        Ok(server) => Client::of(server),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
