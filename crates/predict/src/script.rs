//! Writes the steps of threads in order, from the trace of a record, for the replay.

use crate::away::Away;
use crate::doubt::{Doubt, Feature};
pub(crate) use condition::Pool;
use condition::Use;
use convoy_record::trace::{Place, Strip, Trace, What};
use convoy_record::{Kind, Lock, Process, Site, trace};
use convoy_runs::replay::{Condition, Mode, Script};
use std::collections::{BTreeMap, BTreeSet};

mod classes;
mod condition;
mod cycle;
mod marking;
mod uses;

/// Number of locks of one name that are distinguished.
const INSTANCES: u64 = 64;

/// Result of writing the script of a trace.
#[derive(Default)]
pub(crate) struct Written {
    /// The script, if there is one.
    pub(crate) script: Option<Script>,
    /// Time that threads waited for other threads, seconds, summed over threads.
    pub(crate) idle_s: f64,
    /// Features of the script that counts by place do not have.
    pub(crate) has: Vec<Feature>,
    pub(crate) leaves_out: Vec<Doubt>,
    /// Number of working threads whose steps were not recorded while the other threads worked, and
    /// number of all working threads.
    pub(crate) absent: [u64; 2],
    /// Conditions whose tokens threads take and return.
    pub(crate) pools: Vec<Pool>,
}

/// The role of a recorded lock in the replay.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    /// A lock, by its index among the kept locks.
    Lock(usize),
    /// A barrier, by its index.
    Barrier(usize),
    /// A condition, by its index.
    Condition(usize),
    /// A semaphore used for signalling, by the index of its condition.
    Signal(usize),
    /// Not replayed.
    Nothing,
}

/// One step with the gap before it, before the uses of conditions are known.
#[derive(Clone, Copy, Debug)]
struct Event {
    act: Act,
    /// Work and sleep before it, nanoseconds.
    gap: (f64, f64),
    /// Index of the site that calls it.
    site: usize,
    /// End of the step, nanoseconds since the strip began.
    end_ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Lock(usize, u32),
    /// Acquires a lock together with other readers.
    Read(usize, u32),
    Unlock(usize, u32),
    /// Barrier.
    Barrier(usize),
    /// Condition; the index of the event that began the critical section, if any; the time limit
    /// that expired, nanoseconds, or 0.
    Wait(usize, Option<usize>, u64),
    Signal(usize, bool),
    Yield,
}

/// The events of a strip.
struct Seen {
    class: u64,
    window: u64,
    /// Start of the strip, nanoseconds since the process began.
    begin_ns: f64,
    /// Events up to the end of a critical section that began before the strip. Only from there on
    /// it is known which locks are held.
    early: Vec<Event>,
    /// The remaining events.
    events: Vec<Event>,
}

struct Writer<'a> {
    trace: &'a Trace,
    kept: &'a [&'a Lock],
    /// Length of the run, seconds.
    seconds: f64,
    roles: Vec<Role>,
    /// Index of the mutex of each condition among the recorded locks.
    mutexes: BTreeMap<usize, u64>,
    away: Away,
    uses: Vec<Use>,
    /// Usual work before a step of a class at a place: classes may release a lock at the same
    /// place, after critical sections of different lengths.
    usual: BTreeMap<(u64, usize), f64>,
    /// Site index of each place: all locks of one name share their sites.
    sites: Vec<usize>,
    /// Sites at which threads waited at least once for a semaphore used for signalling.
    blocking: BTreeSet<usize>,
    /// Places that acquire a lock together with other readers.
    reading: BTreeSet<usize>,
    /// Classes and places before which a thread that is switched away sleeps and has not lost its
    /// CPU.
    sleeping: BTreeSet<(u64, usize)>,
}

/// Returns the script of a process with these kept locks; `away` interprets its time away.
pub(crate) fn script(process: &Process, kept: &[&Lock], away: Away) -> Written {
    let mut written = Written::default();
    if process.trace.is_empty() {
        return written;
    }
    let mut writer = Writer::new(process, kept, away);
    let strips: Vec<Seen> = process.trace.strips.iter().map(|strip| writer.seen(strip)).collect();
    for strip in &strips {
        writer.count(strip.class, &strip.events);
    }
    written.absent = writer.absent(&strips);
    let mut conditions: Vec<Condition> = writer.conditions(&strips);
    written.pools = writer.pools(process, &strips);
    let classes = writer.classes(&strips, &mut conditions, &written.pools);
    let Some(classes) = classes else {
        written.leaves_out.push(Doubt::Steps);
        return written;
    };
    let script = Script { classes, conditions };
    written.idle_s = writer.idle_s(process);
    writer.tell(&script, &strips, &mut written);
    written.script = (!written.has.is_empty()).then_some(script);
    written
}

/// Returns how a site with this act holds its lock.
pub(crate) fn mode(act: &str) -> Mode {
    match act {
        "read" => Mode::Read,
        "write" => Mode::Write,
        _ => Mode::Exclusive,
    }
}

impl<'a> Writer<'a> {
    fn new(process: &'a Process, kept: &'a [&'a Lock], away: Away) -> Self {
        let (mut roles, mut uses, mut mutexes) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut barriers = 0;
        for (number, lock) in process.locks.iter().enumerate() {
            let is_kept = kept.iter().position(|one| std::ptr::eq(*one, lock));
            let role = match (lock.kind, is_kept) {
                (Kind::Barrier, _) => {
                    barriers += 1;
                    Role::Barrier(barriers - 1)
                }
                (Kind::Condition, _) => {
                    let named = |one: &Lock| one.kind == Kind::Mutex && one.name == lock.mutex;
                    if let Some(at) = process.locks.iter().position(named) {
                        mutexes.insert(uses.len(), at as u64);
                    }
                    uses.push(Use { is_lock: lock.is_lock(), ..Use::default() });
                    Role::Condition(uses.len() - 1)
                }
                (Kind::Semaphore, _) if !lock.is_lock() => {
                    uses.push(Use::default());
                    Role::Signal(uses.len() - 1)
                }
                (_, Some(at)) => Role::Lock(at),
                _ => Role::Nothing,
            };
            debug_assert_eq!(roles.len(), number);
            roles.push(role);
        }
        let trace = &process.trace;
        let mut names: BTreeMap<(u64, &str), usize> = BTreeMap::new();
        let sites = trace.places.iter().map(|place| {
            let next = names.len();
            *names.entry((place.lock, &place.site)).or_insert(next)
        });
        let sites = sites.collect();
        let mut writer = Self {
            trace,
            kept,
            seconds: process.seconds,
            roles,
            mutexes,
            away,
            uses,
            usual: BTreeMap::new(),
            sites,
            blocking: BTreeSet::new(),
            reading: BTreeSet::new(),
            sleeping: BTreeSet::new(),
        };
        writer.learn(process);
        writer
    }

    /// Returns the time for which threads waited for other threads, seconds, without waits at sites
    /// where the mean wait is a large part of the run. It is the sum over all waits, because
    /// windows over-represent threads that wait.
    fn idle_s(&self, process: &Process) -> f64 {
        /// Share of the run.
        const MUCH: f64 = 0.1;
        let waits = |role: &Role| matches!(role, Role::Condition(_) | Role::Signal(_));
        let all = process.locks.iter().zip(&self.roles).filter(|(_, role)| waits(role));
        let sites = all.flat_map(|(lock, _)| &lock.sites);
        let short = sites.filter(|site| site.wait.mean_s() < MUCH * process.seconds);
        // An empty sum is -0.0.
        0.0 + short.map(|site| site.wait.total_s).sum::<f64>()
    }

    fn place(&self, step: &trace::Step) -> Option<&'a Place> {
        self.trace.places.get(step.place)
    }

    fn role(&self, step: &trace::Step) -> Role {
        let role = self.place(step).and_then(|place| self.roles.get(place.lock as usize));
        role.copied().unwrap_or(Role::Nothing)
    }

    /// Learns the usual work of each class before each place, and the sites at which threads wait
    /// for semaphores used for signalling.
    fn learn(&mut self, process: &Process) {
        let steps = || {
            let strips = self.trace.strips.iter();
            strips
                .flat_map(|strip| strip.steps.iter().map(|step| ((strip.class, step.place), step)))
        };
        let mut gaps: BTreeMap<(u64, usize), Vec<u64>> = BTreeMap::new();
        for (at, step) in steps().filter(|(_, step)| !step.off) {
            gaps.entry(at).or_default().push(step.gap_ns);
        }
        let median = |(at, mut all): (_, Vec<u64>)| {
            all.sort_unstable();
            (at, all[all.len() / 2] as f64)
        };
        let usual = gaps.into_iter().map(median).collect();
        // For each place: the work without a switch, and the numbers of steps without and with one.
        let mut seen: BTreeMap<(u64, usize), (f64, [u64; 2])> = BTreeMap::new();
        for (at, step) in steps() {
            let (work_ns, counts) = seen.entry(at).or_default();
            counts[usize::from(step.off)] += 1;
            *work_ns += if step.off { 0.0 } else { step.gap_ns as f64 };
        }
        let sleeps = |(work_ns, [on, off]): (f64, [u64; 2])| {
            self.away.is_sleep(on, off, work_ns / on.max(1) as f64)
        };
        let sleeping = seen.into_iter().filter(|(_, seen)| sleeps(*seen));
        self.sleeping = sleeping.map(|(at, _)| at).collect();
        self.usual = usual;
        for (at, place) in self.trace.places.iter().enumerate() {
            let Some(lock) = process.locks.get(place.lock as usize) else { continue };
            let own = |site: &&Site| !place.site.is_empty() && starts_as(&site.place, &place.site);
            if lock.sites.iter().find(own).is_some_and(|site| mode(&site.act) == Mode::Read) {
                self.reading.insert(at);
            }
            let mut sites = lock.sites.iter().filter(|site| site.wait.count > 0);
            if lock.kind == Kind::Semaphore && sites.any(|site| starts_as(&site.place, &place.site))
            {
                self.blocking.insert(self.sites[at]);
            }
        }
    }

    /// Returns the work and sleep of a gap.
    fn gap(&self, class: u64, step: &trace::Step) -> (f64, f64) {
        let gap = step.gap_ns as f64;
        if !step.off {
            return (gap, 0.0);
        }
        let at = (class, step.place);
        let usual = self.away.work_ns(self.usual.get(&at).copied().unwrap_or(0.0)).min(gap);
        let sleeps = self.sleeping.contains(&at);
        (usual, if sleeps { self.away.sleep_ns(gap - usual) } else { 0.0 })
    }

    /// Returns the relevant steps of a strip. The steps up to the end of the last critical section
    /// that began before the strip are separate.
    fn seen(&self, strip: &Strip) -> Seen {
        let mut events: Vec<Event> = Vec::new();
        let mut early = Vec::new();
        let mut held: Vec<(usize, u32, usize)> = Vec::new();
        let mut seen = BTreeSet::new();
        let (mut gap, mut clock) = ((0.0, 0.0), 0.0);
        for step in &strip.steps {
            let more = self.gap(strip.class, step);
            gap = (gap.0 + more.0, gap.1 + more.1);
            clock += (step.gap_ns + step.took_ns) as f64;
            let of = (self.place(step).map_or(0, |place| place.instance) % INSTANCES) as u32;
            let act = match (step.what, self.role(step)) {
                (What::Yield, _) => Some(Act::Yield),
                (What::Lock, Role::Lock(lock)) if !step.failed => {
                    let again = held.iter().any(|one| (one.0, one.1) == (lock, of));
                    held.push((lock, of, events.len()));
                    seen.insert((lock, of));
                    let is_read = self.reading.contains(&step.place);
                    (!again).then_some(if is_read {
                        Act::Read(lock, of)
                    } else {
                        Act::Lock(lock, of)
                    })
                }
                (What::Unlock, Role::Lock(lock)) => {
                    let found = held.iter().rposition(|one| (one.0, one.1) == (lock, of));
                    match found {
                        Some(at) => {
                            held.remove(at);
                            let still = held.iter().any(|one| (one.0, one.1) == (lock, of));
                            (!still).then_some(Act::Unlock(lock, of))
                        }
                        None if seen.insert((lock, of)) => {
                            // Acquired before the strip began: no earlier step is complete.
                            early.append(&mut events);
                            held.clear();
                            None
                        }
                        None => None,
                    }
                }
                (What::Wait, Role::Condition(condition)) => Some(self.wait(condition, &held, step)),
                (What::Lock, Role::Signal(condition)) => {
                    let waits = self.blocking.contains(&self.sites[step.place]);
                    let limit = if step.failed { step.took_ns.max(1) } else { 0 };
                    waits.then_some(Act::Wait(condition, None, limit))
                }
                (What::Barrier, Role::Barrier(barrier)) => Some(Act::Barrier(barrier)),
                (What::Unlock, Role::Signal(condition))
                | (What::Signal, Role::Condition(condition)) => Some(Act::Signal(condition, false)),
                (What::Broadcast, Role::Condition(condition)) => Some(Act::Signal(condition, true)),
                _ => None,
            };
            match act {
                Some(act) => {
                    let site = self.sites.get(step.place).copied().unwrap_or(0);
                    let gap = std::mem::take(&mut gap);
                    events.push(Event { act, gap, site, end_ns: clock });
                }
                // A step that is not replayed still takes its time.
                None if step.off => gap.1 += step.took_ns as f64,
                None => gap.0 += step.took_ns.min(1000) as f64,
            }
        }
        let (class, window, begin_ns) = (strip.class, strip.window, strip.begin_s * 1e9);
        Seen { class, window, begin_ns, early, events }
    }

    /// Returns a wait at a condition, within the critical section of its mutex.
    fn wait(&self, condition: usize, held: &[(usize, u32, usize)], step: &trace::Step) -> Act {
        let mutex = self.mutexes.get(&condition);
        let of_mutex = |one: &&(usize, u32, usize)| {
            mutex.is_some_and(|&at| self.roles[at as usize] == Role::Lock(one.0))
        };
        let within = held.iter().rev().find(of_mutex).map(|one| one.2);
        let limit = if step.failed { step.took_ns.max(1) } else { 0 };
        Act::Wait(condition, within, limit)
    }

    /// Adds the features of the script and its omissions to `written`.
    fn tell(&self, script: &Script, strips: &[Seen], written: &mut Written) {
        /// Share of the acquisitions above which a feature matters.
        const LITTLE: f64 = 0.01;
        let events = strips.iter().flat_map(|strip| &strip.events);
        let (mut locks, mut waits, mut barriers, mut yields) = (0, 0, 0, 0);
        for event in events {
            match event.act {
                Act::Lock(..) | Act::Read(..) => locks += 1,
                Act::Wait(..) => waits += 1,
                Act::Barrier(..) => barriers += 1,
                Act::Yield => yields += 1,
                Act::Unlock(..) | Act::Signal(..) => {}
            }
        }
        let nested: usize = strips.iter().map(|strip| nested(&strip.events)).sum();
        let classes = script.classes.len();
        let is_one = classes == 1;
        let features = [
            (waits, Feature::Waits),
            (barriers, Feature::Barriers),
            (nested, Feature::Nesting),
            (if is_one { 0 } else { locks.max(1) }, Feature::Classes(classes)),
            (yields, Feature::Yields),
        ];
        let least = LITTLE * locks.max(1) as f64;
        let matter = features.into_iter().filter(|(count, _)| *count as f64 > least);
        written.has.extend(matter.map(|(_, feature)| feature));
        let uncounted = self.uses.iter().filter(|one| !one.is_counted());
        let waits: u64 = uncounted.map(|one| one.waits).sum();
        let late: u64 = self.uses.iter().map(|one| one.late).sum();
        let recorded: u64 = self.uses.iter().map(|one| one.waits).sum();
        let least = LITTLE * recorded as f64;
        if waits > 0 && waits as f64 > least {
            written.leaves_out.push(Doubt::Uncounted { waits, recorded });
        }
        if late as f64 > least {
            written.leaves_out.push(Doubt::TimedOut { waits: late, recorded });
        }
    }
}

/// Returns the number of locks that are acquired while others are held.
fn nested(events: &[Event]) -> usize {
    let (mut held, mut nested) = (0_i32, 0);
    for event in events {
        match event.act {
            Act::Lock(..) | Act::Read(..) => {
                nested += usize::from(held > 0);
                held += 1;
            }
            Act::Unlock(..) => held -= 1,
            _ => {}
        }
    }
    nested
}

/// Returns whether a place of a record, which may include callers, is this site.
fn starts_as(place: &str, site: &str) -> bool {
    place == site || place.starts_with(site) || site.starts_with(place)
}
