//! Prices of the virtual machine, measured on this one: units of user-mode work, caches and line
//! transfers, switches and wakeups, steps of kernel paths, and what of that changes from one hour
//! to the next.
//!
//! All of it is loops of nanoseconds, so this crate is optimised, where `convoy-lab` is not.

mod calls;
pub mod hour;
pub mod machine;
mod probe;
mod sched;
pub mod units;
mod wakeups;

pub use calls::KERNEL;

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_is_that_of_the_experiment_host() {
        let host: toml::Table = include_str!("../../../experiments/host.toml").parse().unwrap();
        assert_eq!(host["inputs"]["kernel"].as_str(), Some(super::KERNEL));
    }
}
