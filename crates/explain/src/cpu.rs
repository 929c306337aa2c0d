//! State of a CPU, and accounting of its time.

use convoy_machine::Mode;
use convoy_sync::TaskId;

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
    pub(crate) wakeups: u64,
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
            wakeups: 0,
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
