//! Fleets: paced, with failures as values, and nothing left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncebox::Error;
use serde_json::{Value, json};

use super::support::{Server, cut, on_create};

/// Sandboxes of the paced fleet. `ONCEBOX_FLEET` sets another number.
const COUNT: usize = 120;

#[tokio::test]
async fn a_fleet_learns_the_pace_that_the_server_allows() {
    let count = std::env::var("ONCEBOX_FLEET").ok().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
    let server = Server::with_faults(json!({"create_limit": {"per_second": 50, "burst": 5}})).await;
    let client = server.client();
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let report = client
        .fleet()
        .concurrency(40)
        .progress(move |progress| {
            seen.fetch_max(progress.creating + progress.running, Ordering::Relaxed);
            assert_eq!(progress.total, progress.waiting + progress.creating + progress.running + progress.ended());
        })
        .run(count, |_, number| async move { Ok::<_, Error>(number) })
        .await;
    println!("{report}");
    assert_eq!(report.succeeded(), count, "{report}");
    assert!(report.results().iter().all(|(number, result)| *number == *result.as_ref().unwrap()));
    assert_eq!((report.created(), report.lost(), report.doubled()), (count as u64, 0, 0));
    // The first ten are sent before anything is known; of the rest 5 %.
    assert!(report.limited() <= 10 + count as u64 / 20, "{report}");
    assert!(most.load(Ordering::Relaxed) <= 40);
    assert!(client.close().await.is_empty());
    assert!(server.alive().await.is_empty());
}

#[tokio::test]
async fn failures_are_values_and_lost_answers_are_adopted() {
    let server = Server::with_faults(json!({"rules": [on_create(2, cut("after"))]})).await;
    let client = server.client();
    let report = client
        .fleet()
        .concurrency(4)
        .run(8, |sandbox, number| async move {
            match number {
                3 => sandbox.commands().run("exit 3").await.map(|output| output.exit_code()),
                // Somebody else ends it.
                4 => sandbox.kill().await.map(|_| 0),
                5 => sandbox.files().read("no such file").await.map(|_| 0),
                _ => Ok(0),
            }
        })
        .await;
    let results = report.results();
    assert_eq!(results[3].1.as_ref().unwrap(), &3);
    assert!(results[5].1.as_ref().unwrap_err().is_not_found());
    assert_eq!((report.succeeded(), report.created(), report.adopted(), report.lost()), (7, 6, 2, 1), "{report}");
    assert!(report.to_string().starts_with("7 of 8 succeeded in "), "{report}");
    client.close().await;
    assert!(server.alive().await.is_empty());
}

#[tokio::test]
async fn creates_that_are_never_sent_do_not_hold_up_those_after_them() {
    let server = Server::start().await;
    let client = server.client();
    let intent = |number: usize| format!("{number:032x}");
    let mut there = Vec::new();
    for number in 0..12 {
        there.push(oncebox::Sandbox::create(&client).intent(intent(number)).await.unwrap());
    }
    let fleet = |create: Box<dyn Fn(usize) -> oncebox::CreateSandbox + Send + Sync>| {
        let run = client.fleet().create(create).run(12, |_, number| async move { Ok::<_, Error>(number) });
        tokio::time::timeout(Duration::from_secs(60), run)
    };
    let of = client.clone();
    let refused = fleet(Box::new(move |_| oncebox::Sandbox::create(&of).template(" "))).await.unwrap();
    assert_eq!(refused.succeeded(), 0, "{refused}");
    assert!(refused.results().iter().all(|(_, result)| result.as_ref().unwrap_err().to_string().contains("template")));
    // Each is found before it is sent.
    let of = client.clone();
    let adopted = fleet(Box::new(move |number| oncebox::Sandbox::create(&of).intent(intent(number)))).await.unwrap();
    assert_eq!((adopted.succeeded(), adopted.adopted()), (12, 12), "{adopted}");
    assert!(client.close().await.is_empty());
    assert!(server.alive().await.is_empty());
}

#[tokio::test]
async fn a_fleet_that_is_dropped_leaves_nothing() {
    let server = Server::with_faults(json!({"rules": [{"on": ["create"], "fault": {"latency": [0.0, 0.2]}}]})).await;
    let client = server.client();
    let fleet = client.fleet().concurrency(20).run(200, |_, _| std::future::pending::<Result<(), Error>>());
    assert!(tokio::time::timeout(Duration::from_millis(150), fleet).await.is_err());
    let left = client.close().await;
    assert!(left.is_empty(), "{left:?}");
    assert!(server.alive().await.is_empty());
    assert_ne!(server.counts().await, Value::Null);
}
