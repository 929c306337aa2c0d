//! The steps of RCU that a checker can leave out.

/// The steps that a checker leaves out, one at a time, to see that it would notice. All other code
/// uses [`Sound`].
pub trait Steps: 'static {
    /// A noted quiescent state carries the number of its grace period.
    const TAGS: bool = true;
    /// A CPU looks again under its leaf's lock before it reports.
    const LOOKS_AGAIN: bool = true;
    /// A grace period has ended only when the root owes nothing.
    const ENDS_LAST: bool = true;
    /// A callback waits for a grace period that begins after it was queued.
    const WAITS_WHOLE: bool = true;
    /// A grace period waits for readers that left their CPU in a section.
    const READERS: bool = true;
    /// A thread takes the flag that says it has work before it does the work.
    const TAKES_FIRST: bool = true;
}

/// RCU as it ships.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Steps for Sound {}
