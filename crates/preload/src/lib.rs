//! The object that is loaded before an unmodified program. It records the locks of the program, and
//! replaces them if asked to.
//!
//! It defines the locking functions of libc without a version, which satisfies every version that a
//! program may ask for, and calls the real ones. Each definition is a few instructions that add the
//! call site to the arguments. Code that runs here must not allocate, print, register a thread
//! destructor, change `errno`, or acquire a lock. [`layout`] describes the data that is written.
//!
//! glibc's own users (stdio, malloc, the loader) bypass the names, and so do programs that call
//! futex(2) themselves or are linked statically.
#![cfg_attr(test, expect(dead_code, reason = "a test program must not define the names of libc"))]
#![cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux"))]

mod arch;
mod file;
mod interpose;
mod policy;
mod sites;
mod start;
mod system;
mod threads;
mod waits;

use convoy_layout as layout;
