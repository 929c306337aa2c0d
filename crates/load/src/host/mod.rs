//! The host target: real processes, real system calls.

pub(crate) mod sys;
