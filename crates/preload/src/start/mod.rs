//! The start of this process, and of the programs that it starts.

pub(crate) mod environment;
pub(crate) mod load;
pub(crate) mod program;
pub(crate) mod service;
pub(crate) mod variables;
