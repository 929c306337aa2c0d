//! What RCU counts, CPU by CPU.

macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Counters over a run; `asked` and those after it are the columns of `rcu_pending` in
        /// debugfs.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct RcuStats {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl RcuStats {
            /// Returns the counts since `before`.
            #[must_use]
            pub fn since(&self, before: &Self) -> Self {
                Self { $($name: self.$name - before.$name,)+ }
            }

            /// Returns the sums of both.
            #[must_use]
            pub(super) fn plus(self, other: Self) -> Self {
                Self { $($name: self.$name + other.$name,)+ }
            }
        }
    };
}

counters! {
    /// Grace periods that have ended.
    grace_periods,
    /// Callbacks queued.
    queued,
    /// Callbacks invoked.
    invoked,
    /// Core processings.
    core,
    /// Checks for CPUs without a reported quiescent state.
    forced,
    /// Quiescent states that the check for late CPUs reported for this CPU: its tick was stopped.
    stopped,
    /// Requests to this CPU to reschedule.
    hurried,
    /// Wakeups of the threads that do the work, where the machine has such.
    thread_wakeups,
    /// Rounds of these threads in which no callback was ready.
    idle_rounds,
    /// How often such a thread has yielded, after many rounds without sleep.
    yields,
    /// Questions whether a CPU has work, one at each tick.
    asked,
    /// Of these, such that the CPU owed a quiescent state and had seen none: by itself no work.
    owes_qs,
    /// A quiescent state was to be reported.
    report_qs,
    /// Callbacks were ready.
    callbacks_ready,
    /// A grace period was to begin.
    needs_period,
    /// One had ended.
    period_ended,
    /// One had begun.
    period_began,
    /// A check for late CPUs was due.
    force_due,
    /// No work.
    no_work,
}
