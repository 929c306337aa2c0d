//! The hardware threads of every core, and how fast they work.

use super::cpu::Cpu;
use super::mode::Mode;
use crate::preset::Preset;
use core::cell::Cell;

/// Scale of a speed.
pub(super) const FULL: u64 = 1 << 16;

/// The threads of every core; only on machines that have more than one for each.
pub(super) struct Threads {
    pub(super) for_each_core: usize,
    /// Speed of one of two threads that work, of [`FULL`].
    pub(super) shared: u64,
    /// By CPU.
    pub(super) stretches: Box<[Stretch]>,
}

/// The stretch of work for which a CPU's coroutine is suspended.
#[derive(Clone, Default)]
pub(super) struct Stretch {
    pub(super) active: Cell<bool>,
    /// Picoseconds at full speed that were left at `since`.
    pub(super) left: Cell<u64>,
    pub(super) since: Cell<u64>,
    pub(super) speed: Cell<u64>,
}

impl Stretch {
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
pub(super) fn time(work: u64, speed: u64) -> u64 {
    (u128::from(work) * u128::from(FULL)).div_ceil(u128::from(speed)) as u64
}

pub(super) fn works(mode: Mode) -> bool {
    matches!(mode, Mode::User | Mode::System | Mode::Interrupt)
}

impl Threads {
    pub(super) fn new(preset: &Preset) -> Option<Box<Self>> {
        let for_each_core = preset.topology.threads_per_core;
        (for_each_core > 1).then(|| {
            Box::new(Self {
                for_each_core,
                shared: (preset.thread_speed * FULL as f64) as u64,
                stretches: vec![Stretch::default(); preset.topology.cpus].into(),
            })
        })
    }

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
