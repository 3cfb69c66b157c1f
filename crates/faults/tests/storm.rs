//! Many clients at once, each as simple as a correct client can be: what GOAWAY or REFUSED_STREAM says was not
//! processed is sent again. If the server keeps its books right, nothing is lost and nothing doubled.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;

use oncebox_faults::{Fault, LastId, Moment, Number, Rule, Script, Server, Then};
use support::*;

const CLIENTS: usize = 16;
const REQUESTS: usize = 60;
const AT_ONCE: usize = 8;

/// Sends all requests of one client. Returns how many tries it took.
async fn client(server: &Server, number: usize) -> usize {
    let mut waiting: Vec<String> = (0..REQUESTS).map(|n| format!("c{number}-{n}")).collect();
    let mut tries = 0;
    while !waiting.is_empty() {
        let mut raw = Raw::h2(server).await;
        let (mut open, mut next, mut last) = (BTreeMap::new(), 1, u32::MAX);
        loop {
            while last == u32::MAX && open.len() < AT_ONCE {
                let Some(id) = waiting.pop() else { break };
                raw.get(next, &id).await;
                open.insert(next, id);
                next += 2;
                tries += 1;
            }
            if open.is_empty() {
                break;
            }
            let Some(frame) = raw.read().await else { panic!("lost without a word: {open:?}") };
            match (frame.kind, frame.flags) {
                (GOAWAY, _) => {
                    last = u32::from_be_bytes(frame.payload[..4].try_into().unwrap());
                    waiting.extend(open.split_off(&last.saturating_add(1)).into_values());
                }
                (RST_STREAM, _) => {
                    assert_eq!(frame.payload, [0, 0, 0, 7]);
                    waiting.extend(open.remove(&frame.stream));
                }
                (DATA, END_STREAM) => assert!(open.remove(&frame.stream).is_some(), "{frame:?}"),
                _ => {}
            }
        }
    }
    tries
}

async fn storm(script: Script) -> usize {
    let server = std::sync::Arc::new(serve(script).await);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let server = server.clone();
            tokio::spawn(async move { client(&server, number).await })
        })
        .collect();
    let mut tries = 0;
    for client in clients {
        tries += client.await.unwrap();
    }
    let log = server.log();
    assert_eq!(log.doubled(), []);
    assert_eq!(log.request_ids().len(), CLIENTS * REQUESTS);
    let totals = log.totals();
    assert_eq!((totals.processed, totals.violations), ((CLIENTS * REQUESTS) as u64, 0));
    // What a reset connection had not read is in no log.
    assert!(totals.heads <= tries as u64 && totals.heads >= totals.processed, "{totals:?}, {tries} tries");
    assert!(log.wait_until(LONG, |log| log.totals().connections_open == 0).await);
    assert_eq!(log.connections().iter().map(|connection| connection.processed).sum::<u64>(), totals.processed);
    tries
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retired_after_every_few_streams() {
    let script =
        Script::retiring(Number::Random { from: 1, to: 20 }).service_time_ms(Number::Random { from: 0, to: 3 });
    assert!(storm(script).await > CLIENTS * REQUESTS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_at_random_and_retired_in_two_phases() {
    let script = Script::new()
        .seed(11)
        .service_time_ms(Number::Random { from: 0, to: 2 })
        .rule(Rule::at(Moment::Request).probability(0.2).does(Fault::Refuse))
        .rule(
            Rule::at(Moment::Request)
                .nth(10)
                .does(Fault::goaway().last(LastId::Max))
                .does(Fault::Wait(2))
                .does(Fault::goaway()),
        );
    let tries = storm(script).await;
    assert!(tries > CLIENTS * REQUESTS * 11 / 10, "{tries}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn narrowed_and_reset_when_done() {
    let script = Script::new().service_time_ms(1).rule(
        Rule::at(Moment::Request)
            .nth(7)
            .does(Fault::goaway().last(LastId::Max))
            .does(Fault::goaway().last(LastId::Previous).then(Then::ResetWhenDone)),
    );
    storm(script).await;
}
