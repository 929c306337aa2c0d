//! Which build this is.

use sha2::{Digest, Sha256};
use std::sync::OnceLock;

/// The commit that this program was built from; of changed or unknown sources the hash of the
/// program itself, so that two of them are never taken for one.
pub(crate) fn build() -> String {
    fn found() -> String {
        let commit = env!("CONVOY_COMMIT");
        if !commit.is_empty() {
            return commit.to_owned();
        }
        let program = std::env::current_exe().and_then(std::fs::read).unwrap_or_default();
        let digest = Sha256::digest(program);
        let number =
            digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("program {number:016x}")
    }
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(found).clone()
}
