//! Fuzzing of every file reader: it must not panic, hang, or allocate without bound, whatever its
//! input. Its results are checked by other tests.
//!
//! Inputs are made of the corpus, `fuzz/corpus`, and of the files that ship, by a generator that a
//! seed determines. `cargo xtask fuzz` runs for as long as it is told; the tests of this crate run
//! the corpus, the inputs that once crashed a reader (`fuzz/crashes`), and a few hundred others.

pub mod commands;
pub mod mutate;
mod output;
mod scratch;
pub mod targets;
mod tokens;
mod tree;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(PathBuf::from).unwrap_or_default()
}

/// The inputs in the files and folders `places`, in the order of their paths.
///
/// # Errors
/// The system's error for the first file that cannot be read.
pub fn inputs(places: &[&str]) -> std::io::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut paths = Vec::new();
    for place in places.iter().map(|place| root().join(place)) {
        if place.is_dir() {
            for entry in std::fs::read_dir(place)? {
                paths.push(entry?.path());
            }
        } else {
            paths.push(place);
        }
    }
    paths.retain(|path| path.is_file());
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), std::fs::read(&path)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate::Mutator;

    /// Inputs of each target in addition to its corpus.
    const INPUTS: usize = 300;
    /// The same of the target that runs eight commands on each: they take as long.
    const INPUTS_OF_COMMANDS: usize = 20;

    #[test]
    fn readers_survive_the_corpus_and_what_once_crashed_them() {
        for target in targets::ALL {
            let inputs = inputs(target.corpus).expect("a corpus");
            assert!(!inputs.is_empty(), "{} has no corpus", target.name);
            for (_, bytes) in &inputs {
                (target.fuzz)(bytes);
            }
        }
        for (path, bytes) in inputs(&["fuzz/crashes"]).expect("readable") {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = file.split('-').next().unwrap_or_default();
            let Some(target) = targets::find(name) else { continue };
            (target.fuzz)(&bytes);
        }
    }

    #[test]
    fn readers_survive_inputs_of_one_seed() {
        for target in targets::ALL {
            let mut mutator = Mutator::new(1, inputs(target.corpus).expect("a corpus"));
            let inputs = if target.name == "commands" { INPUTS_OF_COMMANDS } else { INPUTS };
            (0..inputs).for_each(|_| (target.fuzz)(&mutator.input()));
        }
    }

    #[test]
    fn a_seed_determines_the_inputs() {
        fn some(seed: u64) -> Vec<Vec<u8>> {
            let mut mutator =
                Mutator::new(seed, inputs(&["fuzz/corpus/schedule"]).expect("a corpus"));
            (0..50).map(|_| mutator.input()).collect::<Vec<_>>()
        }
        assert_eq!(some(7), some(7));
        assert_ne!(some(7), some(8));
        assert!(some(7).iter().all(|input| input.len() <= mutate::LONGEST));
    }
}
