//! Flags of `convoy record`.

use crate::fail::Failure;
use crate::keep::StoreArgs;
use crate::with::Policies;
use clap::{Args, ValueEnum};
use convoy_record::bpf::Watching;
use convoy_record::dumps::Dumps;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub(crate) struct RecordArgs {
    /// The program and its arguments, after `--`
    #[arg(
        value_name = "CMD",
        required_unless_present_any = ["pid", "cgroup", "recover"],
        trailing_var_arg = true
    )]
    pub(super) words: Vec<OsString>,
    /// Observe a running process from outside instead, until it exits or Ctrl-C
    #[arg(long, value_name = "PID", conflicts_with = "words")]
    pub(super) pid: Option<u32>,
    /// The same for all processes of a control group in /sys/fs/cgroup
    #[arg(long, value_name = "PATH", conflicts_with_all = ["words", "pid"])]
    pub(super) cgroup: Option<PathBuf>,
    /// Recover the data of recordings after `convoy record` was killed
    #[arg(long, conflicts_with_all = ["words", "pid", "cgroup"])]
    pub(super) recover: bool,
    /// Directory for the recorder's files [default: memory, then a disk]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pid", "cgroup"])]
    pub(super) buffer: Option<PathBuf>,
    /// Maximum size of these files in total, such as 64M [default: all of DIR, or 3/4 elsewhere]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["pid", "cgroup"])]
    #[arg(value_parser = size, hide_short_help = true)]
    pub(super) buffer_size: Option<u64>,
    /// Leave the arguments of commands out of the record
    #[arg(long, hide_short_help = true)]
    pub(super) redact: bool,
    /// Stop after this many seconds, and terminate a program that was started
    #[arg(long, value_name = "SECONDS")]
    #[arg(value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Record only acquisitions that had to wait, which `predict` and `fix` cannot replay
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    pub(super) contended: bool,
    /// Also record kernel events: futex waits, kernel locks, preemptions (needs root)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Kernel::Auto)]
    pub(super) kernel: Kernel,
    /// Take thread dumps of Java processes (auto or off)
    ///
    /// They name monitors, the methods that wait and the owners: up to 50 for each process.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t = Java::Auto,
        hide_possible_values = true
    )]
    pub(super) java: Java,
    /// Write the record to a file instead of the store
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// No messages on standard error
    #[arg(long, short, help_heading = "Output")]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    #[command(flatten)]
    pub(super) policies: Policies,
}

/// Whether kernel events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kernel {
    /// If permitted, and not with `--contended`
    Auto,
    /// Always, and each of them; fail if it is not permitted
    On,
    /// Not
    Off,
}

impl Kernel {
    /// With `--contended` the recording should cost little. Kernel events cost more, so then they
    /// are recorded only on request.
    pub(super) fn unless(self, contended: bool, unseen: &mut Vec<String>) -> Self {
        if self != Self::Auto || !contended {
            return self;
        }
        unseen.push("Kernel events were not recorded; --kernel on adds them.".to_owned());
        Self::Off
    }

    /// Starts recording kernel events if this is wanted; adds the reason to `unseen` if it cannot.
    pub(crate) fn watch(self, unseen: &mut Vec<String>) -> Result<Option<Watching>, Failure> {
        if self == Self::Off {
            return Ok(None);
        }
        match Watching::new() {
            Ok(mut watching) => {
                if self == Self::On {
                    watching.unlimited();
                }
                Ok(Some(watching))
            }
            Err(error) if self == Self::On => Err(Failure::environment(error)),
            Err(error) => {
                unseen.push(format!(
                    "Kernel events were not recorded (kernel locks, futex calls of the program \
                     itself, why owners were off CPU): {error}."
                ));
                Ok(None)
            }
        }
    }
}

/// Whether thread dumps of Java processes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Java {
    /// If the process permits it
    Auto,
    /// Not
    Off,
}

impl Java {
    /// Starts to take dumps if they are wanted; adds the reason to `unseen` if it cannot.
    pub(super) fn start(self, unseen: &mut Vec<String>) -> Option<Dumps> {
        self.started(Dumps::start, unseen)
    }

    /// The same for an observation without an end.
    pub(crate) fn start_lasting(self, unseen: &mut Vec<String>) -> Option<Dumps> {
        self.started(Dumps::start_lasting, unseen)
    }

    fn started(
        self,
        start: fn() -> std::io::Result<Dumps>,
        unseen: &mut Vec<String>,
    ) -> Option<Dumps> {
        let started = (self == Self::Auto).then(start)?;
        started.map_err(|error| unseen.push(format!("Java was not dumped: {error}."))).ok()
    }
}

/// A number of bytes, with K, M or G.
fn size(text: &str) -> Result<u64, String> {
    /// The need of a process with some threads, and more than the memory of any machine.
    const RANGE: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) if text.ends_with('K') => (digits, 10),
        Some(digits) if text.ends_with('M') => (digits, 20),
        Some(digits) => (digits, 30),
        None => (text, 0),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    let bytes = bytes.filter(|bytes| RANGE.contains(bytes));
    bytes.ok_or_else(|| "not a size between 1M and 1024G, such as 64M".to_owned())
}

/// A length of time.
fn seconds(text: &str) -> Result<f64, String> {
    const MOST: f64 = 86_400.0;
    let value = text.parse().ok().filter(|value| (0.01..=MOST).contains(value));
    value.ok_or_else(|| format!("not a time between 0.01 and {MOST} s"))
}
