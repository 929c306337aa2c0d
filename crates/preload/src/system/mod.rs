//! System calls, and the right to make them.

pub(crate) mod calls;
pub(crate) mod rights;
