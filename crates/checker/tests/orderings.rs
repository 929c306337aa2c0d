//! Each ordering that is listed in `orderings.txt` is needed: with a weaker one, the scenario of
//! its line violates the property of its line.

use convoy_checker::model::{Order, Part, Site, Weaker};
use convoy_checker::{Budget, Ordered, Property, Weakening, operations, select, violated_with};
use convoy_watchdog as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const LIST: &str = "tests/orderings.txt";

/// First lines of the list.
const HEAD: &str = "\
# Orderings that are needed: file, function, number of the operation in it, access, ordering, a
# weaker one, and the scenario with the property that it violates then. Written by BLESS=1 cargo
# test -p convoy-checker --test orderings -- --ignored (LOCKS names some locks; merge their lines).
";

/// For violations that exist.
const MANY: Budget = Budget { executions: 200_000, ..FEW };
/// For violations that may exist: those with a weaker ordering are short, as a rule.
const FEW: Budget = Budget { executions: 20_000, few_preemptions: 0, steps: 3000, seed: 1 };

/// A weaker ordering in the source, written without lines, which change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Weakened {
    file: String,
    function: String,
    /// Number of the operation in its function, from 1.
    number: usize,
    part: String,
    order: String,
    weaker: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the operations of a source file with their functions, and numbers in these.
fn numbered(file: &str) -> Vec<(u32, u32, String, usize)> {
    let text = std::fs::read_to_string(root().join(file)).expect(file);
    let mut numbers = BTreeMap::new();
    let operations = operations(&text).into_iter().map(|operation| {
        let number: &mut usize = numbers.entry(operation.function.clone()).or_default();
        *number += 1;
        (operation.line, operation.column, operation.function, *number)
    });
    operations.collect()
}

fn sites(listed: &Weakened) -> Weaker {
    let parts = [Part::Load, Part::Store, Part::Modify, Part::Success, Part::Failure, Part::Fence];
    let part = parts.into_iter().find(|part| part.name() == listed.part).expect("a part");
    let order = |name: &str| Order::ALL.into_iter().find(|o| format!("{o:?}") == name);
    let (order, weaker) = (order(&listed.order).unwrap(), order(&listed.weaker).unwrap());
    // The sites of the compiler have names for ever.
    let file: &'static str = listed.file.clone().leak();
    let operations = numbered(file).into_iter().filter(|(_, _, function, number)| {
        (function, number) == (&listed.function, &listed.number)
    });
    let sites = operations.map(|(line, column, ..)| Site { file, line, column, part, order });
    sites.map(|site| (site, weaker)).collect()
}

/// Returns each line of the list with the scenario and the property.
fn listed() -> Vec<(Weakened, String, String)> {
    let text = std::fs::read_to_string(LIST).expect(LIST);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.map(|line| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let [file, function, number, part, order, weaker, scenario, property] =
            <[String; 8]>::try_from(words).expect("eight words");
        let number = number.parse().expect("a number");
        (Weakened { file, function, number, part, order, weaker }, scenario, property)
    });
    lines.collect()
}

#[test]
fn a_weaker_ordering_violates_the_property_that_the_list_names() {
    let listed = listed();
    assert!(listed.len() > 30);
    let scenarios: BTreeSet<_> = listed.iter().map(|(_, scenario, _)| scenario).collect();
    for scenario in scenarios {
        let budget = Budget { executions: 1000, ..FEW };
        assert_eq!(violated_with(scenario, &Weaker::new(), budget), Ok(None), "{scenario}");
    }
    for (weakened, scenario, property) in &listed {
        let sites = sites(weakened);
        // A function name may occur twice in a file.
        assert!(!sites.is_empty(), "not in the source: {weakened:?}");
        let violated = violated_with(scenario, &sites, MANY).unwrap();
        let violated = violated.map(Property::name);
        assert_eq!(violated, Some(property.as_str()), "{scenario}: {weakened:?}");
    }
}

/// Returns the line of the list for an ordering.
fn line(ordered: &Ordered) -> Option<(Weakened, String, String)> {
    let Ordered { site, broken, together, .. } = ordered;
    let broken = broken.as_ref().filter(|_| *together == site.order)?;
    let place = (site.line, site.column);
    let operations = numbered(site.file);
    let here = operations.into_iter().find(|&(line, column, ..)| (line, column) == place);
    let (.., function, number) = here.unwrap_or_else(|| panic!("not in the source: {site}"));
    let name = |order| format!("{order:?}");
    let weakened = Weakened {
        file: site.file.to_owned(),
        function,
        number,
        part: site.part.name().to_owned(),
        order: name(site.order),
        weaker: name(broken.order),
    };
    // Orderings that are needed only together have no scenario alone.
    let alone = !broken.together;
    alone.then(|| (weakened, broken.scenario.clone(), broken.property.name().to_owned()))
}

/// `BLESS=1` writes the list.
#[test]
#[ignore = "four minutes of CPU time in a release build: every lock, with every weaker ordering"]
fn the_list_has_every_needed_ordering() {
    let names = std::env::var("LOCKS").unwrap_or_else(|_| "all".to_owned());
    let names: Vec<_> = names.split(' ').collect();
    let search = Weakening::new(&select(&names).unwrap(), FEW).finished();
    // The published patches. A lock whose records are not ordered would be here.
    let published = |name: &String| name.starts_with("published-");
    let violated: Vec<_> = search.violated().iter().filter(|name| !published(name)).collect();
    assert!(violated.is_empty(), "{violated:?}");
    let lines: Vec<_> = search.rows().iter().filter_map(line).collect();
    let needed: BTreeSet<_> = lines.iter().map(|(weakened, ..)| weakened.clone()).collect();
    if std::env::var_os("BLESS").is_some() {
        let mut text = HEAD.to_owned();
        for (weakened, scenario, property) in &lines {
            let Weakened { file, function, number, part, order, weaker } = weakened;
            let line = [file, function, &number.to_string(), part, order, weaker];
            text.extend(line.map(|word| word.to_owned() + " "));
            text.extend([scenario, " ", property, "\n"]);
        }
        std::fs::write(LIST, text).unwrap();
    }
    let known: BTreeSet<_> = listed().into_iter().map(|(weakened, ..)| weakened).collect();
    let missing: Vec<_> = needed.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
