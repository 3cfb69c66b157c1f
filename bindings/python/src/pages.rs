//! Lists that are had a page at a time.

use std::future::Future;
use std::sync::Arc;

use oncebox::Error;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::convert;
use crate::errors::Subject;
use crate::kept::Kept;
use crate::pending::{Pending, begin};

/// Pages that are turned on the IO thread, and whose place is seen from elsewhere.
pub(crate) struct Pages<P: Turn> {
    turning: Arc<tokio::sync::Mutex<P>>,
    place: Arc<Mutex<Place>>,
    /// Pages, each with the place after it, whose asker had gone when they came.
    kept: Kept<(Vec<P::Item>, Place)>,
    subject: Subject,
}

/// Where a reader is.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) has_next: bool,
    pub(crate) next_token: Option<String>,
}

/// What all kinds of pages can do.
pub(crate) trait Turn: Send + 'static {
    type Item: Send + 'static;
    fn turn(&mut self) -> impl Future<Output = Result<Option<Vec<Self::Item>>, Error>> + Send;
    fn place(&self) -> Place;
    fn ask_with(&mut self, client: &oncebox::Client);
}

type Convert<T> = for<'py> fn(Python<'py>, T) -> PyResult<Bound<'py, PyDict>>;

impl<P: Turn> Pages<P> {
    pub(crate) fn new(pages: P, subject: Subject) -> Self {
        let place = Arc::new(Mutex::new(pages.place()));
        Self { turning: Arc::new(tokio::sync::Mutex::new(pages)), place, kept: Kept::default(), subject }
    }

    pub(crate) fn place(&self) -> Place {
        self.place.lock().clone()
    }

    /// The next page, with the options of this client. Who asked and went away before it came has not had it.
    pub(crate) fn next(&self, py: Python<'_>, client: &Client, convert: Convert<P::Item>) -> PyResult<Pending> {
        let (turning, kept, client) = (Arc::clone(&self.turning), self.kept.clone(), client.inner.clone());
        let turn = async move {
            let mut pages = turning.lock().await;
            if let Some(page) = kept.again() {
                return Ok(page);
            }
            pages.ask_with(&client);
            let page = pages.turn().await?;
            Ok::<_, Error>(kept.unless_taken((page.unwrap_or_default(), pages.place())))
        };
        let place = Arc::clone(&self.place);
        begin(py, self.subject, turn, move |py, page| {
            let (items, after) = page.take().unzip();
            if let Some(after) = after {
                *place.lock() = after;
            }
            convert::list(py, items.unwrap_or_default(), convert)
        })
    }
}
