//! The `convoy` command.
fn main() {}
