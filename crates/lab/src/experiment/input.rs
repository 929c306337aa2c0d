//! What can be set in a cell: inputs by name, and keys of presets.

use std::collections::BTreeMap;
use std::fmt;

use convoy_catalogue::Key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Target;

/// A value in an experiment file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Setting {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Setting {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// Parses the value of a word of the command line.
    pub fn of(word: &str) -> Self {
        let whole = word.parse().map(Self::Whole).ok();
        let number = || word.parse().map(Self::Number).ok();
        let truth = || word.parse().map(Self::Bool).ok();
        whole.or_else(number).or_else(truth).unwrap_or_else(|| Self::Text(word.to_owned()))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Whole(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// Values of inputs and of preset keys, by name.
pub type Settings = BTreeMap<String, Setting>;

/// Type of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number in this range.
    Whole(i64, i64),
    /// A number in this range.
    Number(f64, f64),
    /// `true` or `false`.
    Bool,
    /// Text.
    Text,
}

/// An input of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// Its name in `inputs` and `axis`.
    pub key: &'static str,
    /// The targets that have it.
    pub targets: &'static [Target],
    /// Its type.
    pub kind: Kind,
    /// Its meaning and default.
    pub meaning: &'static str,
}

use Target::{Command, Host, Locks, Sim, Work, Zone};

/// Every input, as `convoy list experiment-keys` prints them.
pub const INPUTS: [Input; 51] = [
    input(
        "kernel",
        &[Sim, Work, Locks],
        Kind::Text,
        "kernel preset or file; of locks with a machine",
    ),
    input(
        "machine",
        &[Sim, Work, Locks, Zone],
        Kind::Text,
        "machine preset or file; locks: else this machine",
    ),
    input("cpus", &[Sim, Work, Locks, Zone], Kind::Whole(1, 1024), "CPUs instead of the machine's"),
    input(
        "kept_to",
        &[Sim, Locks, Host, Command],
        Kind::Whole(1, 1024),
        "CPUs that all tasks are kept to: all, or 1 on a virtual machine",
    ),
    input("mix", &[Sim, Host], Kind::Text, "AIM7 mix or workfile; default shared"),
    input(
        "dialect",
        &[Sim, Host],
        Kind::Text,
        "version of the jobs and their file sizes: 1996 or re-aim; default 1996 and the sizes of \
         the workfile",
    ),
    input(
        "users",
        &[Sim, Host, Command],
        Kind::Whole(1, 1_000_000),
        "concurrent users; default 1; a command finds it as CONVOY_USERS",
    ),
    input("start_delay_s", &[Sim, Host], Kind::Number(0.0, 1e4), "delay inside Real; default 0"),
    input(
        "pool_users",
        &[Sim],
        Kind::Whole(1, 1_000_000),
        "users that share the pool of files; default: users at full size",
    ),
    input(
        "first",
        &[Sim, Host],
        Kind::Whole(1, 1_000_000),
        "number of jobs of each user, the first of its order; default all of the mix",
    ),
    input(
        "jobs_together",
        &[Sim],
        Kind::Whole(1, 1_000_000_000),
        "the run ends when all users together have done this many jobs, each in its order, while \
         all are still at work; default at the end of the last user",
    ),
    input(
        "shrink",
        &[Sim, Host],
        Kind::Whole(1, 1_000_000),
        "divisor of the loop counts of jobs, which makes another mix of them; default 1",
    ),
    input(
        "shell_sleep",
        &[Sim, Host],
        Kind::Bool,
        "shell_rtns_2 sleeps for 5 s as re-aim's script does, less as shrink and first leave out \
         work; default false",
    ),
    input(
        "console",
        &[Sim],
        Kind::Bool,
        "a person at the machine switches the console every second; default false",
    ),
    input(
        "piped_input",
        &[Sim],
        Kind::Bool,
        "the standard input of the users is a pipe, and no terminal; default false",
    ),
    input("fs", &[Sim], Kind::Text, "file system of the work directory: tmpfs (default), journal"),
    input(
        "directories",
        &[Sim],
        Kind::Whole(1, 255),
        "work file systems, each with a work directory and a disk; default 1",
    ),
    input("fs_mib", &[Sim], Kind::Whole(1, 1 << 20), "size of each; default half of the memory"),
    input("journal_mib", &[Sim], Kind::Whole(2, 1024), "size of each journal; default 32"),
    input(
        "journal_async",
        &[Sim],
        Kind::Bool,
        "a commit record is written together with the blocks, not after them; default false",
    ),
    input(
        "labels",
        &[Sim],
        Kind::Bool,
        "files have labels outside of their inodes (SELinux, inodes of 128 bytes), on ext4 up to \
         3.14; default false",
    ),
    input(
        "load_counted_s",
        &[Sim],
        Kind::Number(0.0, 5.0),
        "from the release to the first count of active tasks, which follow every 5 s; default as \
         from boot",
    ),
    input(
        "lock",
        &[Locks, Zone],
        Kind::Text,
        "lock of the loop; of a zone test-and-set, ticket (default), queued",
    ),
    input(
        "threads",
        &[Locks, Command],
        Kind::Whole(1, 16_384),
        "threads of the loop; default 2; a command finds it as CONVOY_THREADS",
    ),
    input(
        "locks",
        &[Locks],
        Kind::Whole(1, 16_384),
        "number of locks on a virtual machine; a thread uses the lock of its number modulo this; \
         default 1",
    ),
    input(
        "bound",
        &[Locks],
        Kind::Bool,
        "on a virtual machine: each thread is bound to a separate CPU, in the kernel, and nothing \
         else runs; default false",
    ),
    input(
        "busy_threads",
        &[Locks],
        Kind::Whole(0, 16_384),
        "on a virtual machine, unless `bound`: more threads, which compute and take no lock; \
         default 0",
    ),
    input("lines", &[Locks], Kind::Whole(0, 64), "cache lines that a section writes; default 1"),
    input(
        "readers_percent",
        &[Locks],
        Kind::Whole(0, 100),
        "percentage of critical sections that share a reader/writer lock as readers; default 0",
    ),
    input("section_ns", &[Locks], Kind::Whole(1, 1_000_000), "length of the section; default 100"),
    input("section", &[Locks], Kind::Text, "how that varies: fixed (default), exponential"),
    input(
        "outside_ns",
        &[Locks, Zone],
        Kind::Whole(0, 1_000_000),
        "work between two sections, or use of a page; default 1000",
    ),
    input(
        "think",
        &[Locks, Zone],
        Kind::Text,
        "how that work varies: fixed (default); staggered, fixed but for the first; exponential",
    ),
    input(
        "spin_limit",
        &[Locks],
        Kind::Whole(0, 1_000_000_000),
        "looks of a lock that spins before it sleeps; default its own",
    ),
    input("command", &[Command], Kind::Text, "line for the shell, in the directory of the file"),
    input(
        "value_regex",
        &[Command],
        Kind::Text,
        "pattern of the value: the last match on standard output, its group 1 if it has one",
    ),
    input("limit_s", &[Command], Kind::Number(0.001, 1e6), "it is killed when it takes longer"),
    input(
        "warmup_ms",
        &[Locks, Zone],
        Kind::Whole(0, 60_000),
        "time before the window; of locks on a virtual machine at least, until throughput and CPUs \
         in use have stopped drifting; default 150",
    ),
    input(
        "from_start",
        &[Locks],
        Kind::Bool,
        "on a virtual machine, all threads sleep on one gate, and the window begins `warmup_ms` \
         after it opens, settled or not; default false",
    ),
    input("window_ms", &[Locks, Zone], Kind::Whole(1, 60_000), "time that counts; default 300"),
    input("workload", &[Work], Kind::Text, "workload or file"),
    input(
        "work_spread_percent",
        &[Work],
        Kind::Whole(0, 50),
        "each seed has a different amount of work, up to this much more or less; default 0",
    ),
    input(
        "start_spread_ms",
        &[Work],
        Kind::Whole(0, 60_000),
        "each seed begins at a different time, up to this much later; default 0",
    ),
    input(
        "cold",
        &[Work],
        Kind::Bool,
        "files are on the machine's disk, and none of their pages in memory at the start",
    ),
    input(
        "runs_before",
        &[Work],
        Kind::Whole(0, 1000),
        "runs of the workload before the measured one, in other directories; default 0",
    ),
    input("memory_mib", &[Work], Kind::Whole(64, 1 << 24), "memory of the machine; default 1024"),
    input("batch", &[Zone], Kind::Whole(1, 2047), "pages that move together; default 31"),
    input(
        "policy",
        &[Zone],
        Kind::Text,
        "of the zone lock: hold-all (default), release-each, release-contended",
    ),
    input(
        "every",
        &[Zone],
        Kind::Whole(1, 2047),
        "pages between two looks of release-contended; default 1",
    ),
    input("own_line", &[Zone], Kind::Bool, "the zone lock has its own line; default false"),
    input(
        "nested",
        &[Zone],
        Kind::Bool,
        "lists have a lock, held around the zone lock, and other CPUs read them; default false",
    ),
];

const fn input(
    key: &'static str,
    targets: &'static [Target],
    kind: Kind,
    meaning: &'static str,
) -> Input {
    Input { key, targets, kind, meaning }
}

impl Kind {
    fn takes(self, value: &Setting) -> Result<(), String> {
        let range =
            |low: String, high: String| format!("{value} is out of range ({low} to {high})");
        match (self, value) {
            (Self::Whole(low, high), Setting::Whole(whole)) => {
                if (low..=high).contains(whole) {
                    Ok(())
                } else {
                    Err(range(low.to_string(), high.to_string()))
                }
            }
            (Self::Number(low, high), value) if value.number().is_some() => {
                let inside = value.number().is_some_and(|number| (low..=high).contains(&number));
                if inside { Ok(()) } else { Err(range(low.to_string(), high.to_string())) }
            }
            (Self::Bool, Setting::Bool(_)) | (Self::Text, Setting::Text(_)) => Ok(()),
            (Self::Whole(..), _) => Err(format!("{value} is not a whole number")),
            (Self::Number(..), _) => Err(format!("{value} is not a number")),
            (Self::Bool, _) => Err(format!("{value} is neither true nor false")),
            (Self::Text, _) => Err(format!("{value} is not a string; put it in quotes")),
        }
    }
}

/// Whether `key` may be set to `value` in a cell of `target`.
///
/// # Errors
/// The problem and the accepted values, in words.
pub fn accept(target: Target, key: &str, value: &Setting) -> Result<(), String> {
    if value.number().is_some_and(|number| !number.is_finite()) {
        return Err(format!("{value} is not finite"));
    }
    if let Some((kind, rest)) = key.split_once('.') {
        let known = matches!(kind, "kernel" | "machine" | "workload") && !rest.is_empty();
        let has = match target {
            Work => true,
            Sim | Locks => kind != "workload",
            Zone => kind == "machine",
            Host | Command => false,
        };
        // The catalogue knows the keys of a preset, and says so when the cell is made.
        return match (known, has) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("a grid of target {target} has no {kind}")),
            (false, _) => {
                Err("expected an input, kernel.KEY, machine.KEY or workload.KEY".to_owned())
            }
        };
    }
    // A command has parameters of any name.
    let input = INPUTS.iter().find(|input| input.key == key && input.targets.contains(&target));
    input.map_or_else(|| Err(unknown(target, key)), |input| input.kind.takes(value))
}

fn unknown(target: Target, key: &str) -> String {
    let known = || INPUTS.iter().filter(|input| input.targets.contains(&target));
    let hint = convoy_catalogue::suggest::hint(key, known().map(|input| input.key));
    let known: Vec<&str> = known().map(|input| input.key).collect();
    format!("no input of target {target}{hint}; known: {}", known.join(", "))
}

/// The inputs as keys of an experiment file, whose schema allows any name.
pub fn input_keys() -> impl Iterator<Item = Key> {
    INPUTS.iter().map(|input| {
        let targets: Vec<String> = input.targets.iter().map(ToString::to_string).collect();
        let takes = match input.kind {
            Kind::Whole(low, high) => format!("{low} to {high}"),
            Kind::Number(low, high) => format!("{low} to {high}"),
            Kind::Bool => "`true`, `false`".to_owned(),
            Kind::Text => "text".to_owned(),
        };
        Key {
            path: format!("inputs.{}", input.key),
            takes,
            required: false,
            meaning: format!("Of {}: {}.", targets.join(", "), input.meaning),
            unbounded: false,
        }
    })
}
