//! The way of a recipe's files to the server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::StreamBody;
use oncebox_protocol::{api, operations};
use oncebox_transport::{Body, CallOptions, TrafficClass};
use tempfile::NamedTempFile;
use tokio_util::io::ReaderStream;

use super::build::{BuildEvent, Told};
use super::context::{self, Files};
use super::{CopyFiles, Template};
use crate::Client;
use crate::client::{AGENT, ApiCall, parse};
use crate::error::{Error, ErrorKind};

const ACTION: &str = "upload the template's files";

/// So much is read at a time.
const PIECE: usize = 64 << 10;

/// The hashes of all that a recipe copies, in order.
pub(super) async fn find_all(template: &Template) -> Result<Vec<(CopyFiles, Files)>, Error> {
    let (context, ignored) = (template.context.clone(), template.ignored.clone());
    let copies: Vec<CopyFiles> = template.copies().cloned().collect();
    blocking(move || {
        let find = |copy: CopyFiles| context::find(&context, &ignored, &copy).map(|files| (copy, files));
        copies.into_iter().map(find).collect()
    })
    .await
}

/// Sends what the server does not have.
pub(super) async fn upload(
    client: &Client,
    template_id: &str,
    copy: &CopyFiles,
    files: Files,
    told: &Arc<Told>,
) -> Result<(), Error> {
    let operation = &operations::GET_TEMPLATE_UPLOAD;
    let link: api::TemplateUpload =
        parse(ACTION, &client.call(ApiCall::new(operation, ACTION, [template_id, &*files.hash])).await?)?;
    if link.present && !copy.forced {
        told(BuildEvent::AlreadyThere { from: copy.from.clone() });
        return Ok(());
    }
    let url = link.url.ok_or_else(|| Error::malformed(ACTION, "it has no URL to send them to"))?;
    let gzip = copy.gzip;
    let (packed, length) = blocking(move || files.pack(gzip)).await?;

    let mut request = Request::builder()
        .method(Method::PUT)
        .uri(url.expose())
        .header(USER_AGENT, AGENT.clone())
        .body(body(packed, length, copy.from.clone(), Arc::clone(told)))
        // The URL is a permission, and is not shown.
        .map_err(|_| Error::malformed(ACTION, "what should be a URL is none"))?;
    for (name, value) in link.headers.unwrap_or_default() {
        let header = (HeaderName::try_from(&name), HeaderValue::try_from(value.expose()));
        let (Ok(name), Ok(value)) = header else {
            return Err(Error::malformed(ACTION, format!("{name:?} is no header")));
        };
        request.headers_mut().insert(name, value);
    }
    // Whole, with its length, each time: a PUT may be repeated, and the file is read from its start again.
    let options = client.own().apply(CallOptions::new().class(TrafficClass::Bulk));
    let response = client.transport().send_collected(request, options).await;
    let response = response.map_err(|error| Error::transport(ACTION, error))?.into_http();
    if response.status().is_success() {
        return Ok(());
    }
    let history = response.extensions().get();
    Err(Error::answer(ACTION, response.status().as_u16(), response.body(), history))
}

fn body(packed: NamedTempFile, length: u64, from: String, told: Arc<Told>) -> Body {
    let packed = Arc::new(packed);
    Body::rewindable(Some(length), move || {
        let (packed, told, from) = (Arc::clone(&packed), Arc::clone(&told), from.clone());
        let sent = AtomicU64::new(0);
        let open = async move {
            let file = tokio::fs::File::open(packed.path()).await?;
            let pieces = ReaderStream::with_capacity(file, PIECE).map(move |piece| {
                // The file lives as long as it is read.
                let _ = &packed;
                piece
            });
            Ok::<_, io::Error>(pieces)
        };
        let pieces = futures_util::stream::once(open).try_flatten().map_ok(move |piece: Bytes| {
            let size = piece.len() as u64;
            let sent = sent.fetch_add(size, Ordering::Relaxed) + size;
            told(BuildEvent::Uploading { from: from.clone(), sent, of: length });
            Frame::data(piece)
        });
        StreamBody::new(pieces)
    })
}

/// Files are read on a thread that may wait for them.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::new(ErrorKind::NotDone, ACTION, format!("the reader ended: {error}"))))
}
