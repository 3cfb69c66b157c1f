//! What keeps sandboxes apart on this machine, tried and told.

use serde::Serialize;

use crate::confined::{Isolation, Network};
use crate::limits::{Keeper, Kept};

/// What is isolated on this machine and what is not, as [`LocalServerBuilder::explain`](crate::LocalServerBuilder::explain)
/// found by starting a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// Whether sandboxes start with these settings.
    pub starts: bool,
    /// Why they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// One by one: namespaces, network, limits, and what is shared.
    pub parts: Vec<Part>,
}

/// One part of a sandbox's isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// Its name: `processes`, `files`, `users`, `network`, `egress`, `cpu`, `memory`, `pids`, `disk` or `kernel`.
    pub name: &'static str,
    /// Whether it holds for sandboxes of these settings.
    pub isolated: bool,
    /// By what, or why not.
    pub how: String,
}

impl Explanation {
    pub(crate) fn of(isolation: Isolation, network: Network, keeper: &Keeper, problem: Option<String>) -> Self {
        let starts = problem.is_none();
        // What cannot be started isolates nothing.
        let apart = starts && isolation == Isolation::Namespaces;
        let alone = apart && network != Network::Host;
        let part = |name, isolated, how: &str| Part { name, isolated, how: how.to_owned() };
        let namespaced = |name, how: &str| match apart {
            true => part(name, true, how),
            false if starts => part(name, false, "started without isolation"),
            false => part(name, false, "sandboxes do not start"),
        };
        let mut parts = vec![
            namespaced("processes", "pid and IPC namespaces; no process outside is seen or signalled"),
            namespaced("files", "mount namespace and a root of its own; /usr, /bin, /lib and /opt are shown read-only"),
            namespaced("users", "user namespace; one user, with few capabilities, and no user namespaces inside"),
        ];
        parts.extend(match (alone, apart) {
            (true, _) if network == Network::Egress => [
                part("network", true, "network namespace with an interface of pasta's; ports are the sandbox's own"),
                part(
                    "egress",
                    false,
                    "by pasta: all that the machine's network reaches, this machine's loopback addresses and so this server \
                     excepted; none for a sandbox that forbids or restricts it, by domains and addresses too",
                ),
            ],
            (true, _) => [
                part("network", true, "network namespace with a loopback interface only; ports are the sandbox's own"),
                part("egress", true, "none: nothing outside is reached, nor this server's port"),
            ],
            (_, true) => [
                part("network", false, "the machine's own: ports are shared with it and between sandboxes"),
                part("egress", false, "all that the machine reaches, this server's control plane included"),
            ],
            _ => [namespaced("network", ""), namespaced("egress", "")],
        });
        parts.extend(limits(keeper, starts));
        parts.push(part("disk", false, "no limit: sandboxes share the file system of the state folder"));
        parts.push(part(
            "kernel",
            false,
            "shared: a fault in the kernel is a way out; use a virtual machine against that",
        ));
        Self { starts, problem, parts }
    }
}

fn limits(keeper: &Keeper, starts: bool) -> [Part; 3] {
    let limits = &keeper.limits;
    let cpu = limits.cpu_millis.map(|millis| format!("{} processors", f64::from(millis) / 1000.0));
    let memory = limits.memory.map(|bytes| format!("{} MiB", bytes >> 20));
    let pids = limits.pids.map(|count| format!("{count} processes and threads"));
    let part = |name, limit: Option<String>, kept: Kept, why: &Result<_, String>| {
        let why = why.as_ref().err().map_or("", String::as_str);
        let Some(limit) = limit else { return Part { name, isolated: false, how: "no limit is set".to_owned() } };
        let how = match kept {
            _ if !starts => "sandboxes do not start".to_owned(),
            Kept::Group => format!("{limit}, by a control group"),
            Kept::Watched => format!(
                "{limit}: each process by RLIMIT_DATA, all together by envd, which kills the largest (no control group: {why})"
            ),
            Kept::PidMax => {
                format!("{limit} and up to 300 more, by the pid namespace's pid_max (no control group: {why})")
            }
            Kept::Rlimit => format!("{limit}, by RLIMIT_NPROC in the user namespace (no control group: {why})"),
            Kept::Nothing => format!("{limit} was asked for, and nothing here can keep it ({why})"),
        };
        Part { name, isolated: starts && kept != Kept::Nothing, how }
    };
    [
        part("cpu", cpu, keeper.inside.cpu, &keeper.groups.cpu),
        part("memory", memory, keeper.inside.memory, &keeper.groups.memory),
        part("pids", pids, keeper.inside.pids, &keeper.groups.pids),
    ]
}
