//! The user-mode work of the jobs, between their system calls.
//!
//! Every function here takes a count, does that many units of one kind of work for real, and
//! returns whether the result is right. [`crate::units`] gives each a name; the host runs the
//! function, the virtual target charges the calibrated time of the same function. Nothing here
//! makes a system call except the allocator.

pub(crate) mod arithmetic;
pub(crate) mod calls;
pub(crate) mod compiled;
pub(crate) mod library;
pub(crate) mod memory;
pub(crate) mod numeric;
