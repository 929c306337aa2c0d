//! Locks generic over the platform they run on, and the native platform.

mod event;
mod platform;

pub use event::LockEvent;
pub use platform::{Access, Atomic, Platform, Sleep, TaskId, Wake};
