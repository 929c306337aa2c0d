//! Instruction costs of the kernel paths, read from `kernels/costs.toml`.
//!
//! Each is the cost of a step beyond the memory operations that the virtual machine prices itself.
//! The file states the scope of each entry and the source of its number.

use std::collections::BTreeMap;

use convoy_machine::{Here, Preset, ps};
use serde::Deserialize;

/// The table, for people.
const TABLE: &str = "kernels/costs.toml";
const SHIPPED: &str = include_str!("../../../kernels/costs.toml");

/// Units of the calibration that the kernel's programs charge.
pub(crate) const PROGRAM_UNITS: [&str; 2] = ["shell_start", "list_program"];

/// Longest time that is charged without checking for interrupts, in picoseconds.
const STRETCH_PS: u64 = 2_000_000;

/// Errors in a table of costs.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// Not TOML, or a key is missing, unknown or of the wrong type.
    #[error("kernel costs: {0}")]
    Syntax(#[from] Box<toml::de::Error>),
    /// A machine measured a step that there is not.
    #[error(
        "kernel_ns.{key} of machine {machine} names no step; the steps are the keys of {TABLE}"
    )]
    Unknown {
        /// The machine.
        machine: String,
        /// The unknown key.
        key: String,
    },
    /// A value is out of its range.
    #[error("kernel costs: {key} is {value}; it must be 0 to 1000000000")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
    },
}

macro_rules! costs {
    ($($name:ident)+) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table { $($name: f64,)+ }

        /// Costs in picoseconds on the simulated machine; the entries are documented in
        /// `kernels/costs.toml`.
        #[derive(Clone, Debug)]
        pub(crate) struct Costs { $(pub(crate) $name: u64,)+ }

        impl Costs {
            /// Parses the table `text` for a machine `speed` times as fast as the calibration host,
            /// which has measured `own` itself.
            fn parse(
                text: &str,
                speed: f64,
                own: &BTreeMap<String, f64>,
            ) -> Result<Self, CostsError> {
                let table: Table = toml::from_str(text).map_err(Box::new)?;
                $(
                    let measured = own.get(stringify!($name)).copied();
                    let value = measured.unwrap_or(table.$name);
                    if !(0.0..=1e9).contains(&value) {
                        return Err(CostsError::Range { key: stringify!($name), value });
                    }
                    let $name = ps(if measured.is_some() { value } else { value / speed });
                )+
                Ok(Self { $($name,)+ })
            }

            /// Every step with its cost in nanoseconds.
            fn ns(&self) -> BTreeMap<&'static str, f64> {
                BTreeMap::from([$((stringify!($name), self.$name as f64 / 1000.0),)+])
            }
        }
    };
}

costs! {
    syscall getpid
    walk_start walk_component lookup_miss dentry_alloc
    open close creat truncate stat link unlink rename mkdir rmdir chdir getcwd
    getdents getdents_entry sync
    journal_handle journal_block commit_block disk_request
    disk_create disk_link disk_unlink disk_truncate disk_entry
    seek read write copy_kb file_page null_io
    pipe pipe_create socket_create socket_read
    socket_message_unix socket_message_udp socket_message_tcp tcp_connect
    ipc_create ipc_remove semop shm_attach
    brk fault page_zero page_copy page_alloc page_free bulk_page unmap_page lru_page
    futex_wait futex_wake sched_yield monitor slice_timer thread
    fork fork_page exit wait wait_child exec map
    kill signal_deliver signal_install
    query_system name_service bkl_tiny tty_file tty_ioctl proc_open shell_system
}

impl Costs {
    /// The costs on `machine`.
    pub(crate) fn of(machine: &Preset) -> Result<Self, CostsError> {
        let speed = machine.kernel_speed.unwrap_or(machine.speed);
        let costs = Self::parse(SHIPPED, speed, &machine.kernel_ns)?;
        let steps = costs.ns();
        match machine.kernel_ns.keys().find(|key| !steps.contains_key(key.as_str())) {
            None => Ok(costs),
            Some(key) => {
                Err(CostsError::Unknown { machine: machine.name.clone(), key: key.clone() })
            }
        }
    }

    /// The part of `per_kb` that `bytes` bytes cost.
    #[inline]
    pub(crate) fn copy(&self, bytes: usize) -> u64 {
        (self.copy_kb * bytes as u64) >> 10
    }
}

/// Returns the cost of each step of a kernel path on `machine`, in nanoseconds, by its name in
/// `kernels/costs.toml`: the machine's own measurement, or the table scaled by its speed.
///
/// # Errors
/// [`CostsError`] if the machine names a step that there is not, or a value is out of range.
pub fn costs_ns(machine: &Preset) -> Result<BTreeMap<&'static str, f64>, CostsError> {
    Ok(Costs::of(machine)?.ns())
}

/// Executes kernel instructions for `ps` picoseconds.
#[inline]
pub(crate) fn spend(ps: u64) {
    if ps <= STRETCH_PS {
        Here::pass(ps);
    } else {
        Here::compute(ps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_table_is_complete_and_scales_with_speed() {
        let none = BTreeMap::new();
        let slow = Costs::parse(SHIPPED, 1.0, &none).unwrap();
        let fast = Costs::parse(SHIPPED, 2.0, &none).unwrap();
        assert!(slow.syscall > 0 && slow.fork > slow.read);
        assert!(slow.fork.abs_diff(2 * fast.fork) <= 1);
        assert_eq!(slow.copy(2048), 2 * slow.copy(1024));
    }

    #[test]
    fn errors_name_the_key() {
        let none = BTreeMap::new();
        let error = |text: &str| Costs::parse(text, 1.0, &none).unwrap_err().to_string();
        let negative: String = SHIPPED
            .lines()
            .map(|line| {
                if line.starts_with("fork =") {
                    "fork = -1.0\n".into()
                } else {
                    format!("{line}\n")
                }
            })
            .collect();
        assert!(error(&negative).contains("fork is -1"));
        assert!(error("syscall = 1.0").contains("missing field"));
        assert!(error(&format!("{SHIPPED}\nno_such = 1.0\n")).contains("no_such"));
    }

    #[test]
    fn what_a_machine_measured_itself_is_not_scaled() {
        let mut machine = Preset::named("quad-2008-shared-llc").unwrap();
        machine.speed = 2.0;
        let before = costs_ns(&machine).unwrap();
        machine.kernel_ns.insert("write".into(), 321.0);
        let after = costs_ns(&machine).unwrap();
        assert!((after["write"] - 321.0).abs() < 1e-9 && (before["write"] - 55.0).abs() < 1e-9);
        assert!((after["read"] - before["read"]).abs() < 1e-9);
        machine.kernel_ns.insert("writ".into(), 1.0);
        let error = costs_ns(&machine).unwrap_err().to_string();
        assert!(error.contains("kernel_ns.writ of machine quad"), "{error}");
    }
}
