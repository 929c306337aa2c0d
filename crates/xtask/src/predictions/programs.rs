//! The programs of `cargo xtask predictions`: the command of each for a number of threads, and the
//! rate in its output.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// Length of a run, milliseconds.
const RUN_MS: &str = "400";

/// A program, recorded under the first of its locks.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The flag of `convoy with` for its locks.
    pub(super) flag: &'static str,
    pub(super) policies: &'static [&'static str],
    /// Its command for a number of threads, where files may be left.
    words: fn(&Path, u32) -> Vec<String>,
    /// Extracts operations per second from its output.
    rate: fn(&str, u32) -> Option<f64>,
    /// How it is started with its lock in parts, if it can be.
    pub(super) split: Option<Split>,
}

/// A word of the command that splits the lock.
pub(super) struct Split {
    pub(super) ways: &'static str,
    pub(super) what: &'static str,
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

impl Program {
    pub(super) fn words(&self, place: &Path, threads: u32) -> Vec<String> {
        (self.words)(place, threads)
    }

    pub(super) fn rate(&self, output: &str, threads: u32) -> anyhow::Result<f64> {
        let rate = (self.rate)(output, threads);
        rate.with_context(|| format!("{} printed no rate: {output:?}", self.name))
    }

    /// Returns whether it is installed.
    pub(super) fn is_installed(&self, place: &Path) -> bool {
        let words = self.words(place, 2);
        Command::new(&words[0]).arg("--version").output().is_ok()
    }
}

const MUTEX: &[&str] = &["sleep", "spin", "fair", "handoff"];

/// The loops of `crates/record/tests/programs/rate.c`.
pub(super) const LOOPS: [Program; 6] = [
    Program {
        name: "turn",
        flag: "--sem",
        policies: &["handoff", "sleep"],
        words: |place, threads| of_loop(place, "turn", threads),
        rate: plain,
        split: None,
    },
    Program {
        name: "hot",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| of_loop(place, "hot", threads),
        rate: plain,
        split: None,
    },
    Program {
        name: "rare",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| of_loop(place, "rare", threads),
        rate: plain,
        split: None,
    },
    Program {
        name: "buffer",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| of_loop(place, "buffer", threads),
        rate: plain,
        split: None,
    },
    Program {
        name: "group",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| of_loop(place, "group", threads),
        rate: plain,
        split: None,
    },
    Program {
        name: "nested",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| of_loop(place, "nested", threads),
        rate: plain,
        split: None,
    },
];

fn of_loop(place: &Path, kind: &str, threads: u32) -> Vec<String> {
    let program = place.join("rate").display().to_string();
    vec![program, kind.to_owned(), threads.to_string(), RUN_MS.to_owned()]
}

fn plain(output: &str, _: u32) -> Option<f64> {
    output.trim().parse().ok()
}

/// Third-party programs, from Debian's packages sysbench, rocksdb-tools and python3.
pub(super) const REAL: [Program; 5] = [
    Program {
        name: "sysbench mutex",
        flag: "--mutex",
        policies: MUTEX,
        words: |_, threads| {
            let locks = LOCKS / u64::from(threads);
            words(&format!(
                "sysbench mutex --threads={threads} --mutex-num=1 --mutex-locks={locks} \
                 --mutex-loops=500 run"
            ))
        },
        rate: |output, threads| {
            let locks = LOCKS / u64::from(threads) * u64::from(threads);
            Some(locks as f64 / after(output, "total time:")?)
        },
        split: None,
    },
    Program {
        name: "sysbench threads",
        flag: "--mutex",
        policies: MUTEX,
        words: |_, threads| {
            words(&format!(
                "sysbench threads --threads={threads} --thread-yields=200 --thread-locks=1 \
                 --time=1 run"
            ))
        },
        rate: |output, _| {
            Some(after(output, "total number of events:")? / after(output, "total time:")?)
        },
        split: None,
    },
    Program {
        name: "db_bench readrandom",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| {
            words(&format!(
                "db_bench --use_existing_db=1 --benchmarks=readrandom --cache_numshardbits=0 \
                 --cache_size=1000000 --num=100000 --threads={threads} --duration=1 --db={}",
                place.join("db").display()
            ))
        },
        rate: operations,
        split: Some(Split {
            ways: "16",
            what: "16 shards",
            from: "--cache_numshardbits=0",
            to: "--cache_numshardbits=4",
        }),
    },
    Program {
        name: "db_bench fillrandom",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| {
            words(&format!(
                "db_bench --benchmarks=fillrandom --num={} --threads={threads} --db={}",
                WRITES / threads,
                place.join("db-written").display()
            ))
        },
        rate: operations,
        split: None,
    },
    Program {
        name: "python queue",
        flag: "--mutex",
        policies: MUTEX,
        words: |place, threads| {
            let script = place.join("through_queue.py").display().to_string();
            vec!["/usr/bin/python3".to_owned(), script, threads.to_string()]
        },
        rate: plain,
        split: None,
    },
];

/// Acquisitions of all threads together.
const LOCKS: u64 = 1_280_000;
/// Writes of all threads together.
const WRITES: u32 = 160_000;

/// Half of the threads put numbers into a queue of the standard library, the others take them.
const QUEUE: &str = "\
import queue, sys, threading, time
half, items = int(sys.argv[1]) // 2, 200000
items -= items % half
line = queue.Queue(64)
def put():
    for number in range(items // half):
        line.put(number)
def take():
    for number in range(items // half):
        line.get()
threads = [threading.Thread(target=body) for body in (put, take) for _ in range(half)]
begin = time.monotonic()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(items / (time.monotonic() - begin))
";

/// Creates the input files of the installed programs.
pub(super) fn prepare(place: &Path) -> anyhow::Result<()> {
    std::fs::write(place.join("through_queue.py"), QUEUE)?;
    let fill = format!(
        "--benchmarks=fillrandom --num=100000 --threads=1 --db={}",
        place.join("db").display()
    );
    if let Ok(output) = Command::new("db_bench").args(words(&fill)).output() {
        anyhow::ensure!(output.status.success(), "db_bench cannot write to {}", place.display());
    }
    Ok(())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the number behind these words; a unit may stick to it.
fn after(output: &str, words: &str) -> Option<f64> {
    let rest = output.split_once(words)?.1.trim_start();
    let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Returns the number before `ops/sec`, of the last line that has one.
fn operations(output: &str, _: u32) -> Option<f64> {
    output.rsplit_once(" ops/sec")?.0.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_the_programs_print_them() {
        fn rate(name: &str, output: &str, threads: u32) -> Option<f64> {
            let program = REAL.iter().find(|one| one.name == name).expect("there is one");
            program.rate(output, threads).ok().map(f64::round)
        }
        let text = "General statistics:\n    total time:                0.3200s\n    \
                    total number of events:              32\n";
        assert_eq!(rate("sysbench mutex", text, 32), Some(4_000_000.0));
        assert_eq!(rate("sysbench threads", text, 32), Some(100.0));
        let text =
            "DB path: [/tmp/db]\nreadrandom   :      40.116 micros/op 398812 ops/sec 3.0 seconds";
        assert_eq!(rate("db_bench readrandom", text, 16), Some(398_812.0));
        assert_eq!(rate("db_bench fillrandom", "", 16), None);
    }
}
