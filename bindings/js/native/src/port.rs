//! The way back to JavaScript.

use std::sync::Arc;

use napi::bindgen_prelude::{FnArgs, Function, Uint8Array};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Result};
use napi_derive::napi;
use parking_lot::RwLock;

use crate::body::NativeBody;

/// What the function is called with: the number that it was asked by, what happened, and what came of it.
type Args = FnArgs<(u32, u32, Option<String>, Option<Uint8Array>, Option<NativeBody>)>;

/// A weak one keeps no process alive: what waits says so by [`Port::hold`].
type Callback = ThreadsafeFunction<(u32, Event), (), Args, napi::Status, false, true>;

/// Tells JavaScript what happened. One for each JavaScript context.
#[napi]
pub struct Port(Arc<RwLock<Callback>>);

/// The same, for the thread of I/O.
#[derive(Clone)]
pub(crate) struct Teller(Arc<RwLock<Callback>>);

/// What happened. The numbers are known to `src/native/addon.ts`.
pub(crate) enum Event {
    /// The head of a response, as text, and the beginning of its body. Without `body` that is all of it.
    Head { head: String, first: Vec<u8>, body: Option<NativeBody> },
    /// A call ended without a response.
    Failed(String),
    /// A piece of a body, which is not its last.
    Piece(Vec<u8>),
    /// The last piece of a body, which may be empty.
    Last(Vec<u8>),
    /// A body did not come whole.
    Cut(String),
    /// A piece of a request's body was taken over, and another may come.
    Taken,
    /// Nothing more is wanted of a request's body.
    Unwanted,
    /// An attempt of a call that asked to be told ended.
    Attempt(String),
}

impl Event {
    fn into_args(self, number: u32) -> Args {
        let data = |data: Vec<u8>| (!data.is_empty()).then(|| Uint8Array::from(data));
        let (kind, text, data, body) = match self {
            Self::Head { head, first, body } => (0, Some(head), data(first), body),
            Self::Failed(error) => (1, Some(error), None, None),
            Self::Piece(piece) => (2, None, data(piece), None),
            Self::Last(piece) => (3, None, data(piece), None),
            Self::Cut(error) => (4, Some(error), None, None),
            Self::Taken => (5, None, None, None),
            Self::Unwanted => (6, None, None, None),
            Self::Attempt(record) => (7, Some(record), None, None),
        };
        (number, kind, text, data, body).into()
    }
}

#[napi]
impl Port {
    /// Opens one. `told` is called as `told(number, kind, text, data, body)`.
    ///
    /// # Errors
    ///
    /// When the runtime does not let other threads call a function.
    #[napi(constructor)]
    pub fn new(told: Function<'_, Args, ()>) -> Result<Self> {
        let callback = told
            .build_threadsafe_function::<(u32, Event)>()
            .weak::<true>()
            .build_callback(|context| Ok(context.value.1.into_args(context.value.0)))?;
        Ok(Self(Arc::new(RwLock::new(callback))))
    }

    /// Keeps the process alive until [`Port::release`].
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    #[napi]
    // The way that replaced it cannot be turned back.
    #[allow(deprecated)]
    pub fn hold(&self, env: &Env) -> Result<()> {
        self.0.write().refer(env)
    }

    /// Lets the process end.
    ///
    /// # Errors
    ///
    /// When the runtime refuses.
    #[napi]
    #[allow(deprecated)]
    pub fn release(&self, env: &Env) -> Result<()> {
        self.0.write().unref(env)
    }

    pub(crate) fn teller(&self) -> Teller {
        Teller(self.0.clone())
    }
}

impl Teller {
    /// Tells whoever asked by this number. A context that has ended hears nothing any more.
    pub(crate) fn tell(&self, number: u32, event: Event) {
        self.0.read().call((number, event), ThreadsafeFunctionCallMode::NonBlocking);
    }
}
