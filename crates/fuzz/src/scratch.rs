//! Inputs as files, for readers that open them.

use std::path::Path;

/// Gives `read` a fresh directory with `bytes` as the file `name`.
pub(crate) fn in_file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
    let thread = format!("{:?}", std::thread::current().id()).replace(['(', ')'], "");
    let directory = format!("convoy-fuzz-{}-{thread}", std::process::id());
    let directory = std::env::temp_dir().join(directory);
    std::fs::create_dir_all(&directory).expect("a directory in the place for such");
    std::fs::write(directory.join(name), bytes).expect("room for one input");
    read(&directory);
    std::fs::remove_dir_all(&directory).expect("it is ours");
}
