//! The mapped file of this process: its creation, its pages, and the state of recording.

pub(crate) mod budget;
pub(crate) mod clock;
pub(crate) mod create;
pub(crate) mod index;
pub(crate) mod map;
pub(crate) mod pages;
pub(crate) mod paths;
pub(crate) mod process;
pub(crate) mod spares;
pub(crate) mod state;
pub(crate) mod unloaded;
