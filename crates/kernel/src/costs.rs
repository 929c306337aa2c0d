//! Instruction costs of the kernel paths, read from `kernels/costs.toml`.
//!
//! Each is what the step costs beyond the memory operations that the virtual machine prices itself.
//! The file says what an entry covers and where its number comes from.

use convoy_machine::{Here, ps};
use serde::Deserialize;

/// Longest stretch that is charged without looking at interrupts, in picoseconds.
const STRETCH_PS: u64 = 2_000_000;

/// What is wrong with a table of costs.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// Not TOML, or a key is missing, unknown or of the wrong type.
    #[error("kernel costs: {0}")]
    Syntax(#[from] Box<toml::de::Error>),
    /// A value is out of its range.
    #[error("kernel costs: {key} is {value}; it must be 0 to 1000000000")]
    Range {
        /// The key.
        key: &'static str,
        /// What it is.
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
            /// Parses the table `text` for a machine `speed` times as fast as the calibration host.
            pub(crate) fn parse(text: &str, speed: f64) -> Result<Self, CostsError> {
                let table: Table = toml::from_str(text).map_err(Box::new)?;
                $(if !(0.0..=1e9).contains(&table.$name) {
                    return Err(CostsError::Range { key: stringify!($name), value: table.$name });
                })+
                Ok(Self { $($name: ps(table.$name / speed),)+ })
            }
        }
    };
}

costs! {
    syscall getpid
    walk_start walk_component lookup_miss dentry_alloc
    open close creat truncate stat link unlink mkdir rmdir chdir getcwd
    getdents getdents_entry sync
    journal_handle journal_block commit_block disk_request
    disk_create disk_link disk_unlink disk_truncate
    seek read write copy_kb file_page null_io
    pipe pipe_create socket_create socket_read
    socket_message_unix socket_message_udp socket_message_tcp tcp_connect
    ipc_create ipc_remove semop shm_attach
    brk fault page_zero page_copy page_alloc page_free bulk_page unmap_page lru_page
    futex_wait futex_wake sched_yield thread
    fork fork_page exit wait wait_child exec map
    kill signal_deliver signal_install
    query_system name_service bkl_tiny tty_file tty_ioctl proc_open shell_system
}

impl Costs {
    /// The shipped table.
    pub(crate) fn shipped(speed: f64) -> Result<Self, CostsError> {
        Self::parse(include_str!("../../../kernels/costs.toml"), speed)
    }

    /// The part of `per_kb` that `bytes` bytes cost.
    #[inline]
    pub(crate) fn copy(&self, bytes: usize) -> u64 {
        (self.copy_kb * bytes as u64) >> 10
    }
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
        let slow = Costs::shipped(1.0).unwrap();
        let fast = Costs::shipped(2.0).unwrap();
        assert!(slow.syscall > 0 && slow.fork > slow.read);
        assert!(slow.fork.abs_diff(2 * fast.fork) <= 1);
        assert_eq!(slow.copy(2048), 2 * slow.copy(1024));
    }

    #[test]
    fn errors_name_the_key() {
        let text = include_str!("../../../kernels/costs.toml");
        let error = |text: &str| Costs::parse(text, 1.0).unwrap_err().to_string();
        let negative: String = text
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
        assert!(error(&format!("{text}\nno_such = 1.0\n")).contains("no_such"));
    }
}
