//! Pure numbers: estimates, intervals, percentiles and fairness.
//!
//! No I/O, no clock, no project types. Every function says what it does with hostile input: a
//! [`Sample`] refuses emptiness and values that are not finite, so everything computed from one is
//! total.
//!
//! ```
//! use convoy_stats::Sample;
//!
//! let jobs_per_min = Sample::new([61_210.0, 60_870.5, 61_002.3, 60_955.1]).unwrap();
//! let estimate = jobs_per_min.estimate();
//! assert!(estimate.lo < estimate.mean && estimate.mean < estimate.hi);
//! ```

mod fairness;
mod histogram;
mod paired;
mod sample;
mod student;

pub use fairness::jain;
pub use histogram::LogHistogram;
pub use paired::{Ratio, paired_difference, paired_ratio};
pub use sample::{Estimate, Sample, SampleError};
pub use student::{t_cdf, t_quantile};
