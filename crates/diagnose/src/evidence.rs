//! Evidence on one lock of a recorded program: the cost of waiting, the place that held it, and the
//! activity of its owners during the waits.

use convoy_record::runtimes::stream_of_rust;
use convoy_record::{
    CONDITION_OF, Cause, Doing, Held, Kind as Primitive, LOCK_OF, Lock, Origin, PARKED, Pending,
    Process, Seen, Site, Times, threads, total,
};

use crate::finding::{Confidence, OwnerShares, Source, Waiters};
use crate::interval::wilson;
use crate::problem::{Call, Lost, Owner, Problem, PythonModule, Subject};

/// Minimum number of samples that say what owners did.
pub(crate) const FEW_SAMPLES: u64 = 5;
/// Minimum number of samples that say which place held a lock for which part of the waiting.
const PLACE_SAMPLES: u64 = 20;
/// Minimum number of holds, timed by kernel events, that say why owners were off CPU.
const TIMED_HOLDS: u64 = 20;
/// The waiting threads are counted at the places that cover this part of the waiting.
const MAIN_PLACES: f64 = 0.9;
/// A place with more than this part of the waiting is named as the place.
const MAIN_PLACE: f64 = 0.6;
/// Activities of an owner that went off its CPU voluntarily.
const ASLEEP: [Doing; 3] = [Doing::Sleeps, Doing::Faults, Doing::Idles];
/// Minimum part of the samples of owners which shows that their critical sections contain a sleep.
const SLEEP_SHARE: f64 = 0.05;
/// Samples leave a sleep possible if the upper bound of its part is at least this.
const SLEEP_POSSIBLE: f64 = 0.3;
/// The module of Python's locks that processes share.
const MULTIPROCESSING: &str = "_multiprocessing";

pub(crate) fn function(place: &str) -> &str {
    place.split(" (").next().unwrap_or(place)
}

/// Returns whether it is a lock of Python's `threading` or `multiprocessing`, as the program uses
/// it: the interpreter builds them from a semaphore or a condition.
pub(crate) fn is_of_python(lock: &Lock) -> bool {
    lock.origin == Origin::Python
        && matches!(lock.kind, Primitive::Semaphore | Primitive::Condition)
}

/// Returns the lock as findings refer to it. Threads wait for it mostly at `place`.
pub(crate) fn subject(lock: &Lock, place: &str) -> Subject {
    let Lock { name, kind, instances, runtime, origin, .. } = lock;
    match origin {
        Origin::LibcInternal | Origin::LibcStream => Subject::Libc { function: runtime.clone() },
        _ if !runtime.is_empty() => Subject::Runtime { runtime: runtime.clone() },
        Origin::Python if is_of_python(lock) => Subject::Python { module: python_module(place) },
        Origin::Rust if stream_of_rust(name).is_some() => {
            Subject::RustStream { lock: name.clone() }
        }
        _ => match hot_element(lock) {
            Some(element) => Subject::Element { name: element.to_owned(), instances: *instances },
            None => named(name, *kind, *instances),
        },
    }
}

/// Returns the name of the lock of a family for which threads waited for most of the time that they
/// waited for the family.
pub fn hot_element(lock: &Lock) -> Option<&str> {
    /// Minimum part of the waiting.
    const MOST: f64 = 0.6;
    /// Minimum number of locks in the family.
    const SEVERAL: u64 = 3;
    let element = lock.elements.iter().max_by(|a, b| a.wait_s.total_cmp(&b.wait_s))?;
    let is_hot = lock.instances >= SEVERAL && element.wait_s > MOST * lock.wait_s();
    (is_hot && !element.name.is_empty()).then_some(&element.name)
}

/// Returns the lock of a wait as findings refer to it.
pub(crate) fn subject_of_wait(process: &Process, wait: &Pending) -> Subject {
    let mut locks = process.locks.iter().chain(&process.futexes);
    match locks.find(|lock| lock.name == wait.lock && lock.kind == wait.kind) {
        Some(lock) if is_of_python(lock) => Subject::Python { module: python_module(&wait.place) },
        _ if !wait.element.is_empty() => named(&wait.element, wait.kind, 1),
        _ => named(&wait.lock, wait.kind, 1),
    }
}

fn python_module(place: &str) -> PythonModule {
    if place.starts_with(MULTIPROCESSING) {
        PythonModule::Multiprocessing
    } else {
        PythonModule::Threading
    }
}

/// Returns a lock by its variable, if it has one.
pub(crate) fn named(name: &str, primitive: Primitive, instances: u64) -> Subject {
    if name.starts_with(LOCK_OF) {
        return Subject::Unnamed { primitive, instances };
    }
    Subject::Variable { name: name.to_owned(), instances }
}

/// Returns the sleep that a sample shows.
pub(crate) fn call(seen: &Seen) -> Call {
    match (seen.doing, seen.what.as_str()) {
        (Doing::Idles, name) if name.starts_with(CONDITION_OF) => Call::OtherThread(None),
        (Doing::Idles, name) => Call::OtherThread(Some(name.to_owned())),
        (_, "") => Call::PageFault,
        (_, PARKED) => Call::GoScheduler,
        (_, "futex(2)") => Call::Futex,
        (_, name) => Call::System(name.trim_end_matches("(2)").to_owned()),
    }
}

/// A lock of a process, and the evidence on why threads waited for it.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) process: &'a Process,
    pub(crate) lock: &'a Lock,
    /// Time that threads waited for it, including unfinished waits, in seconds.
    pub(crate) wait_s: f64,
    /// The part of their time that the waiting threads waited for it. `None` if unknown.
    pub(crate) share: Option<f64>,
    /// The place with the longest wait time.
    pub(crate) place: &'a str,
    /// The part of the wait time at that place.
    pub(crate) place_share: f64,
    /// The place that held the lock during most of the wait time.
    pub(crate) holder: Option<Holder<'a>>,
    /// Whether the process has a thread that runs or is runnable for each CPU: a goroutine that is
    /// on no thread may be runnable, too.
    pub(crate) fills_cpus: bool,
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
    /// The owner was preempted. `None` if the observations do not say why it was off its CPU.
    pub(crate) preempted: Option<f64>,
    /// The owner was off its CPU, for an unknown reason if `preempted` is unknown.
    pub(crate) off: f64,
    /// The lock was free, and its next owner had no CPU yet.
    pub(crate) free: f64,
    /// The owner ran or waited for a CPU, according to samples alone.
    pub(crate) could_run: f64,
    /// Number of samples of the owner.
    pub(crate) samples: u64,
    /// Whether kernel events, not samples, say why the owner was off its CPU.
    pub(crate) is_timed: bool,
    /// The most frequent sleep of the owner, and its place. `None` if none is known.
    pub(crate) call: Option<(Call, &'a str)>,
    pub(crate) other: Option<&'a Seen>,
    /// How many times owners had acquired it again by the end of a wait, on average.
    pub(crate) again: f64,
    /// Waits of threads that already owned it.
    pub(crate) own: u64,
}

/// Returns the number of threads at a site, without those that came once.
fn users(site: &Site) -> u64 {
    if site.regulars > 0 { site.regulars } else { site.threads }
}

impl<'a> Evidence<'a> {
    pub(crate) fn new(process: &'a Process, lock: &'a Lock) -> Self {
        let (pending, pending_s) = pending(process, lock);
        let wait_s = lock.wait_s() + pending_s;
        let longest = lock.sites.iter().max_by(|a, b| a.wait.total_s.total_cmp(&b.wait.total_s));
        let waiters = waiting_threads(lock).max(pending).max(1.0).min(threads(process).ceil());
        let time_s = waiters * process.seconds;
        let longest_s = longest.map_or(0.0, |site| site.wait.total_s);
        Self {
            process,
            lock,
            wait_s,
            // Some imports do not contain the number of threads. A process whose threads use no
            // recorded lock has samples of them.
            share: (time_s > 0.0 && total([process.threads, process.looks]) > 0)
                .then(|| (wait_s / time_s).min(1.0)),
            place: longest.map_or("", |site| site.place.as_str()),
            place_share: longest_s / wait_s.max(f64::MIN_POSITIVE),
            holder: Holder::new(process, lock),
            fills_cpus: false,
        }
    }

    /// Returns the same evidence on a machine with this many CPUs.
    pub(crate) fn on_cpus(self, cpus: u32) -> Self {
        /// Minimum part of the time of the CPUs.
        const FULL: f64 = 0.85;
        let process = self.process;
        let ready_s = process.scheduling.as_ref().map(|it| it.preempted_s + it.woken_s);
        let could_run_s = process.cpu_s + ready_s.or(process.ready_s).unwrap_or(0.0);
        let fills_cpus = could_run_s >= FULL * f64::from(cpus.max(1)) * process.seconds;
        Self { fills_cpus, ..self }
    }

    /// Returns the lock as findings refer to it.
    pub(crate) fn subject(&self) -> Subject {
        subject(self.lock, self.place)
    }

    /// Returns the threads that waited.
    pub(crate) fn waiters(&self) -> Waiters {
        let is_named = self.is_of_program(self.place) && self.place != convoy_record::UNNAMED;
        Waiters {
            place: is_named.then(|| self.place.to_owned()),
            place_share: self.place_share,
            is_only_place: self.place_share > MAIN_PLACE,
        }
    }

    /// Returns whether a place is known and in the program: all locks of Python wait in the same
    /// place of the interpreter, which says nothing.
    pub(crate) fn is_of_program(&self, place: &str) -> bool {
        !place.is_empty() && (convoy_record::is_python(place) || !is_of_python(self.lock))
    }

    /// Returns the owner at the holding place.
    pub(crate) fn owner(&self) -> Owner {
        self.holder.as_ref().map_or_else(Owner::default, |holder| self.owner_at(holder.place))
    }

    /// Returns the owner that acquired the lock at `place`.
    fn owner_at(&self, place: &str) -> Owner {
        Owner {
            place: self.is_of_program(place).then(|| place.to_owned()),
            is_waiting_place: place == self.place,
        }
    }

    /// Returns the CPU time of a critical section at the place of the holder, in seconds.
    pub(crate) fn service_s(&self, holder: &Holder<'_>) -> f64 {
        /// Minimum number of critical sections in which the owner kept its CPU.
        const FEW: u64 = 3;
        let sites = self.lock.sites.iter().filter(|site| site.place == holder.place);
        let mut kept = Times::default();
        sites.for_each(|site| kept.add(&site.hold_on));
        let hold_s = self.hold_s(holder.place);
        if kept.count >= FEW {
            kept.mean_s().min(hold_s)
        } else {
            holder.ran.unwrap_or(0.0) * hold_s
        }
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

    /// Returns the part of the run in which threads waited for the lock. `None` if it was not
    /// recorded.
    pub(crate) fn queued(&self) -> Option<f64> {
        let (queued_s, run_s) = (self.lock.waiters.seconds, self.process.seconds);
        (queued_s > 0.0 && run_s > 0.0).then(|| (queued_s / run_s).min(1.0))
    }

    /// Returns the mean hold time at `place` in seconds, over all places of the lock if `place` is
    /// empty. 0 if no hold was timed.
    pub(crate) fn hold_s(&self, place: &str) -> f64 {
        let sites = self.lock.sites.iter().filter(|site| site.place == place || place.is_empty());
        let (mut count, mut sum_s) = (0.0, 0.0);
        for site in sites {
            count += site.hold_on.count as f64 + site.hold_off.count as f64;
            sum_s += site.hold_on.total_s + site.hold_off.total_s;
        }
        if count > 0.0 { sum_s / count } else { 0.0 }
    }

    /// Returns how well the deciding fact of a problem is known: the share of an activity of owners
    /// from samples, unless kernel events timed it, or else the waits.
    pub(crate) fn confidence(&self, problem: &Problem) -> Confidence {
        let sampled = self.holder.as_ref().filter(|holder| holder.samples > 0);
        let share = sampled.and_then(|holder| match problem {
            Problem::OwnerWaits { .. } => Some(holder.waited),
            Problem::OwnerPreempted { lost: Lost::Free(share), .. } => Some(*share),
            Problem::OwnerAsleep { .. } if !holder.is_timed => Some(holder.asleep),
            Problem::OwnerPreempted { lost: Lost::Cpu(share), .. } if !holder.is_timed => {
                Some(*share)
            }
            _ => None,
        });
        if let (Some(holder), Some(share)) = (sampled, share) {
            let observations = holder.samples;
            let interval = Some(wilson(share, observations));
            return Confidence { source: Source::Sampled, observations, interval };
        }
        let observations = total(self.lock.sites.iter().map(|site| site.wait.count));
        Confidence { source: Source::Counted, observations, interval: None }
    }
}

/// Returns the number of unfinished waits for a lock that its waits do not contain, and their time
/// in seconds.
fn pending(process: &Process, lock: &Lock) -> (f64, f64) {
    let waits = process.pending.iter().filter(|wait| {
        let is_of_lock = wait.lock == lock.name && wait.kind == lock.kind;
        is_of_lock && wait.act != "wait" && !wait.counted
    });
    waits.fold((0.0, 0.0), |(count, sum_s), wait| (count + 1.0, sum_s + wait.wait_s))
}

/// Returns the time that threads waited for a lock, unfinished waits included, in seconds.
pub(crate) fn wait_s(process: &Process, lock: &Lock) -> f64 {
    lock.wait_s() + pending(process, lock).1
}

/// Returns the part of their time that the threads which waited for a lock did so: the share that
/// every command prints. `None` if the number of threads is unknown.
pub fn waited_share(process: &Process, lock: &Lock) -> Option<f64> {
    Evidence::new(process, lock).share
}

/// Returns the number of threads that waited for a lock. The same threads wait at several places,
/// so places with short wait times are not added.
fn waiting_threads(lock: &Lock) -> f64 {
    let mut sites: Vec<&Site> = lock.sites.iter().filter(|site| site.wait.count > 0).collect();
    sites.sort_by(|a, b| b.wait.total_s.total_cmp(&a.wait.total_s));
    let (mut covered_s, mut count) = (0.0, 0.0);
    for site in sites {
        if covered_s >= MAIN_PLACES * lock.wait_s() {
            break;
        }
        covered_s += site.wait.total_s;
        count += users(site) as f64;
    }
    count
}

/// Returns the weight of a cause: its samples if there are enough, otherwise its wait time.
fn weight(cause: &Cause, has_samples: bool) -> f64 {
    let (samples, wait_s) = (cause.samples() as f64, cause.wait_s);
    if has_samples { samples + 1e-9 * wait_s } else { 1e-9 * samples + wait_s }
}

/// Returns the cause with the place that held the lock during most of the waiting.
fn most_holding<'a>(causes: &[&'a Cause]) -> Option<&'a Cause> {
    // A queued thread waits for one owner after the other, and only samples show which.
    let has_samples = total(causes.iter().map(|cause| cause.samples())) >= PLACE_SAMPLES;
    let sum = |is_it: &dyn Fn(&Cause) -> bool| -> f64 {
        causes.iter().filter(|cause| is_it(cause)).map(|cause| weight(cause, has_samples)).sum()
    };
    let everything = sum(&|_| true);
    let with_place = sum(&|cause| !cause.held_at.is_empty());
    // If most owners are unknown, the known ones may be different owners.
    let candidates = causes
        .iter()
        .copied()
        .filter(|cause| with_place < everything / 2.0 || !cause.held_at.is_empty());
    candidates.max_by(|a, b| {
        let by_place = sum(&|cause| cause.held_at == a.held_at)
            .total_cmp(&sum(&|cause| cause.held_at == b.held_at));
        by_place.then(weight(a, has_samples).total_cmp(&weight(b, has_samples)))
    })
}

/// Observed activities of the owners of some causes.
struct Activities<'a> {
    seen: Vec<&'a Seen>,
    samples: u64,
}

impl<'a> Activities<'a> {
    /// While threads waited for `lock`. An owner that waits for the same condition has released
    /// it.
    fn during(causes: &[&'a Cause], lock: &str) -> Self {
        let seen = causes.iter().flat_map(|cause| &cause.owners);
        Self::new(seen.filter(|seen| seen.doing != Doing::Idles || seen.what != lock).collect())
    }

    /// While no thread waited.
    fn alone(causes: &[&'a Cause]) -> Self {
        Self::new(causes.iter().flat_map(|cause| &cause.alone).collect())
    }

    fn new(seen: Vec<&'a Seen>) -> Self {
        let samples = total(seen.iter().map(|seen| seen.count));
        Self { seen, samples }
    }

    /// Returns the part of the samples with one of these activities.
    fn part(&self, doing: &[Doing]) -> f64 {
        let seen = self.seen.iter().filter(|seen| doing.contains(&seen.doing));
        total(seen.map(|seen| seen.count)) as f64 / self.samples.max(1) as f64
    }

    /// Returns the most frequent one of these activities.
    fn top(&self, doing: &[Doing]) -> Option<&'a Seen> {
        let seen = self.seen.iter().copied().filter(|seen| doing.contains(&seen.doing));
        seen.max_by_key(|seen| seen.count)
    }
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
    let kept = total(sites().map(|site| site.hold_on.count));
    let (mut off, mut off_s) = (0, 0.0);
    for site in sites() {
        off += site.hold_off.count;
        off_s += site.hold_off.total_s;
    }
    let ran = if cause.measured_s > 0.0 { cause.ran_s / cause.measured_s } else { 1.0 };
    let cpu_s = ran * off_s / off.max(1) as f64;
    off >= FEW && kept as f64 <= KEEP * (kept + off) as f64 && cpu_s < BRIEF_S
}

/// Returns the holds that kernel events timed, if they say why owners were off CPU. Only holds that
/// began with a wait are timed: an owner that never waits has none, so these must fill the time in
/// which threads waited.
fn timed_holds(lock: &Lock) -> Option<Held> {
    /// Minimum part of that time.
    const FILLED: f64 = 0.5;
    let held = lock.held.filter(|held| held.count >= TIMED_HOLDS && held.off_s() > 0.0);
    held.filter(|held| held.total_s >= FILLED * lock.waiters.seconds)
}

/// How the time of owners without a CPU is divided.
struct Off {
    asleep: f64,
    preempted: Option<f64>,
}

impl Off {
    /// Divides the part `ready` of the wait time, in which owners were off their CPU and no sample
    /// says that they slept or waited, in addition to the sampled part `asleep`.
    fn divide(lock: &Lock, ready: f64, asleep: f64, waited: f64, sampled: &Sampled) -> Self {
        // Kernel events time each hold that began with a wait, so they go before samples.
        if let Some(held) = timed_holds(lock) {
            let off = ready + asleep + waited;
            let preempted = off * held.preempted_s / held.off_s();
            return Self {
                asleep: (off - preempted - waited).max(0.0),
                preempted: Some(preempted),
            };
        }
        if sampled.is_regular {
            return Self { asleep: asleep + ready, preempted: Some(0.0) };
        }
        if sampled.samples < FEW_SAMPLES {
            return Self { asleep, preempted: None };
        }
        let slept = ready * sampled.woken_part;
        Self { asleep: asleep + slept, preempted: Some(ready - slept) }
    }
}

/// Evidence from samples on owners without a CPU.
struct Sampled {
    samples: u64,
    /// Whether owners leave their CPU voluntarily in each section.
    is_regular: bool,
    /// Part of the runnable owners that wait for a CPU because they slept.
    woken_part: f64,
}

impl<'a> Holder<'a> {
    fn new(process: &'a Process, lock: &Lock) -> Option<Self> {
        let causes: Vec<&'a Cause> = process
            .causes
            .iter()
            .filter(|cause| cause.lock == lock.name && cause.kind == lock.kind)
            .collect();
        let main = most_holding(&causes)?;
        let same_place: Vec<&'a Cause> =
            causes.iter().copied().filter(|cause| cause.held_at == main.held_at).collect();
        // If these causes have few samples, use the samples of all causes of the lock.
        let mut seen = Activities::during(&same_place, &lock.name);
        if seen.samples < FEW_SAMPLES {
            seen = Activities::during(&causes, &lock.name);
        }
        let sum =
            |value: fn(&Cause) -> f64| same_place.iter().map(|cause| value(cause)).sum::<f64>();
        let measured_s = sum(|cause| cause.measured_s);
        let ran = (measured_s > 0.0).then(|| (sum(|cause| cause.ran_s) / measured_s).min(1.0));
        let off = ran.map_or(0.0, |ran| 1.0 - ran);
        let (asleep, waited) = (seen.part(&ASLEEP), seen.part(&[Doing::Waits]));
        let (runs, woken) = (seen.part(&[Doing::Runs]), seen.part(&[Doing::Woken]));
        let leaves = always_leaves(lock, main);
        // A few samples between two holds do not outweigh that each hold contains a sleep.
        let is_outweighed = leaves && seen.samples < PLACE_SAMPLES;
        let free = if is_outweighed { 0.0 } else { seen.part(&[Doing::Free]) };
        let alone = Activities::alone(&same_place);
        let sleep = seen.top(&ASLEEP).or_else(|| alone.top(&ASLEEP));
        let is_seen = asleep.max(alone.part(&ASLEEP)) >= SLEEP_SHARE;
        // Or it went off its CPU voluntarily more often than it was preempted.
        let is_woken = woken > 2.0 * runs;
        // A few samples without a sleep do not contradict what all its holds say.
        let may_sleep = wilson(asleep, seen.samples)[1] >= SLEEP_POSSIBLE;
        let sampled = Sampled {
            samples: seen.samples,
            is_regular: leaves && (is_seen || is_woken || may_sleep),
            // An owner that slept in the critical section and now waits for a CPU waits because
            // it slept.
            woken_part: sleep.map_or(0.0, |_| woken / (runs + woken).max(f64::MIN_POSITIVE)),
        };
        let ready = (off - asleep - waited - free).max(0.0);
        let divided = Off::divide(lock, ready, asleep, waited, &sampled);
        let count = sum(|cause| cause.count as f64);
        let unseen = sampled.is_regular.then_some((Call::Unseen, ""));
        Some(Self {
            place: &main.held_at,
            act: &main.held_act,
            wanted: &main.act,
            count: count as u64,
            wait_s: sum(|cause| cause.wait_s),
            max_s: same_place.iter().fold(0.0, |longest, cause| cause.max_s.max(longest)),
            ran,
            asleep: divided.asleep,
            waited,
            preempted: divided.preempted,
            off,
            free,
            could_run: runs + woken,
            samples: seen.samples,
            is_timed: timed_holds(lock).is_some(),
            call: sleep.map(|sleep| (call(sleep), sleep.place.as_str())).or(unseen),
            other: seen.top(&[Doing::Waits]),
            again: sum(|cause| cause.again as f64) / count.max(1.0),
            own: total(same_place.iter().map(|cause| cause.own)),
        })
    }

    /// Returns the activities as facts.
    pub(crate) fn shares(&self) -> OwnerShares {
        OwnerShares {
            ran: self.ran,
            preempted: self.preempted,
            asleep: self.asleep,
            waited: self.waited,
            free: self.free,
            samples: self.samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_among_those_of_its_lock_is_not_added_again() {
        let wait = convoy_record::Times { count: 1, total_s: 3.0, ..Default::default() };
        let lock = Lock { sites: vec![Site { wait, ..Site::default() }], ..Lock::default() };
        let pending = convoy_record::Pending { wait_s: 3.0, ..Default::default() };
        let counted = convoy_record::Pending { counted: true, ..pending.clone() };
        let waited = |pending| wait_s(&Process { pending, ..Process::default() }, &lock);
        assert!((waited(vec![counted]) - 3.0).abs() < 1e-9);
        assert!((waited(vec![pending]) - 6.0).abs() < 1e-9);
    }

    #[test]
    fn kernel_events_divide_the_time_of_owners_without_a_cpu_before_samples_do() {
        let held = Held { count: 100, total_s: 1.0, preempted_s: 0.1, asleep_s: 0.8, woken_s: 0.1 };
        let timed = Lock { held: Some(held), ..Lock::default() };
        let waiters = convoy_record::Waiters { seconds: 9.0, ..Default::default() };
        let other = Lock { waiters, ..timed.clone() };
        assert!(timed_holds(&timed).is_some());
        assert!(timed_holds(&other).is_none(), "the owner that all wait for never waits");
        let none = Sampled { samples: 0, is_regular: false, woken_part: 0.0 };
        let exact = Off::divide(&timed, 0.9, 0.0, 0.0, &none);
        assert!((exact.asleep - 0.81).abs() < 1e-9, "{}", exact.asleep);
        assert!(Off::divide(&Lock::default(), 0.9, 0.0, 0.0, &none).preempted.is_none());
    }
}
