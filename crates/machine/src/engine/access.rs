//! Priced access to simulated memory.

use super::{Engine, fetch};
use crate::entry::Line;
use crate::memory::LINE;
use crate::trace::Event;
use convoy_sync::Access;

/// More fill buffers than a preset may have are of no use.
const FILLS_MAX: usize = 64;

impl Engine {
    #[inline(always)]
    pub(crate) fn offset<T: ?Sized>(&self, object: *const T) -> usize {
        object.cast::<u8>().addr().wrapping_sub(self.base)
    }

    /// See [`Here::fetch_word`](crate::Here::fetch_word).
    #[inline]
    pub(crate) fn fetch_word(&self, offset: usize) {
        fetch(self.lines.place(offset), 1);
        fetch(core::ptr::without_provenance(self.base.wrapping_add(offset)), 1);
    }

    /// Counts a memory operation. A CPU alone on its lines never comes back to the engine, so the
    /// watchdog looks here too.
    #[inline(always)]
    fn count(&self) {
        if self.watchdog.count(1) {
            self.inspect_operations();
        }
    }

    /// One read of the word at `offset`.
    #[inline(always)]
    pub(crate) fn read(&self, offset: usize) {
        self.count();
        let (hot, index) = self.lines.hot(offset);
        if self.cpus.at_once(hot) {
            self.cpus.advance(self.hit);
        } else {
            self.read_slow(index, offset, true);
        }
    }

    /// One write, or read-modify-write when `locked`, of the word at `offset`.
    #[inline(always)]
    pub(crate) fn write(&self, offset: usize, locked: bool) {
        self.count();
        if locked && !self.stored.is_empty() {
            self.drain();
        }
        let (hot, index) = self.lines.hot(offset);
        if self.cpus.at_once(hot) {
            self.cpus.advance(if locked { self.hit_locked } else { self.hit });
        } else {
            self.write_slow(index, offset, locked);
        }
    }

    /// Waits until all stores of this CPU have their lines.
    #[inline(never)]
    fn drain(&self) {
        if let Some(stored) = self.stored.get(self.cpus.running())
            && stored.get() > self.cpus.now()
        {
            self.cpus.clock.set(stored.get());
        }
    }

    /// Waits until this CPU may use `line`.
    #[inline(always)]
    fn turn(&self, line: Line<'_>) {
        let threads = self.cpus.cores.threads().is_some();
        let holder = if threads { line.quick() } else { line.owner.get() };
        if !self.cpus.is_first() && !self.cpus.in_turn(line, holder) {
            self.pause();
        }
    }

    /// [`Self::read`] of line `index`, which is not at hand; returns when the request has arrived
    /// at the line's owner. It takes no time for that unless it `travels`.
    #[cold]
    #[inline(never)]
    fn read_slow(&self, index: usize, offset: usize, travels: bool) -> u64 {
        let (line, start) = (self.lines.entry(index), self.cpus.now());
        if self.cpus.in_turn(line, line.quick()) {
            self.cpus.advance(self.hit);
            return start;
        }
        self.turn(line);
        let asked = self.cpus.now();
        let waited = travels && self.requests.wait(&self.cpus, &self.lines, line, false);
        let arrived = self.cpus.now();
        self.fetch_asked(line, offset, asked, false);
        if waited {
            self.requests.served(&self.cpus, &self.lines, line, self.cpus.now());
        }
        arrived
    }

    /// Reads the word at `offset`, on `line`, on the CPU in turn, which has asked for it at
    /// `asked`, which is not after now; `front` as in [`Lines::read`](crate::line::Lines::read).
    /// Returns whether the line was not in the first level.
    #[inline(always)]
    pub(super) fn fetch_asked(
        &self,
        line: Line<'_>,
        offset: usize,
        asked: u64,
        front: bool,
    ) -> bool {
        let (now, before) = (self.cpus.now(), line.quick());
        let done = self.lines.read(line, self.cpus.core(), asked, front);
        self.cpus.clock.set(done.max(now) + self.hit);
        self.cpus.mark(line, before);
        if done > asked {
            self.tell(|| Event::Transfer(offset));
        }
        done > asked
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self, index: usize, offset: usize, locked: bool) {
        let line = self.lines.entry(index);
        let price = if locked { self.hit_locked } else { self.hit };
        if self.cpus.in_turn(line, line.quick()) {
            return self.cpus.advance(price);
        }
        self.turn(line);
        let asked = self.cpus.now();
        let buffer = self.stored.get(self.cpus.running()).filter(|_| !locked);
        let waited = self.requests.wait(&self.cpus, &self.lines, line, buffer.is_some());
        let (now, before) = (self.cpus.now(), line.quick());
        let done = self.lines.write(line, self.cpus.core(), asked).max(now);
        self.cpus.clock.set(done + price);
        self.cpus.mark(line, before);
        if done > now {
            self.tell(|| Event::Transfer(offset));
        }
        if waited {
            self.requests.served(&self.cpus, &self.lines, line, done);
        }
        self.spinners.release(&self.cpus, &self.lines, line, now);
        // Others have the line only after this CPU had it, whatever it does meanwhile.
        if let Some(stored) = buffer {
            stored.set(stored.get().max(done));
            self.cpus.clock.set(now + price);
        }
    }

    /// Reads the words at `offsets`, whose addresses are known: as many lines as the CPU has fill
    /// buffers are on their way at the same time. Nothing happens on a CPU with one buffer.
    pub(crate) fn fetch_together(&self, offsets: impl Iterator<Item = usize>) {
        let mut arrivals = [0; FILLS_MAX];
        let (mut last, mut travelled) = (0, false);
        for (number, offset) in offsets.take_while(|_| self.fill_buffers > 1).enumerate() {
            let buffer = &mut arrivals[number % self.fill_buffers];
            self.cpus.clock.set(self.cpus.now().max(*buffer));
            let (hot, index) = self.lines.hot(offset);
            self.turn(self.lines.entry(index));
            // No other CPU acts between this and the end of the read, unless it travels.
            let asked = self.cpus.now();
            self.count();
            let issued = if self.cpus.at_once(hot) {
                self.cpus.advance(self.hit);
                asked
            } else {
                self.read_slow(index, offset, !travelled)
            };
            // The requests for the others were on their way at the same time.
            travelled |= issued > asked;
            *buffer = self.cpus.now();
            last = last.max(*buffer);
            self.cpus.clock.set(issued + self.hit);
        }
        self.cpus.clock.set(self.cpus.now().max(last));
    }

    /// Announces use of `bytes` bytes at `offset`.
    #[inline(always)]
    pub(crate) fn touch(&self, offset: usize, bytes: usize, access: Access) {
        // On a stack the number of lines must not depend on where the frame put the object.
        let offset = if self.lines.on_stack(offset) { offset / LINE * LINE } else { offset };
        self.touch_line(offset, access);
        if offset % LINE + bytes > LINE {
            self.touch_rest(offset, bytes, access);
        }
    }

    /// Announces use of an object that lies on one line, at `offset`.
    #[inline(always)]
    pub(crate) fn touch_line(&self, at: usize, access: Access) {
        match access {
            Access::Read => self.read(at),
            Access::Write => self.write(at, false),
            Access::Fresh => {
                self.lines.adopt(at, self.cpus.core(), self.cpus.now());
                self.cpus.mark(self.lines.at(at), 0);
            }
        }
    }

    /// The lines behind the first one.
    #[inline(never)]
    fn touch_rest(&self, offset: usize, bytes: usize, access: Access) {
        for at in (offset / LINE * LINE + LINE..offset + bytes).step_by(LINE) {
            self.touch_line(at, access);
        }
    }
}
