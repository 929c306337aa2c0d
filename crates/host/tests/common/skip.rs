//! A test that cannot run on this machine prints a message, and fails in CI, where its requirements
//! are installed.

use std::io::Write as _;

/// Prints the missing requirement of a test, visible even if the test passes.
///
/// # Panics
/// In CI, if the requirement is `expected` there.
pub(crate) fn skip(what: &str, expected: bool) {
    // libtest shows what `eprintln!` prints for tests that fail only.
    let _nobody_reads = writeln!(std::io::stderr(), "skipped: {what}");
    assert!(!expected || std::env::var_os("CI").is_none(), "it must not be skipped in CI: {what}");
}
