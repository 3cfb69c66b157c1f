//! One call, on the thread of I/O.

use std::fmt::Write as _;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use napi::Result;
use oncebox_transport::blocking::IoRuntime;
use oncebox_transport::{Body, CallOptions, Client, Error, Response};

use crate::body::{NativeBody, at_hand};
use crate::history;
use crate::options::{CallSettings, invalid};
use crate::port::{Event, Teller};
use crate::told::Told;

tokio::task_local! {
    /// The number by which attempts of the running call are told, where they are.
    pub(crate) static NUMBER: Option<u32>;
}

/// Makes the call and tells what became of it.
pub(crate) async fn run(
    client: Client,
    request: Request<Body>,
    options: CallOptions,
    settings: CallSettings,
    (number, teller): (u32, Teller),
    io: Arc<IoRuntime>,
) {
    let answer = teller.clone();
    let told = Told::new(move |event| answer.tell(number, event), given_up);
    let watched = settings.watch.then_some(number);
    let event = NUMBER
        .scope(watched, async {
            if settings.collect {
                client.send_collected(request, options).await.map(|response| {
                    let head = head(&response);
                    Event::Head { head, first: response.into_body().into(), body: None }
                })
            } else {
                client.send(request, options).await.map(|response| {
                    let head = head(&response);
                    let mut body = response.into_body();
                    let at_hand = at_hand(&mut body);
                    let body = NativeBody::behind(at_hand.then, body, io, teller);
                    Event::Head { head, first: at_hand.data, body }
                })
            }
        })
        .await;
    told.tell(event.unwrap_or_else(|error: Error| Event::Failed(history::failure(&error))));
}

fn given_up() -> Event {
    Event::Failed(history::fault("the call was given up, or failed on the thread of I/O"))
}

/// A request, of lines: its method, its URL, and names and values of its headers.
pub(crate) fn request(head: &str, body: Body) -> Result<Request<Body>> {
    let mut lines = head.split('\n');
    let mut next = || lines.next();
    let method = next().unwrap_or_default();
    let url = next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    while let (Some(name), Some(value)) = (next(), next()) {
        headers.append(
            HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| invalid(&format_args!("{name:?} is no header's name")))?,
            // The value may be a secret.
            header_value(value).ok_or_else(|| invalid(&format_args!("header {name}: its value cannot be sent")))?,
        );
    }
    let mut request = Request::new(body);
    *request.method_mut() =
        Method::from_bytes(method.as_bytes()).map_err(|_| invalid(&format_args!("{method:?} is no method")))?;
    *request.uri_mut() =
        url.parse::<Uri>().map_err(|error| invalid(&format_args!("the URL cannot be used: {error}")))?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// A header's value as `fetch` has it: each character a byte.
fn header_value(value: &str) -> Option<HeaderValue> {
    if value.is_ascii() {
        return HeaderValue::from_str(value).ok();
    }
    let bytes: Option<Vec<u8>> = value.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    HeaderValue::from_bytes(&bytes?).ok()
}

/// A response's head, of lines: its status, its HTTP version, its history, and names and values of its headers.
fn head<B>(response: &Response<B>) -> String {
    let mut head = String::with_capacity(512);
    let attempts = history::attempts(response.history().attempts());
    // Writing to text does not fail.
    let _ = write!(head, "{}\n{:?}\n{attempts}", response.status().as_u16(), response.version());
    for (name, value) in response.headers() {
        head.push('\n');
        head.push_str(name.as_str());
        head.push('\n');
        head.extend(value.as_bytes().iter().map(|byte| char::from(*byte)));
    }
    head
}
