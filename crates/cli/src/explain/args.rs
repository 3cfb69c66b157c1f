//! The flags of `oncebox explain`, and the outcome that they describe.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use oncebox_policy::{
    Cause, NotSent, Outcome, Phase, Response, ResponseBody, Unknown, retries_option, retry_after, should_retry,
    timeout_option,
};

use crate::args::whole;
use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The operation's id in the specification, such as createSandbox
    #[arg(long, value_name = "ID", required_unless_present = "list")]
    pub(super) operation: Option<String>,
    /// List all operations, in place of explaining
    #[arg(long, conflicts_with_all = ["operation", "outcome", "status"])]
    pub(super) list: bool,
    /// How the attempt ended [default: answered, if there is a status]
    #[arg(long, value_enum, required_unless_present_any = ["status", "list"])]
    pub(super) outcome: Option<How>,
    /// The answer's status
    #[arg(long, value_name = "CODE", value_parser = whole::<u16>(100, Some(599)), allow_hyphen_values = true)]
    pub(super) status: Option<u16>,
    /// The answer's Retry-After: seconds or a date
    #[arg(long, value_name = "VALUE", requires = "status", allow_hyphen_values = true)]
    pub(super) retry_after: Option<String>,
    /// The answer's Should-Retry
    #[arg(long, value_name = "VALUE", requires = "status")]
    pub(super) should_retry: Option<String>,
    /// Which attempt it is; the ones before ended the same way
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1, Some(1000)), allow_hyphen_values = true)]
    pub(super) attempt: u32,
    /// Seconds since the call began [default: as long as the attempts before waited]
    #[arg(long, value_name = "SECONDS", value_parser = elapsed, allow_hyphen_values = true)]
    pub(super) elapsed: Option<Duration>,
    /// The call sends an idempotency key
    #[arg(long)]
    pub(super) key: bool,
    /// The request body is a stream, all of it still at hand
    #[arg(long)]
    pub(super) streamed: bool,
    /// Whose rules
    #[arg(long, value_enum, default_value_t)]
    pub(super) preset: Preset,
    /// Retries after an answer or an unknown outcome [default: 3, or 0 inside a sandbox or volume]
    #[arg(long, value_name = "N", value_parser = retries, allow_hyphen_values = true)]
    pub(super) retries: Option<u32>,
    /// Repeats after failed connects and refusals [default: 3]
    #[arg(long, value_name = "N", value_parser = connection_retries, allow_hyphen_values = true)]
    pub(super) connection_retries: Option<u32>,
    /// The call's deadline in seconds; 0 is none [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = request_timeout, allow_hyphen_values = true)]
    pub(super) request_timeout: Option<Limit>,
    /// Draw a random number for the jitter, instead of the middle
    #[arg(long)]
    pub(super) random: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum How {
    /// A whole answer
    Answered,
    /// An answer whose body was cut
    Broken,
    /// No connection could be made
    NotSent,
    /// No stream or connection came free
    NoSlot,
    /// REFUSED_STREAM before any answer
    Refused,
    /// The stream was above GOAWAY's last id
    Goaway,
    /// The connection was lost after the request was sent
    SentUnknown,
    /// attempt_timeout passed after the request was sent
    AttemptTimeout,
    /// The caller gave up
    Cancelled,
    /// The call's deadline passed
    TimedOut,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Preset {
    /// Oncebox's own
    #[default]
    Default,
    /// Those of the official Python SDK 2.52
    #[value(name = "e2b-2-52")]
    E2b2_52,
    /// Those of the official Python SDK 2.63, with our permits
    #[value(name = "e2b-2-63")]
    E2b2_63,
}

/// A deadline, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(pub(super) Option<Duration>);

/// What the flags say came of the attempt.
pub(super) fn outcome(args: &ExplainArgs) -> Result<Outcome, Failure> {
    let unknown = |cause| Outcome::SentUnknown(Unknown { cause, stream_id: None, detail: "".into() });
    let unsent = |phase, touched_socket| Outcome::NotSent(NotSent { phase, touched_socket, detail: "".into() });
    let how = args.outcome.unwrap_or(How::Answered);
    if args.status.is_some() && !matches!(how, How::Answered | How::Broken) {
        return Err(Failure::usage("--status: only an answer has one (--outcome answered or broken)"));
    }
    Ok(match how {
        How::Answered => match args.status {
            Some(status) => Outcome::Responded(response(args, status, ResponseBody::Complete)),
            None => return Err(Failure::usage("--outcome answered: give the answer's --status")),
        },
        How::Broken => Outcome::Responded(response(args, args.status.unwrap_or(200), ResponseBody::Broken)),
        How::NotSent => unsent(Phase::Connect, true),
        How::NoSlot => unsent(Phase::Slot, false),
        How::Refused => Outcome::after_reset(43, 7, false),
        How::Goaway => Outcome::after_goaway(43, 41, 0, b""),
        How::SentUnknown => unknown(Cause::ConnectionLost),
        How::AttemptTimeout => unknown(Cause::AttemptTimeout),
        How::Cancelled => Outcome::Cancelled { sent: true },
        How::TimedOut => Outcome::TimedOut { sent: true },
    })
}

fn response(args: &ExplainArgs, status: u16, body: ResponseBody) -> Response {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Response {
        retry_after: args.retry_after.as_ref().and_then(|value| retry_after(value.as_bytes(), None, clock)),
        should_retry: args.should_retry.as_ref().map(|value| should_retry(value.as_bytes())),
        body,
        ..Response::new(status)
    }
}

fn elapsed(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "it must be a number of seconds, such as 30 or 0.5".to_owned())
}

fn retries(text: &str) -> Result<u32, String> {
    retries_option("retries", text).map_err(|error| rule(error.rule))
}

fn connection_retries(text: &str) -> Result<u32, String> {
    retries_option("connection_retries", text).map_err(|error| rule(error.rule))
}

fn request_timeout(text: &str) -> Result<Limit, String> {
    let seconds = text.parse().unwrap_or(f64::NAN);
    timeout_option("request_timeout", seconds).map(Limit).map_err(|error| rule(error.rule))
}

fn rule(rule: &str) -> String {
    format!("it must be {rule}")
}
