//! One async function over many sandboxes.

mod pacer;
mod report;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;

use crate::Client;
use crate::error::Error;
use crate::once::lock;
use crate::sandbox::{Came, CreateSandbox, Killed, Sandbox, Scope};
pub(crate) use pacer::Pacer;
pub use report::{FleetProgress, FleetReport};

/// Is told how far a fleet is.
type Told = dyn Fn(&FleetProgress) + Send + Sync;

/// Sandboxes at a time, unless something else is said.
const DEFAULT_CONCURRENCY: usize = 50;

/// Runs one async function over many sandboxes, each of its own: see [`Client::fleet`].
///
/// Creates are paced: the rate is learnt from what the server says of its limits (429 with `Retry-After`, both forms of the
/// RateLimit fields), and all creates share it. Each sandbox is killed when its function is done; dropped before its end, the
/// fleet leaves nothing: [`Client::close`] waits for what is still cleared away.
#[must_use = "a fleet does nothing until it is run"]
pub struct Fleet {
    client: Client,
    concurrency: usize,
    create: Arc<dyn Fn(usize) -> CreateSandbox + Send + Sync>,
    progress: Option<Arc<Told>>,
}

impl Client {
    /// Runs one async function over many sandboxes.
    ///
    /// ```no_run
    /// # async fn example(client: oncebox::Client) -> Result<(), oncebox::Error> {
    /// let report = client
    ///     .fleet()
    ///     .concurrency(100)
    ///     .run(1000, |sandbox, number| async move {
    ///         let output = sandbox.commands().run(format!("echo {number}").as_str()).await?;
    ///         Ok::<_, oncebox::Error>(output.stdout_text())
    ///     })
    ///     .await;
    /// println!("{report}");
    /// for (number, result) in report.results() {
    ///     println!("{number}: {result:?}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn fleet(&self) -> Fleet {
        let client = self.clone();
        Fleet {
            client: self.clone(),
            concurrency: DEFAULT_CONCURRENCY,
            create: Arc::new(move |_| Sandbox::create(&client)),
            progress: None,
        }
    }
}

impl Fleet {
    /// How many sandboxes there are at a time. At least 1. Default 50.
    pub fn concurrency(mut self, sandboxes: usize) -> Self {
        self.concurrency = sandboxes.max(1);
        self
    }

    /// Makes the sandbox of each number in another way.
    pub fn create(mut self, create: impl Fn(usize) -> CreateSandbox + Send + Sync + 'static) -> Self {
        self.create = Arc::new(create);
        self
    }

    /// Is told how far it is, whenever that changes. It should not block.
    pub fn progress(mut self, told: impl Fn(&FleetProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(Arc::new(told));
        self
    }

    /// Runs `work` over `count` sandboxes. What fails is a value in the report, and the others go on.
    pub async fn run<T, E, F, Fut>(self, count: usize, work: F) -> FleetReport<T, E>
    where
        E: From<Error>,
        F: Fn(Sandbox, usize) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let run = Run {
            pacer: Arc::new(Pacer::new()),
            progress: Mutex::new(FleetProgress::new(count)),
            told: self.progress,
            tally: Mutex::default(),
        };
        let one = |number| {
            let (run, create, work) = (&run, (self.create)(number), &work);
            async move { (number, run.one(create, number, work).await) }
        };
        let mut all = std::pin::pin!(futures_util::stream::iter(0..count).map(one).buffer_unordered(self.concurrency));
        let mut results = Vec::with_capacity(count.min(1 << 16));
        while let Some(result) = all.next().await {
            results.push(result);
        }
        results.sort_by_key(|(number, _)| *number);
        let tally = std::mem::take(&mut *lock(&run.tally));
        let elapsed = lock(&run.progress).elapsed();
        FleetReport::new(results, tally, run.pacer.limited(), elapsed)
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("client", &self.client)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// A fleet that runs.
struct Run {
    pacer: Arc<Pacer>,
    progress: Mutex<FleetProgress>,
    told: Option<Arc<Told>>,
    tally: Mutex<report::Tally>,
}

impl Run {
    async fn one<T, E, F, Fut>(&self, create: CreateSandbox, number: usize, work: &F) -> Result<T, E>
    where
        E: From<Error>,
        F: Fn(Sandbox, usize) -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.change(|progress| {
            progress.waiting -= 1;
            progress.creating += 1;
        });
        let made = create.paced(&self.pacer).await;
        let sandbox = match made {
            Ok(sandbox) => sandbox,
            Err(error) => {
                let unknown = error.outcome_unknown();
                if let Some(intent) = error.intent().filter(|_| unknown) {
                    lock(&self.tally).unknown.push(intent.to_owned());
                }
                self.change(|progress| {
                    progress.creating -= 1;
                    if unknown { progress.unknown += 1 } else { progress.failed += 1 }
                });
                return Err(error.into());
            }
        };
        match sandbox.came() {
            Came::Adopted => lock(&self.tally).adopted += 1,
            _ => lock(&self.tally).created += 1,
        }
        let scope = Scope::new(&sandbox);
        self.change(|progress| {
            progress.creating -= 1;
            progress.running += 1;
        });
        let result = work(sandbox.clone(), number).await;
        let killed = scope.kill().await;
        {
            let mut tally = lock(&self.tally);
            tally.doubled += u64::from(sandbox.superseded_by().is_some());
            match killed {
                Ok(Killed::Already) => tally.lost += 1,
                Ok(_) => {}
                Err(_) => tally.left.push(sandbox.id().to_owned()),
            }
        }
        self.change(|progress| {
            progress.running -= 1;
            if result.is_ok() { progress.done += 1 } else { progress.failed += 1 }
        });
        result
    }

    fn change(&self, change: impl FnOnce(&mut FleetProgress)) {
        let now = {
            let mut progress = lock(&self.progress);
            change(&mut progress);
            progress.rate = self.pacer.rate();
            progress.clone()
        };
        if let Some(told) = &self.told {
            told(&now);
        }
    }
}
