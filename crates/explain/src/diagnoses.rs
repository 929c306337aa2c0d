//! The diagnoses: each a rule with its evidence, what it costs, a sentence that names the holder
//! and the cure. The first rule that fits a lock says why threads waited for it; of all locks, and
//! of what shows without waiting, the most expensive one comes first.

use convoy_record::account::seconds;
use convoy_record::runtimes::runtime;
use convoy_record::{Account, HANDOFF, JAVA, Kind, Lock, Process, Record, UNNAMED, total};
use serde::Serialize;

use crate::deadlock::cycles;
use crate::evidence::{Holder, Subject};
use crate::{busy, cures, processes};

/// Part of the threads' time below which nothing is a problem.
pub const LITTLE: f64 = 0.02;
/// Part of the time that threads waited which makes what the owner did the reason.
const REASON: f64 = 0.3;
/// Part of it which makes sleep the reason: an owner that is woken waits for a CPU, too.
const ASLEEP: f64 = 0.12;
/// A critical section of this length is long, seconds: some ten times what a wakeup takes.
const LONG_S: f64 = 50e-6;
/// Reads that a writer waits for are this many at least if it starves.
const OVERTAKEN: f64 = 4.0;
/// A hog holds the lock for this part of the run, seconds over seconds.
const HOGGED: f64 = 0.6;
/// The same of a place that acquires it again and again.
const HELD: f64 = 0.05;

/// What to do about a monitor of Java.
const MONITOR: &str = "Make the monitor's section shorter, or read without it: a volatile or an \
                       atomic variable, a concurrent collection.";

/// What is wrong, why in words, and the cure.
type Reason = (Ill, String, String);
/// The reason for which threads waited for a lock, if it is this one.
type Rule = fn(&Subject<'_>) -> Option<Reason>;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ill {
    /// Threads wait for each other for good.
    Deadlock,
    /// Python's interpreter lock.
    InterpreterLock,
    /// A lock inside of libc.
    LibcLock,
    /// A monitor of Java, or a lock of another runtime.
    RuntimeLock,
    /// Readers overtake a writer.
    WriterStarvation,
    /// The owner sleeps in a system call.
    OwnerAsleep,
    /// The owner waits for another lock.
    OwnerWaits,
    /// The owner had lost its CPU.
    OwnerPreempted,
    /// A thread acquires the lock again at once.
    Hog,
    /// The critical section is long.
    LongSection,
    /// Many short critical sections.
    ShortSections,
    /// Waits for which the reason is not known.
    Contended,
    /// A lock of the kernel.
    KernelLock,
    /// A broadcast wakes threads in vain.
    ThunderingHerd,
    /// The counter of a lock for readers moves between CPUs.
    ReaderCounter,
    /// Locks share a cache line.
    FalseSharing,
    /// Threads spin for a lock of the program's own.
    Spinning,
    /// Processes wait for each other.
    Processes,
}

/// One diagnosis.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// What is wrong.
    pub ill: Ill,
    /// The process; 0: the kernel.
    pub pid: u64,
    /// The lock, by its name.
    pub lock: String,
    /// What it costs: the part of their time that the threads concerned lose; none: not known.
    pub share: Option<f64>,
    /// The part of the busy time of all threads, or of the CPU time if that is lost.
    pub weight: Option<f64>,
    /// Time that threads lose, seconds, summed over threads.
    pub cost_s: f64,
    /// What is wrong, and why.
    pub sentence: String,
    /// What to do.
    pub cure: String,
}

impl Diagnosis {
    /// Whether it costs enough to be a problem.
    pub fn is_much(&self) -> bool {
        let is_much = |part: Option<f64>| part.is_none_or(|part| part >= LITTLE);
        self.ill == Ill::Deadlock || is_much(self.share) && is_much(self.weight)
    }

    /// What is wrong, why, and what to do.
    pub fn text(&self) -> String {
        [&self.sentence, " ", &self.cure].concat().trim_end().to_owned()
    }
}

/// What is wrong with a recorded program, the most expensive first.
pub fn diagnose(record: &Record) -> Vec<Diagnosis> {
    let mut all: Vec<Diagnosis> = Vec::new();
    for process in &record.processes {
        all.extend(cycles(process).iter().map(|cycle| cures::deadlock(process, cycle)));
        let own = process.locks.iter().chain(&process.runtime_locks).chain(&process.futexes);
        all.extend(own.filter_map(|lock| of_lock(record, process, lock)));
        all.extend(busy::of_process(record, process));
    }
    let account = Account::new(record);
    let kernel = account.locks.iter().filter(|one| one.pid == 0 && !one.lock.kernel.is_empty());
    let most = record.processes.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    all.extend(kernel.filter_map(|one| cures::kernel(&one.lock, most?, record)));
    all.extend(processes::between(record));
    weigh(&mut all, record);
    let order = |one: &Diagnosis| (one.ill == Ill::Deadlock, one.cost_s);
    all.sort_by(|a, b| {
        let (a, b) = (order(a), order(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    all
}

/// Sets the weight of each diagnosis.
fn weigh(all: &mut [Diagnosis], record: &Record) {
    let busy_s = convoy_record::busy_s(record);
    let cpu_s: f64 = record.processes.iter().map(|process| process.cpu_s).sum();
    for one in all {
        let of_cpu = [Ill::ThunderingHerd, Ill::ReaderCounter, Ill::FalseSharing, Ill::Spinning];
        let time_s = if of_cpu.contains(&one.ill) { cpu_s } else { busy_s };
        one.weight = (one.share.is_some() && time_s > 0.0).then(|| (one.cost_s / time_s).min(1.0));
    }
}

/// The sentence that stands first.
pub fn verdict(record: &Record) -> String {
    let account = Account::new(record);
    if !account.is_finite() {
        return account.verdict;
    }
    let first = diagnose(record).into_iter().find(Diagnosis::is_much);
    match first {
        Some(first) => first.text(),
        None => busy::elsewhere(record, &account),
    }
}

/// Why threads waited for a lock, if they did.
fn of_lock(record: &Record, process: &Process, lock: &Lock) -> Option<Diagnosis> {
    let pends = |one: &convoy_record::Pending| one.lock == lock.name;
    if lock.wait_s() <= 0.0 && !process.pending.iter().any(pends) {
        return None;
    }
    let subject = Subject::new(process, lock);
    if let Some(found) = interpreter(&subject) {
        return Some(found);
    }
    if !lock.is_lock() || subject.wait_s <= 0.0 {
        return None;
    }
    let rules: [Rule; 9] =
        [libc, other_runtime, starvation, asleep, waits, hog, preempted, long, short];
    let hands_over = record.program.policy(lock.kind) == HANDOFF;
    let handed = if hands_over { handed_over(&subject) } else { None };
    let found = handed.or_else(|| rules.iter().find_map(|rule| rule(&subject)));
    let (ill, why, cure) = found.unwrap_or_else(|| contended(&subject));
    let sentence = format!("{}{}.", cures::cost(&subject), why);
    Some(Diagnosis {
        ill,
        pid: process.pid,
        lock: lock.name.clone(),
        share: subject.share,
        weight: None,
        cost_s: subject.wait_s,
        sentence,
        cure,
    })
}

/// A lock that is made over to a thread that must wake up first.
fn handed_over(subject: &Subject<'_>) -> Option<Reason> {
    let (held_s, off_s) = subject.lock.held_s(subject.process.cpu_s);
    let woken_s = subject.lock.all(|site| &site.handoff).total_s;
    let off = (off_s + woken_s) / (held_s + woken_s).max(f64::MIN_POSITIVE);
    let why = format!(
        ", which is handed over to a thread that must wake up first: the owner was on no CPU for \
         {} of the time that it was held: a lock convoy",
        percent(off)
    );
    let cure = "Take a lock that a running thread may acquire past those that wait: record without \
                this policy, or `convoy fix` on this record says which one helps.";
    (off >= REASON).then(|| (Ill::OwnerPreempted, why, cure.to_owned()))
}

/// A lock of libc, which it takes in a function that the program calls.
fn libc(subject: &Subject<'_>) -> Option<Reason> {
    let function = &subject.lock.runtime;
    let known = runtime(function)?;
    let why = format!(", which {function}() takes");
    Some((Ill::LibcLock, why, known.advice.to_owned()))
}

/// A lock that another runtime has built.
fn other_runtime(subject: &Subject<'_>) -> Option<Reason> {
    let name = &subject.lock.runtime;
    if name.is_empty() {
        return None;
    }
    let cure = if name == JAVA {
        MONITOR
    } else {
        "Make its sections shorter or fewer; no lock in place of libc's can help."
    };
    // Only the Java machine knows the names of compiled methods, and writes them on request.
    let names = if subject.place == UNNAMED {
        " Java names its methods for a record under -XX:+UnlockDiagnosticVMOptions \
         -XX:+DumpPerfMapAtExit, and its classes in a flight recording: `jfr print --events \
         jdk.JavaMonitorEnter`, which `convoy explain` reads."
    } else {
        ""
    };
    Some((Ill::RuntimeLock, format!(" ({name})"), [cure, names].concat()))
}

/// A writer waits while reader after reader acquires the lock.
fn starvation(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let reads = subject.lock.sites.iter().filter(|site| site.act == "read");
    let reads = total(reads.map(|site| site.count));
    let hold_s = subject.hold_s(holder.place);
    let mean_s = holder.wait_s / holder.count.max(1) as f64;
    let is_read = subject.lock.kind == Kind::Rwlock
        && holder.wanted == "write"
        && (holder.act == "read" || holder.place.is_empty() && reads > 0);
    let is_long = holder.again >= OVERTAKEN || hold_s > 0.0 && mean_s > OVERTAKEN * hold_s;
    if !is_read || !is_long {
        return None;
    }
    let by = if holder.place.is_empty() {
        "readers".to_owned()
    } else {
        format!("readers in {}", holder.place)
    };
    let why = format!(
        ", because {by} acquire it while others still read ({reads} times in the run): the lock \
         prefers readers, and the writer starves, up to {} at a time",
        seconds(holder.max_s)
    );
    let cure = "Initialise it with PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP \
                (pthread_rwlockattr_setkind_np), or let writers replace the data and readers keep \
                the old (RCU).";
    Some((Ill::WriterStarvation, why, cure.to_owned()))
}

/// The owner sleeps in a system call.
fn asleep(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let call = holder.call.filter(|_| holder.asleep >= ASLEEP)?;
    let is_off = holder.ran.is_none_or(|ran| ran < 1.0 - REASON);
    if !is_off || holder.asleep < holder.waited {
        return None;
    }
    let what = match call.what.as_str() {
        "" => "its memory is read in".to_owned(),
        "futex(2)" => "it waits in futex(2) for something else".to_owned(),
        what if call.doing == convoy_record::Doing::Idles => format!("it waits for `{what}`"),
        what => format!("it sleeps in {what}"),
    };
    let at = if call.place.is_empty() { String::new() } else { format!(" in {}", call.place) };
    let why = format!("{} while {what}{at}", holds(subject, holder));
    Some((Ill::OwnerAsleep, why, cures::of_call(&call.what)))
}

/// The owner waits for another lock.
fn waits(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let other = holder.other.filter(|_| holder.waited >= REASON)?;
    if other.what == subject.lock.name {
        return None;
    }
    let why = format!(
        "{} while it waits in {} for `{}`",
        holds(subject, holder),
        other.place,
        other.what
    );
    let cure = format!(
        "The other lock, `{}`, is the one to look at; or acquire it before this one.",
        other.what
    );
    Some((Ill::OwnerWaits, why, cure))
}

/// The owner had lost its CPU.
fn preempted(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref()?;
    let held = subject.lock.held.filter(|held| held.total_s > 0.0);
    let lost = match held {
        Some(held) => (held.preempted_s / held.total_s).max(holder.preempted.min(REASON)),
        None => holder.preempted,
    };
    if lost < REASON || holder.ran.is_none() {
        return None;
    }
    let why = format!(
        "{}; the owner had lost its CPU during {} of that time: a lock convoy",
        holds(subject, holder),
        percent(holder.preempted.max(lost))
    );
    let cure = "Run fewer threads, or shorten the section; `convoy fix` on this record says which \
                lock helps.";
    Some((Ill::OwnerPreempted, why, cure.to_owned()))
}

/// One place holds the lock nearly all the time, and acquires it again at once.
fn hog(subject: &Subject<'_>) -> Option<Reason> {
    let holder = subject.holder.as_ref().filter(|holder| !holder.place.is_empty())?;
    let hogs = |site: &&convoy_record::Site| site.place == holder.place && site.act != "read";
    let site = subject.lock.sites.iter().find(hogs)?;
    let held_s = site.hold_on.total_s + site.hold_off.total_s;
    let is_other = subject.place != holder.place;
    let is_hog = site.threads <= 2
        && subject.hold_s(holder.place) > LONG_S
        && held_s > HOGGED * subject.process.seconds;
    // A lock that is seldom held may be acquired often while a thread wakes up.
    let again = holder.again >= 1.0 && held_s > HELD * subject.process.seconds;
    if !is_other || !is_hog && !again {
        return None;
    }
    let why = format!(
        ", which {} holds for {} of the run, {} at a time, and acquires again as soon as it has \
         released it, before a thread that waits has woken up",
        holder.place,
        percent((held_s / subject.process.seconds).min(1.0)),
        seconds(subject.hold_s(holder.place))
    );
    let cure = "Release the lock for some time between two sections or hand it over: `convoy with \
                --mutex fair` or `--mutex handoff` tries that.";
    Some((Ill::Hog, why, cure.to_owned()))
}

/// The owner runs, for long.
fn long(subject: &Subject<'_>) -> Option<Reason> {
    let place = subject.holder.as_ref().map_or("", |holder| holder.place);
    let hold_s = subject.hold_s(place);
    if hold_s < LONG_S {
        return None;
    }
    let why = format!("{}, {} at a time", held(subject), seconds(hold_s));
    let cure = "Make that section shorter, or split what the lock guards; another lock will not \
                help.";
    Some((Ill::LongSection, why, cure.to_owned()))
}

/// Sections are short, and there are many.
fn short(subject: &Subject<'_>) -> Option<Reason> {
    let hold_s = subject.hold_s("");
    let count = subject.lock.count();
    if hold_s <= 0.0 || count < 1000 {
        return None;
    }
    // Of a lock past libc only the sections that begin with a wait are timed, and not its owner.
    let waits = total(subject.lock.sites.iter().map(|site| site.wait.count)).max(1) as f64;
    let is_timed = subject.holder.as_ref().is_none_or(|holder| holder.ran.is_some());
    if !is_timed && subject.wait_s / waits > 10.0 * LONG_S {
        return None;
    }
    let why = format!(
        "{}; it is acquired {count} times, for {} each, and a thread that waits takes longer to \
         wake up than the section takes",
        held(subject),
        seconds(hold_s)
    );
    let cure = "Do more in each section or less often, keep data in each thread, or take a lock \
                that spins first (`convoy fix` on this record tries it).";
    Some((Ill::ShortSections, why, cure.to_owned()))
}

/// Threads waited, and more is not known.
fn contended(subject: &Subject<'_>) -> Reason {
    let why = match &subject.holder {
        Some(holder) if !holder.place.is_empty() || holder.ran.is_some() => holds(subject, holder),
        _ => String::new(),
    };
    let is_monitor = subject.lock.name.starts_with("monitor of ");
    let cure =
        if is_monitor { MONITOR } else { "Make the sections of this lock shorter or fewer." };
    (Ill::Contended, why, cure.to_owned())
}

/// As [`holds`], also if the owner is not known.
fn held(subject: &Subject<'_>) -> String {
    let unknown = || ", which another thread holds".to_owned();
    subject.holder.as_ref().map_or_else(unknown, |holder| holds(subject, holder))
}

/// Python's interpreter lock.
fn interpreter(subject: &Subject<'_>) -> Option<Diagnosis> {
    let lock = subject.lock;
    let is_gil = lock.name.split("+0x").next() == Some("_PyRuntime")
        || lock.sites.first().is_some_and(|site| site.place.starts_with("take_gil"));
    if !is_gil || subject.wait_s <= 0.0 {
        return None;
    }
    let sentence = format!(
        "Threads spent {} of their time waiting for Python's interpreter lock, the GIL, which lets \
         one thread run Python code at a time.",
        cures::part(subject)
    );
    let cure = "Use processes instead of threads for work on the CPU (multiprocessing, \
                concurrent.futures). Waits of 5 ms are sys.getswitchinterval(): a shorter one \
                helps threads that do input and output.";
    Some(Diagnosis {
        ill: Ill::InterpreterLock,
        pid: subject.process.pid,
        lock: lock.name.clone(),
        share: subject.share,
        weight: None,
        cost_s: subject.wait_s,
        sentence,
        cure: cure.to_owned(),
    })
}

/// `, which Wal::sync (wal.cc:16) holds`.
fn holds(subject: &Subject<'_>, holder: &Holder<'_>) -> String {
    match holder.place {
        "" => ", which another thread holds".to_owned(),
        place if place == subject.place => format!(", which another thread in {place} holds"),
        place => format!(", which {place} holds"),
    }
}

/// A part in whole percent.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}
