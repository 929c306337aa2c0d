//! AIM7 jobs, mixes, host and virtual targets, run control and run records.
