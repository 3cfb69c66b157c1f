//! Sends an event to a webhook.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;

use super::{Delivery, Event, Webhook};
use crate::ids;

const ATTEMPTS: u32 = 3;
/// Longest time of one attempt.
const LIMIT: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_millis(200);

/// Tells a webhook of an event.
pub(super) async fn deliver(webhook: &Webhook, event: &Event) -> Delivery {
    let mut delivery = Delivery {
        id: ids::uuid().unwrap_or_default(),
        webhook_id: webhook.id.clone(),
        event_id: event.body.get("id").cloned().unwrap_or_default(),
        event_type: event.kind,
        timestamp: Timestamp::now(),
        attempts: 0,
        success: false,
        status: None,
        error: None,
    };
    let body = Bytes::from(event.body.to_string());
    while delivery.attempts < ATTEMPTS && !delivery.success {
        if delivery.attempts > 0 {
            tokio::time::sleep(WAIT * 2_u32.pow(delivery.attempts)).await;
        }
        delivery.attempts += 1;
        let sent = tokio::time::timeout(LIMIT, send(webhook, &delivery.id, body.clone())).await;
        match sent.unwrap_or_else(|_| Err(format!("no answer within {LIMIT:?}"))) {
            Ok(status) => {
                delivery.status = Some(status.as_u16());
                delivery.success = status.is_success();
                delivery.error = None;
            }
            Err(error) => delivery.error = Some(error),
        }
    }
    delivery
}

async fn send(webhook: &Webhook, delivery: &str, body: Bytes) -> Result<StatusCode, String> {
    let (host, port, path) = target(&webhook.url)?;
    let connection =
        TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(connection)).await.map_err(|error| error.to_string())?;
    // Ends with the answer, or when that is dropped.
    tokio::spawn(connection);
    let request = Request::post(path)
        .header(header::HOST, format!("{host}:{port}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header("e2b-webhook-id", &webhook.id)
        .header("e2b-delivery-id", delivery)
        .header("e2b-signature-version", "v1")
        .header("e2b-signature", signature(webhook.secret.expose(), &body))
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    Ok(response.status())
}

/// Host, port and path of a webhook's URL.
pub(crate) fn target(url: &str) -> Result<(String, u16, String), String> {
    let uri: Uri = url.parse().map_err(|error| format!("the URL is none: {error}"))?;
    if uri.scheme_str() != Some("http") {
        return Err("the local server calls http:// URLs only".to_owned());
    }
    let authority = uri.authority().ok_or("the URL has no host")?;
    if authority.as_str().contains('@') {
        return Err("the URL must not name a user".to_owned());
    }
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    Ok((authority.host().to_owned(), authority.port_u16().unwrap_or(80), path.to_owned()))
}

/// What proves that a delivery comes from whoever knows the secret.
fn signature(secret: &str, body: &[u8]) -> String {
    STANDARD_NO_PAD.encode(Sha256::new().chain_update(secret).chain_update(body).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_http_urls_are_called() {
        assert_eq!(target("http://localhost:5/x?y").unwrap(), ("localhost".to_owned(), 5, "/x?y".to_owned()));
        assert_eq!(target("http://a").unwrap(), ("a".to_owned(), 80, "/".to_owned()));
        for bad in ["https://a", "a", "/x", "http://u@a/", "file:///etc/passwd", ""] {
            assert!(target(bad).is_err(), "{bad}");
        }
    }
}
