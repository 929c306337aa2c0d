//! Priced access to simulated memory.

use super::Engine;
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

    /// See [`Here::line_of`](crate::Here::line_of).
    pub(crate) fn line_of<T: ?Sized>(&self, object: *const T) -> usize {
        self.lines.index(self.offset(object))
    }

    /// Returns whether this CPU may use `line` now without checking the other CPUs: it is the
    /// `holder` of the line and either the earliest CPU, or ahead by less than the skew while the
    /// line has not moved recently. A line that CPUs take from each other is used strictly in turn.
    #[inline(always)]
    fn in_turn(&self, line: Line<'_>, holder: u16) -> bool {
        let now = self.clock.get();
        holder as usize == self.cpu.get() + 1
            && (now <= self.near.get()
                || (now <= self.far.get() && now >= line.busy() + self.settle))
    }

    /// Whether an access to `line` now costs a hit and changes nothing but the clock. Does not find
    /// it for some nanoseconds after the line has stayed for long enough.
    #[inline(always)]
    fn at_once(&self, line: Line<'_>) -> bool {
        let now = self.clock.get();
        line.quick_since(self.cpu.get()).is_some_and(|since| {
            now <= self.near.get() || (now <= self.far.get() && now >= since + self.settle)
        })
    }

    /// Counts a memory operation. A CPU alone on its lines never comes back to the engine, so the
    /// watchdog looks here too.
    #[inline(always)]
    fn count(&self) {
        let ops = self.ops.get() + 1;
        self.ops.set(ops);
        if ops >= self.watchdog.check_operations.get() {
            self.inspect_operations();
        }
    }

    /// One read of the word at `offset`.
    #[inline(always)]
    pub(crate) fn read(&self, offset: usize) {
        self.count();
        let line = self.lines.at(offset);
        if self.at_once(line) {
            self.clock.set(self.clock.get() + self.hit);
        } else {
            self.read_slow(line, offset);
        }
    }

    /// One write, or read-modify-write when `locked`, of the word at `offset`.
    #[inline(always)]
    pub(crate) fn write(&self, offset: usize, locked: bool) {
        self.count();
        let price = self.hit + if locked { self.atomic } else { 0 };
        if locked {
            self.drain();
        }
        let line = self.lines.at(offset);
        if self.at_once(line) {
            self.clock.set(self.clock.get() + price);
        } else {
            self.write_slow(line, offset, price, locked);
        }
    }

    /// Waits until all stores of this CPU have their lines.
    #[inline(always)]
    fn drain(&self) {
        if let Some(stored) = self.stored.get(self.cpu.get())
            && stored.get() > self.clock.get()
        {
            self.clock.set(stored.get());
        }
    }

    /// Waits until this CPU may use `line`.
    #[inline(always)]
    fn turn(&self, line: Line<'_>) {
        let holder = if self.threads.is_some() { line.quick() } else { line.owner.get() };
        if self.clock.get() > self.near.get() && !self.in_turn(line, holder) {
            self.pause();
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self, line: Line<'_>, offset: usize) {
        if self.in_turn(line, line.quick()) {
            return self.clock.set(self.clock.get() + self.hit);
        }
        self.turn(line);
        self.read_now(line, offset);
    }

    /// Reads the word at `offset`, on `line`, on the CPU in turn.
    #[inline(always)]
    fn read_now(&self, line: Line<'_>, offset: usize) {
        self.fetch_asked(line, offset, self.clock.get(), false);
    }

    /// The same, asked for at `asked`, which is not after now; `front` as in [`Lines::read`].
    /// Returns whether the line was not in the first level.
    #[inline(always)]
    pub(super) fn fetch_asked(
        &self,
        line: Line<'_>,
        offset: usize,
        asked: u64,
        front: bool,
    ) -> bool {
        let (now, before) = (self.clock.get(), line.quick());
        let done = self.lines.read(line, self.core_of(self.cpu.get()), asked, front);
        self.clock.set(done.max(now) + self.hit);
        self.mark_thread(line, before);
        if done > asked {
            self.tell(|| Event::Transfer(offset));
        }
        done > asked
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self, line: Line<'_>, offset: usize, price: u64, locked: bool) {
        if self.in_turn(line, line.quick()) {
            return self.clock.set(self.clock.get() + price);
        }
        self.turn(line);
        let (now, before) = (self.clock.get(), line.quick());
        let done = self.lines.write(line, self.core_of(self.cpu.get()), now);
        self.clock.set(done + price);
        self.mark_thread(line, before);
        if done > now {
            self.tell(|| Event::Transfer(offset));
        }
        self.release_spinners(line, now);
        // Others have the line only after this CPU had it, whatever it does meanwhile.
        if let (false, Some(stored)) = (locked, self.stored.get(self.cpu.get())) {
            stored.set(stored.get().max(done));
            self.clock.set(now + price);
        }
    }

    /// Reads the words at `offsets`, whose addresses are known: as many lines as the CPU has fill
    /// buffers are on their way at once. Nothing happens on a CPU with one buffer.
    pub(crate) fn fetch_together(&self, offsets: impl Iterator<Item = usize>) {
        let mut arrivals = [0; FILLS_MAX];
        let mut last = 0;
        for (number, offset) in offsets.take_while(|_| self.fill_buffers > 1).enumerate() {
            let buffer = &mut arrivals[number % self.fill_buffers];
            self.clock.set(self.clock.get().max(*buffer));
            self.turn(self.lines.at(offset));
            // No other CPU acts between this and the end of the read.
            let issued = self.clock.get();
            self.read(offset);
            *buffer = self.clock.get();
            last = last.max(*buffer);
            self.clock.set(issued + self.hit);
        }
        self.clock.set(self.clock.get().max(last));
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

    #[inline(always)]
    fn touch_line(&self, at: usize, access: Access) {
        match access {
            Access::Read => self.read(at),
            Access::Write => self.write(at, false),
            Access::Fresh => {
                self.lines.adopt(at, self.core_of(self.cpu.get()), self.clock.get());
                self.mark_thread(self.lines.at(at), 0);
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
