//! One measurement of many small requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Failed;
use crate::clients::{Client, Legacy, Ours, Raw, Reqwest};
use crate::measure::cpu;
use crate::process::{CLIENT_CORE, pin};
use crate::server::ANSWER;

/// Requests before the clock starts, on each task.
const WARM_UP: usize = 20;

/// Prints microseconds of processor time a request, requests a second, and the median latency in microseconds.
pub(crate) fn run(client: &str, concurrency: &str, seconds: &str, port: &str) -> Result<bool, Failed> {
    let (concurrency, port) = (concurrency.parse()?, port.parse()?);
    let time = Duration::from_secs_f64(seconds.parse()?);
    pin(CLIENT_CORE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(async {
        match client {
            "h2" => measure(Raw::connect(port).await?, concurrency, time).await,
            "legacy" => measure(Legacy::new(port)?, concurrency, time).await,
            "reqwest" => measure(Reqwest::new(port)?, concurrency, time).await,
            "oncebox" => measure(Ours::new(port)?, concurrency, time).await,
            _ => Err(format!("there is no client {client}").into()),
        }
    })?;
    println!("{measured}");
    Ok(true)
}

async fn measure(client: impl Client, concurrency: usize, time: Duration) -> Result<String, Failed> {
    // The first request opens the connection; nobody is measured by how a burst does that.
    client.exchange().await?;
    let stop = Arc::new(AtomicBool::new(true));
    load(&client, concurrency, &stop).await?;

    stop.store(false, Ordering::Relaxed);
    let (started, used) = (Instant::now(), cpu()?);
    let stopper = {
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            stop.store(true, Ordering::Relaxed);
        })
    };
    let mut latencies = load(&client, concurrency, &stop).await?;
    stopper.await?;
    let (elapsed, used) = (started.elapsed(), cpu()? - used);

    let requests = latencies.len();
    let (_, median, _) = latencies.select_nth_unstable(requests / 2);
    Ok(format!(
        "{} {} {}",
        used.as_secs_f64() * 1e6 / requests as f64,
        requests as f64 / elapsed.as_secs_f64(),
        f64::from(*median) / 1e3
    ))
}

/// Sends one request after the other on each task until it is told to stop, and a few at least. Returns the latencies
/// in nanoseconds.
async fn load(client: &impl Client, concurrency: usize, stop: &Arc<AtomicBool>) -> Result<Vec<u32>, Failed> {
    let mut tasks = JoinSet::new();
    for _ in 0..concurrency {
        let (client, stop) = (client.clone(), stop.clone());
        tasks.spawn(async move {
            let mut latencies = Vec::with_capacity(1 << 12);
            while latencies.len() < WARM_UP || !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                if client.exchange().await? != ANSWER {
                    return Err("an answer of another length".into());
                }
                latencies.push(started.elapsed().as_nanos() as u32);
            }
            Ok::<_, Failed>(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        all.extend(ended??);
    }
    Ok(all)
}
