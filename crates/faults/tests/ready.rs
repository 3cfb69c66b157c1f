//! The ready scripts do what their names say.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use oncebox_faults::{Script, Server, ready_scripts};
use support::*;

/// So many requests over HTTP/1.1, each on a connection of its own, with the ids `r0`, `r1`, …; their first lines.
async fn requests(server: &Server, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for n in 0..count {
        let mut raw = Raw::connect(server.addr()).await;
        let request =
            format!("POST / HTTP/1.1\r\nx-request-id: r{n}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        if tokio::io::AsyncWriteExt::write_all(&mut raw.socket, request.as_bytes()).await.is_err() {
            lines.push(String::new());
            continue;
        }
        let text = raw.rest().await.0;
        lines.push(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned());
    }
    lines
}

fn count(lines: &[String], status: &str) -> usize {
    lines.iter().filter(|line| line.contains(status)).count()
}

async fn ready(name: &str) -> Server {
    serve(Script::ready(name).unwrap()).await
}

#[tokio::test]
async fn each_of_them_starts_and_takes_connections() {
    assert!(ready_scripts().len() > 1);
    for ready in ready_scripts() {
        let server = serve(ready.script().unwrap()).await;
        let _connection = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
        let came = server.log().wait_until(LONG, |log| log.totals().connections == 1).await;
        assert!(came, "{}", ready.name);
    }
}

#[tokio::test]
async fn connections_retire_after_twenty_streams() {
    let server = ready("requests-lost-when-connections-retire").await;
    let mut raw = Raw::h2(&server).await;
    for n in 0..20 {
        raw.get(2 * n + 1, "").await;
    }
    raw.expect(goaway(39, 0, "max_age")).await;
}

#[tokio::test]
async fn half_of_the_requests_are_refused_once_and_few_more_often() {
    let server = ready("refused-under-load").await;
    let mut raw = Raw::h2(&server).await;
    let (mut stream, mut by_refusals) = (1, [0; 4]);
    for n in 0..200 {
        let mut refusals = 0;
        loop {
            raw.get(stream, &format!("r{n}")).await;
            stream += 2;
            if raw.read().await.unwrap().kind == HEADERS {
                raw.read().await.unwrap();
                break;
            }
            refusals += 1;
        }
        by_refusals[refusals] += 1;
    }
    let [never, once, twice, thrice] = by_refusals;
    assert!((70..=120).contains(&never) && (60..=120).contains(&once), "{by_refusals:?}");
    assert!((5..=40).contains(&twice) && (1..=15).contains(&thrice), "{by_refusals:?}");
    assert_eq!(server.log().totals().processed, 200);
}

#[tokio::test]
async fn a_post_is_processed_before_its_504() {
    let server = ready("created-twice-after-504").await;
    assert_eq!(requests(&server, 1).await, ["HTTP/1.1 504 Gateway Timeout"]);
    assert_eq!(requests(&server, 1).await, ["HTTP/1.1 200 OK"]);
    assert_eq!(server.log().doubled(), [("r0".to_owned(), 2)]);
}

#[tokio::test]
async fn some_connections_drop_before_the_answer() {
    let server = ready("server-disconnected").await;
    let lines = requests(&server, 200).await;
    let lost = lines.iter().filter(|line| line.is_empty()).count();
    assert!((2..=25).contains(&lost), "{lost}");
    assert_eq!(server.log().totals().processed, 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_some_say_408() {
    let server = ready("first-request-after-a-pause-fails").await;
    let mut raws = Vec::new();
    for _ in 0..3 {
        raws.push(Raw::connect(server.addr()).await);
    }
    let mut ends = Vec::new();
    for raw in &mut raws {
        raw.write(GET).await;
        raw.exactly(OK.len()).await;
    }
    for raw in &mut raws {
        let (text, end) = raw.rest().await;
        ends.push((text.starts_with(b"HTTP/1.1 408 "), end));
    }
    assert_eq!(ends, [(false, End::Fin), (false, End::Fin), (true, End::Fin)]);
}

#[tokio::test]
async fn the_first_try_is_told_when_to_come_back() {
    let server = ready("retries-too-soon").await;
    let first = requests(&server, 10).await;
    assert_eq!((count(&first, " 429 "), count(&first, " 503 ")), (4, 6));
    assert_eq!(count(&requests(&server, 10).await, " 200 "), 10);
}

#[tokio::test]
async fn a_deploy_closes_the_port_and_comes_back_busy() {
    let server = ready("errors-during-deploys").await;
    let lines = requests(&server, 20).await;
    assert_eq!((count(&lines, " 503 "), count(&lines, " 200 ")), (10, 10));
}
