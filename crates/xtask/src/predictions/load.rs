//! CPU time of other programs while a row is measured.

use anyhow::Context;

/// What ran on the first CPUs: all of it, and children of this program that have ended, in ticks of
/// the kernel (10 ms).
pub(super) struct Load {
    begin: std::time::Instant,
    busy: f64,
    own: f64,
}

impl Load {
    pub(super) fn now(cpus: u32) -> anyhow::Result<Self> {
        fn numbers(text: &str) -> Vec<f64> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        }
        let begin = std::time::Instant::now();
        let stat = std::fs::read_to_string("/proc/stat")?;
        // user, nice, system, idle, iowait, irq, softirq.
        let busy = |line: &str| -> f64 {
            // After the number of the CPU.
            let all = &numbers(line)[1..];
            all.iter().take(7).sum::<f64>() - all.iter().skip(3).take(2).sum::<f64>()
        };
        let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
        let first = lines.filter(|line| !line.starts_with(' '));
        let busy = first.take(cpus as usize).map(busy).sum();
        let own = std::fs::read_to_string("/proc/self/stat")?;
        let own = numbers(own.rsplit_once(')').context("a name in parentheses")?.1);
        // cutime and cstime; the state before the numbers is none.
        let own = own.iter().skip(12).take(2).sum();
        Ok(Self { begin, busy, own })
    }

    /// CPUs that others have used since.
    pub(super) fn others(&self, cpus: u32) -> anyhow::Result<f64> {
        const TICKS_PER_S: f64 = 100.0;
        let (now, seconds) = (Self::now(cpus)?, self.begin.elapsed().as_secs_f64());
        let others = (now.busy - self.busy) - (now.own - self.own);
        Ok((others / TICKS_PER_S / seconds).max(0.0))
    }
}
