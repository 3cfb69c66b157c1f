//! Standard input, and what is typed on terminals.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use oncebox_protocol::envd::process::stream_input_request::{DataEvent, Event, StartEvent};
use oncebox_protocol::envd::process::{ProcessInput, SendInputRequest, StreamInputRequest, process_input};

use super::selector;
use crate::error::Error;
use crate::rpc::{KEEPALIVE, RpcCall};
use crate::sandbox::Sandbox;

const ACTION: &str = "write to the command's stdin";

/// The largest piece that one message carries; its base64 is below the limits of common servers.
const PIECE: usize = 512 << 10;

fn input(data: Bytes, types: bool) -> ProcessInput {
    let input = if types { process_input::Input::Pty(data.into()) } else { process_input::Input::Stdin(data.into()) };
    ProcessInput { input: Some(input), ..Default::default() }
}

/// Writes to a process's standard input, or types on its terminal.
pub(super) async fn send_input(sandbox: &Sandbox, pid: u32, data: Bytes, types: bool) -> Result<(), Error> {
    let sandbox = &sandbox.gathering_once();
    let client = sandbox.envd().process(RpcCall::default())?;
    let (mut rest, mut begun) = (data, false);
    loop {
        let piece = rest.split_to(rest.len().min(PIECE));
        let request =
            SendInputRequest { process: selector(pid).into(), input: input(piece, types).into(), ..Default::default() };
        if let Err(error) = client.send_input(request).await {
            let error = sandbox.after_loss(Error::rpc(ACTION, error)).await.partly_if(begun);
            return Err(sandbox.tell(error));
        }
        if rest.is_empty() {
            return Ok(());
        }
        begun = true;
    }
}

/// Passes a stream on until it ends. The input stays open.
pub(super) async fn stream_input<S>(sandbox: &Sandbox, pid: u32, data: S, types: bool) -> Result<(), Error>
where
    S: Stream<Item = Bytes> + Send + 'static,
{
    let call = RpcCall { uploads: true, ..RpcCall::default() };
    let client = sandbox.envd().process(call)?;
    let message = |event| StreamInputRequest { event: Some(event), ..Default::default() };
    let start = StartEvent { process: selector(pid).into(), ..Default::default() };
    let pieces = data.flat_map(|bytes| stream::iter(pieces(bytes)));
    let data = with_keepalives(pieces, KEEPALIVE).map(move |piece| match piece {
        Some(piece) => Event::Data(Box::new(DataEvent { input: input(piece, types).into(), ..Default::default() })),
        None => Event::Keepalive(Box::default()),
    });
    let requests = stream::iter([Event::Start(Box::new(start))]).chain(data).map(message);
    match client.stream_input(requests).await {
        Ok(_) => Ok(()),
        Err(error) => Err(sandbox.after_loss(Error::rpc(ACTION, error)).await),
    }
}

fn pieces(mut bytes: Bytes) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(bytes.len().div_ceil(PIECE));
    while !bytes.is_empty() {
        pieces.push(bytes.split_to(bytes.len().min(PIECE)));
    }
    pieces
}

/// Adds a `None` wherever nothing else came for that long, so that nobody on the way takes the connection for idle.
fn with_keepalives(
    data: impl Stream<Item = Bytes> + Send,
    every: Duration,
) -> impl Stream<Item = Option<Bytes>> + Send {
    stream::unfold(Box::pin(data), move |mut data| async move {
        match tokio::time::timeout(every, data.next()).await {
            Ok(Some(piece)) => Some((Some(piece), data)),
            Ok(None) => None,
            Err(_) => Some((None, data)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_silent_shows_that_it_lives() {
        let slow = stream::iter([0, 120, 1]).then(|seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Bytes::from(seconds.to_string())
        });
        let got: Vec<_> = with_keepalives(slow, Duration::from_secs(50)).collect().await;
        let data = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        assert_eq!(got, [data("0"), None, None, data("120"), data("1")]);
    }

    #[test]
    fn large_pieces_are_cut() {
        let sizes = |length: usize| pieces(vec![0; length].into()).iter().map(Bytes::len).collect::<Vec<_>>();
        assert_eq!((sizes(0), sizes(PIECE), sizes(PIECE + 1)), (vec![], vec![PIECE], vec![PIECE, 1]));
    }
}
