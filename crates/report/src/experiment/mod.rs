//! The report of an experiment: each grid in the form that its file selects, below one sentence
//! with the result.

mod beside;
mod measured;
mod panel;
mod peers;
mod power;
mod published;
mod ranges;
mod results;
mod rows;
mod scaling;
mod sentence;
mod speedup;

use convoy_lab::experiment::{Plan, Target, View};
use convoy_lab::job::Outcome;
use convoy_lab::record::Record;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

use results::Results;

use crate::host::HostReport;
use crate::json;
use crate::plot::{Panel, Plot};
use crate::reproduce::ReproduceReport;
use crate::table::{Table, page_wrap};

/// One grid as it is told.
enum Part {
    Published(ReproduceReport),
    Measured(HostReport),
    /// With its name, the rows of its JSON, and the panels of its plot.
    Table(String, Table, Value, Vec<Panel>),
    Panels(Vec<Panel>),
}

/// The report as JSON.
#[derive(Serialize)]
struct Fields<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    experiment: &'a str,
    #[serde(flatten)]
    published: Option<&'a ReproduceReport>,
    #[serde(flatten)]
    measured: Option<&'a HostReport>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    grids: BTreeMap<String, Value>,
    verdict: &'a str,
    hash: &'a str,
}

/// The report of an experiment.
pub struct ExperimentReport {
    name: String,
    hash: String,
    verdict: String,
    parts: Vec<Part>,
    plot: Option<Plot>,
}

impl ExperimentReport {
    /// The report of `plan` with an outcome, or none, for each of its cells in their order.
    pub fn new(plan: &Plan, outcomes: &[Option<Outcome>], record: &Record) -> Self {
        let (mut parts, mut verdicts, mut rest) = (Vec::new(), Vec::new(), outcomes);
        let (mut tallies, mut doubt) = (Vec::new(), None);
        for grid in &plan.grids {
            let (own, others) = rest.split_at(grid.cells().min(rest.len()));
            rest = others;
            let results = Results { plan, grid, outcomes: own };
            let (part, verdict) = part(results);
            doubt = doubt.or_else(|| rows::disturbed(results));
            verdicts.extend(verdict);
            if grid.grid.view == View::Scaling {
                tallies.push(scaling::Tally::of(results));
            }
            match (part, parts.last_mut()) {
                // All measurements of one machine are in one table.
                (Part::Measured(more), Some(Part::Measured(report))) => report.extend(more),
                (part, _) => parts.push(part),
            }
        }
        if tallies.len() > 1 && tallies.len() == plan.grids.len() {
            verdicts = scaling::Tally::sentence(&tallies).into_iter().collect();
        }
        if let Some(note) = sentence::left(plan) {
            match parts.first_mut() {
                Some(Part::Published(report)) => report.notes.push(note),
                Some(Part::Measured(report)) => report.notes.push(note),
                Some(Part::Table(_, table, ..)) => table.note(note),
                Some(Part::Panels(_)) | None => {}
            }
        }
        if let Some(report) = parts.iter().find_map(|part| match part {
            Part::Measured(report) => Some(report.verdict()),
            _ => None,
        }) {
            verdicts.insert(0, report);
        }
        let verdict = sentence::verdict(plan, outcomes, verdicts);
        let panels = parts.iter().flat_map(|part| match part {
            Part::Panels(panels) | Part::Table(.., panels) => &panels[..],
            _ => &[],
        });
        let plot = panel::plot(plan, panels.cloned().collect(), doubt.as_deref());
        Self { name: plan.name.clone(), hash: record.hash.clone(), verdict, parts, plot }
    }

    /// Whether a plan has panels to draw, known before anything is run.
    pub fn can_draw(plan: &Plan) -> bool {
        plan.grids.iter().any(|grid| match grid.grid.view {
            View::Peers | View::Plot => panel::has_axis(grid),
            View::Table => grid.grid.target == Target::Locks && panel::across_loops(grid).is_some(),
            _ => false,
        })
    }

    /// Returns the first sentence, the result.
    pub fn verdict(&self) -> &str {
        &self.verdict
    }

    /// The panels of its plot, if it has any.
    pub fn plot(&self) -> Option<&Plot> {
        self.plot.as_ref()
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let verdict = page_wrap(&self.verdict);
        let tables = self.tables();
        let texts = [verdict].into_iter().chain(tables.iter().map(Table::to_text));
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Its tables, which a record keeps.
    pub fn tables(&self) -> Vec<Table> {
        let tables = self.parts.iter().map(|part| match part {
            Part::Published(report) => report.tables(),
            Part::Measured(report) => report.tables(),
            Part::Table(_, table, ..) => vec![table.clone()],
            Part::Panels(panels) => panels.iter().map(panel::table).collect(),
        });
        tables.flatten().collect()
    }

    /// For programs: the fields of the published table, and every other grid under its name.
    pub fn to_json(&self) -> String {
        let mut fields = Fields {
            experiment: &self.name,
            published: None,
            measured: None,
            grids: BTreeMap::new(),
            verdict: &self.verdict,
            hash: &self.hash,
        };
        for part in &self.parts {
            match part {
                Part::Published(report) => fields.published = Some(report),
                Part::Measured(report) => fields.measured = Some(report),
                Part::Table(name, _, rows, _) => {
                    drop(fields.grids.insert(name.clone(), rows.clone()));
                }
                Part::Panels(panels) => {
                    for panel in panels {
                        let table = panel::table(panel).to_json();
                        let (title, metric) = (panel.title.clone(), &panel.y.label);
                        let is_single = panels.len() == 1;
                        let key = if is_single { title } else { format!("{title}: {metric}") };
                        fields.grids.insert(key, table);
                    }
                }
            }
        }
        // Both have the name of the experiment among their fields.
        if fields.published.is_some() || fields.measured.is_some() {
            fields.experiment = "";
        }
        json::to_json(&fields)
    }

    /// For spreadsheets: the tables one after the other, with a blank line between them.
    pub fn to_csv(&self) -> String {
        let mut texts = Vec::new();
        for part in &self.parts {
            match part {
                Part::Published(report) => texts.push(report.to_csv()),
                Part::Measured(report) => texts.push(report.to_csv()),
                Part::Table(_, table, ..) => texts.push(table.to_csv()),
                Part::Panels(_) => {}
            }
        }
        let alone = self.parts.iter().any(|part| matches!(part, Part::Panels(_)));
        texts.extend(self.plot.as_ref().filter(|_| alone).map(Plot::to_csv));
        texts.join("\n")
    }
}

/// A grid in its view, and a sentence of its result.
fn part(results: Results) -> (Part, Option<String>) {
    let name = || results.grid.grid.name.clone();
    match results.grid.grid.view {
        View::Published => {
            let report = published::report(results);
            let verdict = report.verdict();
            (Part::Published(report), verdict)
        }
        View::Measured => (Part::Measured(measured::report(results)), None),
        View::Table => {
            let (table, verdict) = rows::table(results);
            let rows = rows::json(results, &table);
            let is_loop = results.grid.grid.target == Target::Locks;
            let panels = if is_loop { panel::of_locks(results) } else { Vec::new() };
            (Part::Table(name(), table, rows, panels), verdict)
        }
        View::Speedup => {
            let (table, verdict) = speedup::table(results);
            let rows = table.to_json();
            (Part::Table(name(), table, rows, Vec::new()), verdict)
        }
        View::Scaling => {
            let (table, verdict) = scaling::table(results);
            let rows = table.to_json();
            (Part::Table(name(), table, rows, Vec::new()), verdict)
        }
        View::Peers => {
            let (table, panels, verdict) = peers::view(results);
            let rows = rows::json(results, &table);
            (Part::Table(name(), table, rows, panels), verdict)
        }
        View::Plot => {
            let panels = panel::panels(results);
            let verdict = panel::verdict(&panels);
            (Part::Panels(panels), verdict)
        }
    }
}
