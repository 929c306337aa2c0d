//! Tables in a narrow terminal, in a locale without UTF-8, in colour.

use crate::{convoy, finish, stdout};

const LOCKS: [&str; 9] = [
    "locks",
    "--kernel",
    "6.18",
    "--lock",
    "ticket,adaptive",
    "--window-ms",
    "2",
    "--quiet",
    "--no-store",
];

fn printed(more: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = convoy(&[&LOCKS, more].concat());
    let output = finish(command.envs(environment.iter().copied()), 0);
    stdout(&output)
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    assert!(printed(&[], &[("LC_ALL", "C")]).is_ascii());
    assert!(printed(&[], &[("LC_ALL", "C.UTF-8")]).contains('─'));
    assert!(printed(&["--format", "csv"], &[("LC_ALL", "C")]).is_ascii());
}

#[test]
fn colour_is_for_terminals_or_on_demand() {
    assert!(!printed(&[], &[]).contains('\x1b'));
    assert!(printed(&["--color", "always"], &[]).starts_with("\x1b[1m"));
    assert!(!printed(&["--color", "always", "--format", "json"], &[]).contains('\x1b'));
}
