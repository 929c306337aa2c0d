//! The thread that watches the process.

use crate::{BUDGET, LOOKS, report, tree};
use std::time::Duration;

/// Functions that the C library runs before `main`.
// SAFETY: the section holds addresses of functions that take nothing; this is one.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let watch = std::thread::Builder::new().name("watchdog".to_owned());
    // If this thread cannot be created, the test itself fails.
    drop(watch.spawn(watch_for_good));
}

fn watch_for_good() {
    let budget = std::env::var(BUDGET).ok().and_then(|text| text.parse::<u64>().ok());
    let (mut before, mut same) = (None, 0);
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = tree::sleeping_threads();
        same = if now.is_some() && now == before { same + 1 } else { 0 };
        before = now;
        if same >= LOOKS {
            report::and_end(&format!("no thread has run for {LOOKS} looks, all sleep"));
        }
        if budget.is_some_and(|seconds| tree::cpu_seconds() > seconds) {
            report::and_end("more CPU time used than sound tests need");
        }
    }
}
