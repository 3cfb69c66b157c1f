//! What must hold.

/// Ours, at most this much of another client's figure.
pub(crate) struct Band {
    pub(crate) client: &'static str,
    pub(crate) most: f64,
}

/// Processor time a request, at every concurrency.
pub(crate) const CPU: [Band; 3] =
    [Band { client: "h2", most: 1.35 }, Band { client: "legacy", most: 0.65 }, Band { client: "reqwest", most: 0.4 }];

/// Median latency of one request at a time.
pub(crate) const LATENCY: [Band; 1] = [Band { client: "h2", most: 1.2 }];

/// Throughput of raw h2 over ours: within 10 %.
pub(crate) const THROUGHPUT: f64 = 1.1;

/// What an upload or download may hold, in bytes: windows and buffers, and never what is moved.
pub(crate) const MEMORY: f64 = (64 << 20) as f64;
