//! One function over many sandboxes.
//!
//! `cargo run -p oncebox --features local --example fleet -- --local`

mod support;

use oncebox::Error;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let client = support::client().await?;
    let report = client
        .fleet()
        .concurrency(8)
        .progress(|progress| eprintln!("{}/{}", progress.ended(), progress.total))
        .run(20, |sandbox, number| async move {
            let output = sandbox.commands().run(format!("echo $(({number} * {number}))").as_str()).await?;
            Ok::<_, Error>(output.stdout_text().trim().to_owned())
        })
        .await;
    for (number, result) in report.results() {
        println!("{number}: {result:?}");
    }
    println!("{report}");
    client.close().await;
    Ok(())
}
