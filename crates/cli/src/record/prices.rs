//! The prices of switches and wakeups, for predictions: measured once after each start of the
//! machine, and kept next to the store.

use crate::keep::StoreArgs;
use convoy_calibrate::hour::{self, MachineError, Quartiles};
use convoy_os::Relay;
use convoy_os::clock::usable_cpus;
use convoy_os::process::Stat;
use convoy_record::Process;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

const FILE: &str = "prices.json";
/// Seconds after which a measurement that other programs disturbed is repeated.
const DISTURBED_S: f64 = 3600.0;

/// Prices that an earlier recording measured.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The start of the machine that they belong to.
    boot: String,
    /// The CPUs that the command could use.
    cpus: Vec<usize>,
    /// When they were measured, seconds since that start.
    at_s: f64,
    /// Quartiles in nanoseconds, by the key of a machine preset.
    prices: BTreeMap<String, Quartiles>,
    /// Why they could not be measured.
    failure: Option<String>,
}

impl Kept {
    fn new(measured: Result<BTreeMap<String, Quartiles>, &MachineError>) -> Self {
        let failure = measured.as_ref().err().map(ToString::to_string);
        let prices = measured.unwrap_or_default();
        Self { boot: boot(), cpus: usable_cpus(), at_s: uptime_s(), prices, failure }
    }

    /// Returns whether this machine has these prices now.
    fn is_current(&self) -> bool {
        let is_disturbed =
            self.failure.is_some() || self.prices.values().any(|ns| ns[1] > hour::MOST_NS);
        self.boot == boot()
            && self.cpus == usable_cpus()
            && (!is_disturbed || uptime_s() - self.at_s < DISTURBED_S)
    }
}

/// Returns the prices, and adds the reason to `unseen` if there are none. A signal to end the
/// command ends the measurement.
pub(super) fn prices(
    relay: &Relay,
    store: &StoreArgs,
    processes: &[Process],
    unseen: &mut Vec<String>,
) -> BTreeMap<String, Quartiles> {
    if processes.iter().all(|process| process.locks.is_empty()) {
        return BTreeMap::new();
    }
    if is_real_time() {
        // Threads that wait for each other would keep the CPUs from all others, themselves
        // included.
        unseen.push(
            "The cost of wakeups was not measured: convoy runs with real-time priority. Start it \
             without one, and give the priority to the program: convoy record -- chrt -f 1 CMD."
                .to_owned(),
        );
        return BTreeMap::new();
    }
    let path = file(store);
    let text = path.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
    let kept = text.and_then(|text| serde_json::from_str::<Kept>(&text).ok());
    let kept = kept.filter(Kept::is_current).unwrap_or_else(|| {
        let measured = hour::prices(|| is_interrupted(relay));
        let kept = Kept::new(measured.as_ref().map(Clone::clone));
        if let Some(path) = path.filter(|_| !matches!(measured, Err(MachineError::Interrupted))) {
            let text = serde_json::to_string(&kept).expect("it has string keys");
            let _measured_again_next_time = crate::output::private(&path, &text);
        }
        kept
    });
    unseen.extend(kept.failure.map(|why| format!("The cost of wakeups was not measured: {why}.")));
    kept.prices
}

/// Returns whether a signal to end the command has arrived.
fn is_interrupted(relay: &Relay) -> bool {
    let mut signals = std::iter::from_fn(|| relay.next());
    signals.any(|arrived| {
        [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw).contains(&arrived.signal)
    })
}

/// Returns the path of the file, if there is a store.
fn file(store: &StoreArgs) -> Option<PathBuf> {
    let path = if store.is_off() { None } else { store.path() }?;
    Some(path.parent().filter(|directory| directory.is_dir())?.join(FILE))
}

/// Returns a text that is different after each start of the machine.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Returns the time since the start of the machine, in seconds.
fn uptime_s() -> f64 {
    convoy_os::clock::monotonic_ns() as f64 / 1e9
}

/// Returns whether this process has a real-time or deadline policy.
fn is_real_time() -> bool {
    const POLICIES: [u32; 3] = [1, 2, 6];
    Stat::of(std::process::id()).is_some_and(|stat| POLICIES.contains(&stat.policy))
}
