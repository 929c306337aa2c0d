//! State of a CPU, and accounting of its time.

use convoy_machine::Mode;
use convoy_sync::TaskId;

/// Maximum number of software interrupt vectors. The kernels have 6 to 10.
pub(crate) const VECTORS: usize = 16;

/// A state of a CPU, as reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// User-mode work.
    User,
    /// Kernel work that is none of the following.
    System,
    /// Spinning on a lock.
    Spin,
    /// Interrupt handlers.
    Irq,
    /// Softirqs.
    Softirq,
    /// Context switches by the scheduler.
    Switch,
    /// Idle.
    Idle,
}

impl State {
    /// Every state, in the order of [`Times`].
    pub const ALL: [Self; 7] =
        [Self::User, Self::System, Self::Spin, Self::Irq, Self::Softirq, Self::Switch, Self::Idle];

    /// Returns the name as printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::Spin => "spinning",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Switch => "switch",
            Self::Idle => "idle",
        }
    }
}

/// Picoseconds by [`State`].
pub type Times = [u64; 7];

/// A CPU.
#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    pub(crate) mode: Mode,
    pub(crate) since: u64,
    pub(crate) task: TaskId,
    /// Time at which `task` got the CPU.
    pub(crate) switched: u64,
    /// Whether the scheduler is switching tasks.
    pub(crate) switching: bool,
    pub(crate) softirq: bool,
    pub(crate) times: Times,
    /// For the kernels' schedstat: run queue time and number of time slices of the tasks that ran
    /// here.
    pub(crate) queued: u64,
    pub(crate) slices: u64,
    pub(crate) schedules: u64,
    pub(crate) went_idle: u64,
    pub(crate) wakeups: u64,
    pub(crate) wakeups_local: u64,
    pub(crate) interrupts: u64,
    /// Number of runs of each software interrupt, by vector.
    pub(crate) softirqs: [u64; VECTORS],
}

impl Cpu {
    pub(crate) fn new(task: TaskId) -> Self {
        Self {
            mode: Mode::System,
            since: 0,
            task,
            switched: 0,
            switching: false,
            softirq: false,
            times: Times::default(),
            queued: 0,
            slices: 0,
            schedules: 0,
            went_idle: 0,
            wakeups: 0,
            wakeups_local: 0,
            interrupts: 0,
            softirqs: [0; VECTORS],
        }
    }

    pub(crate) fn state(&self) -> State {
        match self.mode {
            Mode::User => State::User,
            Mode::Spin => State::Spin,
            Mode::Interrupt => State::Irq,
            Mode::Idle => State::Idle,
            Mode::System if self.softirq => State::Softirq,
            Mode::System if self.switching => State::Switch,
            Mode::System => State::System,
        }
    }

    /// Discards the counts up to `at`.
    pub(crate) fn reset(&mut self, at: u64) {
        let Self { mode, task, switched, switching, softirq, .. } = *self;
        *self = Self { mode, switched, switching, softirq, since: at, ..Self::new(task) };
    }

    /// Returns the idle time up to `at`.
    pub(crate) fn idle_at(&self, at: u64) -> u64 {
        let open = if self.mode == Mode::Idle { at.saturating_sub(self.since) } else { 0 };
        self.times[State::Idle as usize] + open
    }
}
