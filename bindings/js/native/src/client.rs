//! The client that JavaScript holds.

use std::sync::Arc;

use bytes::Bytes;
use napi::{Error, Result};
use napi_derive::napi;
use oncebox_transport::blocking::IoRuntime;
use oncebox_transport::policy::Record;
use oncebox_transport::{Body, Client, Observed, Observer};
use tokio::task::AbortHandle;

use crate::call::{self, NUMBER};
use crate::history;
use crate::options::{CallSettings, ClientSettings, invalid, parse};
use crate::port::{Event, Port, Teller};
use crate::upload::NativeUpload;

/// Makes calls. All share the process's connections.
#[napi]
pub struct NativeClient {
    client: Client,
    teller: Teller,
}

#[napi]
impl NativeClient {
    /// One with these options, in JSON. It opens no connection yet.
    ///
    /// # Errors
    ///
    /// When an option is unknown or out of its range.
    #[napi(constructor)]
    pub fn new(port: &Port, options: Option<String>) -> Result<Self> {
        let teller = port.teller();
        let builder = parse::<ClientSettings>(options.as_deref())?.build()?;
        Ok(Self { client: builder.observer(Watch(teller.clone())).build(), teller })
    }

    /// Begins a call, whose news are told by this number. `head` has the method, the URL, and names and values of headers,
    /// a line each. The body is `bytes`, or what `upload` takes.
    ///
    /// # Errors
    ///
    /// When the request cannot be made at all: nothing is told then.
    #[napi]
    pub fn send(
        &self,
        number: u32,
        head: String,
        bytes: Option<&[u8]>,
        upload: Option<&NativeUpload>,
        options: Option<String>,
    ) -> Result<NativeCall> {
        let settings: CallSettings = parse(options.as_deref())?;
        let options = settings.options()?;
        let body = match (upload, bytes) {
            (Some(upload), _) => {
                Body::stream(upload.take().ok_or_else(|| invalid(&"the request's body was sent before"))?)
            }
            (None, Some(bytes)) => Body::from(Bytes::copy_from_slice(bytes)),
            (None, None) => Body::empty(),
        };
        let request = call::request(&head, body)?;
        let io = io()?;
        let call =
            call::run(self.client.clone(), request, options, settings, (number, self.teller.clone()), io.clone());
        Ok(NativeCall(io.handle().spawn(call).abort_handle()))
    }
}

/// A call under way.
#[napi]
pub struct NativeCall(AbortHandle);

#[napi]
impl NativeCall {
    /// Gives it up: its stream is cancelled, and free for others.
    #[napi]
    pub fn abort(&self) {
        self.0.abort();
    }
}

/// Tells of attempts whose call asked for it.
struct Watch(Teller);

impl Observer for Watch {
    fn attempt_ended(&self, _: &Observed<'_>, _: usize, record: &Record) {
        // It is called on the task of the call.
        if let Ok(Some(number)) = NUMBER.try_with(|number| *number) {
            self.0.tell(number, Event::Attempt(history::attempt(record)));
        }
    }
}

/// The thread of I/O.
pub(crate) fn io() -> Result<Arc<IoRuntime>> {
    IoRuntime::shared().map_err(|error| Error::from_reason(format!("no thread for I/O: {error}")))
}
