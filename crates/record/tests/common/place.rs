//! A directory for the program of a test and its files.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of one test, which is removed at its end.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("place-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    /// Compiles a program of `record/tests/programs` for threads, with `$CC` if it is set. Returns
    /// its path.
    pub(crate) fn compile(&self, source: &str, flags: &[&str]) -> String {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../record/tests/programs");
        let to = self.join("program");
        let mut cc = Command::new(std::env::var("CC").as_deref().unwrap_or("cc"));
        cc.args(["-O1", "-g", "-pthread"]).args(flags).arg("-o").arg(&to).arg(sources.join(source));
        assert!(cc.status().expect("a C compiler").success(), "{cc:?}");
        to.into_os_string().into_string().expect("a path in UTF-8")
    }
}

impl Deref for Place {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _it_stays = std::fs::remove_dir_all(&self.0);
    }
}
