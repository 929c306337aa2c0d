//! The virtual SMP: coroutines, clock, CPUs, cache lines; and the checker's platform.
