//! Size of the code of each lock, from the object files of `convoy-lockcode`.
//!
//! The size includes the functions of the lock and all generic code that they call or refer to.
//! Code of other libraries, such as the futex calls of the native platform and the messages of
//! panics, is shared by all locks and does not count. Each function has a section, and the
//! relocations of the section name those that it refers to. The build script adds them up.

use convoy_sync::{LockName, Promise};

/// A lock with its size without and with the functions of readers: instructions, initialised
/// variables, and variables that are zero at the start.
type Row = (&'static str, [u64; 3], [u64; 3]);

/// All locks, by name; empty if their object files were not built.
static SIZES: &[Row] = include!(concat!(env!("OUT_DIR"), "/sizes.in"));

/// A reason for which a lock has no size.
#[derive(Debug, thiserror::Error)]
pub enum FootprintError {
    /// The program was built without the locks' object files.
    #[error("this program was built without the object files of the locks; build it on Linux")]
    NotBuilt,
}

/// Size of a lock's code, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Instructions.
    pub text: u64,
    /// Initialised variables.
    pub data: u64,
    /// Variables that are zero at the start.
    pub bss: u64,
}

/// The sizes of all locks, in the order of the list.
///
/// # Errors
///
/// [`FootprintError`].
pub fn footprints() -> Result<Vec<(LockName, Footprint)>, FootprintError> {
    let mut sizes = Vec::new();
    for &lock in LockName::ALL {
        let row = SIZES.iter().find(|row| row.0 == lock.name()).ok_or(FootprintError::NotBuilt)?;
        let [text, data, bss] = if lock.promises_to(Promise::Shared) { row.2 } else { row.1 };
        sizes.push((lock, Footprint { text, data, bss }));
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lock: LockName) -> u64 {
        let sizes = footprints().expect("object files that can be read");
        sizes.iter().find(|(name, _)| *name == lock).expect("every lock has a size").1.text
    }

    #[test]
    fn sizes_follow_the_code() {
        // A test-and-set lock is a few instructions; a semaphore has queues and a slow path.
        let (small, large) = (text(LockName::TestAndSet), text(LockName::Handoff));
        assert!((20..400).contains(&small), "{small}");
        assert!(large > 2 * small, "{large}");
        // A lock that contains another one is larger than it.
        assert!(text(LockName::QuotaExtended) > text(LockName::Quota));
    }

    #[test]
    fn no_lock_has_variables() {
        for (lock, Footprint { data, bss, .. }) in footprints().expect("object files") {
            assert_eq!((data, bss), (0, 0), "{lock}");
        }
    }
}
