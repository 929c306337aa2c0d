//! Polling in user mode: a loop that reads a word, with a `pause` between reads, and ends after a
//! number of reads or at a given time, or yields the CPU from time to time.
//!
//! Reads are not executed while the line stays in the cache of its CPU: their result is known, and
//! their times follow from the first. As in [`super::spin`] the CPU is blocked until the line is
//! written, and then reads again in its turn, at the first read of its loop that is not before the
//! write. A *cycle* is the number of reads until the loop does something else; the coroutine
//! resumes at its end if this ends the wait or is a system call. Interrupts are taken when they
//! arrive, as in any user-mode code, not at the end of a read; apart from this and the shorter lead
//! over other CPUs, the result equals executing each read.
//!
//! The time is accounted to [`Mode::Spin`], and on a core with several hardware threads the others
//! use the core during the pauses.

use super::Engine;
use super::cpu::Cpu;
use super::looks::{Spin, Until};
use super::loops::{Pace, Poll};
use super::mode::Mode;
use convoy_sync::TaskId;

/// Why a coroutine that was blocked in a loop resumes.
enum Woken {
    /// The wait is over.
    Over,
    /// The loop has ended.
    Due,
    /// An interrupt was taken after this many reads of the cycle.
    Interrupted(u32),
}

impl Engine {
    /// Reads the word at `offset` at this pace until the wait or the loop ends; returns whether the
    /// wait is over. `until` must not use simulated memory.
    pub(crate) fn poll(&self, offset: usize, until: Until<'_>, pace: Pace) -> bool {
        // SAFETY: only the lifetime changes. The engine uses it only while it stands in
        // `Cpu::spin`, which is from where this coroutine is suspended until it goes on, so what it
        // refers to is alive.
        let until = unsafe { core::mem::transmute::<Until<'_>, Until<'static>>(until) };
        let mut looked = 0;
        self.this().asks.set(TaskId::MAX);
        loop {
            self.read(offset);
            if until.over() {
                return true;
            }
            looked += 1;
            if looked >= pace.looks() {
                match pace {
                    Pace::Stops(_) => return false,
                    Pace::Looks(_) => {
                        self.pass(self.spin_hint);
                        return false;
                    }
                    Pace::Clock { until, .. } => {
                        self.pass(self.spin_hint);
                        self.pass(self.clock_price);
                        if self.clock.get() >= until {
                            return false;
                        }
                    }
                }
                looked = 0;
            } else {
                self.pass(self.spin_hint);
            }
            if self.polls_each.get() {
                continue;
            }
            match self.wait_between(offset, until, pace, looked) {
                Woken::Over => return true,
                Woken::Due => return false,
                Woken::Interrupted(at) => looked = at,
            }
        }
    }

    /// Blocks before a look, `looked` of the cycle being over.
    fn wait_between(&self, offset: usize, until: Until<'static>, pace: Pace, looked: u32) -> Woken {
        let line = self.lines.at(offset);
        let pause = self.stretched(self.spin_hint);
        let gap = match pace {
            Pace::Stops(_) => 0,
            Pace::Looks(_) => pause,
            Pace::Clock { .. } => pause + self.stretched(self.clock_price),
        };
        let mut poll = Poll {
            next: self.clock.get(),
            period: self.hit + pause,
            pause,
            gap,
            looks: pace.looks(),
            looked,
            until: pace.until(),
            ended: None,
        };
        let mode = self.set_mode(Mode::Spin);
        let index = self.cpu.get();
        let cpu = &self.cpus[index];
        self.polls[index].set(poll);
        self.link_spinner(line, cpu, index);
        cpu.spin.set(Some(Spin { offset, until, mode, polls: true }));
        cpu.front.set(false);
        cpu.blocked.set(true);
        self.suspend(Self::next_interrupt(cpu).min(poll.not_before()));
        cpu.blocked.set(false);
        if cpu.spin.take().is_none() {
            return Woken::Over;
        }
        self.unlink_spinner(line, index);
        self.looks.remove(index);
        self.set_mode(mode);
        self.progress();
        poll = self.polls[index].get();
        let now = self.clock.get();
        if poll.due() <= now {
            return Woken::Due;
        }
        poll.advance(now);
        if now >= Self::next_interrupt(cpu) {
            self.interrupt();
        }
        Woken::Interrupted(poll.looked)
    }

    /// Returns whether the loop of `cpu`, number `index` and in turn, has ended. If not, it gets
    /// another turn.
    pub(super) fn poll_ends(&self, cpu: &Cpu, index: usize) -> bool {
        let poll = self.polls[index].get();
        let ends = poll.due() <= self.clock.get();
        if !ends {
            self.tree.set(index, Self::next_interrupt(cpu).min(poll.due()));
        }
        ends
    }

    /// The line at which `cpu`, number `index`, polls was written at `since`. Returns when it looks
    /// next, unless an interrupt or the end of the loop comes first.
    #[inline]
    pub(super) fn release_poll(&self, cpu: &Cpu, index: usize, since: u64) -> Option<u64> {
        let mut poll = self.polls[index].get();
        let due = poll.due();
        poll.advance(since);
        let at = poll.next;
        let interrupt = Self::next_interrupt(cpu);
        if at >= due || at >= interrupt {
            return None;
        }
        cpu.asked.set(at);
        self.polls[index].set(poll);
        if at >= self.tree.key(index) {
            self.set_other(index, due.min(interrupt));
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each look of a loop without misses does: when it begins, how many of its cycle are
    /// over then, and when the cycle that it is in ends.
    fn executed(poll: Poll, until: u64) -> (Vec<(u64, u32)>, u64) {
        let (mut looks, mut now, mut looked) = (Vec::new(), poll.next, poll.looked);
        loop {
            looks.push((now, looked));
            looked += 1;
            now += poll.period - poll.pause;
            if looked == poll.looks {
                (now, looked) = (now + poll.gap, 0);
                if now >= until {
                    return (looks, now);
                }
            } else {
                now += poll.pause;
            }
        }
    }

    #[test]
    fn looks_that_are_not_executed_come_when_executed_ones_do() {
        for (looks, gap, until) in [(1, 0, 0), (3, 0, 0), (3, 7, 0), (3, 7, 400), (8, 31, 2000)] {
            for looked in 0..looks {
                let start = Poll {
                    next: 100,
                    period: 12,
                    pause: 10,
                    gap,
                    looks,
                    looked,
                    until,
                    ended: None,
                };
                let (all, end) = executed(start, until);
                assert_eq!(start.due(), end, "{start:?}");
                assert!(start.not_before() <= end);
                for at in 90..end {
                    let mut poll = start;
                    poll.advance(at);
                    let next = all.iter().copied().find(|look| look.0 >= at);
                    assert_eq!(
                        next.unwrap_or((end, 0)),
                        (poll.next, poll.looked),
                        "{at} {start:?}"
                    );
                    assert!(next.is_none() || poll.due() == end, "{at}");
                }
            }
        }
    }

    #[test]
    fn looks_that_miss_end_a_loop_no_earlier_than_it_may_be_expected_to() {
        let start = Poll {
            next: 100,
            period: 12,
            pause: 10,
            gap: 30,
            looks: 4,
            looked: 0,
            until: 500,
            ended: None,
        };
        for slow in 0..200 {
            let (mut poll, mut now) = (start, start.next);
            while poll.ended.is_none() {
                let bound = poll.not_before();
                now = poll.next + 2 + slow;
                poll.looked(now);
                assert!(poll.not_before() >= bound, "{slow}");
            }
            assert!(poll.due() >= 500 && poll.due() < 500 + 4 * (12 + slow) + 30, "{now} {poll:?}");
        }
    }
}
