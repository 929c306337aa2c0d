//! Rules for `crates/sync`: file cards, and a reason for every memory ordering; the second one also
//! for `crates/preload`.

use super::config::Config;
use super::finding::Findings;
use super::source::{Source, words};

/// The sections of a lock's file card, in their order.
const CARD: &[&str] = &[
    "States",
    "Transitions",
    "Invariants",
    "Memory ordering",
    "Progress and fairness",
    "Cost",
    "Lineage",
];

const ORDERINGS: &[&str] = &["Acquire", "Release", "AcqRel", "Relaxed", "SeqCst"];

/// Largest distance in lines between an ordering and its reason above.
const REACH: usize = 6;

pub(crate) fn check(
    found: &mut Findings,
    path: &str,
    text: &str,
    source: &Source,
    config: &Config,
) {
    if path.starts_with("crates/preload/src/") {
        orderings(found, source);
    }
    let Some(name) = path.strip_prefix("crates/sync/src/") else { return };
    // A module of tests may be a separate file.
    if !name.ends_with("tests.rs") {
        orderings(found, source);
    }
    if !config.not_locks.iter().any(|module| module == name) {
        card(found, text);
    }
}

fn card(found: &mut Findings, text: &str) {
    let mut headings = text
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '))
        .filter(|heading| CARD.contains(heading));
    for expected in CARD {
        if headings.next() != Some(*expected) {
            let cure =
                format!("the module documentation needs, in this order: {}", CARD.join(", "));
            return found.add(0, "file-card", cure);
        }
    }
}

fn orderings(found: &mut Findings, source: &Source) {
    let test = source.test_lines();
    let mut in_use = false;
    for (index, line) in source.code.iter().enumerate() {
        // An import may run over several lines.
        in_use |=
            line.trim_start().starts_with("use ") || line.trim_start().starts_with("pub use ");
        let skip = in_use || test[index];
        in_use &= !line.contains(';');
        if skip || !names_ordering(line) {
            continue;
        }
        let from = index.saturating_sub(REACH);
        if source.comments[from..=index].iter().all(|comment| comment.trim().is_empty()) {
            let cure = format!("say within {REACH} lines above what this ordering pairs with");
            found.add(index, "ordering-comment", cure);
        }
    }
}

/// Returns whether `line` contains a memory ordering or a fence. A bare name counts only as an
/// argument: `Release` may be the name of a type.
fn names_ordering(line: &str) -> bool {
    words(line).any(|(at, word)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let argument = after.starts_with([',', ')'])
            && (before.ends_with(['(', ' ']) || before.is_empty())
            && !before.ends_with("-> ");
        let qualified = before.ends_with("Ordering::");
        let call = after.starts_with('(');
        (ORDERINGS.contains(&word) && (argument || qualified)) || (word == "fence" && call)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        let config = Config { not_locks: vec!["lib.rs".to_owned()], ..Config::default() };
        let mut found = Findings::new(path);
        check(&mut found, path, text, &Source::new(text), &config);
        found.list.iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn an_ordering_has_a_reason_nearby() {
        let file = "crates/sync/src/lib.rs";
        assert_eq!(rules(file, "// Pairs with unlock.\n\n\n\n\n\na.load(Acquire);\n"), []);
        assert_eq!(rules(file, "a.load(Acquire); // Pairs with unlock.\n"), []);
        let far = format!("// Pairs with unlock.\n{}a.load(Acquire);\n", "\n".repeat(6));
        assert_eq!(rules(file, &far), [(8, "ordering-comment")]);
        assert_eq!(rules(file, "a.load(Ordering::Relaxed);\n"), [(1, "ordering-comment")]);
        assert_eq!(rules(file, "a.cas(0, 1, AcqRel, order)\n"), [(1, "ordering-comment")]);
        assert_eq!(rules(file, "fence(order);\n"), [(1, "ordering-comment")]);
        assert_eq!(rules("crates/mm/src/lib.rs", "a.load(Acquire);\n"), []);
        let object = "crates/preload/src/trace.rs";
        assert_eq!(rules(object, "a.load(Acquire);\n"), [(1, "ordering-comment")]);
        assert_eq!(rules(object, "// Pairs with unlock.\na.load(Acquire);\n"), []);
    }

    #[test]
    fn imports_tests_and_other_names_are_no_orderings() {
        let file = "crates/sync/src/lib.rs";
        assert_eq!(rules(file, "use core::sync::atomic::Ordering::{\n    Acquire,\n};\n"), []);
        assert_eq!(rules("crates/sync/src/tests.rs", "a.load(Acquire);\n"), [(1, "file-card")]);
        assert_eq!(rules(file, "#[cfg(test)]\nmod tests {\n    a.load(Acquire);\n}\n"), []);
        assert_eq!(rules(file, "record(LockEvent::Release);\nlet fence = 1;\n"), []);
        assert_eq!(rules(file, "fn a() -> Release<'_> { Release::Kept }\n"), []);
    }

    #[test]
    fn a_lock_has_its_card_in_order() {
        let file = "crates/sync/src/spin.rs";
        let card = format!("//! ## {}\n", CARD.join("\n//! ## "));
        assert_eq!(rules(file, &card), []);
        assert_eq!(rules(file, &card.replace("Cost", "Price")), [(1, "file-card")]);
        let swapped =
            card.replace("Cost", "C").replace("Lineage", "Cost").replace("C\n", "Lineage\n");
        assert_eq!(rules(file, &swapped), [(1, "file-card")]);
        assert_eq!(rules("crates/sync/src/lib.rs", ""), []);
    }
}
