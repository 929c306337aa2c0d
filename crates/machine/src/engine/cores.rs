//! Hardware threads: CPUs that share a core.
//!
//! The threads of a core share its caches, so a line that one of them has costs the others a hit,
//! and they share its execution: while another thread of the core works, each runs at
//! `thread_speed`. A thread that idles or spins takes nothing: it halts, or its `pause` leaves the
//! core to the others. A stretch of work is one event as ever, and moves when a thread of the core
//! begins or ends to work. Memory operations cost the same either way.

use super::cpu::Cpu;
use super::mode::Mode;
use crate::entry::Line;
use crate::preset::Preset;
use core::cell::Cell;
use core::ops::Range;

/// Scale of a speed.
const FULL: u64 = 1 << 16;

/// The cores; with their threads where they have more than one.
pub(super) struct Cores(Option<Box<Threads>>);

/// The threads of every core.
pub(super) struct Threads {
    for_each_core: usize,
    /// Speed of one of two threads that work, of [`FULL`].
    shared: u64,
    /// By CPU.
    pub(super) stretches: Box<[Stretch]>,
}

/// The stretch of work for which a CPU's coroutine is suspended.
#[derive(Clone, Default)]
pub(super) struct Stretch {
    pub(super) active: Cell<bool>,
    /// Picoseconds at full speed that were left at `since`.
    pub(super) left: Cell<u64>,
    since: Cell<u64>,
    pub(super) speed: Cell<u64>,
}

impl Stretch {
    /// `left` picoseconds at full speed begin at `now`.
    pub(super) fn begin(&self, left: u64, now: u64, speed: u64) {
        self.left.set(left);
        self.since.set(now);
        self.speed.set(speed);
    }

    /// When it will be done if the speed stays as it is.
    pub(super) fn end(&self) -> u64 {
        self.since.get() + time(self.left.get(), self.speed.get())
    }

    /// It has gone on until `now`.
    pub(super) fn advance(&self, now: u64) {
        let done = now.saturating_sub(self.since.get()) * self.speed.get() / FULL;
        let left = if now >= self.end() { 0 } else { self.left.get() - done.min(self.left.get()) };
        self.left.set(left);
        self.since.set(self.since.get().max(now));
    }
}

/// Picoseconds for `work` picoseconds at full speed.
fn time(work: u64, speed: u64) -> u64 {
    (u128::from(work) * u128::from(FULL)).div_ceil(u128::from(speed)) as u64
}

pub(super) fn works(mode: Mode) -> bool {
    matches!(mode, Mode::User | Mode::System | Mode::Interrupt)
}

impl Cores {
    pub(super) fn new(preset: &Preset) -> Self {
        let for_each_core = preset.topology.threads_per_core;
        Self((for_each_core > 1).then(|| {
            Box::new(Threads {
                for_each_core,
                shared: (preset.thread_speed * FULL as f64) as u64,
                stretches: vec![Stretch::default(); preset.topology.cpus].into(),
            })
        }))
    }

    /// The threads, where a core has several.
    #[inline(always)]
    pub(super) fn threads(&self) -> Option<&Threads> {
        self.0.as_deref()
    }

    /// The core of `cpu`, which is what caches belong to.
    #[inline(always)]
    pub(super) fn of(&self, cpu: usize) -> usize {
        self.threads().map_or(cpu, |threads| cpu / threads.for_each_core)
    }

    /// The CPUs that share the last-level cache of `cpu`, which `llc` cores do.
    #[inline]
    pub(super) fn group_of(&self, cpu: usize, llc: usize) -> Range<usize> {
        let cpus = llc * self.threads().map_or(1, |threads| threads.for_each_core);
        let first = cpu / cpus * cpus;
        first..first + cpus
    }

    /// Time for `ps` picoseconds of work of `cpu` at full speed that nothing interrupts.
    #[inline(always)]
    pub(super) fn stretched(&self, ps: u64, cpu: usize, cpus: &[Cpu]) -> u64 {
        self.threads().map_or(ps, |threads| time(ps, threads.speed(cpu, cpus)))
    }

    /// `line`, which the core of `cpu` has used up to `now`, belongs to this thread: the others use
    /// it strictly in turn. Without an owner if a thread spins on it, since a write must release
    /// the spinner. `before` owned it before.
    #[inline(always)]
    pub(super) fn mark(&self, line: Line<'_>, before: u16, cpu: usize, now: u64) {
        if self.0.is_some() && line.quick() != 0 {
            let mine = cpu as u16 + 1;
            line.set_quick(if line.spinner.get() == 0 { mine } else { 0 });
            if before != mine {
                line.set_busy(line.busy().max(now));
            }
        }
    }
}

impl Threads {
    /// The other CPUs of the core of `cpu`, of `count` CPUs.
    pub(super) fn siblings(&self, cpu: usize, count: usize) -> impl Iterator<Item = usize> {
        let first = cpu / self.for_each_core * self.for_each_core;
        (first..(first + self.for_each_core).min(count)).filter(move |&other| other != cpu)
    }

    /// How fast `cpu` is: two working threads have `shared` each, more of them the same together.
    pub(super) fn speed(&self, cpu: usize, cpus: &[Cpu]) -> u64 {
        let others = self.siblings(cpu, cpus.len()).filter(|&at| works(cpus[at].mode.get()));
        match others.count() as u64 {
            0 => FULL,
            others => self.shared * 2 / (others + 1),
        }
    }
}
