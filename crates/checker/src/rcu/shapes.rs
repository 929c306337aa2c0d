//! The moves of the CPUs in the RCU scenarios.

use Move::{After, Awake, Call, Close, Core, Give, Idle, Late, Leave, Open, Pass, Serve};

/// One move of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Enters a reader's critical section and takes the current object. Ticks may occur inside,
    /// quiescent states do not.
    Open,
    /// Leaves the critical section. The object was in use until here.
    Close,
    /// Replaces the current object with a new one, and queues a callback that frees the old one.
    Call,
    /// Preempts the reader inside its critical section. The CPU continues with the moves between
    /// this and [`Move::Close`], which the reader executes when it runs again.
    Leave,
    /// A context switch: a quiescent state.
    Pass,
    /// A tick: does core processing if necessary, and invokes completed callbacks.
    Core,
    /// Like [`Move::Core`], late enough to check for CPUs without a reported quiescent state.
    Late,
    /// Stops the tick: the CPU is quiescent until [`Move::Awake`].
    Idle,
    /// Starts the tick again.
    Awake,
    /// Waits until the given CPU has made the given number of moves. Guides the search to narrow
    /// races.
    After(usize, u32),
    /// An interrupt on the CPU of a thread queues work for the thread and wakes it.
    Give,
    /// The thread executes its work, up to this number of items.
    Serve(usize),
}

/// A small program over RCU. Every task is a CPU.
#[derive(Clone, Copy, Debug)]
pub struct RcuShape {
    /// The name, part of schedule strings.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Grace periods before the numbers wrap around.
    pub before_wrap: u8,
    /// Moves of each CPU.
    pub tasks: &'static [&'static [Move]],
}

/// Every shape, the simplest first.
pub const RCU_SHAPES: &[RcuShape] = &[
    RcuShape {
        name: "free",
        about: "no readers, in every order, while the numbers wrap",
        before_wrap: 1,
        tasks: &[&[Call, Core, Pass, Core, Core], &[Core, Pass, Core, Core]],
    },
    RcuShape {
        name: "early-note",
        about: "a quiescent state was noted before the section and before the grace period",
        before_wrap: 100,
        tasks: &[
            &[After(1, 2), Call, Core, After(1, 5), Pass, Core, Core, Core],
            &[Pass, Open, After(0, 3), Core, Core, After(0, 8), Close],
        ],
    },
    RcuShape {
        name: "joins",
        about: "a section that begins after its CPU has reported",
        before_wrap: 1,
        tasks: &[
            &[Call, Core, After(1, 5), Call, Pass, Core, Core, Core],
            &[After(0, 2), Core, Pass, Core, Open, After(0, 8), Close],
        ],
    },
    RcuShape {
        name: "overtaken",
        about: "a report that the next grace period overtakes",
        before_wrap: 100,
        tasks: &[
            &[
                Call,
                Core,
                After(1, 3),
                Late,
                After(1, 7),
                Pass,
                Call,
                Core,
                Late,
                After(1, 9),
                Pass,
                Core,
                Core,
                Core,
            ],
            &[
                After(0, 2),
                Core,
                Pass,
                After(0, 4),
                Idle,
                Awake,
                Open,
                Core,
                Core,
                After(0, 14),
                Close,
            ],
        ],
    },
    RcuShape {
        name: "three",
        about: "a reader between two that free",
        before_wrap: 2,
        tasks: &[
            &[Call, Core, Pass, Core, Core],
            &[Open, Core, Core, Close, Pass, Core],
            &[Call, Core, Pass, Core, Core],
        ],
    },
    RcuShape {
        name: "preempted",
        about: "a reader that leaves its CPU in the grace period that waits for it",
        before_wrap: 1,
        tasks: &[
            &[After(1, 1), Call, Core, After(1, 5), Pass, Core, Core, Core],
            &[Open, After(0, 3), Core, Leave, Core, After(0, 8), Close, Core],
        ],
    },
    RcuShape {
        name: "preempted-before",
        about: "a reader that has left its CPU when the grace period begins",
        before_wrap: 1,
        tasks: &[
            &[After(1, 4), Call, Core, After(1, 6), Pass, Core, Core, After(1, 8), Core],
            &[Core, Pass, Open, Leave, After(0, 3), Core, After(0, 7), Close],
        ],
    },
    RcuShape {
        name: "work",
        about: "a thread that is given work while it works",
        before_wrap: 100,
        tasks: &[&[Give, Give, Give], &[Serve(3)]],
    },
];

impl Move {
    pub(super) fn name(self) -> &'static str {
        match self {
            Open => "section begins",
            Close => "section ends",
            Call => "call",
            Leave => "preempted",
            Pass => "note_quiescent_state",
            Core => "core",
            Late => "force",
            Idle => "stop tick",
            Awake => "start tick",
            After(..) => "wait for the other",
            Give => "give work",
            Serve(_) => "work",
        }
    }
}
