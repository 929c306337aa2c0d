//! Who waits for whom at a contended line.
//!
//! CPUs that share a last-level cache form a *group*. Two queues meet at a line:
//!
//! - *inside* a group its cache serves one request after the other: reads of a copy that it has
//!   follow each other by `read_service`, and whoever wants a line that is on its way to another
//!   CPU of the group waits until it is there;
//! - *between* groups one request for the line is under way at a time. Of a group only the first
//!   requester goes out; the others find the line on its way into their cache and are served
//!   inside. So copies to several groups follow one another, each for its whole transfer.
//!
//! That is how the caching and home agents of Intel's packages since Nehalem treat conflicting
//! requests (uncore manuals of the E7 and E5: one request per line and package; conflicts are
//! ordered at the home). `copy_service` of a preset says where copies may overlap, as on a bus.

use crate::line::{Line, Lines};
use crate::preset::{Preset, ps};
use core::cell::RefCell;

/// The queues of all lines.
pub(crate) struct Turns {
    groups: usize,
    /// For each line its place in `times`, 0 for none. Only lines that CPUs took from each other
    /// have one.
    places: RefCell<Vec<u32>>,
    /// At each place when the line is free between groups, and then inside each of them.
    times: RefCell<Vec<u64>>,
    /// Between two reads inside a group.
    read_service: u64,
    /// Between two copies of a line that nobody owns to other groups; the whole transfer if absent.
    copy_service: Option<u64>,
}

/// A request for a line that some cache has.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// The group of the CPU that asks.
    pub(crate) group: usize,
    /// The group that has to give the line away or share it for the first time; none if any copy
    /// will do.
    pub(crate) from: Option<usize>,
    /// No other group is asked.
    pub(crate) inside: bool,
}

impl Turns {
    pub(crate) fn new(preset: &Preset, lines: usize) -> Self {
        let groups = preset.topology.cpus.div_ceil(preset.topology.cpus_per_llc);
        // One group needs no more than the line itself says. Zero pages come from the host
        // untouched, so the places cost what is used of them.
        let lines = if groups > 1 { lines } else { 0 };
        Self {
            groups,
            places: RefCell::new(vec![0; lines]),
            times: RefCell::new(vec![0; groups + 1]),
            read_service: ps(preset.price_ns.read_service),
            copy_service: preset.price_ns.copy_service.map(ps),
        }
    }

    /// When `request` for `line`, number `index`, made at `now`, is served.
    #[inline(always)]
    pub(crate) fn begin(&self, line: &Line, index: usize, request: &Request, now: u64) -> u64 {
        if now >= line.busy.get() {
            return now;
        }
        let place = self.place(index);
        if place == 0 {
            return line.busy.get();
        }
        let times = &self.times.borrow()[place..=place + self.groups];
        let queue = |group: usize| times[1 + group];
        if request.inside {
            return now.max(queue(request.group));
        }
        now.max(times[0]).max(request.from.map_or(0, queue))
    }

    /// A read that began at `start` has its line at `done`; a copy that is in the cache of the
    /// group already takes `clean` of that.
    #[inline]
    pub(crate) fn read(
        &self,
        line: &Line,
        index: usize,
        request: &Request,
        (start, done): (u64, u64),
        clean: u64,
    ) {
        // The next reader of the group has it `read_service` later.
        let inside = (done + self.read_service).saturating_sub(clean).max(start);
        let between = match (self.copy_service, request.from) {
            (Some(service), None) => start + service,
            _ => done,
        };
        self.note(line, index, request, between, inside);
    }

    /// A write has its line at `done`.
    #[inline]
    pub(crate) fn write(&self, line: &Line, index: usize, request: &Request, done: u64) {
        self.note(line, index, request, done, done);
    }

    #[inline(always)]
    fn note(&self, line: &Line, index: usize, request: &Request, between: u64, inside: u64) {
        if self.groups == 1 {
            return line.busy.set(inside);
        }
        let place = self.place(index);
        let place = if place == 0 { self.new_place(index) } else { place };
        let times = &mut self.times.borrow_mut()[place..=place + self.groups];
        times[1 + request.group] = inside;
        let mut busy = line.busy.get().max(inside);
        if !request.inside {
            times[0] = between;
            busy = busy.max(between);
        }
        line.busy.set(busy);
    }

    #[cold]
    #[inline(never)]
    fn new_place(&self, index: usize) -> usize {
        let mut times = self.times.borrow_mut();
        let place = times.len();
        times.resize(place + self.groups + 1, 0);
        self.places.borrow_mut()[index] = place as u32;
        place
    }

    /// A line comes from memory at `done`: whoever wants it until then waits for that.
    #[inline]
    pub(crate) fn memory(&self, line: &Line, index: usize, request: &Request, done: u64) {
        match self.place(index) {
            0 => line.busy.set(done),
            _ => self.note(line, index, request, done, done),
        }
    }

    #[inline]
    fn place(&self, index: usize) -> usize {
        self.places.borrow().get(index).map_or(0, |&place| place as usize)
    }
}

impl Lines {
    /// What `cpu` asks for when it reads `line`, of which its group has a copy or not.
    #[inline]
    pub(crate) fn read_request(&self, line: &Line, cpu: usize, inside: bool) -> Request {
        let owner = line.owner.get() as usize;
        let from = (owner != 0).then(|| self.price.group_of(owner - 1));
        Request { group: self.price.group_of(cpu), from, inside }
    }

    /// Serves a read of `line` that costs `price`, or `clean` when the group's cache has a copy;
    /// returns when it is done.
    #[inline]
    pub(crate) fn serve_read(
        &self,
        line: &Line,
        index: usize,
        request: &Request,
        now: u64,
        price: u64,
        clean: u64,
    ) -> u64 {
        let start = self.turns.begin(line, index, request, now);
        let done = start + self.perturb(line, index, price);
        self.turns.read(line, index, request, (start, done), clean);
        done
    }

    /// Serves a write of `line` that costs `price`; returns when the CPU owns it.
    #[inline]
    pub(crate) fn serve_write(
        &self,
        line: &Line,
        index: usize,
        request: &Request,
        now: u64,
        price: u64,
    ) -> u64 {
        let start = self.turns.begin(line, index, request, now);
        let price = if request.inside { price } else { price + self.price.invalidate };
        let done = start + self.perturb(line, index, price);
        self.turns.write(line, index, request, done);
        done
    }

    /// Serves a request by `cpu` for `line`, which no cache holds.
    pub(crate) fn serve_from_memory(
        &self,
        line: &Line,
        index: usize,
        request: &Request,
        cpu: usize,
        now: u64,
    ) -> u64 {
        let start = self.turns.begin(line, index, request, now);
        let (start, price) = self.memory_turn(line, index, cpu, start);
        let done = start + self.perturb(line, index, price);
        self.turns.memory(line, index, request, done);
        done
    }
}
