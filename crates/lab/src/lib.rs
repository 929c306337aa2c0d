//! What is run and how: experiments, load points on the virtual kernel, lock loops on either kind
//! of machine, calibration; commands under measurement, their comparison, and the search for the
//! commit that changed what they measure.

pub mod bisect;
pub mod bulk;
pub mod calibrate;
pub mod calibrate_calls;
pub mod calibrate_machine;
mod calibrate_sched;
mod calibrate_wakeups;
pub mod compare;
pub mod experiment;
pub mod figures;
pub mod hour;
pub mod idle_rules;
pub mod inputs;
pub mod job;
pub mod lock_loop;
pub mod measure;
pub mod native;
pub mod pool;
pub mod record;
pub mod replay;
mod spread;
pub mod sweep;
pub mod virtual_end;
pub mod virtual_locks;
pub mod virtual_run;
pub mod virtual_work;
pub mod zone_loop;
