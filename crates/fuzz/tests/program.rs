//! The program behind `cargo xtask fuzz`.

use std::path::Path;
use std::process::{Command, Output};

fn fuzz(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_convoy-fuzz")).args(arguments).output().expect("it runs")
}

#[test]
fn an_input_is_read_once_more() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(std::process::id().to_string());
    std::fs::create_dir_all(&folder).expect("made");
    let input = folder.join("flags-again");
    std::fs::write(&input, b"1,2,\xff-").expect("written");
    let read = fuzz(&[input.to_str().expect("text")]);
    std::fs::remove_dir_all(&folder).expect("removed");
    assert_eq!(String::from_utf8_lossy(&read.stdout), "flags: read\n");
    assert!(read.status.success(), "{read:?}");
}

#[test]
fn what_is_no_target_is_refused_with_the_known_ones() {
    let refused = fuzz(&["no-such-reader"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("known: "), "{refused:?}");
}
