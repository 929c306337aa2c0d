//! The tables of a comparison: a list, the papers' table, and the mailing list's.

use core::fmt::Write as _;

use convoy_workload::users::counted;

use crate::compare::{CompareRange, CompareReport, CompareRow, CompareSide};
use crate::format::{NOTHING, distinct, fixed, middle, width};
use crate::table::{Cell, Column, MAX_WIDTH, Table, is_markdown, page_wrap};

/// Which table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareLayout {
    /// A line for each side.
    #[default]
    List,
    /// The sides of each benchmark in adjacent columns; below them mean, standard deviation,
    /// interval and speedup.
    Document,
    /// Workloads by ranges of users; the mean change in percent.
    Ranges,
}

/// Format of the numbers of one metric: divided by `factor`, in `unit`, with `decimals` decimals.
struct Scale {
    factor: f64,
    unit: String,
    decimals: usize,
}

impl Scale {
    /// For all `rows`, which have one unit: every mean is at least 1 if the unit has prefixes, and
    /// the smallest standard deviation has two digits.
    fn new(rows: &[&CompareRow]) -> Self {
        let sides = || rows.iter().flat_map(|row| [&row.baseline, &row.candidate]);
        let positive = |least: f64, value: f64| if value > 0.0 { least.min(value) } else { least };
        let mean = sides().map(|side| side.mean.abs()).fold(f64::INFINITY, positive);
        let unit = rows[0].unit.as_str();
        let ladder: &[(f64, &str)] = match unit {
            "s" => &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
            "bytes" => &[(f64::from(1 << 20), "MiB"), (1024.0, "KiB"), (1.0, "bytes")],
            _ => &[],
        };
        let step = ladder.iter().find(|(factor, _)| mean >= *factor).or(ladder.last());
        let (factor, unit) = step.map_or((1.0, unit), |(factor, unit)| (*factor, *unit));
        let sd = sides().filter_map(|side| side.sd).fold(f64::INFINITY, positive) / factor;
        let digits = if sd.is_finite() { 1.0 - sd.log10().floor() } else { 3.0 };
        Self { factor, unit: unit.to_owned(), decimals: digits.clamp(0.0, 6.0) as usize }
    }

    fn show(&self, value: f64) -> String {
        fixed(value / self.factor, self.decimals)
    }

    fn half_width(&self, side: &CompareSide) -> String {
        self.show((side.ci95[1] - side.ci95[0]) / 2.0)
    }
}

impl CompareReport {
    /// The table for people.
    pub fn to_text(&self, layout: CompareLayout) -> String {
        let mut text = page_wrap(&self.sentence()) + "\n" + &page_wrap(&self.title);
        match layout {
            CompareLayout::List => text.extend(lists(self).iter().map(Table::to_text)),
            CompareLayout::Document => text.extend(documents(self).iter().map(Table::to_text)),
            CompareLayout::Ranges if is_markdown() => {
                text.extend(range_tables(self).iter().map(Table::to_text));
            }
            CompareLayout::Ranges => text.push_str(&ranges(self)),
        }
        text.extend(self.notes.iter().map(|note| page_wrap(note)));
        text
    }
}

/// The rows that share metric and unit, in order of first appearance.
fn by_metric(report: &CompareReport) -> Vec<Vec<&CompareRow>> {
    let key = |row: &CompareRow| format!("{}\n{}", row.metric, row.unit);
    let keys: Vec<String> = report.rows.iter().map(key).collect();
    let of = |name| report.rows.iter().filter(|row| key(row) == name).collect();
    distinct(keys.iter().map(String::as_str)).into_iter().map(of).collect()
}

/// How a benchmark is called in a table.
fn benchmark(row: &CompareRow) -> String {
    match (row.users, row.benchmark.is_empty()) {
        (Some(users), true) => counted(users),
        (Some(users), false) => format!("{}, {}", row.benchmark, counted(users)),
        (None, _) => row.benchmark.clone(),
    }
}

fn lists(report: &CompareReport) -> Vec<Table> {
    by_metric(report).iter().map(|rows| list(rows)).collect()
}

/// A line for the baseline and one for each candidate of each benchmark.
fn list(rows: &[&CompareRow]) -> Table {
    let scale = Scale::new(rows);
    let better = if rows[0].higher_is_better { "higher is better" } else { "lower is better" };
    let title = format!("{}, {better}", rows[0].metric);
    let unit = scale.unit.as_str();
    let columns = vec![
        Column::text(""),
        Column::number("Runs", ""),
        Column::number("Mean", unit),
        Column::text("± 95 %").joined(),
        Column::number("sd", unit),
        Column::number("Speedup", ""),
        Column::text("").joined(),
        Column::number("95 % interval", ""),
        Column::number("p", ""),
        Column::text("Verdict"),
    ];
    let mut table = Table::new(&title, columns);
    let mut last = None;
    let several = rows.iter().any(|row| benchmark(row) != benchmark(rows[0]));
    for row in rows {
        let name = benchmark(row);
        if last.as_ref() != Some(&name) {
            if several {
                table.rule();
                table.heading(middle(&name, 70));
            }
            table.row(side_cells(&row.baseline, &scale, several));
            last = Some(name);
        }
        let mut cells = side_cells(&row.candidate, &scale, several);
        cells.push(Cell::number(row.speedup.unwrap_or(f64::NAN), 3));
        cells.push(Cell::text("*".repeat(row.stars)));
        cells.push(Cell::text(span(row.ci95)));
        cells.push(Cell::text(p_value(row.p)));
        cells.push(Cell::text(row.verdict_within(row.same_within_percent)));
        table.row(cells);
    }
    table
}

fn side_cells(side: &CompareSide, scale: &Scale, indent: bool) -> Vec<Cell> {
    let label = middle(&side.label, 38);
    vec![
        Cell::text(if indent { format!("  {label}") } else { label }),
        Cell::count(side.runs as u64),
        Cell::text(scale.show(side.mean)),
        Cell::text(format!("± {}", scale.half_width(side))),
        Cell::text(side.sd.map_or(NOTHING.to_owned(), |sd| scale.show(sd))),
    ]
}

fn span([lo, hi]: [f64; 2]) -> String {
    if lo.is_finite() && hi.is_finite() {
        format!("{} … {}", fixed(lo, 3), fixed(hi, 3))
    } else {
        NOTHING.to_owned()
    }
}

/// Three digits of a p-value, without pretending that a small one is nothing.
fn p_value(p: f64) -> String {
    match p {
        p if p < 1e-4 => format!("{p:.0e}"),
        p if p < 0.1 => fixed(p, 4),
        p => fixed(p, 2),
    }
}

/// The table of papers: the sides of each benchmark in adjacent columns, the figures below.
fn documents(report: &CompareReport) -> Vec<Table> {
    by_metric(report).iter().flat_map(|rows| document(rows)).collect()
}

/// One column of it: its benchmark, its heading and its four figures.
struct Figures {
    group: String,
    head: String,
    cells: [String; 4],
}

const FIGURES: [&str; 4] = ["Mean", "Standard Deviation", "95 % Confidence Interval", "Speedup"];

fn document(rows: &[&CompareRow]) -> Vec<Table> {
    fn widest(column: &Figures) -> usize {
        let cells = column.cells.iter().map(|cell| width(cell)).max();
        cells.unwrap_or(0).max(width(&column.head)) + 2
    }
    let scale = Scale::new(rows);
    let title = format!("{} ({})", rows[0].metric, scale.unit);
    let room = MAX_WIDTH - width(FIGURES[2]);
    let names: Vec<String> = rows.iter().map(|row| benchmark(row)).collect();
    let mut parts: Vec<Vec<Figures>> = vec![Vec::new()];
    let mut used = 0;
    for name in distinct(names.iter().map(String::as_str)) {
        let of: Vec<_> = rows.iter().copied().filter(|row| benchmark(row) == name).collect();
        let columns = columns_of(name, &of, &scale);
        let wide = columns.iter().map(widest).sum::<usize>().max(width(name)) + 1;
        if used + wide > room && used > 0 {
            parts.push(Vec::new());
            used = 0;
        }
        used += wide;
        parts.last_mut().expect("there is a first part").extend(columns);
    }
    parts.iter().map(|part| filled(&title, part)).collect()
}

fn columns_of(name: &str, rows: &[&CompareRow], scale: &Scale) -> Vec<Figures> {
    let column = |side: &CompareSide, speedup: String| Figures {
        group: middle(name, 40),
        head: middle(&side.label, 16),
        cells: [
            scale.show(side.mean),
            side.sd.map_or(NOTHING.to_owned(), |sd| scale.show(sd)),
            scale.half_width(side),
            speedup,
        ],
    };
    let mut columns = vec![column(&rows[0].baseline, String::new())];
    columns.extend(rows.iter().map(|row| {
        let speedup = fixed(row.speedup.unwrap_or(f64::NAN), 3);
        column(&row.candidate, speedup + &"*".repeat(row.stars))
    }));
    columns
}

fn filled(title: &str, columns: &[Figures]) -> Table {
    let mut heads = vec![Column::text("Metric")];
    heads.extend(columns.iter().map(|c| Column::number(&c.head, "").group(&c.group)));
    let mut table = Table::new(title, heads);
    for (line, name) in FIGURES.iter().enumerate() {
        let mut cells = vec![Cell::text(*name)];
        cells.extend(columns.iter().map(|column| Cell::text(&column.cells[line])));
        table.row(cells);
    }
    table
}

/// The ranges of each candidate, with the workloads and the ranges in order of first appearance.
type Grid<'a> = (&'a str, Vec<&'a str>, Vec<[u32; 2]>);

fn grids(report: &CompareReport) -> Vec<Grid<'_>> {
    let names = distinct(report.ranges.iter().map(|cell| cell.candidate.as_str()));
    let grid = |name| {
        let of = || report.ranges.iter().filter(move |cell| cell.candidate == name);
        let mut users: Vec<[u32; 2]> = of().map(|cell| cell.users).collect();
        users.sort_unstable();
        users.dedup();
        (name, distinct(of().map(|cell| cell.workload.as_str())), users)
    };
    names.into_iter().map(grid).collect()
}

fn cell<'a>(report: &'a CompareReport, at: (&str, &str, [u32; 2])) -> Option<&'a CompareRange> {
    let (candidate, workload, users) = at;
    report.ranges.iter().find(|cell| {
        cell.candidate == candidate && cell.workload == workload && cell.users == users
    })
}

fn change(cell: Option<&CompareRange>) -> String {
    match cell.and_then(|cell| cell.change_percent.map(|change| (change, cell.stars))) {
        None => NOTHING.to_owned(),
        Some((change, stars)) => {
            let text = fixed(change, 1);
            let sign = if text.starts_with('-') || text == "0.0" { "" } else { "+" };
            format!("{sign}{text}%{}", "*".repeat(stars))
        }
    }
}

/// The table of the mailing list, in its characters, ready to be pasted into a mail.
fn ranges(report: &CompareReport) -> String {
    let mut text = String::new();
    for (candidate, workloads, users) in grids(report) {
        let row = |first: &str, rest: Vec<String>| [vec![first.to_owned()], rest].concat();
        let heads = users.iter().map(|_| "mean % change".to_owned()).collect();
        let ranges = users.iter().map(|[lo, hi]| format!("{lo}-{hi} users")).collect();
        let mut rows = vec![row("Workload", heads), row("", ranges)];
        for workload in workloads {
            let of = |users: &[u32; 2]| change(cell(report, (candidate, workload, *users)));
            rows.push(row(workload, users.iter().map(of).collect()));
        }
        let column = |at: usize| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0);
        let widths: Vec<usize> = (0..rows[0].len()).map(column).collect();
        let rule: Vec<String> = widths.iter().map(|wide| "-".repeat(wide + 2)).collect();
        let rule = format!("+{}+\n", rule.join("+"));
        let _ = write!(text, "{candidate}\n{rule}");
        for (number, row) in rows.iter().enumerate() {
            for (at, (cell, wide)) in row.iter().zip(&widths).enumerate() {
                let blanks = wide - width(cell);
                let left = if at == 0 { 0 } else { blanks / 2 };
                let (before, after) = (" ".repeat(left), " ".repeat(blanks - left));
                let _ = write!(text, "| {before}{cell}{after} ");
            }
            text.push_str("|\n");
            if number == 1 {
                text.push_str(&rule);
            }
        }
        text.push_str(&rule);
    }
    text
}

fn range_tables(report: &CompareReport) -> Vec<Table> {
    let table = |(candidate, workloads, users): Grid<'_>| {
        let mut columns = vec![Column::text("Workload")];
        let head =
            |[lo, hi]: &[u32; 2]| Column::number(&format!("mean % change, {lo}-{hi} users"), "");
        columns.extend(users.iter().map(head));
        let mut table = Table::new(candidate, columns);
        for workload in workloads {
            let mut cells = vec![Cell::text(workload)];
            let of = |users: &[u32; 2]| change(cell(report, (candidate, workload, *users)));
            cells.extend(users.iter().map(|users| Cell::text(of(users))));
            table.row(cells);
        }
        table
    };
    grids(report).into_iter().map(table).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{CompareFloor, CompareWarmUp};

    fn side(label: &str, mean: f64, sd: f64) -> CompareSide {
        let half = sd / 2.0;
        let ci95 = [mean - half, mean + half];
        CompareSide { label: label.to_owned(), runs: 15, mean, sd: Some(sd), ci95, collapses: None }
    }

    fn row(
        benchmark: &str,
        baseline: CompareSide,
        candidate: CompareSide,
        stars: usize,
    ) -> CompareRow {
        let speedup = baseline.mean / candidate.mean;
        CompareRow {
            benchmark: benchmark.to_owned(),
            users: None,
            metric: "wall time".to_owned(),
            unit: "s".to_owned(),
            higher_is_better: false,
            baseline,
            candidate,
            verdict: if stars > 0 { "slower" } else { "unsure" }.to_owned(),
            same_within_percent: None,
            doubt: None,
            speedup: Some(speedup),
            ci95: [speedup - 0.01, speedup + 0.01],
            p: if stars > 0 { 0.000_03 } else { 0.25 },
            p_raw: 0.000_01,
            p_floor: 0.000_06,
            test: "signed-rank".to_owned(),
            stars,
            superiority: 0.4,
            shift: None,
            needs: None,
        }
    }

    fn example() -> CompareReport {
        let base = || side("unmod", 0.0124, 0.000_21);
        CompareReport {
            title: "15 runs of each side".to_owned(),
            rows: vec![
                row("find", base(), side("ts", 0.0131, 0.000_3), 3),
                row("find", base(), side("ts+opt", 0.0125, 0.000_25), 0),
                row("pmake", side("unmod", 2.5, 0.02), side("ts", 2.6, 0.01), 1),
                row("pmake", side("unmod", 2.5, 0.02), side("ts+opt", 2.5, 0.02), 0),
            ],
            ranges: Vec::new(),
            noise_floor: Some(CompareFloor { source: "A/A runs".to_owned(), percent: 0.4 }),
            failures: Vec::new(),
            warm_up: CompareWarmUp::default(),
            runs: Some(15),
            stopped: "--runs 15".to_owned(),
            partial: false,
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn list() {
        insta::assert_snapshot!(example().to_text(CompareLayout::List));
    }

    #[test]
    fn document() {
        insta::assert_snapshot!(example().to_text(CompareLayout::Document));
    }

    #[test]
    fn markdown() {
        let text = crate::in_markdown(|| example().to_text(CompareLayout::Document));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn the_json_begins_with_the_row_that_decides() {
        let json: serde_json::Value = serde_json::from_str(&example().to_json()).unwrap();
        assert_eq!((&json["verdict"], &json["p"]), (&"slower".into(), &0.000_03.into()));
        assert_eq!(json["speedup"], json["rows"][0]["speedup"]);
        let rows = example().to_csv();
        assert!(rows.lines().count() == 5 && rows.starts_with("benchmark,users,metric,unit,"));
    }

    #[test]
    fn wide_tables_are_parted_and_long_names_cut() {
        let mut report = example();
        let more: Vec<_> = (0..9)
            .map(|i| {
                row(
                    &format!("benchmark {i}"),
                    side("unmod", 1.0, 0.1),
                    side(&"x".repeat(90), 1.0, 0.1),
                    0,
                )
            })
            .collect();
        report.rows.extend(more);
        for layout in [CompareLayout::List, CompareLayout::Document] {
            for line in report.to_text(layout).lines() {
                assert!(width(line) <= MAX_WIDTH, "{} characters: {line}", width(line));
            }
        }
    }
}
