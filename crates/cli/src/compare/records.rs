//! Two records of programs: where threads waited before a change and after it.

use super::args::Compare;
use crate::explain::find;
use crate::fail::Failure;
use crate::keep::is_stored;
use crate::output;
use crate::report::test_of_pair;
use convoy_record::Record;
use convoy_report::{RecordPair, RecordedReport};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The two records that the operands name, if they name records of programs.
pub(super) fn records(args: &Compare) -> Result<Option<[Record; 2]>, Failure> {
    let [first, second] = args.operands.as_slice() else { return Ok(None) };
    match [record(args, first), record(args, second)] {
        [Some(first), Some(second)] => Ok(Some([first, second])),
        [None, None] => Ok(None),
        [before, _] => {
            let (record, other) = if before.is_some() { (first, second) } else { (second, first) };
            Err(Failure::usage(format!(
                "{record} is the record of a program, and {other} is none; name two records, or \
                 two commands"
            )))
        }
    }
}

/// The record that an operand names, if it is one: commands are not read.
fn record(args: &Compare, name: &str) -> Option<Record> {
    let data = std::fs::metadata(Path::new(name));
    let is_data = data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 == 0);
    // Numbers without a record are read and refused by the measurement.
    (is_stored(name) || is_data).then(|| find(name, args.store.path().as_deref()).ok().flatten())?
}

pub(super) fn print(args: &Compare, records: &[Record; 2]) -> Result<(), Failure> {
    let [before, after] = records;
    let reports = [RecordedReport::new(before), RecordedReport::new(after)];
    let pair = RecordPair::new([before, after], &reports);
    let test = test_of_pair([before, after]);
    let json = || format!("{:#}\n", pair.to_json());
    output::print(&args.common, || pair.to_text(&test), json, || pair.locks().to_csv())
}
