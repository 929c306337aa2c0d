//! The live view of running processes: samples and refreshes, the screen of a terminal, and the
//! endpoint for dashboards. What is shown is written by `crates/report`.

mod endpoint;
mod observer;
mod screen;

pub use endpoint::{Endpoint, is_loopback};
pub use observer::{Ending, Observer, Refreshes};
pub use screen::Screen;
