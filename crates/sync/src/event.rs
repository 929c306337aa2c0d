//! What happens to a lock: one list, one sentence each, feeding counters, traces and documentation.

macro_rules! lock_events {
    ($($(#[doc = $doc:literal])+ $name:ident = $label:literal),+ $(,)?) => {
        /// One thing that happened to a lock.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum LockEvent {
            $($(#[doc = $doc])+ $name,)+
        }

        impl LockEvent {
            /// Every event, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Returns a short name, as printed in tables and traces.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$name => $label),+ }
            }

            /// Returns a sentence that describes the event.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+)),+ }
            }
        }
    };
}

lock_events! {
    /// The task took the lock (or one unit of the semaphore).
    Acquired = "acquired",
    /// The task found the lock taken and queued itself.
    Contended = "contended",
    /// The releaser handed the lock to this waiter, which owns it from now on although it may not
    /// be running.
    Handoff = "handoff",
    /// The task released the lock.
    Released = "released",
    /// The releaser woke this waiter without giving it the lock.
    Woken = "woken",
    /// The task took the lock past tasks that were already waiting.
    Stolen = "stolen",
    /// A signal ended the wait of the task.
    Interrupted = "interrupted",
    /// The deadline ended the wait of the task.
    TimedOut = "timed-out",
}
