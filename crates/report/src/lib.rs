//! Pure functions of records: tables, plots, JSON, CSV.
//!
//! Nothing here reads a clock, a file or the terminal. Every report has the same shape: a plain
//! struct with the fields of the JSON, `to_text` for people, `to_json` for programs, `to_csv` for
//! spreadsheets.

mod bisect;
mod bisect_plot;
mod changes;
mod check;
mod compare;
mod compare_files;
mod compare_text;
mod compare_verdict;
mod curve;
pub mod diagnosis;
mod experiment;
mod explain;
mod explain_text;
mod flame;
mod format;
mod host;
mod idle_rules;
mod json;
mod orderings;
mod page;
mod plot;
mod plot_labels;
mod points;
pub mod prediction;
mod range;
mod recorded;
mod reproduce;
mod rows_plot;
mod screen;
mod share;
mod svg;
mod table;
mod timeline;
mod top;
mod verdict;

pub use bisect::{
    BisectConfirmation, BisectInterval, BisectPoint, BisectReport, BisectSkip, BisectSuspect,
    BisectVerdict,
};
pub use check::{CheckReport, CheckRow, WeakSearch};
pub use compare::{CompareCollapses, CompareReport, CompareRow, CompareSide};
pub use compare_text::CompareLayout;
use convoy_lab::figures as metric;
pub use convoy_lab::figures::{Metric, metric};
pub use experiment::ExperimentReport;
pub use explain::{ExplainReport, Explained, RcuThreads};
pub use flame::{flame_html, flame_svg};
pub use format::{NOTHING, fixed, middle, plain, significant, wrap};
pub use orderings::{
    BrokenOrdering, OrderingRow, OrderingsReport, PassedOrdering, UnreachedOrdering,
};
pub use page::{Block, Origin, Page, RecordPair};
pub use plot::{Axis, Panel, Plot, Point, Series};
pub use points::{RunPoint, RunReport};
pub use range::Scale;
pub use recorded::{FindingRow, RecordedReport};
pub use rows_plot::{RowsLine, RowsPanel, RowsPlot};
pub use table::{
    Cell, Column, Field, MAX_WIDTH, Table, in_markdown, page_wrap, set_page_width, set_table_width,
};
pub use top::{
    ScreenLine, ScreenPart, ScreenView, Sorting, ThreadsRow, TopDoing, TopLock, TopOwner,
    TopReport, TopTimes,
};
