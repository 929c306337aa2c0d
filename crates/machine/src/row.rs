//! Reads of one line by many CPUs in a row: by all that spin on it, after a write.
//!
//! The first of them fetches the line from the writer. From then on the line is shared by several
//! CPUs without an owner, and a read changes little: the CPU shares the line, which has had one
//! more miss; the queue inside its group moves on by one service, that between groups by one
//! transfer if its group had no copy, and the line is busy as long as any of them; with a geometry
//! one more hit or transfer is counted, an inclusive third level has the line, and the first read
//! by another group than the writer's writes back. Nothing of that makes the next read one of
//! another kind. So all of it is kept at hand, and the directory learns of it at the end.
//!
//! It is so for reads
//!
//! - of a line that other CPUs own or share;
//! - by a CPU that does neither;
//! - if all sets into which the read would insert the line list it in front: reinserting the line
//!   then does not evict another.
//!
//! All others end the row and are left to [`Lines::read`].

use crate::caches::Hierarchy;
use crate::entry::Line;
use crate::line::{Lines, more};
use core::cell::RefMut;

/// On machines of more groups CPUs read one by one.
const GROUPS: usize = u64::BITS as usize;

/// A line while it is read in a row.
pub(crate) struct Row<'a> {
    lines: &'a Lines,
    line: Line<'a>,
    index: usize,
    /// CPUs that share the line, a bit each.
    sharers: RefMut<'a, [u64]>,
    /// As in [`Turns`](crate::turns::Turns); on a machine of one group the second is the line's.
    times: RefMut<'a, [u64]>,
    caches: Option<RefMut<'a, Hierarchy>>,
    /// Groups that are known to have the line, a bit each.
    ready: u64,
    /// Third levels that hold it.
    l3: u32,
    busy: u64,
    misses: u32,
    /// The cost of a read inside a group, and its largest perturbation.
    price: u64,
    most: u64,
    /// The price of a read that the cache of the group serves.
    clean: u64,
    chance: u64,
}

impl<'a> Row<'a> {
    /// Begins to read `line` in a row; `None` if its next read is of another kind.
    #[inline(always)]
    pub(crate) fn begin(lines: &'a Lines, line: Line<'a>) -> Option<Self> {
        let (index, words, shared) = (lines.number(line), lines.words, line.sharers.get());
        let place = lines.turns.place(index);
        let queued = lines.turns.groups == 1 || place != 0 && lines.turns.groups <= GROUPS;
        let held = shared != 0 || words == 1 && line.owner.get() != 0;
        if !held || !queued || !lines.reach.first_least() {
            return None;
        }
        // What has no place in these tables is kept at their beginnings, which are free then.
        let set = if words == 1 { 0 } else { shared as usize * words };
        let mut sharers = RefMut::map(lines.pool.borrow_mut(), |pool| &mut pool[set..][..words]);
        let mut times = RefMut::map(lines.turns.times.borrow_mut(), |times| {
            &mut times[place..][..lines.turns.span]
        });
        if words == 1 {
            sharers[0] = shared;
        }
        if place == 0 {
            times[1] = line.busy();
        }
        if line.owner.get() == 0 && sharers.iter().all(|&bits| bits == 0) {
            return None;
        }
        let caches = lines.caches.as_ref().map(|caches| caches.borrow_mut());
        let llc = lines.price.llc;
        let (price, clean) = caches.as_ref().map_or((llc, llc), |caches| {
            let clean = if caches.l3.is_some() { caches.l3_price } else { llc };
            (if caches.inclusive { clean } else { llc }, clean)
        });
        Some(Self {
            lines,
            line,
            index,
            sharers,
            times,
            caches,
            ready: 0,
            l3: line.l3.get(),
            busy: line.busy(),
            misses: line.misses.get(),
            price,
            most: lines.most(price),
            clean,
            chance: lines.chance(index),
        })
    }

    /// A read by `cpu` at `now`, as [`Lines::read`]; `None` if it is of another kind, and then
    /// nothing has changed.
    #[inline(always)]
    pub(crate) fn read(&mut self, cpu: usize, now: u64, front: bool) -> Option<u64> {
        let (word, mine) = (cpu / 64, 1 << (cpu % 64));
        if self.sharers[word] & mine != 0 || !(front || self.in_front(cpu)) {
            return None;
        }
        let group = self.lines.price.group_of(cpu);
        let done = if self.ready >> (group % GROUPS) & 1 == 1 {
            self.serve_inside(group, now)
        } else {
            self.read_first(group, cpu, now)?
        };
        self.sharers[word] |= mine;
        Some(done)
    }

    /// As [`Lines::serve_read`] where the group has a copy.
    #[inline(always)]
    fn serve_inside(&mut self, group: usize, now: u64) -> u64 {
        let start = if now >= self.busy { now } else { now.max(self.times[group + 1]) };
        self.serve(group, start, self.price, self.most)
    }

    #[inline(always)]
    fn serve(&mut self, group: usize, start: u64, price: u64, most: u64) -> u64 {
        let done = start + price + more(most, self.chance, self.misses);
        self.misses = self.misses.wrapping_add(1);
        let inside = self.lines.turns.inside(start, done, self.clean);
        self.times[group + 1] = inside;
        self.busy = self.busy.max(inside);
        done
    }

    /// A read by a CPU of a group that is not known to have the line.
    #[inline(never)]
    fn read_first(&mut self, group: usize, cpu: usize, now: u64) -> Option<u64> {
        let held = self.l3.unbounded_shr(group as u32) & 1 == 1;
        let (mut inclusive, mut takes) = (false, true);
        if let Some(caches) = &self.caches {
            inclusive = caches.inclusive;
            let l3 = caches.l3.as_ref();
            takes =
                if inclusive { l3.is_some_and(|l3| l3.in_front(group, self.index)) } else { !held };
        }
        let owner = self.line.owner.get() as usize;
        if !takes || owner == cpu + 1 {
            return None;
        }
        let done = if owner != 0 {
            self.serve_owned(owner - 1, group, cpu, now)?
        } else if if inclusive { held } else { self.shared_in(group) } {
            self.serve_inside(group, now)
        } else {
            self.serve_outside(group, cpu, now)
        };
        if inclusive {
            self.l3 |= 1 << group;
        }
        self.ready |= 1 << (group % GROUPS);
        Some(done)
    }

    fn shared_in(&self, group: usize) -> bool {
        let mut words = (0..).zip(&*self.sharers);
        words.any(|(at, &set)| self.lines.some_in(group, at, set))
    }

    /// As [`Lines::serve_read`] where `owner` has the only copy.
    fn serve_owned(&mut self, owner: usize, group: usize, cpu: usize, now: u64) -> Option<u64> {
        let copies = self.lines.nearest(self.line, cpu)?;
        let (price, from) = (copies.near, self.lines.price.group_of(owner));
        let free = if copies.inside { 0 } else { self.times[0] };
        let start = if now >= self.busy { now } else { now.max(free).max(self.times[from + 1]) };
        let done = self.serve(group, start, price, self.lines.most(price));
        self.sharers[owner / 64] |= 1 << (owner % 64);
        self.line.set_owner(0);
        if !copies.inside {
            self.went_out(self.lines.turns.moved(start, done), now);
        }
        Some(done)
    }

    /// As [`Lines::serve_read`] where another group has a copy and the own one has none.
    fn serve_outside(&mut self, group: usize, cpu: usize, now: u64) -> u64 {
        let price = self.lines.nearest_of(self.line, cpu, &self.sharers, self.l3);
        let start = if now >= self.busy { now } else { now.max(self.times[0]) };
        let done = self.serve(group, start, price, self.lines.most(price));
        self.went_out(self.lines.turns.between(start, done), now);
        done
    }

    /// A read at `now` took the line to another group; its turn ends at `end`.
    fn went_out(&mut self, end: u64, now: u64) {
        let free = self.lines.turns.after(end);
        self.times[0] = free;
        self.busy = self.busy.max(free);
        if self.caches.is_some() && self.line.dirty.get() {
            self.lines.write_back(self.index, now);
        }
    }

    /// Whether all private sets of `cpu` list the line in front.
    fn in_front(&self, cpu: usize) -> bool {
        self.caches.as_ref().is_none_or(|caches| {
            caches.l1.in_front(cpu, self.index) && caches.l2.in_front(cpu, self.index)
        })
    }

    /// Updates the directory.
    #[inline(always)]
    pub(crate) fn end(self) {
        if self.misses == self.line.misses.get() {
            return;
        }
        self.line.misses.set(self.misses);
        if self.caches.is_some() {
            self.line.l3.set(self.l3);
        }
        if self.lines.words == 1 {
            self.line.sharers.set(self.sharers[0]);
        }
        self.line.set_quick(0);
        self.line.set_busy(self.busy);
    }
}

impl Lines {
    /// Returns the cost of the nearest copy of `line` among `sharers` and the third levels `l3`,
    /// none of which is in the group of `cpu`.
    fn nearest_of(&self, line: Line<'_>, cpu: usize, sharers: &[u64], l3: u32) -> u64 {
        let words = (0..).zip(sharers);
        let mut found = words.fold(0, |found, (at, &set)| found | self.reach.of(cpu, at, set));
        if l3 != 0 {
            found |= self.reach.of_groups(self.price.group_of(cpu), l3);
        }
        self.reach.copies(found, self.away(line, cpu)).map_or(0, |copies| copies.near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::mix;
    use crate::preset::Preset;

    const LINES: usize = 4000;

    type State = (u16, Vec<usize>, u32, u32, u64, bool, u16);

    fn state(lines: &Lines, index: usize) -> State {
        let (line, mut sharers) = (lines.entry(index), Vec::new());
        lines.each_sharer(line, |cpu| sharers.push(cpu));
        let (l3, misses, dirty) = (line.l3.get(), line.misses.get(), line.dirty.get());
        (line.owner.get(), sharers, l3, misses, line.busy(), dirty, line.quick())
    }

    /// Reads `line` at the `reads`, CPU and time, in rows as far as that goes; when each is done,
    /// and how many were in rows.
    fn read_all(lines: &Lines, index: usize, reads: &[(usize, u64)]) -> (Vec<u64>, usize) {
        let (line, mut done, mut rows, mut row) = (lines.entry(index), Vec::new(), 0, None);
        for &(cpu, now) in reads {
            row = row.or_else(|| Row::begin(lines, line));
            let read = row.as_mut().and_then(|row: &mut Row<'_>| row.read(cpu, now, false));
            if read.is_none()
                && let Some(row) = row.take()
            {
                row.end();
            }
            rows += usize::from(read.is_some());
            done.push(read.unwrap_or_else(|| lines.read(line, cpu, now, false)));
        }
        if let Some(row) = row {
            row.end();
        }
        (done, rows)
    }

    /// Rounds of a write and many reads of one line, among other accesses.
    fn compare(preset: &Preset, seed: u64) {
        let cpus = preset.topology.cpus;
        let make = || Lines::new(preset, seed, LINES, 0).expect("address space");
        let (plain, other) = (make(), make());
        let (mut now, mut state_of, mut all, mut rows) = (0, seed, 0, 0);
        let mut draw = |below: usize| {
            state_of = mix(state_of.wrapping_add(0x9e37_79b9_7f4a_7c15));
            (state_of >> 20) as usize % below
        };
        for _ in 0..200 {
            let index = draw(3) * 64;
            now += draw(1_000_000) as u64;
            let writer = draw(cpus);
            for lines in [&plain, &other] {
                lines.write(lines.entry(index), writer, now);
            }
            let count = 1 + draw(cpus * 2);
            let mut reads: Vec<_> =
                (0..count).map(|_| (draw(cpus), now + draw(400_000) as u64)).collect();
            reads.sort_by_key(|&(_, at)| at);
            let one_by_one: Vec<_> = reads
                .iter()
                .map(|&(cpu, at)| plain.read(plain.entry(index), cpu, at, false))
                .collect();
            let (in_rows, count) = read_all(&other, index, &reads);
            assert_eq!(in_rows, one_by_one, "{} seed {seed}", preset.name);
            assert_eq!(state(&plain, index), state(&other, index), "{}", preset.name);
            (all, rows) = (all + reads.len(), rows + count);
            // Now and then a CPU fills its caches with others.
            if draw(20) == 0 {
                let cpu = draw(cpus);
                for at in 0..draw(LINES) {
                    for lines in [&plain, &other] {
                        lines.read(lines.entry(at), cpu, now, false);
                    }
                }
            }
        }
        assert!(rows > all / 8, "{}: {rows} of {all} reads in rows", preset.name);
    }

    #[test]
    fn a_row_is_read_after_read() {
        let quad = Preset::named("quad-2008-shared-llc").expect("shipped");
        for preset in [quad.clone().with_cpus(64), quad.clone().with_cpus(128), quad] {
            compare(&preset, 1);
        }
        let shipped = [
            "xeon-64-2011-8x8",
            "westmere-ex-80-2013",
            "server-2x64",
            "smp32-2007",
            "xeon-24-2011",
        ];
        for (seed, name) in shipped.iter().enumerate() {
            compare(&Preset::named(name).expect("shipped"), seed as u64);
        }
    }
}
