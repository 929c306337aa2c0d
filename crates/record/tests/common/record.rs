//! Programs under the recorder.

use convoy_record::{DIRECTORY, Process, launch, raw};
use std::ffi::OsString;
use std::path::Path;
use std::process::Output;

/// Runs a program with these variables, and its files in this directory.
pub(crate) fn record(
    place: &Path,
    words: &[&str],
    environment: &[(&str, &str)],
) -> (Output, Vec<Process>) {
    let files = place.join("files");
    std::fs::create_dir_all(&files).expect("a directory for the files");
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut command = launch::command(&words, &launch::object().expect("it can be written"));
    command.env(DIRECTORY, &files).envs(environment.iter().copied());
    let output = command.output().expect("the program starts");
    let processes = raw::read(&files).expect("the files can be read");
    std::fs::remove_dir_all(files).expect("they go away");
    (output, processes)
}
