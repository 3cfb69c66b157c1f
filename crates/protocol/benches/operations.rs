//! How long it takes to find an operation among all of them. Fails when it takes too long: it is done for every request.

use http::Method;
use oncebox_protocol::{Table, operations};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a match may cost, on the average over the whole table.
const LIMIT: Duration = Duration::from_nanos(200);
const ROUNDS: u32 = 200;
const PASSES: u32 = 50;

fn main() -> ExitCode {
    let table = Table::all();
    // Each listed request, and for each a neighbour that is found not to be listed.
    let mut requests: Vec<(Method, String)> = Vec::new();
    for operation in operations::ALL {
        let parameters: Vec<&str> = operation.parameters().map(|_| "ixk2v9q0abcdefghijklm").collect();
        if let Ok(path) = operation.path_for(&parameters) {
            requests.push((operation.method.clone(), format!("{path}/extra")));
            requests.push((operation.method.clone(), path));
        }
    }
    let matches = PASSES * u32::try_from(requests.len()).unwrap_or(u32::MAX);
    // The fastest round is the one that the machine's other work disturbed least.
    let best = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PASSES {
                for (method, path) in &requests {
                    black_box(table.find(black_box(method), black_box(path)));
                }
            }
            start.elapsed()
        })
        .min()
        .unwrap_or_default();
    let each = best / matches.max(1);
    println!(
        "{} operations, {} requests: {} ns a match (limit {} ns)",
        operations::ALL.len(),
        requests.len(),
        each.as_nanos(),
        LIMIT.as_nanos()
    );
    if each > LIMIT { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
