//! How many operations one run of a job is: what AIM9's single-user mode reports per second.

use super::Job;

/// The operations of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// How many.
    pub count: u64,
    /// The name of the unit, in the plural.
    pub unit: &'static str,
}

/// Dependent operations in one loop of an arithmetic job.
const PER_LOOP: u64 = 12;

impl Job {
    /// The operations of one run at full size with files of `file_kb` KB. AIM9 states the
    /// arithmetic jobs in thousands of them.
    pub const fn operations(self, file_kb: u64) -> Operations {
        let (count, unit) = match self {
            Self::AddDouble => (1_500_000 * PER_LOOP, "additions"),
            Self::AddFloat => (1_000_000 * PER_LOOP, "additions"),
            Self::AddInt | Self::AddLong => (5_000_000 * PER_LOOP, "additions"),
            Self::AddShort => (2_000_000 * PER_LOOP, "additions"),
            Self::MulDouble | Self::MulFloat => (1_000_000 * PER_LOOP, "multiplications"),
            Self::MulInt | Self::MulLong => (20_000 * PER_LOOP, "multiplications"),
            Self::MulShort => (25_000 * PER_LOOP, "multiplications"),
            Self::DivDouble | Self::DivFloat => (250_000 * PER_LOOP, "divisions"),
            Self::DivInt | Self::DivLong | Self::DivShort => (75_000 * PER_LOOP, "divisions"),
            Self::FunCal | Self::FunCal1 | Self::FunCal15 | Self::FunCal2 => (512_000, "calls"),
            Self::Sieve => (5, "sieves"),
            Self::ArrayRtns => (20, "linear systems"),
            Self::MatrixRtns => (100, "products"),
            Self::NewRaph => (200, "zeros"),
            Self::NumRtns1 => (1200, "functions"),
            Self::TrigRtns => (100_000, "functions"),
            Self::Series1 => (100, "series"),
            Self::StringRtns => (100, "rounds"),
            Self::SortRtns1 => (2, "passes"),
            Self::MemRtns1 => (30_000, "allocations and frees"),
            Self::MemRtns2 => (600, "block operations"),
            Self::RamCopy => (64, "copies"),
            Self::JmpTest => (1000, "jumps"),
            Self::MiscRtns1 => (10, "rounds"),
            Self::PageTest => (1700, "heap changes"),
            Self::BrkTest => (17_000, "heap changes"),
            Self::SignalTest => (1000, "signals"),
            Self::ExecTest => (5, "programs"),
            Self::ForkTest => (100, "processes"),
            Self::CreatClo => (1000, "creates and closes"),
            Self::LinkTest => (63, "unlinks and links"),
            Self::DirRtns1 => (10_000, "directory entries"),
            Self::DiskSrc => (100, "names"),
            Self::Command(_) => (1, "commands"),
            Self::ShellRtns1 | Self::ShellRtns2 | Self::ShellRtns3 => (1, "shells"),
            Self::SharedMemory => (400, "semaphore operations"),
            Self::TcpTest => (89, "messages"),
            Self::DgramPipe | Self::FifoTest | Self::PipeCpy | Self::StreamPipe | Self::UdpTest => {
                (99, "messages")
            }
            Self::SyncDiskCp | Self::SyncDiskRw | Self::SyncDiskUpdate | Self::SyncDiskWrt => {
                (file_kb / 2, "KB")
            }
            Self::DiskAioRr
            | Self::DiskAioRw
            | Self::DiskAiodioRr
            | Self::DiskAiodioRw
            | Self::DiskBcp
            | Self::DiskBrd
            | Self::DiskBrr
            | Self::DiskBrw
            | Self::DiskBwrt
            | Self::DiskCp
            | Self::DiskDioCp
            | Self::DiskDioRd
            | Self::DiskDioRr
            | Self::DiskDioRw
            | Self::DiskDioWrt
            | Self::DiskRd
            | Self::DiskRr
            | Self::DiskRw
            | Self::DiskWrt => (file_kb, "KB"),
        };
        Operations { count, unit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::Counting;
    use crate::jobs::JobEnv;

    /// The factors of the originals, in thousands, and how many units a job asks the kernel for:
    /// the count that is stated is the count that is done.
    #[test]
    fn arithmetic_jobs_do_what_they_state() {
        let factors = [
            (Job::AddDouble, 18_000),
            (Job::AddFloat, 12_000),
            (Job::AddInt, 60_000),
            (Job::AddLong, 60_000),
            (Job::AddShort, 24_000),
            (Job::MulDouble, 12_000),
            (Job::MulFloat, 12_000),
            (Job::MulInt, 240),
            (Job::MulLong, 240),
            (Job::MulShort, 300),
            (Job::DivDouble, 3000),
            (Job::DivFloat, 3000),
            (Job::DivInt, 900),
            (Job::DivLong, 900),
            (Job::DivShort, 900),
        ];
        for (job, thousands) in factors {
            assert_eq!(job.operations(10).count, thousands * 1000, "{}", job.name());
            let mut kernel = Counting::new();
            job.run(&mut kernel, &JobEnv::new("", 10)).expect("runs");
            let loops: u64 = kernel.units().values().sum();
            assert_eq!(loops * PER_LOOP, thousands * 1000, "{}", job.name());
        }
        assert_eq!(Job::DiskRd.operations(5120), Operations { count: 5120, unit: "KB" });
    }

    #[test]
    fn the_arithmetic_of_reaim_is_that_of_its_compiled_loops() {
        let mut env = JobEnv::new("", 10);
        env.dialect = crate::dialect::Dialect::Reaim;
        let starts = ["add_", "mul_", "div_"];
        let arithmetic = |job: &&Job| starts.iter().any(|start| job.name().starts_with(start));
        for job in Job::ALL.iter().filter(arithmetic) {
            let mut kernel = Counting::new();
            job.run(&mut kernel, &env).expect("runs");
            let loops = job.operations(10).count / PER_LOOP;
            let unit = format!("compiled_{}_loop", job.name());
            assert_eq!(kernel.units().get(unit.as_str()), Some(&loops), "{}", job.name());
        }
    }

    #[test]
    fn every_job_has_operations() {
        assert_eq!(Job::ALL.len(), 75);
        assert_eq!(Job::ALL.iter().filter(|job| job.host_only().is_some()).count(), 4);
        for job in Job::ALL {
            assert!(job.operations(10).count > 0 && !job.operations(10).unit.is_empty());
        }
    }
}
