//! Connections that end before they serve anything: each counts as a failed dial, and as an attempt of every call that
//! was to use it.
//!
//! They are made of memory, so that what is read, and what is not written, is the same in each run.

#![allow(clippy::unwrap_used)] // A test panics when it fails.

mod support;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use http::Request;
use oncebox_transport::policy::{NotSent, Outcome, ReturnReason, Verdict, WaitReason};
use oncebox_transport::simulation::{self, Io};
use oncebox_transport::{CallOptions, Client, Error, HttpVersion};
use support::frames;
use tokio::io::{DuplexStream, duplex};
use tokio::time::{Instant, sleep};

const CALLS: usize = 20;
const ATTEMPTS: usize = 4;

/// Room for the client's preface (RFC 9113 §3.4), and for no byte of a request's head.
const PREFACE: usize = 24;

/// What the far end of each connection does.
type Peer = fn(DuplexStream) -> Ending;

type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// From now on this thread dials such connections. Returns how many it dialled.
fn dial(peer: Peer) -> Arc<AtomicUsize> {
    let dials = Arc::new(AtomicUsize::new(0));
    let counted = dials.clone();
    simulation::on_this_thread(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let (ours, theirs) = duplex(PREFACE);
            // What it does first is done before the client has the connection.
            let mut peer = peer(theirs);
            if futures_util::poll!(&mut peer).is_pending() {
                tokio::spawn(peer);
            }
            Ok(Box::new(ours) as Box<dyn Io>)
        })
    });
    dials
}

/// Long enough for all that can be queued to be queued: time is paused.
const LATER: Duration = Duration::from_millis(1);

fn closes_at_once(socket: DuplexStream) -> Ending {
    Box::pin(async move { drop(socket) })
}

fn closes_later(socket: DuplexStream) -> Ending {
    Box::pin(async move {
        sleep(LATER).await;
        drop(socket);
    })
}

fn goes_away_later(mut socket: DuplexStream) -> Ending {
    Box::pin(async move {
        sleep(LATER).await;
        frames::write(&mut socket, frames::GOAWAY, 0, 0, &NONE).await;
        sleep(LATER).await;
    })
}

/// In a graceful shutdown (RFC 9113 §6.8).
fn is_about_to_go_away(mut socket: DuplexStream) -> Ending {
    Box::pin(async move {
        frames::write(&mut socket, frames::GOAWAY, 0, 0, &WHATEVER_COMES).await;
        sleep(LATER).await;
    })
}

fn promises_and_closes_later(mut socket: DuplexStream) -> Ending {
    Box::pin(async move {
        sleep(LATER).await;
        frames::write(&mut socket, frames::GOAWAY, 0, 0, &WHATEVER_COMES).await;
        sleep(LATER).await;
    })
}

fn reads_one_promises_and_closes(mut socket: DuplexStream) -> Ending {
    Box::pin(async move {
        frames::accept(&mut socket, &[]).await;
        frames::next_request(&mut socket).await.unwrap();
        frames::write(&mut socket, frames::GOAWAY, 0, 0, &WHATEVER_COMES).await;
        sleep(LATER).await;
    })
}

/// A last stream id, and an error code.
const NONE: [u8; 8] = [0; 8];
const WHATEVER_COMES: [u8; 8] = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Calls at once to an origin by that name. Each peer has its own: an origin remembers its failed dials.
async fn calls(host: &str, version: HttpVersion) -> Vec<Error> {
    let client = Client::builder().http_version(version).build();
    let url = format!("http://{host}/");
    let call = || client.send_collected(Request::post(&url).body("x".into()).unwrap(), CallOptions::new());
    join_all((0..CALLS).map(|_| call())).await.into_iter().map(Result::unwrap_err).collect()
}

fn assert_each_connection_was_an_attempt(errors: &[Error]) {
    for error in errors {
        assert_eq!(error.reason(), Some(ReturnReason::ConnectionRetriesUsed), "{error}");
        assert_eq!((error.attempts().len(), error.ledger().free_repeats_used()), (ATTEMPTS, 0), "{error}");
        for record in error.attempts() {
            assert!(matches!(record.outcome, Outcome::NotSent(NotSent { touched_socket: true, .. })), "{error}");
            let waits_for_the_origin = match record.verdict {
                Verdict::Retry(retry) => retry.wait == WaitReason::DialBackoff,
                _ => true,
            };
            assert!(waits_for_the_origin, "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connections_that_end_with_calls_queued_on_them_are_attempts_of_those_calls() {
    let peers: [(&str, Peer); 5] = [
        ("closed", closes_at_once),
        ("closed-later", closes_later),
        ("goaway", goes_away_later),
        ("graceful", is_about_to_go_away),
        ("promised", promises_and_closes_later),
    ];
    for (host, peer) in peers {
        let dials = dial(peer);
        let began = Instant::now();
        assert_each_connection_was_an_attempt(&calls(host, HttpVersion::Http2).await);
        let dials = dials.load(Ordering::Relaxed);
        println!("{host}: {dials} connections, {:?}", began.elapsed());
        assert!((ATTEMPTS..=4 * ATTEMPTS).contains(&dials), "{dials} connections");
        // The shortest waits of three failed dials: half of 0.5 s, 0.75 s and 1.125 s.
        assert!(began.elapsed() >= Duration::from_millis(1187), "{:?}", began.elapsed());
    }
}

/// What was sent stays unknown, and what was not had its attempt.
#[tokio::test(start_paused = true)]
async fn a_promise_that_a_connection_ends_without_keeping_is_none() {
    let dials = dial(reads_one_promises_and_closes);
    let errors = calls("promised", HttpVersion::Http2).await;
    let unknown = errors.iter().filter(|error| error.may_have_been_processed()).count();
    assert!((1..CALLS).contains(&unknown), "{unknown}");
    for error in &errors {
        assert!(error.ledger().free_repeats_used() == 0 && error.attempts().len() <= ATTEMPTS, "{error}");
    }
    let dials = dials.load(Ordering::Relaxed);
    assert!((ATTEMPTS..=4 * ATTEMPTS).contains(&dials), "{dials} connections");
}

/// Each exchange has a connection to itself there.
#[tokio::test(start_paused = true)]
async fn connections_of_http_1_that_end_before_they_are_used_are_attempts_too() {
    let dials = dial(closes_at_once);
    let began = Instant::now();
    assert_each_connection_was_an_attempt(&calls("server", HttpVersion::Http1).await);
    assert_eq!(dials.load(Ordering::Relaxed), CALLS * ATTEMPTS);
    assert!(began.elapsed() >= Duration::from_millis(1187), "{:?}", began.elapsed());
}
