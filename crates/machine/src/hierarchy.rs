//! Caches with a geometry: private first and second levels of each CPU, a third level that a group
//! of CPUs shares. Set-associative, least recently used.
//!
//! A [`Level`] knows recency only. The directory entry of a line records the caches that have it,
//! so a line is invalidated in 126 sets of 63 spinners without accessing the sets: a line that a
//! set lists and the directory does not confirm is a *gap*, an empty way that only an insertion has
//! to find. Mostly the next one is of the same line, which is where it was. A level *holds* a line
//! that it lists and the directory confirms:
//!
//! - I1: the second level of a CPU lists all lines that the CPU owns or shares, and holds them;
//! - I2: a second level holds all that the first level above it holds;
//! - I3: an *inclusive* third level holds all that the second levels of its group hold; one that is
//!   not gets a line when a second level evicts it, and keeps it when a CPU fetches it again;
//! - I4: a line that is dirty, newer than memory, has copies in one group only;
//! - I5: `quick` names a CPU only while it owns the line, dirty, as the most recently used one of
//!   its set in the first level: then one more access would change nothing here.

#[cfg(test)]
mod tests;

use crate::caches::{Hierarchy, refresh};
use crate::entry::Line;
use crate::line::Lines;
use crate::turns::Request;

impl Lines {
    /// A read of line `index` by `cpu` at `now`: returns when the line is in its first level.
    /// `front` says that it is in front of the CPU's sets.
    #[inline]
    pub(crate) fn read_cached(
        &self,
        h: &mut Hierarchy,
        index: usize,
        cpu: usize,
        now: u64,
        front: bool,
    ) -> u64 {
        let line = self.entry(index);
        if (front || (h.l1.in_front(cpu, index) && h.l2.in_front(cpu, index)))
            && let Some(done) = self.read_again(h, line, index, cpu, now)
        {
            return done;
        }
        let done = match self.look_up(h, index, cpu) {
            Some(price) => now + price,
            None => self.read_miss(h, index, cpu, now),
        };
        line.mark_quick(cpu);
        done
    }

    /// As [`Self::read_cached`] for the most frequent read on a large machine, by a spinning CPU:
    /// another CPU of its group has the line again, in the third level too, and all sets are
    /// unchanged since the line was invalidated in this CPU. The line is at the front of its set.
    #[inline]
    fn read_again(
        &self,
        h: &mut Hierarchy,
        line: Line<'_>,
        index: usize,
        cpu: usize,
        now: u64,
    ) -> Option<u64> {
        let group = self.price.group_of(cpu);
        let there = line.owner.get() == 0
            && line.l3.get() >> group & 1 == 1
            && h.l3.as_ref().is_some_and(|l3| l3.in_front(group, index))
            && self.join_sharers(line, cpu);
        if !there {
            return None;
        }
        let request = Request { group: group + 1, from: 0, inside: true };
        line.set_quick(0);
        Some(self.serve_read(line, index, &request, now, h.l3_price, h.l3_price))
    }

    fn read_miss(&self, h: &mut Hierarchy, index: usize, cpu: usize, now: u64) -> u64 {
        let line = self.entry(index);
        let group = self.price.group_of(cpu);
        let owner = line.owner.get() as usize;
        let cached = line.l3.get() >> group & 1 == 1 && owner == 0;
        // A copy in the third level of its group is all that matters.
        let copies = if cached { None } else { self.nearest(line, cpu) };
        let inside = cached || copies.is_some_and(|copies| copies.inside);
        let request = self.read_request(line, cpu, inside);
        let clean = if h.l3.is_some() { h.l3_price } else { self.price.llc };
        let alone;
        let done = if cached {
            alone = line.l3.get() == 1 << group && !self.shared(line);
            h.l3.as_mut().expect("a line is in a third level").refresh(group, index);
            self.serve_read(line, index, &request, now, h.l3_price, clean)
        } else if let Some(copies) = copies {
            alone = false;
            self.serve_read(line, index, &request, now, copies.near, clean)
        } else {
            alone = true;
            self.serve_from_memory(line, index, &request, cpu, now)
        };
        if owner != 0 {
            line.owner.set(0);
            line.set_quick(0);
            self.add_sharer(line, owner - 1);
        }
        if line.dirty.get() && !self.held_in(line, group) {
            self.write_back(index, now);
        }
        if alone {
            line.owner.set(cpu as u16 + 1);
        } else {
            self.add_sharer(line, cpu);
        }
        self.fill(h, index, cpu, now);
        done
    }

    /// A write of line `index` by `cpu` at `now`: returns when the CPU owns it in its first level.
    pub(crate) fn write_cached(
        &self,
        h: &mut Hierarchy,
        index: usize,
        cpu: usize,
        now: u64,
    ) -> u64 {
        let line = self.entry(index);
        let hit = self.look_up(h, index, cpu);
        let done = match hit {
            Some(price) if line.owner.get() as usize == cpu + 1 => now + price,
            _ => self.write_miss(h, index, cpu, now, hit),
        };
        line.dirty.set(true);
        line.mark_quick(cpu);
        done
    }

    /// As [`Self::write_cached`] when the CPU does not own the line; `hit` is the price of the
    /// private level that shares it.
    fn write_miss(
        &self,
        h: &mut Hierarchy,
        index: usize,
        cpu: usize,
        now: u64,
        hit: Option<u64>,
    ) -> u64 {
        let line = self.entry(index);
        let group = self.price.group_of(cpu);
        let copies = self.copies(line, cpu);
        let far = copies.map(|copies| copies.far);
        let request = self.read_request(line, cpu, copies.is_none_or(|copies| !copies.outside));
        let price = if let Some(hit) = hit {
            far.map(|far| self.price.upgrade.unwrap_or(far).max(hit))
        } else if line.l3.get() >> group & 1 == 1 && line.owner.get() == 0 {
            h.l3.as_mut().expect("a line is in a third level").refresh(group, index);
            Some(far.unwrap_or(0).max(h.l3_price))
        } else {
            far
        };
        let done = match (price, hit) {
            (Some(price), _) => self.serve_write(line, index, &request, now, price),
            // Shared by this CPU alone: nobody is asked.
            (None, Some(hit)) => self.turns.begin(line, index, &request, now) + hit,
            (None, None) => self.serve_from_memory(line, index, &request, cpu, now),
        };
        self.invalidate_others(h, index, cpu);
        if hit.is_none() {
            self.fill(h, index, cpu, now);
        }
        done
    }

    /// [`Lines::adopt`] with a geometry.
    pub(crate) fn adopt_cached(&self, h: &mut Hierarchy, index: usize, cpu: usize, now: u64) {
        let line = self.entry(index);
        let hit = self.look_up(h, index, cpu);
        self.invalidate_others(h, index, cpu);
        if hit.is_none() {
            self.fill(h, index, cpu, now);
        }
        line.set_busy(0);
        line.dirty.set(true);
        line.mark_quick(cpu);
    }

    /// Looks in the private levels of `cpu`. On a hit the line moves to the front of the first
    /// level; returns the cost beyond a hit there.
    fn look_up(&self, h: &mut Hierarchy, index: usize, cpu: usize) -> Option<u64> {
        // I1 and I2 spare the search.
        let readable = self.readable(self.entry(index), cpu);
        let set = h.l1.set(cpu, index);
        let front = set[0] as usize;
        if front == index + 1 {
            return readable.then_some(0);
        }
        // Whatever happens, `index` will be in front of its set afterwards.
        if front != 0 {
            let front = self.entry(front - 1);
            if front.owner.get() as usize == cpu + 1 {
                front.set_quick(0);
            }
        }
        if !readable {
            return None;
        }
        if refresh(set, index) {
            return Some(0);
        }
        assert!(h.l2.refresh(cpu, index), "the directory says that this level has the line");
        self.fill_first(h, index, cpu);
        Some(h.l2_price)
    }

    /// Brings a line that the directory has given to `cpu` into its caches.
    fn fill(&self, h: &mut Hierarchy, index: usize, cpu: usize, now: u64) {
        let group = self.price.group_of(cpu);
        if h.inclusive {
            self.fill_shared(h, index, group, now);
        }
        let held = |line| self.readable(self.entry(line), cpu);
        if let Some(out) = h.l2.insert(cpu, index, held) {
            h.l1.leave_gap(cpu, out);
            self.leave(self.entry(out), cpu);
            if h.l3.is_some() {
                self.fill_shared(h, out, group, now);
            }
            self.keep_or_write_back(out, now);
        }
        self.fill_first(h, index, cpu);
    }

    #[inline]
    fn fill_first(&self, h: &mut Hierarchy, index: usize, cpu: usize) {
        h.l1.insert(cpu, index, |line| self.readable(self.entry(line), cpu));
    }

    fn fill_shared(&self, h: &mut Hierarchy, index: usize, group: usize, now: u64) {
        let level = h.l3.as_mut().expect("only with a third level");
        let line = self.entry(index);
        if line.l3.get() >> group & 1 == 1 {
            level.refresh(group, index);
            return;
        }
        line.l3.set(line.l3.get() | 1 << group);
        let held = |line| self.entry(line).l3.get() >> group & 1 == 1;
        let Some(out) = level.insert(group, index, held) else { return };
        let gone = self.entry(out);
        gone.l3.set(gone.l3.get() & !(1 << group));
        if h.inclusive {
            for cpu in group * self.llc..((group + 1) * self.llc).min(self.cpus) {
                if self.readable(gone, cpu) {
                    h.drop_private(cpu, out);
                    self.leave(gone, cpu);
                }
            }
        }
        self.keep_or_write_back(out, now);
    }

    /// Removes every copy except `cpu`'s and makes `cpu` the owner.
    fn invalidate_others(&self, h: &mut Hierarchy, index: usize, cpu: usize) {
        let (line, group) = (self.entry(index), self.price.group_of(cpu));
        let owner = line.owner.get() as usize;
        if owner != 0 && owner != cpu + 1 {
            h.drop_private(owner - 1, index);
        }
        let (first, second) = (h.l1.place(index), h.l2.place(index));
        self.each_sharer(line, |other| {
            if other != cpu {
                h.l1.leave_gap_at(other, first);
                h.l2.leave_gap_at(other, second);
            }
        });
        let mut others = line.l3.get() & !(1 << group);
        line.l3.set(line.l3.get() & 1 << group);
        while others != 0 {
            let level = h.l3.as_mut().expect("a line is in a third level");
            level.leave_gap(others.trailing_zeros() as usize, index);
            others &= others - 1;
        }
        self.clear_sharers(line);
        line.owner.set(cpu as u16 + 1);
    }

    /// The directory forgets the copy of `cpu`.
    fn leave(&self, line: Line<'_>, cpu: usize) {
        if line.owner.get() as usize == cpu + 1 {
            line.owner.set(0);
            line.set_quick(0);
        } else {
            self.remove_sharer(line, cpu);
        }
    }

    /// A copy has gone: a dirty line without another one goes to memory.
    fn keep_or_write_back(&self, index: usize, now: u64) {
        let line = self.entry(index);
        if line.dirty.get() && line.l3.get() == 0 && line.owner.get() == 0 && !self.shared(line) {
            self.write_back(index, now);
        }
    }

    /// It occupies the controller, but no task waits for it.
    pub(crate) fn write_back(&self, index: usize, now: u64) {
        let line = self.entry(index);
        line.dirty.set(false);
        self.occupy(line, index, now);
    }
}
