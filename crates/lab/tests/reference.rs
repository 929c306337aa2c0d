//! docs/presets.md lists every key of every kind of file, as the types have them.

use convoy_catalogue::markdown;
use convoy_kernel::KernelPreset;
use convoy_lab::experiment::Experiment;
use convoy_machine::Preset;

/// `text` with `table` between the two comments that name `kind`.
fn filled(text: &str, kind: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- keys of {kind} -->\n"), format!("<!-- end of {kind} -->"));
    let (before, rest) = text.split_once(&begin).expect("the beginning of the table");
    let (_, after) = rest.split_once(&end).expect("the end of the table");
    format!("{before}{begin}\n{table}\n{end}{after}")
}

#[test]
fn the_reference_has_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/presets.md");
    let text = std::fs::read_to_string(path).expect("readable");
    let due = filled(&text, "kernel", &markdown::<KernelPreset>());
    let due = filled(&due, "machine", &markdown::<Preset>());
    let due = filled(&due, "experiment", &markdown::<Experiment>());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &due).expect("written");
    } else {
        assert!(due == text, "docs/presets.md is stale: BLESS=1 cargo test -p convoy-lab");
    }
}
