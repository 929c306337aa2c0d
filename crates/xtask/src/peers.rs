//! `cargo xtask peers`: acquisitions per second of the lock-contention model of `benches/peers`,
//! here and on other simulators, in alternation. A peer that cannot be built here is left out, with
//! the reason.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::outcome::Outcome;
use crate::stage::cargo;

const TASKS: u32 = 2000;
const ROUNDS: usize = 5;

/// A simulator that runs the model.
struct Peer {
    name: &'static str,
    program: PathBuf,
    before: Vec<String>,
    after: &'static [&'static str],
    /// Enough for about a second.
    acquisitions: u32,
    /// How many times as fast this engine should be.
    asked: Option<f64>,
    rates: Vec<f64>,
}

impl Peer {
    fn new(name: &'static str, program: PathBuf, acquisitions: u32, asked: Option<f64>) -> Self {
        Self {
            name,
            program,
            before: Vec::new(),
            after: &[],
            acquisitions,
            asked,
            rates: Vec::new(),
        }
    }

    fn run(&self) -> anyhow::Result<f64> {
        let mut command = Command::new(&self.program);
        command.args(&self.before).args([TASKS.to_string(), self.acquisitions.to_string()]);
        let text = output(command.args(self.after))?;
        let last = text.lines().last().unwrap_or_default();
        last.trim().parse().with_context(|| format!("{} printed {last:?}", self.name))
    }

    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }
}

pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", errors.lines().last().unwrap_or_default());
    Ok(String::from_utf8(output.stdout)?)
}

/// Builds everything, runs it, prints medians and ratios.
pub(crate) fn run(root: &Path, as_json: bool) -> anyhow::Result<Outcome> {
    let target = root.join("target/peers");
    std::fs::create_dir_all(&target)?;
    let mut peers = convoy(root, &target)?;
    for (name, peer) in [
        ("SimPy", simpy(root, &target)),
        ("NeXosim", nexosim(root, &target)),
        ("SimGrid", simgrid(root, &target)),
    ] {
        match peer {
            Ok(peer) => peers.push(peer),
            Err(reason) => eprintln!("{name} is left out: {reason:#}"),
        }
    }
    for _ in 0..ROUNDS {
        for peer in &mut peers {
            let rate = peer.run()?;
            peer.rates.push(rate);
        }
    }
    print(&peers, as_json);
    let ours = peers[0].median();
    let met = peers.iter().all(|peer| peer.asked.is_none_or(|asked| ours >= asked * peer.median()));
    Ok(if met { Outcome::Done } else { Outcome::Finding })
}

fn print(peers: &[Peer], as_json: bool) {
    let ours = peers[0].median();
    if as_json {
        let rows: Vec<_> = peers
            .iter()
            .map(|peer| {
                json!({
                    "engine": peer.name,
                    "tasks": TASKS,
                    "acquisitions_per_cpu_s": peer.median(),
                    "rounds": peer.rates,
                    "convoy_over_it": ours / peer.median(),
                    "asked": peer.asked,
                })
            })
            .collect();
        println!("{}", json!({ "rows": rows }));
        return;
    }
    println!(
        "{:<20}{:>24}{:>22}{:>8}",
        "engine", "acquisitions per CPU s", "queue lock is faster", "asked"
    );
    for peer in peers {
        let asked = peer.asked.map_or_else(String::new, |asked| format!("{asked} x"));
        let rate = peer.median();
        println!("{:<20}{rate:>24.0}{:>20.1} x{asked:>8}", peer.name, ours / rate);
    }
}

/// This engine with the locks of the model, and the model alone. The first is compared with the
/// peers, which model a lock as a queue, too.
fn convoy(root: &Path, target: &Path) -> anyhow::Result<Vec<Peer>> {
    let example = ["--example", "contention", "--package", "convoy-machine"];
    let mut build = cargo(root, &["build", "--release", "--locked"]);
    output(build.args(example).arg("--target-dir").arg(target))?;
    let program = target.join("release/examples/contention");
    let rows: [(_, &'static [&'static str]); 4] = [
        ("convoy, queue lock", &["queue"]),
        ("convoy, semaphore", &[]),
        ("convoy, mutex", &["mutex"]),
        ("bare loop, ceiling", &["bare"]),
    ];
    let peer = |(name, after)| Peer { after, ..Peer::new(name, program.clone(), 2_000_000, None) };
    Ok(rows.map(peer).into())
}

fn simpy(root: &Path, target: &Path) -> anyhow::Result<Peer> {
    let environment = target.join("simpy");
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    output(Command::new(&python).args(["-m", "pip", "install", "--quiet", "simpy==4.1.2"]))?;
    let mut peer = Peer::new("SimPy", python, 100_000, Some(60.0));
    peer.before = vec![root.join("benches/peers/contention.py").display().to_string()];
    Ok(peer)
}

fn nexosim(root: &Path, target: &Path) -> anyhow::Result<Peer> {
    let directory = root.join("benches/peers/nexosim");
    let mut build = cargo(&directory, &["build", "--release", "--locked", "--target-dir"]);
    output(build.arg(target))?;
    Ok(Peer::new("NeXosim", target.join("release/peer-nexosim"), 500_000, Some(20.0)))
}

fn simgrid(root: &Path, target: &Path) -> anyhow::Result<Peer> {
    let program = target.join("simgrid");
    let source = root.join("benches/peers/contention.cpp");
    let mut build = Command::new("c++");
    output(build.arg("-O2").arg(source).arg("-lsimgrid").arg("-o").arg(&program))
        .context("needs a C++ compiler and Debian's libsimgrid-dev")?;
    let mut peer = Peer::new("SimGrid", program, 300_000, Some(20.0));
    peer.after = &["--cfg=contexts/factory:raw"];
    Ok(peer)
}
