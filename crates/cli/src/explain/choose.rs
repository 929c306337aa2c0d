//! Which cell of an experiment or a stored run the flags leave.

use super::args::Explain;
use crate::fail::Failure;
use convoy_lab::experiment::{PlannedGrid, Point};
use std::collections::BTreeMap;

/// A cell that may be meant.
pub(super) struct Candidate<J> {
    /// Labels by axis.
    pub(super) at: BTreeMap<String, String>,
    /// Ranges of these labels by axis, as tables print them.
    pub(super) ranges: BTreeMap<String, String>,
    pub(super) job: J,
    /// Its users, if it has such.
    pub(super) users: Option<u32>,
    pub(super) seed: u64,
    /// The schedule hash of a stored one.
    pub(super) hash: Option<String>,
}

impl<J> Candidate<J> {
    /// Labels on `axis`: its own, and that of its range.
    fn labels(&self, axis: &str) -> impl Iterator<Item = &String> {
        [self.at.get(axis), self.ranges.get(axis)].into_iter().flatten()
    }

    /// Whether `label` names it on `axis`.
    fn is_at(&self, axis: &str, label: &str) -> bool {
        self.labels(axis).any(|name| name == label)
    }
}

/// Returns the labels of a point by axis, and the ranges that these belong to.
pub(super) fn place(
    grid: &PlannedGrid,
    point: &Point,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut labels, mut ranges) = (BTreeMap::new(), BTreeMap::new());
    for (axis, at) in grid.axes.iter().zip(&point.at) {
        let level = &axis.levels[*at];
        labels.insert(axis.name.clone(), level.label.clone());
        ranges.extend(level.range.iter().map(|range| (axis.name.clone(), range.clone())));
    }
    (labels, ranges)
}

/// Returns the only cell that matches the flags.
pub(super) fn choose<J>(
    args: &Explain,
    what: &str,
    mut all: Vec<Candidate<J>>,
) -> Result<Candidate<J>, Failure> {
    for wanted in &args.at {
        let (axis, label) = wanted
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--at {wanted}: expected AXIS=LABEL")))?;
        all = narrowed(all, what, axis, label)?;
    }
    if let Some(kernel) = &args.kernel
        && all.iter().any(|one| one.at.get("kernel") == Some(kernel))
    {
        all = narrowed(all, what, "kernel", kernel)?;
    }
    // Of a stored run the cell with those users, if there is one; else they are changed.
    let of_users = |one: &Candidate<J>| one.users == args.users;
    if all.iter().any(of_users) {
        all.retain(of_users);
    }
    let seed = args.seed.or_else(|| all.first().map(|one| one.seed));
    let of_seed = |one: &Candidate<J>| Some(one.seed) == seed;
    if all.iter().any(of_seed) {
        all.retain(of_seed);
    }
    let Some(last) = all.pop() else {
        return Err(Failure::usage(format!("{what} has no simulation of a kernel to explain")));
    };
    let axes: Vec<String> = last.at.keys().cloned().collect();
    let mut open = Vec::new();
    for axis in axes {
        let mut labels: Vec<&str> = Vec::new();
        for label in all.iter().chain([&last]).filter_map(|one| one.at.get(&axis)) {
            if !labels.contains(&label.as_str()) {
                labels.push(label);
            }
        }
        if labels.len() > 1 {
            open.push((choice(&axis, labels[0]), format!("{axis}: {}", labels.join(", "))));
        }
    }
    if open.is_empty() {
        return Ok(last);
    }
    let (flags, labels): (Vec<String>, Vec<String>) = open.into_iter().unzip();
    Err(Failure::usage(format!(
        "{what} has {} simulations; name one, such as {}; {}",
        all.len() + 1,
        flags.join(" "),
        labels.join("; ")
    )))
}

/// The flag that names one label of an axis.
fn choice(axis: &str, label: &str) -> String {
    match axis {
        "kernel" | "users" => format!("--{axis} {label}"),
        _ => format!("--at '{axis}={label}'"),
    }
}

fn narrowed<J>(
    all: Vec<Candidate<J>>,
    what: &str,
    axis: &str,
    label: &str,
) -> Result<Vec<Candidate<J>>, Failure> {
    let mut known: Vec<String> = Vec::new();
    for name in all.iter().flat_map(|one| one.labels(axis)) {
        if !known.contains(name) {
            known.push(name.clone());
        }
    }
    let left: Vec<Candidate<J>> = all.into_iter().filter(|one| one.is_at(axis, label)).collect();
    if left.is_empty() {
        let known = known.join(", ");
        return Err(Failure::usage(format!("{what} has no {axis} {label:?}; known: {known}")));
    }
    Ok(left)
}

pub(super) fn push(flags: &mut String, name: &str, value: Option<impl std::fmt::Display>) {
    if let Some(value) = value {
        flags.extend([" --", name, " ", &value.to_string()]);
    }
}
