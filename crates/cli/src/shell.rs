//! `convoy completions`, `convoy man` and `convoy schema`: for shells, for `man`, and for programs
//! that read results.

use crate::command::{Completions, Man, definition};
use crate::fail::Failure;
use crate::output;
use std::process::ExitCode;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &Completions) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut definition(), "convoy", &mut text);
    output::bytes(&text).map(|()| ExitCode::SUCCESS)
}

/// Prints the page of `convoy`, or writes the pages of all commands into a directory, which is
/// created with its parents.
pub(crate) fn man(args: &Man) -> Result<ExitCode, Failure> {
    let Some(directory) = &args.directory else {
        let mut text = Vec::new();
        clap_mangen::Man::new(definition()).render(&mut text).map_err(Failure::environment)?;
        return output::bytes(&text).map(|()| ExitCode::SUCCESS);
    };
    let made = std::fs::create_dir_all(directory);
    made.and_then(|()| clap_mangen::generate_to(definition(), directory)).map_err(|error| {
        let name = directory.display();
        Failure::environment(format!("cannot write into {name}: {error}; name a directory"))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The schema of all results in JSON. A field that changes makes a new version.
const SCHEMA: &str = include_str!("output.schema.json");

pub(crate) fn schema() -> Result<ExitCode, Failure> {
    output::bytes(SCHEMA.as_bytes()).map(|()| ExitCode::SUCCESS)
}
