//! One measurement of a large upload or download.

use std::time::Instant;

use crate::Failed;
use crate::clients::{Mover, Ours, Raw};
use crate::measure::{cpu, peak_memory};
use crate::process::{CLIENT_CORE, pin};

/// How much is moved.
pub(crate) const SIZE: usize = 1 << 30;

/// Prints bytes a second, the seconds of processor time, and the most memory held, in bytes.
pub(crate) fn run(direction: &str, client: &str, port: &str) -> Result<bool, Failed> {
    let (port, upload) = (port.parse()?, direction == "upload");
    pin(CLIENT_CORE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(async {
        match client {
            "h2" => measure(Raw::connect(port).await?, upload).await,
            "oncebox" => measure(Ours::new(port)?, upload).await,
            _ => Err(format!("{client} is not measured here").into()),
        }
    })?;
    println!("{measured}");
    Ok(true)
}

async fn measure(client: impl Mover, upload: bool) -> Result<String, Failed> {
    let (started, used) = (Instant::now(), cpu()?);
    if upload {
        client.upload(SIZE).await?;
    } else if client.download().await? != SIZE {
        return Err("a download of another length".into());
    }
    let (elapsed, used) = (started.elapsed(), cpu()? - used);
    Ok(format!("{} {} {}", SIZE as f64 / elapsed.as_secs_f64(), used.as_secs_f64(), peak_memory()?))
}
