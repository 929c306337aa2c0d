//! Requests for contended lines: when they are served.

use crate::entry::Line;
use crate::line::Lines;
use crate::turns::{Request, Served};

impl Lines {
    /// What `cpu` asks for when it reads `line`, of which its group has a copy or not.
    #[inline]
    pub(crate) fn read_request(&self, line: Line<'_>, cpu: usize, inside: bool) -> Request {
        let owner = line.owner.get() as usize;
        let from = if owner == 0 { 0 } else { self.price.group_of(owner - 1) + 1 };
        Request { group: self.price.group_of(cpu) + 1, from, inside }
    }

    /// Returns how long a request by `cpu` is on its way to the owner of `line`; 0 if no CPU
    /// outside of its group owns it.
    pub(crate) fn way(&self, line: Line<'_>, cpu: usize) -> u64 {
        match line.owner.get() as usize {
            0 => 0,
            owner if self.price.group_of(owner - 1) == self.price.group_of(cpu) => 0,
            owner => self.price.prices[self.price.distance(cpu, owner - 1)] / 2,
        }
    }

    /// Serves a read of `line` that costs `price`, or `clean` when the group's cache has a copy;
    /// returns when it is done.
    #[inline]
    pub(crate) fn serve_read(
        &self,
        line: Line<'_>,
        index: usize,
        request: &Request,
        now: u64,
        price: u64,
        clean: u64,
    ) -> u64 {
        let turns = &self.turns;
        let price = self.perturb(line, index, price);
        turns.serve(line, index, request, now, |start| {
            let done = start + price;
            let inside = turns.inside(start, done, clean);
            let between = if request.from == 0 {
                turns.between(start, done)
            } else {
                turns.moved(start, done)
            };
            Served { done, between, inside }
        })
    }

    /// Serves a write of `line` that costs `price`; returns when the CPU owns it.
    #[inline]
    pub(crate) fn serve_write(
        &self,
        line: Line<'_>,
        index: usize,
        request: &Request,
        now: u64,
        price: u64,
    ) -> u64 {
        let price = if request.inside { price } else { price + self.price.invalidate };
        let price = self.perturb(line, index, price);
        self.turns.serve(line, index, request, now, |start| {
            let done = start + price;
            let next = self.turns.moved(start, done);
            Served { done, between: next, inside: next }
        })
    }

    /// Serves a request by `cpu` for `line`, which no cache holds.
    pub(crate) fn serve_from_memory(
        &self,
        line: Line<'_>,
        index: usize,
        request: &Request,
        cpu: usize,
        now: u64,
    ) -> u64 {
        let serve = |start| {
            let (start, price) = self.memory_turn(line, index, cpu, start);
            start + self.perturb(line, index, price)
        };
        // Whoever wants it until it is there waits for that.
        if self.turns.place(index) == 0 {
            let done = serve(now.max(line.busy()));
            line.set_busy(done);
            return done;
        }
        self.turns.serve(line, index, request, now, |start| Served::alone(serve(start)))
    }
}
