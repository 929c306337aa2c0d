//! A test that cannot do its work on this machine says so, and is no pass where what it lacks is
//! installed for it.

use std::io::Write as _;

/// Says what a test does without, where people see it even if the test passes.
///
/// # Panics
/// In CI, if what it lacks is `expected` there.
pub(crate) fn skip(what: &str, expected: bool) {
    // libtest shows what `eprintln!` prints for tests that fail only.
    let _nobody_reads = writeln!(std::io::stderr(), "skipped: {what}");
    assert!(!expected || std::env::var_os("CI").is_none(), "it must not be skipped in CI: {what}");
}
