//! The time that a client gives a call, in `Connect-Timeout-Ms`.

use std::pin::pin;
use std::time::Duration;

use connectrpc::ConnectError;
use futures_util::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue};

/// The header.
const HEADER: &str = "connect-timeout-ms";

/// How long a call may take; `None`: as long as it likes, as when it says 0.
///
/// # Errors
/// That it is no number.
pub(super) fn timeout_of(headers: &HeaderMap) -> Result<Option<Duration>, ConnectError> {
    headers.get(HEADER).map_or(Ok(None), parse).map_err(ConnectError::invalid_argument)
}

/// Takes the header off, and says what it held.
pub(super) fn take_timeout(headers: &mut HeaderMap) -> Result<Option<Duration>, String> {
    headers.remove(HEADER).map_or(Ok(None), |value| parse(&value))
}

fn parse(value: &HeaderValue) -> Result<Option<Duration>, String> {
    let milliseconds = value.to_str().ok().and_then(|text| text.parse::<u64>().ok());
    let milliseconds =
        milliseconds.ok_or_else(|| format!("Connect-Timeout-Ms is not a number of milliseconds: {value:?}"))?;
    Ok((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
}

/// Ends a stream when its time is over. The RPC library only bounds how it begins.
pub(super) fn at_most<T>(
    timeout: Option<Duration>,
    events: impl Stream<Item = Result<T, ConnectError>> + Send + 'static,
) -> impl Stream<Item = Result<T, ConnectError>> + Send + 'static
where
    T: Send + 'static,
{
    async_stream::stream! {
        let mut events = pin!(events);
        let mut over = pin!(async move {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        });
        loop {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    Some(event) => yield event,
                    None => return,
                },
                () = &mut over => {
                    yield Err(ConnectError::deadline_exceeded("the call's time is over (Connect-Timeout-Ms)"));
                    return;
                }
            }
        }
    }
}
