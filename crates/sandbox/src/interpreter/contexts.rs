//! Kernels: made, listed, ended, started afresh.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use oncebox_protocol::code_interpreter::{CodeContext, NewCodeContext};
use oncebox_protocol::operations;

use super::port::{Port, json};
use crate::error::Error;
use crate::sandbox::Sandbox;

/// A kernel about to be started: see [`Sandbox::create_code_context`].
#[derive(Clone, Debug)]
#[must_use = "no kernel is started until this is awaited"]
pub struct CreateCodeContext {
    sandbox: Sandbox,
    new: NewCodeContext,
}

impl CreateCodeContext {
    pub(super) fn new(sandbox: &Sandbox) -> Self {
        Self { sandbox: sandbox.clone(), new: NewCodeContext::default() }
    }

    /// Its language, such as "python", "javascript", "typescript", "r", "java", "bash". Default: Python.
    pub fn language(mut self, language: impl Into<String>) -> Self {
        self.new.language = Some(language.into());
        self
    }

    /// Its working directory. Default: the server's, the user's home.
    pub fn cwd(mut self, path: impl Into<String>) -> Self {
        self.new.cwd = Some(path.into());
        self
    }

    async fn send(self) -> Result<CodeContext, Error> {
        const ACTION: &str = "create a code context";
        let port = Port::interpreter(&self.sandbox)?;
        let body = json(ACTION, &self.new)?;
        let before = list(&port).await.ok();
        let made = port.call(&operations::CREATE_CODE_CONTEXT, ACTION, Some(body)).await;
        match (made, before) {
            (Err(lost), Some(before)) if lost.may_have_been_processed() => {
                let mut now = list(&port).await.unwrap_or_default();
                now.retain(|context| before.iter().all(|known| known.id != context.id));
                Err(lost.with_candidates(now.into_iter().map(|context| context.id).collect()))
            }
            (made, _) => made,
        }
    }
}

impl IntoFuture for CreateCodeContext {
    type Output = Result<CodeContext, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

pub(super) async fn list(port: &Port) -> Result<Vec<CodeContext>, Error> {
    port.call(&operations::LIST_CODE_CONTEXTS, "list code contexts", None).await
}

pub(super) async fn remove(port: &Port, id: &str) -> Result<bool, Error> {
    let operation = &operations::REMOVE_CODE_CONTEXT;
    match port.send(operation, "remove the code context", &[id], None, port.options(operation)).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) async fn restart(port: &Port, id: &str) -> Result<(), Error> {
    let operation = &operations::RESTART_CODE_CONTEXT;
    let options = port.options(operation);
    // The official servers want a JSON body here, be it an empty one.
    port.send(operation, "restart the code context", &[id], Some(b"{}".to_vec()), options).await.map(drop)
}
