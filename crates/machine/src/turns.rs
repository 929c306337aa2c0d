//! The order of the waiters for a contended line.
//!
//! CPUs that share a last-level cache form a *group*. Two queues meet at a line:
//!
//! - *inside* a group its cache serves one request after the other: reads of its copy follow each
//!   other at intervals of `read_service`, and a request for a line that is on its way to another
//!   CPU of the group waits for its arrival;
//! - *between* groups one request for the line is under way at a time. Of a group only the first
//!   requester goes out; the others find the line on its way into their cache and are served
//!   inside. So copies to several groups follow one another, each for its whole transfer, and
//!   between two of them the line's home learns that the first has come: for that time, `kept` of a
//!   preset, the line stays where it is.
//!
//! That is how the caching and home agents of Intel's packages since Nehalem treat conflicting
//! requests, reads as well as writes: a package has one request for a line outstanding, and the
//! home tells the package that has received the line to forward it to the next (docs/machine.md,
//! "Cache lines", names the manuals and patents). `copy_service` of a preset says where copies may
//! overlap, as on a bus.

use crate::entry::Line;
use crate::preset::{Preset, ps};
use core::cell::RefCell;

/// The queues of all lines.
pub(crate) struct Turns {
    pub(crate) groups: usize,
    /// Times of a line.
    pub(crate) span: usize,
    /// For each line its place in `times`, 0 for none. Only lines that CPUs took from each other
    /// have one.
    places: RefCell<Vec<u32>>,
    /// At each place when the line is free between groups, and then inside each of them.
    pub(crate) times: RefCell<Vec<u64>>,
    /// Between two reads inside a group.
    read_service: u64,
    /// Between two copies of an unowned line to other groups; the whole transfer if absent.
    copy_service: Option<u64>,
    /// The same for a line with an owner, or with a request for ownership.
    owner_service: Option<u64>,
    /// Time for which a line from another group stays with the CPU that received it.
    kept: u64,
}

/// A request for a line that some cache has. Groups are named by number + 1.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// The group of the CPU that asks.
    pub(crate) group: usize,
    /// The group that has to transfer the line or share it for the first time; 0 if any copy will
    /// do.
    pub(crate) from: usize,
    /// No other group is asked.
    pub(crate) inside: bool,
}

/// The duration of a request that starts at some time.
pub(crate) struct Served {
    pub(crate) done: u64,
    /// When its turn between groups ends, and when the next CPU of the same group may have the
    /// line.
    pub(crate) between: u64,
    pub(crate) inside: u64,
}

impl Served {
    /// No other CPU has the line before it arrives.
    pub(crate) fn alone(done: u64) -> Self {
        Self { done, between: done, inside: done }
    }
}

impl Turns {
    pub(crate) fn new(preset: &Preset, lines: usize) -> Self {
        let groups = preset.topology.cpus.div_ceil(preset.topology.cpus_per_llc);
        // One group needs no more than the line itself says. Zero pages come from the host
        // untouched, so the places cost what is used of them.
        let lines = if groups > 1 { lines } else { 0 };
        Self {
            groups,
            span: groups + 1,
            places: RefCell::new(vec![0; lines]),
            times: RefCell::new(vec![0; groups + 1]),
            read_service: ps(preset.price_ns.read_service),
            copy_service: preset.price_ns.copy_service.map(ps),
            owner_service: preset.price_ns.owner_service.map(ps),
            kept: ps(preset.price_ns.kept),
        }
    }

    /// When `request` for `line`, number `index`, made at `now`, is served.
    #[inline(always)]
    pub(crate) fn begin(&self, line: Line<'_>, index: usize, request: &Request, now: u64) -> u64 {
        match self.place(index) {
            0 => now.max(line.busy()),
            place => {
                let times = &self.times.borrow()[place..place + self.span];
                begin_at(times, line, request, now)
            }
        }
    }

    /// Serves `request` for `line`, number `index`, made at `now`: returns when it is done. `serve`
    /// gets when it begins.
    #[inline(always)]
    pub(crate) fn serve(
        &self,
        line: Line<'_>,
        index: usize,
        request: &Request,
        now: u64,
        serve: impl FnOnce(u64) -> Served,
    ) -> u64 {
        if self.groups == 1 {
            let served = serve(now.max(line.busy()));
            line.set_busy(served.inside);
            return served.done;
        }
        let place = self.place(index);
        if place == 0 {
            return self.serve_first(line, index, request, &serve(now.max(line.busy())));
        }
        let times = &mut self.times.borrow_mut()[place..place + self.span];
        let served = serve(begin_at(times, line, request, now));
        note(times, line, request, &served, self.kept);
        served.done
    }

    /// Two groups want the line for the first time.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_first(
        &self,
        line: Line<'_>,
        index: usize,
        request: &Request,
        served: &Served,
    ) -> u64 {
        let mut times = self.times.borrow_mut();
        let place = times.len();
        times.resize(place + self.span, 0);
        self.places.borrow_mut()[index] = place as u32;
        note(&mut times[place..], line, request, served, self.kept);
        served.done
    }

    /// A read that began at `start` is done at `done`: when the next reader of the group is served,
    /// where `clean` is the price of a read that its cache serves.
    #[inline(always)]
    pub(crate) fn inside(&self, start: u64, done: u64, clean: u64) -> u64 {
        // It has the line `read_service` later.
        (done + self.read_service).saturating_sub(clean).max(start)
    }

    /// Returns when another group may have the line after a request between groups that ends its
    /// turn at `end`.
    #[inline(always)]
    pub(crate) fn after(&self, end: u64) -> u64 {
        end + self.kept
    }

    /// Returns when the turn of a read between groups ends, for a line without an owner.
    #[inline(always)]
    pub(crate) fn between(&self, start: u64, done: u64) -> u64 {
        self.copy_service.map_or(done, |service| start + service)
    }

    /// The same for a line with an owner.
    #[inline(always)]
    pub(crate) fn moved(&self, start: u64, done: u64) -> u64 {
        self.owner_service.map_or(done, |service| start + service)
    }

    /// Returns when line `index` arrives, or has arrived, in the group that asked for it last.
    pub(crate) fn arrived(&self, index: usize) -> u64 {
        match self.place(index) {
            0 => 0,
            place => self.times.borrow()[place].saturating_sub(self.kept),
        }
    }

    #[inline(always)]
    pub(crate) fn place(&self, index: usize) -> usize {
        self.places.borrow().get(index).map_or(0, |&place| place as usize)
    }
}

/// [`Turns::begin`] for a line that has `times`.
#[inline(always)]
fn begin_at(times: &[u64], line: Line<'_>, request: &Request, now: u64) -> u64 {
    if now >= line.busy() {
        now
    } else if request.inside {
        now.max(times[request.group])
    } else {
        now.max(times[0]).max(times[request.from])
    }
}

/// Updates the `times` of the line after `request` has been served, for its waiters.
#[inline(always)]
fn note(times: &mut [u64], line: Line<'_>, request: &Request, served: &Served, kept: u64) {
    times[request.group] = served.inside;
    let mut busy = line.busy().max(served.inside);
    if !request.inside {
        times[0] = served.between + kept;
        busy = busy.max(times[0]);
    }
    line.set_busy(busy);
}
