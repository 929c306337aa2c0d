//! The live view as metrics in the text format of Prometheus.

use core::fmt::Write as _;

use super::{TopLock, TopReport};

impl TopReport {
    /// Returns gauges of the window, for the collector of a dashboard.
    pub fn to_metrics(&self) -> String {
        let mut text = String::new();
        let locks: Vec<(String, &TopLock)> =
            self.locks.iter().filter(|row| row.is_owned).map(|row| (labels(row), row)).collect();
        head(&mut text, "convoy_lock_waiting_threads", "Mean number of threads that wait.");
        for (labels, row) in &locks {
            let _ = writeln!(text, "convoy_lock_waiting_threads{labels} {}", row.waiting_threads);
        }
        head(&mut text, "convoy_lock_waits_per_second", "Waits for a lock per second.");
        for (labels, row) in &locks {
            let _ = writeln!(text, "convoy_lock_waits_per_second{labels} {}", row.waits_per_s);
        }
        head(&mut text, "convoy_threads", "Mean number of threads by activity.");
        for row in &self.threads {
            let doing = serde_json::to_value(row.doing).unwrap_or_default();
            let (doing, what) = (doing.as_str().unwrap_or_default(), escape(&row.what));
            let labels = format!("{{doing=\"{doing}\",what=\"{what}\"}}");
            let _ = writeln!(text, "convoy_threads{labels} {}", row.threads);
        }
        head(&mut text, "convoy_processes", "Observed processes.");
        let _ = writeln!(text, "convoy_processes {}", self.processes);
        head(&mut text, "convoy_window_seconds", "Length of the window of these values.");
        let _ = writeln!(text, "convoy_window_seconds {}", self.window_s);
        head(&mut text, "convoy_cost_cpus", "CPUs that the observation uses.");
        let _ = writeln!(text, "convoy_cost_cpus {}", self.cost_percent / 100.0);
        text
    }
}

fn head(text: &mut String, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

/// Returns the labels of a lock.
fn labels(row: &TopLock) -> String {
    let [program, lock, kind] = [&row.program, &row.lock, &row.kind].map(|text| escape(text));
    format!("{{pid=\"{}\",program=\"{program}\",lock=\"{lock}\",kind=\"{kind}\"}}", row.pid)
}

/// Returns the value of a label, escaped as the format requires.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
