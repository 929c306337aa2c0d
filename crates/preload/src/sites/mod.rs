//! Call sites: call stacks, places in Python code, and the files of code.

pub(crate) mod memory_map;
pub(crate) mod python;
pub(crate) mod stack;
