//! `perf lock contention`, as text and with `-x`.

use super::waits::{Refused, Waits, kind, number};
use crate::record::Kind;
use crate::record::origin::Origin;

/// Prefix of the first line with `-x`.
const SEPARATED: &str = "# output:";

/// Returns whether a line names the columns.
pub(super) fn is_head(line: &str) -> bool {
    line.starts_with(SEPARATED) || line.contains("total wait") && line.contains("contended")
}

#[derive(Default)]
struct Columns {
    names: Vec<String>,
    separator: Option<String>,
}

impl Columns {
    /// Reads the columns from a line for which [`is_head`] holds.
    fn new(line: &str) -> Self {
        let Some(names) = line.strip_prefix(SEPARATED) else {
            // The names of these columns may have two words. The other columns follow.
            let names = ["contended", "total wait", "max wait", "avg wait"];
            let mut found: Vec<(usize, &str)> =
                names.iter().filter_map(|name| line.find(name).map(|at| (at, *name))).collect();
            found.sort_unstable();
            let names = found.iter().map(|(_, name)| (*name).to_owned());
            let last = line.split_ascii_whitespace().filter(|word| {
                ["type", "caller", "pid", "comm", "address", "symbol"].contains(word)
            });
            return Self { names: names.chain(last.map(str::to_owned)).collect(), separator: None };
        };
        // The separator follows the first name. It is not a space, since names contain spaces.
        let names = names.trim();
        let separator = names.strip_prefix("contended").and_then(|rest| rest.chars().next());
        let separator = separator.unwrap_or(',').to_string();
        let names = names.split(&separator).map(|name| name.trim().to_owned()).collect();
        Self { names, separator: Some(separator) }
    }

    /// Returns the cells of a row by column, with times in nanoseconds.
    fn cells(&self, line: &str) -> Result<Vec<String>, String> {
        if let Some(separator) = &self.separator {
            return Ok(line.split(separator).map(|cell| cell.trim().to_owned()).collect());
        }
        let mut words = line.split_ascii_whitespace();
        let mut cells = Vec::new();
        for (index, name) in self.names.iter().enumerate() {
            let cell = match name {
                name if name.ends_with("wait") => {
                    let value = number(words.next().unwrap_or_default(), "time")?;
                    let unit = words.next().unwrap_or_default();
                    (value * unit_ns(unit)?).to_string()
                }
                _ if index + 1 == self.names.len() => words.by_ref().collect::<Vec<_>>().join(" "),
                _ => words.next().unwrap_or_default().to_owned(),
            };
            cells.push(cell);
        }
        Ok(cells)
    }
}

/// Returns the nanoseconds of a unit, which varies from cell to cell.
fn unit_ns(unit: &str) -> Result<f64, String> {
    match unit {
        "ns" => Ok(1.0),
        "us" => Ok(1e3),
        "ms" => Ok(1e6),
        "s" => Ok(1e9),
        "m" => Ok(60e9),
        "h" => Ok(3600e9),
        _ => Err(format!("`{unit}` is not a unit of time; expected ns, us, ms or s")),
    }
}

pub(super) fn read(text: &str, waits: &mut Waits) -> Result<(), Refused> {
    let mut columns = Columns::default();
    for (index, line) in text.lines().enumerate() {
        let is_row = line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        if is_head(line) {
            columns = Columns::new(line);
        } else if is_row && !columns.names.is_empty() {
            row(&columns, line, waits).map_err(|reason| (index + 1, reason))?;
        } else if !line.trim().is_empty() && !line.starts_with("===") {
            // Stacks of `-v`, and counters at the end.
            waits.pass_over(index + 1);
        }
    }
    Ok(())
}

fn row(columns: &Columns, line: &str, waits: &mut Waits) -> Result<(), String> {
    let cells = columns.cells(line)?;
    let cell = |name: &str| {
        let at = columns.names.iter().position(|one| one == name);
        at.and_then(|at| cells.get(at)).map_or("", String::as_str)
    };
    let count = number(cell("contended"), "number of waits")?;
    let total_s = number(cell("total wait"), "time")? / 1e9;
    let max_s = number(cell("max wait"), "time").unwrap_or(0.0) / 1e9;
    let (kind, act) = match cell("type") {
        "" => (Kind::Mutex, "lock"),
        word => kind(word),
    };
    let [caller, task, symbol] = ["caller", "comm", "symbol"].map(cell);
    let address = cell("address");
    let (lock, place) = match (caller, task) {
        ("", "") if symbol.is_empty() => (format!("lock at {address}"), address.to_owned()),
        ("", "") => (symbol.to_owned(), symbol.to_owned()),
        ("", task) => (format!("lock that {task} waited for"), task.to_owned()),
        (caller, _) => (format!("lock of {caller}"), caller.to_owned()),
    };
    waits.site(&lock, (kind, Origin::Kernel), &place, act).waited(count as u64, total_s, max_s);
    Ok(())
}
