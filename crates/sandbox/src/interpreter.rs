//! The code interpreter of a sandbox: code in kernels that keep their state, and the rich results of it.

mod chart;
mod contexts;
mod port;
mod result;
mod run;

pub use chart::{
    BarChart, BoxAndWhiskerChart, BoxElement, Chart, ChartAxes, LabeledValue, PieChart, PieElement, PointChart,
    PointSeries, SuperChart,
};
pub use contexts::CreateCodeContext;
pub use oncebox_protocol::code_interpreter::CodeContext;
pub use result::{CodeEvent, CodeOutput, CodeResult, Execution, ExecutionError, Logs};
pub use run::{CodeRun, RunCode};

use crate::error::Error;
use crate::sandbox::Sandbox;
use port::Port;

/// The template whose sandboxes have a code interpreter (protocol fact).
pub const CODE_INTERPRETER_TEMPLATE: &str = "code-interpreter-v1";

impl Sandbox {
    /// Runs code in a kernel, which remembers what earlier code did. Set its language or context, variables and limits on
    /// what this returns, and await it for all that came of it, or [start](RunCode::start) it to follow it. The sandbox's
    /// template must have a code interpreter, as [`CODE_INTERPRETER_TEMPLATE`] has.
    ///
    /// An exception in the code is no error of this call: see [`Execution::error`].
    ///
    /// ```no_run
    /// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
    /// use oncebox::{CODE_INTERPRETER_TEMPLATE, Sandbox};
    ///
    /// let sandbox = Sandbox::create(&client).template(CODE_INTERPRETER_TEMPLATE).await?;
    /// sandbox.run_code("x = 20").await?;
    /// let execution = sandbox.run_code("x + 22").on_stdout(|output| print!("{}", output.text)).await?;
    /// assert_eq!(execution.text(), Some("42"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// The code is sent at most once: what is repeated is only a request that provably did not arrive.
    /// [`ConnectionLost`](crate::ErrorKind::ConnectionLost) when the answer was cut: nobody knows the result, and the code may
    /// go on; [`Timeout`](crate::ErrorKind::Timeout) after [`timeout`](RunCode::timeout);
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the server has no such language.
    pub fn run_code(&self, code: impl Into<String>) -> RunCode {
        RunCode::new(self, code.into())
    }

    /// Starts a kernel of its own. Set its language and working directory on what this returns, and await it.
    ///
    /// # Errors
    ///
    /// When the interpreter could not be asked, or has no such language. Where the answer is lost, contexts that appeared
    /// meanwhile are its [candidates](Error::candidates).
    pub fn create_code_context(&self) -> CreateCodeContext {
        CreateCodeContext::new(self)
    }

    /// All kernels.
    ///
    /// # Errors
    ///
    /// When the interpreter could not be asked.
    pub async fn list_code_contexts(&self) -> Result<Vec<CodeContext>, Error> {
        contexts::list(&Port::interpreter(self)?).await
    }

    /// Ends a kernel, by the context's id; `false`: there is no such one (any more).
    ///
    /// # Errors
    ///
    /// When the interpreter could not be asked.
    pub async fn remove_code_context(&self, id: &str) -> Result<bool, Error> {
        contexts::remove(&Port::interpreter(self)?, id).await
    }

    /// Starts a kernel afresh, by the context's id: what it remembered is gone.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such one;
    /// [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) when the answer was lost.
    pub async fn restart_code_context(&self, id: &str) -> Result<(), Error> {
        contexts::restart(&Port::interpreter(self)?, id).await
    }
}
