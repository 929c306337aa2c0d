//! `/proc/lock_stat`: times in microseconds by lock class, and the places that waited most often.

use super::waits::{Refused, Waits, number};
use crate::record::origin::Origin;
use crate::record::{Kind, Times, total};

pub(super) fn is_head(line: &str) -> bool {
    line.trim_start().starts_with("lock_stat version")
}

/// Numbers of a class: bounces, contentions, four for waits, bounces, acquisitions, four for holds.
/// Version 0.3 does not have averages.
const COLUMNS: [usize; 2] = [12, 10];

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    let mut class = "";
    for (index, line) in text.lines().enumerate() {
        let refused = |reason| (index + 1, reason);
        let is_rule = line.trim_start().starts_with(['-', '.']) || is_head(line);
        if is_rule || line.trim().is_empty() || line.contains("contentions") {
            continue;
        }
        match line.rsplit_once(": ") {
            Some((name, numbers)) => {
                class = name.trim();
                self::class(class, numbers, waits).map_err(refused)?;
            }
            // A place: the class, the number of waits, its address, and the function.
            None if line.contains("[<") && !class.is_empty() => {
                place(class, line, waits).map_err(refused)?;
            }
            None => waits.pass_over(index + 1),
        }
    }
    Ok(())
}

fn class(class: &str, numbers: &str, waits: &mut Waits) -> Result<(), String> {
    let words: Vec<&str> = numbers.split_ascii_whitespace().collect();
    if !COLUMNS.contains(&words.len()) {
        return Err(format!(
            "the class `{class}` has {} numbers; expected 12, or 10 of version 0.3",
            words.len()
        ));
    }
    let all = words.iter().map(|word| number(word, "number"));
    let all = all.collect::<Result<Vec<f64>, String>>()?;
    let half = all.len() / 2;
    let (wait, hold) = all.split_at(half);
    let (name, act, kind) = match class {
        _ if class.ends_with("-W") => (&class[..class.len() - 2], "write", Kind::Rwlock),
        _ if class.ends_with("-R") => (&class[..class.len() - 2], "read", Kind::Rwlock),
        _ => (class, "lock", Kind::Mutex),
    };
    let site = waits.site(name, (kind, Origin::Kernel), "all places", act);
    let contended = wait[1] as u64;
    site.count = total([site.count, hold[1] as u64]);
    site.contended = total([site.contended, contended]);
    site.wait.add(&Times::summed(contended, wait[4] / 1e6, wait[3] / 1e6));
    site.hold_on.add(&Times::summed(hold[1] as u64, hold[4] / 1e6, hold[3] / 1e6));
    Ok(())
}

/// Adds a note, since the file has times by class only, and not by call site.
fn place(class: &str, line: &str, waits: &mut Waits) -> Result<(), String> {
    let (before, function) = line.split_once("[<").unwrap_or((line, ""));
    let count = before.split_ascii_whitespace().next_back().unwrap_or_default();
    number(count, "number of waits")?;
    let function = function.split_once("] ").map_or(function, |(_, name)| name).trim();
    let name = class.trim_end_matches("-R").trim_end_matches("-W");
    let note = format!("`{name}` was contended {count} times at {function}.");
    if !waits.notes.contains(&note) {
        waits.notes.push(note);
    }
    Ok(())
}
