//! Reads the causes of waits from the file of a process, and adds the samples that the recorder
//! took while the process ran.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the names of the layout are its own vocabulary")
)]

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use crate::layout::{self, *};
use crate::names::stacks::Callers;
use crate::names::syscalls;
use crate::names::{CONDITION_OF, LOCK_OF, Names};
use crate::raw::Raw;
use crate::raw::futexes::Futexes;
use crate::raw::shares::Shares;
use crate::raw::traces::{Clock, Known};
use crate::record::causes::{self, Cause, Doing, Event, Inversion, Pending, Seen};
use crate::record::{Kind, Process, total};
use crate::sampling::kernel_waits::{FAULT, KernelObject, KernelWait};
use crate::sampling::observations::Look;
use crate::sampling::thread_state::{Edge, State, Wait};

/// Maximum number of events that are kept of a process.
const EVENTS_KEPT: usize = 500;

/// Resolves the words of a file to names.
pub(crate) struct Book<'a> {
    pub(crate) names: &'a Names,
    pub(crate) known: &'a BTreeMap<u64, Known>,
    pub(crate) futexes: &'a Futexes,
    pub(crate) callers: Box<dyn Fn(u64) -> [u64; CALLERS] + 'a>,
    pub(crate) clock: Clock,
}

impl Book<'_> {
    fn place(&self, site: u64, detail: u64) -> String {
        if let Some(known) = self.futexes.at(site) {
            return known.place.clone();
        }
        let site = site << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
        if site == 0 {
            return String::new();
        }
        let callers = if detail == 0 { [0; CALLERS] } else { (self.callers)(detail) };
        self.names.under(self.names.place(site, &callers), site, &callers)
    }

    fn lock(&self, lock: u64, site: u64, detail: u64) -> (String, Kind) {
        if let Some(known) = self.futexes.lock_at(lock, site) {
            return known.clone();
        }
        let address = crate::raw::keys::address(lock, site);
        if let Some(known) = self.known.get(&address) {
            return (known.name.clone(), known.kind);
        }
        let name = || [LOCK_OF, &self.place(site, detail)].concat();
        let name = self.names.variable(address).unwrap_or_else(name);
        let kind = self.futexes.at(site).map(|known| known.kind);
        (name, kind.unwrap_or_else(|| Kind::of(lock >> KIND_SHIFT)))
    }

    fn cause(&self, edge: &Edge) -> Cause {
        let (lock, kind) = self.lock(edge.lock, edge.site, edge.detail);
        let act = |site: u64, kind: u64| match self.futexes.at(site) {
            Some(known) => known.act.to_owned(),
            None => crate::raw::keys::act(kind).to_owned(),
        };
        let held_act = match edge.held >> KIND_SHIFT {
            0 => String::new(),
            kind => act(edge.held, kind),
        };
        Cause {
            lock,
            kind,
            place: self.place(edge.site, edge.detail),
            act: act(edge.site, edge.lock >> KIND_SHIFT),
            held_at: self.place(edge.held, edge.held_detail),
            held_act,
            ..Cause::default()
        }
    }

    fn seen(&self, state: &State, count: u64) -> Seen {
        let of = |doing| Seen { doing, count, ..Seen::default() };
        match state {
            State::Runs => of(Doing::Runs),
            State::Woken => of(Doing::Woken),
            State::Faults => of(Doing::Faults),
            State::Free => of(Doing::Free),
            State::Sleeps(call) => Seen { what: syscalls::name(*call), ..of(Doing::Sleeps) },
            State::Waits(Edge { lock, site, detail, .. }) => {
                let kind = lock >> KIND_SHIFT;
                let is_idle = self.futexes.at(*site).is_some_and(|known| !known.has_owner());
                let what = self.lock(*lock, *site, *detail).0;
                let signals = self.known.get(&crate::raw::keys::address(*lock, *site));
                let is_idle = is_idle
                    || what.starts_with(CONDITION_OF)
                    || signals.is_some_and(|known| !known.is_lock);
                let is_lock = ![CONDITION, BARRIER].contains(&kind) && !is_idle;
                let doing = if is_lock { Doing::Waits } else { Doing::Idles };
                Seen { what, place: self.place(*site, *detail), ..of(doing) }
            }
        }
    }

    /// Adds the causes from the recorded edges and from the samples to a process.
    pub(crate) fn causes(
        &self,
        edges: &[layout::Edge],
        look: &Look,
        process: &mut Process,
    ) -> Index {
        let mut index = Index::default();
        let mut shares = Shares::of(edges, look);
        for recorded in edges {
            let is_idle = self.futexes.at(recorded.site).is_some_and(|known| !known.has_owner());
            if [0, u64::MAX].contains(&recorded.lock) || is_idle {
                continue;
            }
            let layout::Edge { lock, site, held, detail, held_detail, .. } = *recorded;
            let edge = Edge { lock, site, held, detail, held_detail };
            let cause = Cause {
                count: recorded.count,
                wait_s: self.clock.seconds(shares.ticks(&edge, recorded.ticks)),
                max_s: self.clock.seconds(recorded.ticks_max),
                measured_s: self.clock.seconds(recorded.measured),
                ran_s: recorded.ran_ns as f64 / 1e9,
                again: recorded.again,
                own: recorded.of_itself,
                ..self.cause(&edge)
            };
            index.add(&edge, cause, &mut process.causes);
        }
        for ((edge, state), count) in &look.owners {
            let seen = self.seen(state, *count);
            let wait_s = self.clock.ns(shares.rest(edge)) as f64 / 1e9;
            let cause = Cause { owners: vec![seen], wait_s, ..self.cause(edge) };
            index.add(edge, cause, &mut process.causes);
        }
        for ((edge, [waiter, owner]), samples) in &look.inversions {
            let (lock, kind) = self.lock(edge.lock, edge.site, edge.detail);
            let (waiter, owner, samples) = (*waiter, *owner, *samples);
            process.inversions.push(Inversion { lock, kind, waiter, owner, samples });
        }
        for ((edge, state), count) in &look.held.seen {
            let of = |(lock, _, held): &(u64, u64, u64)| (*lock, *held) == (edge.lock, edge.held);
            let found: BTreeSet<usize> =
                index.0.iter().filter(|(key, _)| of(key)).map(|(_, at)| *at).collect();
            for at in found {
                causes::add(&mut process.causes[at].alone, self.seen(state, *count));
            }
        }
        for cause in &mut process.causes {
            causes::sort(&mut cause.owners);
            causes::sort(&mut cause.alone);
        }
        for (state, count) in &look.threads {
            causes::add(&mut process.activity, self.seen(state, *count));
        }
        causes::sort(&mut process.activity);
        process.kernel_waits.extend(self.kernel_waits(look));
        process.schedulers.extend(&look.schedulers);
        index
    }

    /// Returns the sampled waits for the kernel, by call, object and place in the program.
    fn kernel_waits(&self, look: &Look) -> Vec<KernelWait> {
        let mut callers = Callers::new(self.names);
        let mut waits: BTreeMap<(i64, KernelObject, String), u64> = BTreeMap::new();
        for ((call, object, stack), samples) in &look.kernel {
            let frames = callers.frames(stack);
            let place = frames.split_first();
            let place = place.map(|(inner, outer)| self.names.place(*inner, outer));
            *waits.entry((*call, *object, place.unwrap_or_default())).or_default() += samples;
        }
        let waits = waits.into_iter().map(|((call, object, place), samples)| {
            let call = if call == FAULT { String::new() } else { syscalls::name(call) };
            KernelWait { call, object, place, samples }
        });
        waits.collect()
    }

    /// Returns the sampled waits, at most about `EVENTS_KEPT` of them, in the order in which they
    /// began.
    pub(crate) fn events(&self, recorded: &[layout::Event], index: &Index) -> Vec<Event> {
        let used = recorded.iter().filter(|event| event.begin != 0);
        let every = used.clone().count().div_ceil(EVENTS_KEPT).max(1);
        let mut events = Vec::new();
        // Every n-th event of a fair sample is a fair sample, too.
        for event in used.step_by(every) {
            let key = (event.lock, event.site, event.held);
            let Some(cause) = index.0.get(&key) else { continue };
            events.push(Event {
                begin_s: self.clock.seconds(event.begin.saturating_sub(self.clock.begin)),
                wait_s: self.clock.seconds(event.end.saturating_sub(event.begin)),
                cause: *cause,
                thread: event.threads & ((1 << WAITS_SHIFT) - 1),
                owner: event.threads >> WAITS_SHIFT,
                ran_s: event.ran_ns.saturating_sub(1) as f64 / 1e9,
            });
        }
        events.sort_by(|a, b| a.begin_s.total_cmp(&b.begin_s));
        events
    }

    /// Returns the waits that have not ended.
    pub(crate) fn pending(&self, waits: &[Wait], now: u64) -> Vec<Pending> {
        let pending = |wait: &Wait| {
            let Edge { lock, site, detail, .. } = wait.edge;
            let (name, kind) = self.lock(lock, site, detail);
            let address = lock << (64 - KIND_SHIFT) >> (64 - KIND_SHIFT);
            let element = self.names.variable(address).filter(|element| *element != name);
            Pending {
                thread: wait.thread,
                lock: name,
                address,
                element: element.unwrap_or_default(),
                kind,
                place: self.place(site, detail),
                act: self.cause(&wait.edge).act,
                wait_s: wait.seen_s.max(self.clock.ns(now.saturating_sub(wait.since)) as f64 / 1e9),
                owner: wait.owner,
                held_at: self.place(wait.edge.held, wait.edge.held_detail),
                owner_ended: wait.owner_ended,
                timed: wait.is_timed,
                counted: false,
            }
        };
        waits.iter().map(pending).collect()
    }
}

/// Indices of causes by lock, waiting place and holding place.
#[derive(Default)]
pub(crate) struct Index(BTreeMap<(u64, u64, u64), usize>);

impl Index {
    fn add(&mut self, edge: &Edge, cause: Cause, all: &mut Vec<Cause>) {
        let at = all.iter().position(|known| known.is_like(&cause));
        let at = at.unwrap_or(all.len());
        if at == all.len() {
            all.push(cause);
        } else {
            all[at].join(cause);
        }
        self.0.insert((edge.lock, edge.site, edge.held), at);
    }
}

impl Wait {
    /// Returns the wait of a thread, if it is waiting.
    pub(crate) fn of(state: &layout::State) -> Option<Self> {
        let CurrentWait { lock, site, since, owner, held, detail, held_detail } = state.wait;
        (lock != 0 && state.thread != 0).then(|| Self {
            thread: state.thread,
            edge: Edge { lock, site, held, detail, held_detail },
            since,
            owner,
            ..Self::default()
        })
    }

    /// Returns whether the wait is for something with an owner.
    pub(crate) fn is_for_lock(&self) -> bool {
        ![CONDITION, BARRIER].contains(&(self.edge.lock >> KIND_SHIFT))
    }
}

impl Raw {
    /// Adds the causes of waits.
    pub(crate) fn explain(
        &self,
        process: &mut Process,
        look: &mut Look,
        names: &Names,
        known: &BTreeMap<u64, Known>,
        futexes: &Futexes,
        edges: &[layout::Edge],
    ) -> std::io::Result<()> {
        let header = &self.header;
        let callers = |detail: u64| {
            let index = (detail as usize).min(DETAIL_COUNT - 1);
            let detail = self.entry::<Detail>(offset_of!(layout::File, details), index);
            detail.map_or([0; CALLERS], |detail| detail.callers)
        };
        let clock = Clock { begin: header.ticks_begin, tick_ns: self.tick_ns };
        let book = Book { names, known, futexes, callers: Box::new(callers), clock };
        let index = book.causes(edges, look, process);
        let events: Box<[layout::Event; EVENT_COUNT]> =
            self.part(offset_of!(layout::File, events))?;
        process.events = book.events(&*events, &index);
        let mut waits = Vec::new();
        for slot in 0..(header.slots as usize).min(SLOT_COUNT) {
            let slot = offset_of!(layout::File, slots) + slot * size_of::<Slot>();
            let wait = Wait::of(&*self.part(slot)?);
            // The wait in the last sample includes its owner at that time.
            let seen = |wait: &Wait| {
                let same = |one: &&Wait| one.thread == wait.thread && one.since == wait.since;
                look.waits.iter().find(same).copied().unwrap_or(*wait)
            };
            let left = |wait: &&Wait| look.left.contains(&(wait.thread, wait.since));
            waits.extend(wait.as_ref().filter(|wait| !left(wait)).map(seen));
        }
        (process.hot, process.samples) = std::mem::take(&mut look.hot);
        process.looks = look.count;
        process.is_stuck = look.is_stuck;
        if !process.ended {
            // The process reads the clock only while its locks are busy.
            process.seconds = process.seconds.max(look.seconds);
        }
        process.pending = book.pending(&waits, header.ticks_last);
        if let Some(outside) = &mut look.outside {
            outside.add_to(process);
        }
        process.causes.sort_by(|a, b| b.wait_s.total_cmp(&a.wait_s));
        signals(process);
        turns(process);
        drop_admissions(process);
        Ok(())
    }
}

/// Returns whether a thread waits for events of any number of sources.
fn is_for_events(seen: &Seen) -> bool {
    const CALLS: [&str; 4] =
        ["epoll_wait(2)", "epoll_pwait(2)", "epoll_pwait2(2)", "io_uring_enter(2)"];
    seen.doing == Doing::Sleeps && CALLS.contains(&seen.what.as_str())
}

/// Returns whether a thread waits for a client.
fn is_for_clients(seen: &Seen) -> bool {
    let is_call = ["accept(2)", "accept4(2)"].contains(&seen.what.as_str());
    seen.doing == Doing::Sleeps && is_call || is_for_events(seen)
}

/// Returns how many of these samples of owners are of this kind, if they are most of the sleeps and
/// many in all: on a busy machine, a woken thread waits for a CPU longer than for events.
fn mostly<'a>(owners: impl Iterator<Item = &'a Seen>, is_kind: fn(&Seen) -> bool) -> u64 {
    let (mut samples, mut asleep, mut count) = (0, 0, 0);
    for seen in owners {
        samples += seen.count;
        asleep += if seen.doing == Doing::Sleeps { seen.count } else { 0 };
        count += if is_kind(seen) { seen.count } else { 0 };
    }
    if 2 * count >= asleep && 10 * count >= samples { count } else { 0 }
}

/// Marks locks under which threads take turns to wait for clients in one function: the others are
/// idle. If another function needs the lock at that time, its owner should not wait there.
fn turns(process: &mut Process) {
    /// Minimum number of samples of owners.
    const FEW: u64 = 5;
    fn function(place: &str) -> &str {
        place.split(" (").next().unwrap_or(place)
    }
    let Process { locks, futexes, causes, .. } = process;
    let locks = locks.iter_mut().chain(futexes);
    for lock in locks.filter(|lock| [Kind::Mutex, Kind::Semaphore].contains(&lock.kind)) {
        let causes =
            causes.iter().filter(|cause| cause.kind == lock.kind && cause.lock == lock.name);
        let (turns, others): (Vec<&Cause>, Vec<&Cause>) =
            causes.partition(|cause| function(&cause.held_at) == function(&cause.place));
        let is_needed = others.iter().any(|cause| cause.owners.iter().any(is_for_clients));
        let owners = turns.iter().flat_map(|cause| &cause.owners);
        lock.held_for_good |= !is_needed && mostly(owners, is_for_clients) >= FEW;
    }
}

/// Marks conditions as signals if the threads that they admit wait for events there, as the leader
/// of an event loop does: the others are idle. Drops what was sampled of threads that such
/// conditions woke.
fn drop_admissions(process: &mut Process) {
    let Process { locks, causes, .. } = process;
    let mut admitting: BTreeMap<String, bool> = BTreeMap::new();
    for lock in locks.iter_mut().filter(|lock| lock.kind == Kind::Condition) {
        let causes =
            causes.iter().filter(|cause| cause.kind == lock.kind && cause.lock == lock.name);
        lock.held_for_good |= mostly(causes.flat_map(|cause| &cause.owners), is_for_events) > 0;
        *admitting.entry(lock.name.clone()).or_default() |= lock.is_lock();
    }
    causes.retain(|cause| {
        cause.kind != Kind::Condition || admitting.get(&cause.lock).is_some_and(|is_lock| *is_lock)
    });
}

/// Marks semaphores as signals if the waiting thread often took the last unit itself.
fn signals(process: &mut Process) {
    /// Minimum share of such waits among all waits.
    const OWN: f64 = 0.25;
    let mut waits: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for cause in process.causes.iter().filter(|cause| cause.kind == Kind::Semaphore) {
        let sums = waits.entry(cause.lock.clone()).or_default();
        *sums = [total([sums[0], cause.own]), total([sums[1], cause.count])];
    }
    let is_signal = |[own, all]: [u64; 2]| own > 0 && own as f64 >= OWN * all as f64;
    for lock in process.locks.iter_mut().filter(|lock| lock.kind == Kind::Semaphore) {
        lock.held_for_good |= waits.get(&lock.name).is_some_and(|sums| is_signal(*sums));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Lock;

    #[test]
    fn threads_that_take_turns_to_wait_for_clients_are_idle() {
        fn is_lock(place: &str, calls: &[(&str, u64)]) -> bool {
            let asleep = |(call, count): &(&str, u64)| {
                let what = (*call).to_owned();
                Seen { doing: Doing::Sleeps, what, count: *count, ..Seen::default() }
            };
            let (lock, held_at) = ("m".to_owned(), "serve (a.c:7)".to_owned());
            let owners = calls.iter().map(asleep).collect();
            let place = place.to_owned();
            let cause = Cause { lock: lock.clone(), place, held_at, owners, ..Cause::default() };
            let locks = vec![Lock { name: lock, ..Lock::default() }];
            let mut process = Process { locks, causes: vec![cause], ..Process::default() };
            turns(&mut process);
            process.locks[0].is_lock()
        }
        assert!(!is_lock("serve (a.c:9)", &[("accept(2)", 40)]));
        assert!(!is_lock("serve (a.c:7)", &[("epoll_wait(2)", 40), ("read(2)", 30)]));
        assert!(is_lock("register (a.c:20)", &[("epoll_wait(2)", 40)]), "it needs the lock");
        assert!(is_lock("serve (a.c:7)", &[("accept(2)", 4)]), "few samples");
        assert!(is_lock("serve (a.c:7)", &[("accept(2)", 40), ("fsync(2)", 50)]));
    }
}
