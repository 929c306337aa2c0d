//! The program `convoy`.

use std::process::ExitCode;

fn main() -> ExitCode {
    convoy_cli::main()
}
