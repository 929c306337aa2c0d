//! Why a load point ended early.

use convoy_workload::Errno;
use convoy_workload::jobs::JobError;

/// Why a load point ended early.
#[derive(Debug)]
pub(crate) enum Stop {
    Interrupted,
    Prepare(JobError),
    Fork { user: u32, errno: Errno },
    Limit { user: u32 },
    System { call: &'static str, errno: Errno },
}
