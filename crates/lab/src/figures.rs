//! The figures of tables: their names, units and digits.

use convoy_kernel::sched::IdleCause;

/// One figure of a reproduction and how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in JSON and CSV, with its unit as suffix where it has one.
    pub key: &'static str,
    /// Head of the column.
    pub title: &'static str,
    /// Unit, as in JSON and CSV.
    pub unit: &'static str,
    /// Unit under the head of the column, empty if the title says it.
    pub head: &'static str,
    /// Digits after the point.
    pub decimals: usize,
    /// Whether a narrow page leaves its column out.
    pub minor: bool,
}

/// The columns of an AIM7 table, in the order of the source.
pub const AIM7: [Metric; 5] = [
    Metric { head: "", ..Metric::new("jobs_per_min", "Jobs/Min", "1/min", 1) },
    Metric { minor: true, ..Metric::new("jti", "JTI", "%", 1) },
    Metric::new("real_s", "Real", "s", 1),
    Metric::new("cpu_s", "CPU", "s", 1),
    Metric {
        head: "",
        minor: true,
        ..Metric::new("jobs_per_sec_per_task", "Jobs/sec/task", "1/s", 4)
    },
];

/// What explains them: where the time went.
pub const CAUSES: [Metric; 5] = [
    Metric::new("jobs_per_min_change_percent", "Change", "%", 1),
    Metric::new("idle_percent", "Idle", "%", 1),
    Metric::new("context_switches_per_s", "Switches", "1/s", 0),
    Metric::new("owner_not_running_percent", "Owner not running", "%", 1),
    Metric { minor: true, ..Metric::new("owner_change_ms", "Owner change", "ms", 3) },
];

impl Metric {
    const fn new(
        key: &'static str,
        title: &'static str,
        unit: &'static str,
        decimals: usize,
    ) -> Self {
        Self { key, title, unit, head: unit, decimals, minor: false }
    }
}

/// Metrics of other tables.
const OTHERS: [Metric; 68] = [
    Metric { head: "", ..Metric::new("value", "Value", "", 4) },
    Metric::new("wall_s", "Wall", "s", 4),
    Metric::new("user_s", "User", "s", 3),
    Metric::new("system_s", "System", "s", 3),
    Metric::new("rss_bytes", "RSS", "B", 0),
    Metric { head: "", ..Metric::new("switches", "Switches", "", 0) },
    Metric::new("cpu_ms_per_job", "CPU/job", "ms", 3),
    Metric::new("pulled_newidle_per_s", "Newly idle: pulled", "1/s", 0),
    Metric::new("newidle_failed_per_s", "failed", "1/s", 0),
    Metric::new("idle_beside_percent", "Idle while tasks wait", "%", 2),
    Metric::new("idle_usable_percent", "Usable", "%", 2),
    Metric::new("spin_percent", "Spinning", "%", 1),
    Metric::new("spin_beside_percent", "Burnt", "%", 1),
    Metric::new("acquisitions_per_s", "Sections", "1/s", 0),
    Metric::new("acquisitions_per_lock_s", "Sections of a lock", "1/s", 0),
    Metric::new("cpu_ns_per_section", "CPU time", "ns", 0),
    Metric::new("alone_ns", "Alone", "ns", 1),
    Metric { head: "", minor: true, ..Metric::new("jain", "Jain", "", 3) },
    Metric { head: "", ..Metric::new("cpus_used", "CPUs", "", 2) },
    Metric { head: "", ..Metric::new("others_cpus", "CPUs of others", "", 2) },
    Metric { minor: true, ..Metric::new("voluntary_switches_per_s", "Switches", "1/s", 0) },
    Metric { head: "", minor: true, ..Metric::new("starved_threads", "Starved", "", 0) },
    Metric { head: "", ..Metric::new("waiting_threads", "Waiting", "", 0) },
    Metric { head: "", ..Metric::new("wait_p50_us", "Wait p50", "us", 1) },
    Metric { head: "", ..Metric::new("wait_p99_us", "p99", "us", 1) },
    Metric { head: "", ..Metric::new("wait_max_us", "max", "us", 0) },
    Metric::new("settle_ms", "Settled after", "ms", 0),
    Metric { head: "", ..Metric::new("unsettled", "Unsettled", "", 0) },
    Metric { head: "", ..Metric::new("refill_count", "rmqueue_bulk: count", "", 2) },
    Metric { head: "", ..Metric::new("refill_count_sd", "sd", "", 2) },
    Metric { head: "", ..Metric::new("refill_order", "order", "", 2) },
    Metric { head: "", ..Metric::new("refill_order_sd", "sd", "", 2) },
    Metric { head: "", ..Metric::new("drain_count", "free_pages_bulk: count", "", 2) },
    Metric { head: "", ..Metric::new("drain_count_sd", "sd", "", 2) },
    Metric { head: "", ..Metric::new("drain_order", "order", "", 2) },
    Metric { head: "", ..Metric::new("drain_order_sd", "sd", "", 2) },
    Metric::new("console_p50_ms", "Console p50", "ms", 2),
    Metric::new("console_p99_ms", "p99", "ms", 1),
    Metric::new("console_max_ms", "max", "ms", 1),
    Metric::new("read_mb_s", "Read", "MB/s", 3),
    Metric::new("pages_per_s", "Pages", "1/s", 0),
    Metric::new("null_us", "Null call", "us", 2),
    Metric::new("read_us", "read", "us", 2),
    Metric::new("write_us", "write", "us", 2),
    Metric::new("stat_us", "stat", "us", 2),
    Metric::new("open_us", "open close", "us", 2),
    Metric::new("signal_install_us", "Signal: install", "us", 2),
    Metric::new("signal_catch_us", "catch", "us", 2),
    Metric::new("fork_us", "fork", "us", 0),
    Metric::new("exec_us", "exec", "us", 0),
    Metric::new("shell_us", "sh", "us", 0),
    Metric::new("context_switch_us", "Switch", "us", 2),
    Metric::new("pipe_us", "Pipe", "us", 2),
    Metric::new("socket_us", "Socket", "us", 2),
    Metric::new("udp_us", "UDP", "us", 2),
    Metric::new("tcp_us", "TCP", "us", 2),
    Metric::new("connect_us", "connect", "us", 2),
    Metric::new("fault_us", "Page fault", "us", 2),
    Metric::new("create_delete_us", "File 0K", "us", 1),
    Metric::new("create_delete_10k_us", "10K", "us", 1),
    Metric::new("pipe_mb_s", "Pipe bandwidth", "MB/s", 0),
    Metric::new("socket_mb_s", "Socket", "MB/s", 0),
    Metric::new("tcp_mb_s", "TCP", "MB/s", 0),
    Metric::new("reread_mb_s", "Reread", "MB/s", 0),
    Metric::new("wait_mean_us", "Wait", "us", 2),
    Metric::new("hold_mean_us", "Hold", "us", 2),
    Metric::new("irqs_off_max_us", "Interrupts off", "us", 0),
    Metric::new("list_wait_mean_us", "Wait for lists", "us", 2),
];

/// Every figure that a table can show.
pub fn all() -> impl Iterator<Item = Metric> {
    let rules = IdleCause::ALL.map(|cause| Metric::new(cause.key(), cause.title(), "%", 2));
    AIM7.into_iter().chain(CAUSES).chain(OTHERS).chain(rules)
}

/// The metric with this name, if a table has a column for it.
pub fn metric(key: &str) -> Option<Metric> {
    all().find(|metric| metric.key == key)
}

/// Whether the published tables have a column for it.
pub fn in_columns(key: &str) -> bool {
    AIM7.iter().chain(&CAUSES).any(|metric| metric.key == key)
}
