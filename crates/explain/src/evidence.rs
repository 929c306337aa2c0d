//! Evidence on the locks of a recorded program for the diagnoses: the cost of waiting, the place
//! that held a lock, and the activity of its owners during the waits.

use std::sync::LazyLock;

use convoy_record::runtimes::stream_of_rust;
use convoy_record::{Cause, Doing, Kind, LOCK_OF, Lock, Pending, Process, Seen, Times, threads};

/// Minimum number of samples that say what owners did.
const FEW: u64 = 5;
/// Minimum number of samples that say which place held a lock for which part of the waiting.
const LOOKS: u64 = 20;
/// The waiting threads are counted at the places that cover this part of the waiting.
const MOST: f64 = 0.9;

/// Activities of an owner that went off its CPU voluntarily.
const ASLEEP: [Doing; 3] = [Doing::Sleeps, Doing::Faults, Doing::Idles];
/// Minimum part of the samples of owners which shows that their critical sections contain a sleep.
const SEEN: f64 = 0.05;

/// A sleep of an owner that no sample has seen.
static SOME_CALL: LazyLock<Seen> = LazyLock::new(|| Seen {
    doing: Doing::Sleeps,
    what: "a system call".to_owned(),
    ..Seen::default()
});

/// Advice on finding the Python function that holds a lock, if the record does not name it.
pub(crate) const PYTHON: &str = " `py-spy dump` shows the functions of Python while it runs.";

/// Returns the function of a place.
pub(crate) fn function(place: &str) -> &str {
    place.split(" (").next().unwrap_or(place)
}

/// The module of Python's locks that processes share.
const MULTIPROCESSING: &str = "_multiprocessing";

/// Returns whether it is a lock of Python's `threading` or `multiprocessing`.
pub(crate) fn is_of_python(process: &Process, lock: &Lock) -> bool {
    lock.sites.first().is_some_and(|site| is_python(process, &site.place, lock.kind))
}

/// Returns the same for a place and the primitive that the lock uses: a line of Python, or the one
/// function of the interpreter in which all these locks wait.
pub(crate) fn is_python(process: &Process, place: &str, kind: Kind) -> bool {
    let program = process.command.first().and_then(|program| program.rsplit('/').next());
    let is_interpreter = |name: &str| name.starts_with("python") || name.starts_with("libpython");
    let is_there = place.contains("(_threadmodule.c")
        || is_interpreter(place)
        || place.starts_with(MULTIPROCESSING);
    // The interpreter is built with either a semaphore or a condition.
    let is_built = matches!(kind, Kind::Semaphore | Kind::Condition);
    let is_named = convoy_record::is_python(place);
    (is_named || program.is_some_and(is_interpreter) && is_there) && is_built
}

/// A lock of a process, and the reason why threads waited for it.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) process: &'a Process,
    pub(crate) lock: &'a Lock,
    /// Time that threads waited for it, including unfinished waits, in seconds.
    pub(crate) wait_s: f64,
    /// The part of their time that the waiting threads waited for it. `None` if unknown.
    pub(crate) share: Option<f64>,
    /// The place with the longest wait time.
    pub(crate) place: &'a str,
    /// The part of the wait time at that place.
    pub(crate) there: f64,
    /// The place that held the lock during most of the wait time.
    pub(crate) holder: Option<Holder<'a>>,
}

/// A place that held a lock while threads waited for it. Parts refer to the time that they waited.
#[derive(Debug)]
pub(crate) struct Holder<'a> {
    /// Empty if unknown.
    pub(crate) place: &'a str,
    pub(crate) act: &'a str,
    /// Access that the waiting threads wanted: `read` or `write` for a reader/writer lock.
    pub(crate) wanted: &'a str,
    pub(crate) count: u64,
    pub(crate) wait_s: f64,
    pub(crate) max_s: f64,
    /// The owner ran. `None` if unknown.
    pub(crate) ran: Option<f64>,
    /// The owner slept in a system call, or waited for a CPU after that.
    pub(crate) asleep: f64,
    /// The owner waited for another lock.
    pub(crate) waited: f64,
    /// The owner was preempted.
    pub(crate) preempted: f64,
    /// The lock was free, and its next owner had no CPU yet.
    pub(crate) free: f64,
    /// The owner ran or waited for a CPU, according to samples alone.
    pub(crate) could_run: f64,
    /// Number of samples of the owner.
    pub(crate) samples: u64,
    /// The most frequent sleep of the owner. `None` if none is known.
    pub(crate) call: Option<&'a Seen>,
    pub(crate) other: Option<&'a Seen>,
    /// How many times owners had acquired it again by the end of a wait, on average.
    pub(crate) again: f64,
    /// Waits of threads that already owned it.
    pub(crate) own: u64,
}

impl<'a> Subject<'a> {
    /// Returns the evidence on a lock of the process.
    pub(crate) fn new(process: &'a Process, lock: &'a Lock) -> Self {
        fn of(site: &convoy_record::Site) -> u64 {
            if site.regulars > 0 { site.regulars } else { site.threads }
        }
        let is_it =
            |one: &&Pending| one.lock == lock.name && one.kind == lock.kind && one.act != "wait";
        let pending = process.pending.iter().filter(is_it);
        let (left, left_s) =
            pending.fold((0.0, 0.0), |(count, sum), one| (count + 1.0, sum + one.wait_s));
        let wait_s = lock.wait_s() + left_s;
        let most = lock.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s));
        let place = most.map_or("", |site| site.place.as_str());
        // The same threads wait at several places, so places with short wait times are not added.
        let mut waiting: Vec<_> = lock.sites.iter().filter(|site| site.wait.count > 0).collect();
        waiting.sort_by(|a, b| b.wait.total_s.total_cmp(&a.wait.total_s));
        let mut known_s = 0.0;
        waiting.retain(|site| {
            let is_needed = known_s < MOST * lock.wait_s();
            known_s += site.wait.total_s;
            is_needed
        });
        let waiting = waiting.into_iter().map(|site| of(site) as f64).sum::<f64>();
        let time_s = waiting.max(left).max(1.0).min(threads(process).ceil()) * process.seconds;
        let there = most.map_or(0.0, |site| site.wait.total_s) / wait_s.max(f64::MIN_POSITIVE);
        Self {
            process,
            lock,
            wait_s,
            // Some imports do not contain the number of threads.
            share: (time_s > 0.0 && process.threads > 0).then(|| (wait_s / time_s).min(1.0)),
            place,
            there,
            holder: Holder::of(process, lock),
        }
    }

    /// Returns the name of the lock, or a description of an unnamed one.
    pub(crate) fn what(&self) -> String {
        let Lock { name, kind, instances, .. } = self.lock;
        if is_of_python(self.process, self.lock) {
            let module = match self.place.strip_prefix(MULTIPROCESSING) {
                Some(_) => "multiprocessing",
                None => "threading",
            };
            return format!("a Python lock (`{module}.Lock`)");
        }
        if let Some([stream, _]) = stream_of_rust(name) {
            return format!("the lock of Rust's {stream}");
        }
        let kind = match kind {
            Kind::Futex => "lock",
            kind => kind.name(),
        };
        match (name.starts_with(LOCK_OF), *instances) {
            (false, 0 | 1) => format!("`{name}`"),
            (false, many) => format!("`{name}` ({many} of them)"),
            (true, 0 | 1) => format!("a {kind}"),
            (true, many) => {
                format!("{many} {kind}{}", if kind.ends_with('x') { "es" } else { "s" })
            }
        }
    }

    /// Returns whether a place is known and in the program: all locks of Python wait in the same
    /// place of the interpreter, which says nothing.
    pub(crate) fn is_of_program(&self, place: &str) -> bool {
        !place.is_empty()
            && (convoy_record::is_python(place) || !is_of_python(self.process, self.lock))
    }

    /// Returns the CPU time of a critical section at the place of the holder, in seconds.
    pub(crate) fn service_s(&self, holder: &Holder<'_>) -> f64 {
        /// Minimum number of critical sections in which the owner kept its CPU.
        const FEW: u64 = 3;
        let sites = self.lock.sites.iter().filter(|site| site.place == holder.place);
        let mut kept = Times::default();
        sites.for_each(|site| kept.add(&site.hold_on));
        let all_s = self.hold_s(holder.place);
        if kept.count >= FEW { kept.mean_s().min(all_s) } else { holder.ran.unwrap_or(0.0) * all_s }
    }

    /// Returns whether the critical section is empty at the place with the longest wait time.
    pub(crate) fn is_released_at_once(&self) -> bool {
        /// In seconds. An acquisition and the following release are 10 to 50 ns apart, or twice as
        /// much if their cache line was elsewhere.
        const EMPTY_S: f64 = 100e-9;
        let sites = self.lock.sites.iter().filter(|site| site.place == self.place);
        let mut holds = Times::default();
        sites.for_each(|site| holds.add(&site.hold_on));
        holds.percentile_s(50.0).is_some_and(|median_s| median_s < EMPTY_S)
    }

    /// Returns the mean hold time at `place` in seconds, over all places of the lock if `place` is
    /// empty.
    pub(crate) fn hold_s(&self, place: &str) -> f64 {
        let sites = self.lock.sites.iter().filter(|site| site.place == place || place.is_empty());
        let (mut count, mut sum) = (0.0, 0.0);
        for site in sites {
            count += site.hold_on.count as f64 + site.hold_off.count as f64;
            sum += site.hold_on.total_s + site.hold_off.total_s;
        }
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

/// Returns the cause with the place that held the lock during most of the waiting.
fn most_holding<'a>(causes: &[&'a Cause]) -> Option<&'a Cause> {
    // A queued thread waits for one owner after the other, and only samples show which.
    let looks: u64 = convoy_record::total(causes.iter().map(|cause| cause.samples()));
    let weight = |cause: &Cause| {
        let wait_s = if looks >= LOOKS { 1e-9 * cause.wait_s } else { cause.wait_s };
        wait_s + cause.samples() as f64 * if looks >= LOOKS { 1.0 } else { 1e-9 }
    };
    let known: f64 =
        causes.iter().filter(|cause| !cause.held_at.is_empty()).map(|cause| weight(cause)).sum();
    let all: f64 = causes.iter().map(|cause| weight(cause)).sum();
    // If most owners are unknown, the known ones may be different owners.
    let sum = |place: &str| -> f64 {
        causes.iter().filter(|cause| cause.held_at == place).map(|cause| weight(cause)).sum()
    };
    causes.iter().copied().filter(|cause| known < all / 2.0 || !cause.held_at.is_empty()).max_by(
        |a, b| sum(&a.held_at).total_cmp(&sum(&b.held_at)).then(weight(a).total_cmp(&weight(b))),
    )
}

/// Returns the most frequent sleep of the owners of these causes while no thread waited, and the
/// part of the samples of these owners in which they slept.
fn of_alone<'a>(causes: &[&&'a Cause]) -> (Option<&'a Seen>, f64) {
    let seen = || causes.iter().flat_map(|cause| &cause.alone);
    let asleep = || seen().filter(|seen| ASLEEP.contains(&seen.doing));
    let count = convoy_record::total(asleep().map(|seen| seen.count));
    let all = convoy_record::total(seen().map(|seen| seen.count));
    (asleep().max_by_key(|seen| seen.count), count as f64 / all.max(1) as f64)
}

/// Returns whether owners are switched away in nearly every critical section of this cause,
/// although it takes little CPU time. The scheduler preempts a thread only at the end of a time
/// slice, which is several such critical sections, so these owners went off their CPU voluntarily.
fn always_leaves(lock: &Lock, cause: &Cause) -> bool {
    /// Minimum number of critical sections.
    const FEW: u64 = 20;
    /// Part of them that may keep the CPU: a system call that need not sleep.
    const KEEP: f64 = 0.2;
    /// CPU time of a critical section, in seconds: a tenth of a time slice (3 ms).
    const BRIEF_S: f64 = 0.3e-3;
    let sites = || lock.sites.iter().filter(|site| site.place == cause.held_at);
    let kept = convoy_record::total(sites().map(|site| site.hold_on.count));
    let (mut off, mut off_s) = (0, 0.0);
    for site in sites() {
        off += site.hold_off.count;
        off_s += site.hold_off.total_s;
    }
    let ran = if cause.measured_s > 0.0 { cause.ran_s / cause.measured_s } else { 1.0 };
    let cpu_s = ran * off_s / off.max(1) as f64;
    off >= FEW && kept as f64 <= KEEP * (kept + off) as f64 && cpu_s < BRIEF_S
}

impl<'a> Holder<'a> {
    fn of(process: &'a Process, lock: &Lock) -> Option<Self> {
        let causes: Vec<&Cause> = process
            .causes
            .iter()
            .filter(|cause| cause.lock == lock.name && cause.kind == lock.kind)
            .collect();
        let most = most_holding(&causes)?;
        let own: Vec<&&Cause> =
            causes.iter().filter(|cause| cause.held_at == most.held_at).collect();
        let total = |of: fn(&Cause) -> f64| own.iter().map(|cause| of(cause)).sum::<f64>();
        // If these causes have few samples, use the samples of all causes of the lock.
        let samples =
            |causes: &[&&'a Cause]| convoy_record::total(causes.iter().map(|one| one.samples()));
        let everyone: Vec<&&Cause> = causes.iter().collect();
        let seen = if samples(&own) >= FEW { &own } else { &everyone };
        let samples = samples(seen);
        let part = |doing: &[Doing]| {
            let seen = seen.iter().flat_map(|cause| &cause.owners);
            let of = seen.filter(|seen| doing.contains(&seen.doing));
            convoy_record::total(of.map(|seen| seen.count)) as f64 / samples.max(1) as f64
        };
        let top = |doing: &[Doing]| {
            let seen: Vec<&'a Seen> = seen.iter().flat_map(|cause| &cause.owners).collect();
            let of = seen.into_iter().filter(|seen| doing.contains(&seen.doing));
            of.max_by_key(|seen| seen.count)
        };
        let (measured, ran) = (total(|cause| cause.measured_s), total(|cause| cause.ran_s));
        let asleep = part(&ASLEEP);
        let (waited, free) = (part(&[Doing::Waits]), part(&[Doing::Free]));
        let (runs, woken) = (part(&[Doing::Runs]), part(&[Doing::Woken]));
        let ran = (measured > 0.0).then(|| (ran / measured).min(1.0));
        let off = ran.map_or(0.0, |ran| 1.0 - ran);
        let counted = total(|cause| cause.count as f64);
        let ready = (off - asleep - waited - free).max(0.0);
        let (alone, alone_asleep) = of_alone(&own);
        let call = top(&ASLEEP).or(alone);
        // An owner that slept in the critical section and now waits for a CPU waits because it
        // slept.
        let woken_part = woken / (runs + woken).max(f64::MIN_POSITIVE);
        let is_seen = asleep.max(alone_asleep) >= SEEN;
        // Or it went off its CPU voluntarily more often than it was preempted.
        let is_woken = samples >= FEW && woken > 2.0 * runs;
        let is_regular = (is_seen || is_woken) && always_leaves(lock, most);
        let call = call.or_else(|| is_regular.then_some(&*SOME_CALL));
        let slept = if is_regular { ready } else { call.map_or(0.0, |_| ready * woken_part) };
        Some(Self {
            place: &most.held_at,
            act: &most.held_act,
            wanted: &most.act,
            count: counted as u64,
            wait_s: total(|cause| cause.wait_s),
            max_s: own.iter().fold(0.0, |most, cause| cause.max_s.max(most)),
            ran,
            asleep: asleep + slept,
            waited,
            preempted: ready - slept,
            free,
            could_run: runs + woken,
            samples,
            call,
            other: top(&[Doing::Waits]),
            again: total(|cause| cause.again as f64) / counted.max(1.0),
            own: convoy_record::total(own.iter().map(|cause| cause.own)),
        })
    }
}
