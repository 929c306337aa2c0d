//! What changes of a machine from one hour to the next: switches and wakeups, measured in less than
//! a second. Prices of caches and instructions do not change.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use convoy_machine::Guest;
use convoy_os::clock;

use crate::machine::INTERRUPT_NS;
use crate::probe::A_THREAD;
pub use crate::probe::MachineError;
pub use crate::wakeups::Quartiles;
use crate::wakeups::{threads, wakeups};

/// Time after which a measurement is given up. Where other programs use the CPUs it may take
/// minutes, since each of its yields and wakeups waits for them.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two questions whether the measurement shall end early.
const ASK: Duration = Duration::from_millis(100);

/// Wakeups of each kind: enough for quartiles.
const WAKEUPS: u32 = 40;

/// Limit in nanoseconds above which the latency of a wakeup is due to other programs on the CPU and
/// not to the machine: ten times the highest on a quiet machine (`machines/host.toml`), and less
/// than any tick.
pub const MOST_NS: f64 = 200_000.0;

/// The overhead of a virtual machine guest, except for the measured prices: `machines/host.toml`.
pub const GUEST: Guest =
    Guest { send: 0.0, halt_poll: 0.0, long_idle: 200_000.0, halted_exit: 0.0 };

/// Nanoseconds on a quiet machine, for a price that was measured while other programs used the
/// CPUs: the lower and the higher value of `machines/host.toml` and `machines/host-epyc.toml`, and
/// their mean.
const QUIET_NS: [(&str, Quartiles); 4] = [
    ("price_ns.ipi", [11_631.1, 16_156.5, 20_681.9]),
    ("price_ns.idle_exit", [12_635.9, 16_074.0, 19_512.1]),
    ("guest_ns.send", [4_745.1, 6_131.5, 7_517.9]),
    ("guest_ns.halted_exit", [22_747.1, 30_813.0, 38_878.9]),
];

/// Returns the price of a key on a quiet guest; `None` for what no guest pays.
pub fn quiet(key: &str) -> Option<Quartiles> {
    QUIET_NS.iter().find(|one| one.0 == key).map(|one| one.1)
}

/// The keys of [`quiet`].
pub const KEYS: [&str; 4] = [QUIET_NS[0].0, QUIET_NS[1].0, QUIET_NS[2].0, QUIET_NS[3].0];

/// Returns the quartiles of each price, or its value on a quiet machine if other programs used the
/// CPUs during the measurement. If they disturbed only the slowest wakeups, the upper quartile is
/// replaced by the median.
pub fn or_quiet(prices: &BTreeMap<String, Quartiles>) -> BTreeMap<String, Quartiles> {
    let is_wrong = |key: &str| prices.get(key).is_some_and(|ns| !is_price(ns));
    let of = |(key, ns): (&String, &Quartiles)| {
        // The same wakeups as `idle_exit`: if no CPU idled, none of the calls sent an interrupt.
        let has_no_call = key == "guest_ns.send" && is_wrong("price_ns.idle_exit");
        let quiet = QUIET_NS.iter().find(|one| one.0 == key && (is_wrong(key) || has_no_call));
        let [low, median, high] = *ns;
        let high = if high > MOST_NS { median } else { high };
        (key.clone(), quiet.map_or([low, median, high], |one| one.1))
    };
    prices.iter().map(of).collect()
}

/// Returns whether most of the wakeups behind a price were measured without other programs on the
/// CPUs.
fn is_price(ns: &Quartiles) -> bool {
    ns[1] <= MOST_NS
}

/// Nanoseconds, by the key of a machine preset. With one usable CPU, wakeups on another CPU are
/// missing. It asks `is_interrupted` several times a second whether it shall end early.
///
/// # Errors
/// [`MachineError`] if a system call fails, the measurement is interrupted, or other programs use
/// the CPUs for so long that it does not end in time.
///
/// # Panics
/// If the thread that measures does.
pub fn prices(
    is_interrupted: impl Fn() -> bool,
) -> Result<BTreeMap<String, Quartiles>, MachineError> {
    // A separate thread, since the measuring thread is pinned to one CPU. If the caller gives up,
    // it ends later, or with the process.
    let (tell, told) = mpsc::channel();
    let started = std::thread::Builder::new().spawn(move || {
        let _given_up = tell.send(measure());
    });
    started.map_err(|source| MachineError::Call { what: A_THREAD, source })?;
    let begin = Instant::now();
    loop {
        match told.recv_timeout(ASK) {
            Err(RecvTimeoutError::Timeout) if begin.elapsed() > PATIENCE => {
                return Err(MachineError::Busy(PATIENCE.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) if is_interrupted() => {
                return Err(MachineError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => {}
            result => return result.expect("the measurement does not panic"),
        }
    }
}

fn measure() -> Result<BTreeMap<String, Quartiles>, MachineError> {
    let usable = clock::usable_cpus();
    let first = usable.first().copied().unwrap_or(0);
    let here = threads(first, 0.0)?;
    let mut prices = vec![("price_ns.switch", [here.switch; 3])];
    if let Some(&second) = usable.get(1) {
        let there = wakeups(first, second, WAKEUPS)?;
        let less = |all: Quartiles, part: f64| all.map(|ns| (ns - part).max(0.0));
        let rest = here.pass_on + INTERRUPT_NS;
        prices.extend([
            ("price_ns.ipi", less(there.busy, rest)),
            ("price_ns.idle_exit", less(there.idle, rest)),
            ("guest_ns.send", less(there.call, here.pass_on)),
            ("guest_ns.halted_exit", less(there.halted, rest)),
        ]);
    }
    Ok(prices.into_iter().map(|(key, ns)| (key.to_owned(), ns)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_catalogue::Set;
    use convoy_machine::Preset;

    #[test]
    fn a_wakeup_that_waited_for_a_tick_is_no_price() {
        assert!(is_price(&[18_000.0, 20_700.0, 31_000.0]));
        // A record made while other programs used the CPUs.
        assert!(!is_price(&[36_443.0, 3_994_216.0, 5_037_963.0]));
    }

    #[test]
    fn prices_that_other_programs_made_are_those_of_a_quiet_machine() {
        fn of(idle: Quartiles, send: Quartiles) -> [[f64; 3]; 2] {
            let key = |key: &str| key.to_owned();
            let prices = [(key("price_ns.idle_exit"), idle), (key("guest_ns.send"), send)];
            let mut quiet = or_quiet(&prices.into());
            [quiet.remove("price_ns.idle_exit"), quiet.remove("guest_ns.send")].map(Option::unwrap)
        }
        let (idle, send) = ([13e3, 18e3, 30e3], [6e3, 7e3, 8e3]);
        assert_eq!(of(idle, send), [idle, send]);
        assert_eq!(of([13e3, 18e3, 2.4e6], send), [[13e3, 18e3, 18e3], send]);
        // No CPU idled, so no wakeup sent an interrupt to one.
        assert_eq!(of([2e6, 3.9e6, 3.9e6], [0.0; 3]), [QUIET_NS[1].1, QUIET_NS[2].1]);
    }

    #[test]
    fn every_price_is_one_of_a_machine() {
        // Not in time, on a busy machine.
        let prices = std::thread::spawn(measure).join().expect("no panic");
        let prices = prices.expect("this machine can be measured");
        assert!(prices["price_ns.switch"][1] >= 0.0, "{prices:?}");
        for (key, [low, median, high]) in prices {
            assert!(low <= median && median <= high, "{key}");
            let path: Vec<&str> = key.split('.').collect();
            let set = Set::machine(&path, median.to_string(), key.clone());
            convoy_catalogue::load::<Preset>("host", &[set]).expect("a key of host.toml");
        }
    }
}
