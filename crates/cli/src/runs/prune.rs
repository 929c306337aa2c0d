//! Removing records, on purpose only.

use super::args::Prune;
use super::table::table;
use crate::args::Format;
use crate::fail::Failure;
use crate::keep::warn;
use crate::output;
use convoy_store::{Filter, StoreError};

const DAY_MS: f64 = 86_400_000.0;

pub(super) fn run(args: &Prune) -> Result<(), Failure> {
    if args.id.is_empty() && args.older_than.is_none() && args.keep.is_none() {
        let text = "say which runs: --id, --older-than or --keep; --dry-run shows them first";
        return Err(Failure::usage(text));
    }
    if args.older_than.is_some_and(|days| !(0.0..=1e6).contains(&days)) {
        return Err(Failure::usage("--older-than must be 0 to 1000000 days"));
    }
    let mut store = args.place.write()?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = now.unwrap_or_default().as_millis() as i64;
    let filter = Filter {
        kind: args.kind.clone(),
        before_ms: args.older_than.map(|days| now_ms - (days * DAY_MS) as i64),
        ids: args.id.clone(),
        untagged: !args.tagged,
        ..Filter::default()
    };
    let (mut runs, damaged) = store.list(&filter)?;
    if let Some(keep) = args.keep {
        runs.truncate(runs.len().saturating_sub(keep));
    }
    let mut ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    for error in damaged {
        match error {
            // A damaged record is removed only by its number: it may still be of use.
            StoreError::Damaged { id, .. } if !args.id.is_empty() => ids.push(id),
            error => warn(&error.to_string()),
        }
    }
    let removed = if args.dry_run { 0 } else { store.remove(&ids)? };
    let table = table(&runs, args.common.format == Format::Table);
    output::print(
        &args.common,
        || {
            let done = if args.dry_run { "would be removed" } else { "removed" };
            let count = if args.dry_run { ids.len() } else { removed };
            let list = if runs.is_empty() { String::new() } else { table.to_text() };
            format!("{list}{count} runs {done}\n")
        },
        || format!("{:#}\n", table.to_json()),
        || table.to_csv(),
    )
}
