//! Names of places in the kernel.

use std::collections::BTreeMap;

/// The kernel's symbol table.
const FILE: &str = "/proc/kallsyms";

/// The kernel's functions and variables.
pub(super) struct Symbols {
    text: String,
    /// Start addresses, each of which ends the previous symbol, and the positions of the names in
    /// the text.
    all: Vec<(u64, usize, usize)>,
    /// Address ranges of the functions that acquire locks or sleep.
    locking: Vec<(u64, u64)>,
}

/// Innermost frames, which include those of the tracepoint.
const TRACING: usize = 6;

/// Prefixes of functions that acquire locks for their callers, at any address; without underscores.
const PASSING: [&str; 19] = [
    "mutex_",
    "ww_mutex",
    "down_",
    "down",
    "rwsem_",
    "percpu_down",
    "percpu_rwsem",
    "pv_queued",
    "queued_",
    "native_queued",
    "raw_spin",
    "raw_read",
    "raw_write",
    "spin_lock",
    "rt_mutex",
    "rtlock",
    "rt_spin",
    "lock_mm_and_find_vma",
    "osq_lock",
];

impl Symbols {
    pub(super) fn read() -> Self {
        Self::new(std::fs::read_to_string(FILE).unwrap_or_default())
    }

    /// Parses lines with an address, a letter, a name, and for some `[module]`.
    fn new(text: String) -> Self {
        let mut all = Vec::new();
        let mut marks = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let address = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let (Some(address), Some(kind), Some(name)) = (address, words.next(), words.next())
            else {
                continue;
            };
            // The kernel hides addresses from users without the permission to see them.
            if address == 0 {
                continue;
            }
            if name.ends_with("_text_start") || name.ends_with("_text_end") {
                marks.insert(name, address);
            } else if "tTwWdDbBrR".contains(kind) && name != "_stext" && name != "_text" {
                all.push((address, name.as_ptr().addr() - text.as_ptr().addr(), name.len()));
            }
        }
        let part = |part: &str| {
            let mark = |end: &str| marks.get(format!("__{part}_text_{end}").as_str()).copied();
            Some((mark("start")?, mark("end")?))
        };
        let locking = ["sched", "lock"].into_iter().filter_map(part).collect();
        // If one address has several names, the last one is used.
        all.sort_by_key(|symbol| symbol.0);
        Self { text, all, locking }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the function or variable that contains an address, and the offset in it.
    fn find(&self, address: u64) -> Option<(&str, u64)> {
        /// Maximum length of a function.
        const LONGEST: u64 = 1 << 20;
        let next = self.all.partition_point(|symbol| symbol.0 <= address);
        let &(begin, at, length) = self.all.get(next.checked_sub(1)?)?;
        let name = &self.text[at..at + length];
        (address - begin < LONGEST).then(|| (plain(name), address - begin))
    }

    /// Returns the variable that begins here.
    pub(super) fn variable(&self, address: u64) -> Option<&str> {
        self.find(address).filter(|found| found.1 == 0).map(|found| found.0)
    }

    /// Returns the place where a stack waits: the function that wanted the lock, its caller, and
    /// the system call. The innermost frame comes first in `stack`.
    pub(super) fn place(&self, stack: &[u64]) -> String {
        let is_locking = |address: u64| {
            self.locking.iter().any(|part| (part.0..part.1).contains(&address))
                || self.find(address).is_some_and(|(name, _)| {
                    let name = name.trim_start_matches('_');
                    PASSING.iter().any(|prefix| name.starts_with(prefix))
                })
        };
        // The innermost frames are those of the recording program, which has been unloaded, and its
        // callers.
        let is_tracing = |address: &u64| {
            let name = self.find(*address).map_or("", |found| found.0);
            let name = name.trim_start_matches('_');
            ["bpf_trace", "traceiter_", "probestub_"].iter().any(|one| name.starts_with(one))
        };
        let from = stack.iter().take(TRACING).rposition(is_tracing).map_or(0, |last| last + 1);
        let stack = &stack[from..];
        let mut frames = stack.iter().copied().skip_while(|address| is_locking(*address));
        let Some(first) = frames.next() else {
            return stack.last().map_or_else(|| "?".to_owned(), |last| self.name(*last));
        };
        let names: Vec<String> = frames.map(|address| self.name(address)).collect();
        let at = names.iter().position(|name| call(name).is_some());
        let inner = names[..at.unwrap_or(names.len())].first();
        let first = self.name(first);
        let under = inner.filter(|name| **name != first && !is_entry(name));
        let under = under.map(|name| format!(" under {name}")).unwrap_or_default();
        match at.and_then(|at| call(&names[at])) {
            Some(call) => format!("{first}{under}, in {call}(2)"),
            None => format!("{first}{under}"),
        }
    }

    fn name(&self, address: u64) -> String {
        self.find(address).map_or_else(|| format!("{address:#x}"), |(name, _)| name.to_owned())
    }
}

/// Returns a function's name without compiler suffixes.
fn plain(name: &str) -> &str {
    let end = [".constprop", ".isra", ".part", ".cold", ".llvm"];
    end.iter().fold(name, |name, suffix| name.split(suffix).next().unwrap_or(name))
}

/// Returns the name of the system call that a function implements.
fn call(name: &str) -> Option<&str> {
    ["__x64_sys_", "__do_sys_", "__se_sys_", "__arm64_sys_"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
}

/// Returns whether the function is on every stack.
fn is_entry(name: &str) -> bool {
    ["do_syscall", "x64_sys", "entry_", "asm_", "ret_from"].iter().any(|one| name.starts_with(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000000000 T hidden\n\
        ffffffff81000000 T _stext\n\
        ffffffff81000100 T do_renameat2\n\
        ffffffff81000400 t lock_rename.part.0\n\
        ffffffff81000800 T __x64_sys_rename\n\
        ffffffff81000900 T x64_sys_call\n\
        ffffffff81001000 T __sched_text_start\n\
        ffffffff81001010 T __mutex_lock.constprop.0\n\
        ffffffff81002000 T __sched_text_end\n\
        ffffffff81003000 t bpf_trace_run2\n\
        ffffffff82000000 D tasklist_lock\n\
        ffffffffc0000000 t helper\t[module]\n\
        no line\n";

    #[test]
    fn a_place_is_the_function_that_wanted_the_lock_and_the_system_call() {
        let symbols = Symbols::new(TEXT.to_owned());
        let base = 0xffff_ffff_8100_0000;
        let stack =
            [0x3fff_0000, 0x3004, 0x1020, 0x410, 0x180, 0x810, 0x910].map(|offset| base + offset);
        assert_eq!(symbols.place(&stack), "lock_rename under do_renameat2, in rename(2)");
        assert_eq!(symbols.place(&stack[..4]), "lock_rename");
        assert_eq!(symbols.place(&stack[..3]), "__mutex_lock");
        assert_eq!(symbols.place(&[]), "?");
        assert_eq!(symbols.variable(0xffff_ffff_8200_0000), Some("tasklist_lock"));
        assert_eq!(symbols.variable(0xffff_ffff_8200_0008), None);
        assert!(Symbols::new("0000000000000000 T hidden\n".to_owned()).is_empty());
        let unnamed = Symbols::new(String::new());
        assert_eq!(unnamed.place(&[0xffff_ffff_8100_0410]), "0xffffffff81000410");
    }
}
