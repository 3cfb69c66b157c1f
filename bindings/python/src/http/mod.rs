//! The HTTP layer on its own: what `oncebox.httpx` and `oncebox.pyqwest` are made of.

mod decider;
mod failure;
mod operations;
mod request_body;
mod response;
mod transport;

pub(crate) use decider::{Decider, Judged};
pub(crate) use failure::HttpFailure;
pub(crate) use operations::{OperationTable, permit_word};
pub(crate) use request_body::RequestBody;
pub(crate) use response::HttpResponse;
pub(crate) use transport::{HttpTransport, policy_preset, retry_after};
