//! The clients in Rust.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox_transport::{Body, BoxError, CallOptions, Client, HttpVersion};

use crate::{CONCURRENCY, Failed, Kind, REQUESTS};

/// Our name in the table.
pub(crate) const OURS: &str = "oncebox";

const LENGTH: usize = 10_000;

/// After this, who has no answer gets none.
const PATIENCE: Duration = Duration::from_secs(30);

fn body() -> Bytes {
    Bytes::from(vec![b'x'; LENGTH])
}

fn pieces() -> Vec<Bytes> {
    body().chunks(4096).map(Bytes::copy_from_slice).collect()
}

/// Makes all requests, so many at once, and counts those that were answered.
async fn all<F>(post: impl Fn(String) -> F + Send + Sync + 'static) -> Result<usize, Failed>
where
    F: Future<Output = bool> + Send + 'static,
{
    let (next, post) = (Arc::new(AtomicUsize::new(0)), Arc::new(post));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CONCURRENCY {
        let (next, post) = (next.clone(), post.clone());
        callers.spawn(async move {
            let mut ok = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= REQUESTS {
                    return ok;
                }
                ok += usize::from(post(format!("r{number}")).await);
            }
        });
    }
    let mut ok = 0;
    while let Some(caller) = callers.join_next().await {
        ok += caller?;
    }
    Ok(ok)
}

/// Ours, with its defaults.
pub(crate) async fn ours(url: &str, kind: Kind) -> Result<usize, Failed> {
    let client = Client::builder().http_version(HttpVersion::Http2).build();
    let url = url.to_owned();
    all(move |id| {
        let (client, url) = (client.clone(), url.clone());
        async move {
            let body = match kind {
                Kind::Bytes => Body::from(body()),
                Kind::Stream => {
                    let pieces = pieces().into_iter().map(|piece| Ok::<_, BoxError>(Frame::data(piece)));
                    Body::stream(StreamBody::new(futures_util::stream::iter(pieces)))
                }
            };
            let Ok(request) = Request::post(url).header("x-request-id", id).body(body) else { return false };
            let answer = client.send_collected(request, CallOptions::new()).await;
            answer.is_ok_and(|answer| answer.status() == 200)
        }
    })
    .await
}

/// reqwest, with its defaults.
pub(crate) async fn reqwest(url: &str, kind: Kind) -> Result<usize, Failed> {
    let client = reqwest::Client::builder().http2_prior_knowledge().build()?;
    let url = url.to_owned();
    all(move |id| {
        let (client, url) = (client.clone(), url.clone());
        async move {
            let body = match kind {
                Kind::Bytes => reqwest::Body::from(body()),
                Kind::Stream => {
                    let pieces = pieces().into_iter().map(Ok::<_, std::io::Error>);
                    reqwest::Body::wrap_stream(futures_util::stream::iter(pieces))
                }
            };
            let answered = async {
                let answer = client.post(url).header("x-request-id", id).body(body).send().await?;
                let ok = answer.status() == 200;
                answer.bytes().await.map(|_| ok)
            };
            // It has no limit of its own, and waits for ever now and then.
            tokio::time::timeout(PATIENCE, answered).await.is_ok_and(|answered| answered.is_ok_and(|ok| ok))
        }
    })
    .await
}
