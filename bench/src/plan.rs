//! What is measured, in which order, and the table.

use std::collections::BTreeMap;

use crate::Failed;
use crate::bands::{CPU, LATENCY, MEMORY, THROUGHPUT};
use crate::clients::NAMES;
use crate::process::{Server, measure};

const CONCURRENCIES: [usize; 2] = [64, 1000];

/// How often and how long.
pub(crate) struct Plan {
    runs: usize,
    seconds: String,
}

impl Plan {
    pub(crate) fn parse(options: &[&str]) -> Result<Self, Failed> {
        let mut plan = Self { runs: 5, seconds: "1.5".to_owned() };
        for option in options.chunks(2) {
            match option {
                ["--runs", runs] => plan.runs = runs.parse::<usize>()?.max(1),
                ["--seconds", seconds] => plan.seconds = (*seconds).to_owned(),
                other => return Err(format!("unknown option {}", other.join(" ")).into()),
            }
        }
        Ok(plan)
    }

    /// Whether all is within its band.
    pub(crate) fn run(&self) -> Result<bool, Failed> {
        println!(
            "POST of 128 B answered with 128 B; one thread on a core of its own, the server on another; median of {} \
             runs of {} s, (least–most); a ratio is of two clients' figures in the same run",
            self.runs, self.seconds
        );
        println!("load average before: {}", load_average());
        let server = Server::start()?;
        let mut verdict = Verdict::default();
        for concurrency in CONCURRENCIES {
            self.requests(&server, concurrency, &mut verdict)?;
        }
        self.requests(&server, 1, &mut verdict)?;
        self.transfers(&server, "upload", &mut verdict)?;
        self.transfers(&server, "download", &mut verdict)?;
        println!("\nload average after: {}", load_average());
        verdict.print();
        Ok(verdict.missed.is_empty())
    }

    fn requests(&self, server: &Server, concurrency: usize, verdict: &mut Verdict) -> Result<(), Failed> {
        println!("\nconcurrency {concurrency}");
        println!("{:<10} {:>28} {:>14} {:>26}", "", "CPU a request, µs", "requests/s", "median latency, µs");
        let asked = concurrency.to_string();
        let args = |client| ["requests", client, &asked, &self.seconds, &server.answers];
        let measured = self.interleaved(&NAMES, |client| measure(&args(client)))?;
        for (client, runs) in &measured {
            let [cpu, rate, latency] = figures_of(runs);
            println!("{client:<10} {:>28} {:>14.0} {:>26}", cpu.shown(2), rate.median, latency.shown(1));
        }
        let [ours_cpu, _, ours_latency] = &measured["oncebox"];
        if concurrency > 1 {
            for band in CPU {
                let ratio = Figure::ratio(ours_cpu, &measured[band.client][0]);
                verdict.at_most(format!("CPU / {} at concurrency {concurrency}", band.client), &ratio, band.most);
            }
        } else {
            for band in LATENCY {
                let ratio = Figure::ratio(ours_latency, &measured[band.client][2]);
                verdict.at_most(format!("latency / {} at concurrency 1", band.client), &ratio, band.most);
            }
        }
        Ok(())
    }

    fn transfers(&self, server: &Server, direction: &str, verdict: &mut Verdict) -> Result<(), Failed> {
        let port = if direction == "upload" { &server.answers } else { &server.downloads };
        println!("\n{direction} of 1 GiB");
        println!("{:<10} {:>28} {:>14} {:>26}", "", "MiB/s", "CPU, s", "peak memory, MiB");
        let measured = self.interleaved(&["h2", "oncebox"], |client| {
            let [rate, cpu, memory] = figures(measure(&[direction, client, port])?)?;
            Ok(vec![rate / f64::from(1 << 20), cpu, memory / f64::from(1 << 20)])
        })?;
        for (client, runs) in &measured {
            let [rate, cpu, memory] = figures_of(runs);
            println!("{client:<10} {:>28} {:>14.2} {:>26}", rate.shown(0), cpu.median, memory.shown(1));
        }
        let [ours, _, memory] = &measured["oncebox"];
        let ratio = Figure::ratio(&measured["h2"][0], ours);
        verdict.at_most(format!("{direction}: h2's throughput / ours"), &ratio, THROUGHPUT);
        let memory = Figure::greatest(memory);
        verdict.at_most(format!("{direction}: peak memory, MiB"), &memory, MEMORY / f64::from(1 << 20));
        Ok(())
    }

    /// Lets the clients take turns, each run in another order.
    fn interleaved(
        &self,
        clients: &[&'static str],
        measure: impl Fn(&'static str) -> Result<Vec<f64>, Failed>,
    ) -> Result<BTreeMap<&'static str, Runs>, Failed> {
        let mut all: BTreeMap<&'static str, Runs> = BTreeMap::new();
        for run in 0..self.runs {
            for turn in 0..clients.len() {
                let client = clients[(run + turn) % clients.len()];
                let figures = figures(measure(client)?)?;
                let runs = all.entry(client).or_default();
                for (runs, figure) in runs.iter_mut().zip(figures) {
                    runs.push(figure);
                }
            }
        }
        Ok(all)
    }
}

/// What one client's runs came to, for each of three figures.
type Runs = [Vec<f64>; 3];

fn figures_of(runs: &Runs) -> [Figure; 3] {
    runs.each_ref().map(|runs| Figure::of(runs.clone()))
}

fn figures(numbers: Vec<f64>) -> Result<[f64; 3], Failed> {
    <[f64; 3]>::try_from(numbers).map_err(|numbers| format!("{} figures instead of 3", numbers.len()).into())
}

/// A figure over the runs.
struct Figure {
    least: f64,
    median: f64,
    most: f64,
}

impl Figure {
    fn of(mut runs: Vec<f64>) -> Self {
        runs.sort_by(f64::total_cmp);
        Self { least: runs[0], median: runs[runs.len() / 2], most: runs[runs.len() - 1] }
    }

    /// Of two clients in the same run: what the machine does besides changes from run to run, and both have it.
    fn ratio(one: &[f64], other: &[f64]) -> Self {
        Self::of(one.iter().zip(other).map(|(one, other)| one / other).collect())
    }

    /// The greatest alone counts.
    fn greatest(runs: &[f64]) -> Self {
        let most = runs.iter().copied().fold(0.0, f64::max);
        Self { least: most, median: most, most }
    }

    fn shown(&self, digits: usize) -> String {
        let Self { least, median, most } = self;
        format!("{median:.digits$} ({least:.digits$}–{most:.digits$})")
    }
}

/// Each band, and whether it holds.
#[derive(Default)]
struct Verdict {
    lines: Vec<String>,
    missed: Vec<String>,
}

impl Verdict {
    fn at_most(&mut self, what: String, figure: &Figure, most: f64) {
        let holds = figure.median <= most;
        let mark = if holds { "" } else { "  outside the band" };
        self.lines.push(format!("{what:<44} {:>20}  (at most {most}){mark}", figure.shown(2)));
        if !holds {
            self.missed.push(what);
        }
    }

    fn print(&self) {
        println!("\nours beside the others");
        for line in &self.lines {
            println!("{line}");
        }
    }
}

/// How busy the machine is, where the system tells.
fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|line| Some(line.split_whitespace().next()?.to_owned()))
        .unwrap_or_else(|| "unknown".to_owned())
}
