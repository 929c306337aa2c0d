//! Functions that only pass their argument on to a lock function, by their machine code.

use std::collections::BTreeMap;

use crate::names::elf::Elf;
use crate::sampling::syscall_file::act;

/// Maximum size of such a function in bytes: a longer one has work of its own.
const LARGEST: u64 = 256;
/// Maximum number of such functions that call each other.
const DEPTH: usize = 4;

pub(crate) struct Code {
    elf: Elf,
    slots: BTreeMap<u64, String>,
}

/// Target of a call or of a jump out of the function.
enum Target {
    Named(String),
    Here(u64),
}

impl Code {
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        let elf = Elf::new(bytes)?;
        let slots = elf.slots().into_iter().map(|(slot, name)| (slot, name.to_owned())).collect();
        Some(Self { elf, slots })
    }

    /// Returns whether a function acquires a lock, or waits, and does nothing else for its callers.
    /// `function` returns start and size of the function at an address.
    pub(crate) fn only_takes(
        &self,
        begin: u64,
        size: u64,
        function: &impl Fn(u64) -> Option<(u64, u64)>,
    ) -> bool {
        self.passes_on(begin, size, function, DEPTH)
    }

    fn passes_on(
        &self,
        begin: u64,
        size: u64,
        function: &impl Fn(u64) -> Option<(u64, u64)>,
        depth: usize,
    ) -> bool {
        if size > LARGEST || depth == 0 {
            return false;
        }
        let mut takes = 0;
        for target in self.targets(begin, size) {
            match target {
                Target::Named(name) if is_taking(&name) => takes += 1,
                Target::Named(name) if is_leaf(&name) => {}
                Target::Named(_) => return false,
                Target::Here(address) => {
                    let Some((begin, size)) = function(address) else { return false };
                    if !self.passes_on(begin, size, function, depth - 1) {
                        return false;
                    }
                    takes += 1;
                }
            }
        }
        takes > 0
    }

    fn bytes(&self, address: u64, length: u64) -> Option<&[u8]> {
        let (begin, bytes) = self
            .elf
            .code()
            .find(|(begin, bytes)| (*begin..*begin + bytes.len() as u64).contains(&address))?;
        let from = (address - begin) as usize;
        bytes.get(from..bytes.len().min(from + length as usize))
    }

    /// Returns the targets of the calls in a function, and of the jumps out of it. They are
    /// recognized by their bytes; other bytes that look like a call have no target in the code.
    fn targets(&self, begin: u64, size: u64) -> Vec<Target> {
        const CALL: u8 = 0xe8;
        const JUMP: u8 = 0xe9;
        const BY_SLOT: u8 = 0xff;
        const CALL_SLOT: u8 = 0x15;
        const JUMP_SLOT: u8 = 0x25;
        let bytes = self.bytes(begin, size).unwrap_or_default();
        let mut targets = Vec::new();
        for (at, window) in bytes.windows(5).enumerate() {
            let here = begin + at as u64;
            match window {
                [CALL | JUMP, ..] => {
                    let target = (here + 5).wrapping_add_signed(distance(&window[1..]));
                    let is_inside = (begin..begin + size).contains(&target);
                    if !is_inside && self.bytes(target, 1).is_some() {
                        targets.push(self.target(target));
                    }
                }
                [BY_SLOT, CALL_SLOT | JUMP_SLOT, ..] => {
                    let Some(rest) = bytes.get(at + 2..at + 6) else { continue };
                    let slot = (here + 6).wrapping_add_signed(distance(rest));
                    targets.extend(self.slots.get(&slot).cloned().map(Target::Named));
                }
                _ => {}
            }
        }
        targets
    }

    /// Returns the function at an address, or the one in another file that the stub there jumps to.
    fn target(&self, address: u64) -> Target {
        /// Bytes of a stub: a landing mark, a prefix and the jump.
        const STUB: u64 = 16;
        let stub = self.bytes(address, STUB).unwrap_or_default();
        let jump = stub.windows(6).position(|window| window.starts_with(&[0xff, 0x25]));
        let slot = jump
            .filter(|at| *at <= 5)
            .map(|at| (address + at as u64 + 6).wrapping_add_signed(distance(&stub[at + 2..])));
        match slot.and_then(|slot| self.slots.get(&slot)) {
            Some(name) => Target::Named(name.clone()),
            None => Target::Here(address),
        }
    }
}

/// Returns the signed number of the first four bytes.
fn distance(bytes: &[u8]) -> i64 {
    bytes
        .get(..4)
        .map_or(0, |four| i64::from(i32::from_le_bytes([four[0], four[1], four[2], four[3]])))
}

/// Returns whether a function of libc acquires a lock or waits.
fn is_taking(name: &str) -> bool {
    let is_of_locks = act(name).is_some() || name.starts_with("pthread_spin_");
    is_of_locks && !name.ends_with("unlock") && (name.ends_with("lock") || name.ends_with("wait"))
}

/// Returns whether a function does not return, or only says which thread or error it is.
fn is_leaf(name: &str) -> bool {
    const LEAVES: [&str; 7] = [
        "abort",
        "__assert",
        "__stack_chk_fail",
        "__errno_location",
        "pthread_self",
        "_Unwind_Resume",
        "__cxa_",
    ];
    LEAVES.iter().any(|leaf| name.starts_with(leaf)) || name.contains("__throw_")
}

#[cfg(test)]
mod tests {
    use super::{is_leaf, is_taking};

    #[test]
    fn only_functions_that_acquire_or_wait_take_locks() {
        for name in ["pthread_mutex_lock", "pthread_rwlock_timedrdlock", "sem_wait", "mtx_lock"] {
            assert!(is_taking(name), "{name}");
        }
        for name in ["pthread_mutex_unlock", "pthread_rwlock_init", "sem_post", "flock", "wait"] {
            assert!(!is_taking(name), "{name}");
        }
        assert!(is_leaf("_ZSt20__throw_system_errori") && !is_leaf("_ZSt4sort") && !is_leaf("log"));
    }
}
