//! The statistics compared with known answers, with each other and with simulations.

mod bisect;
mod comparing;
mod coverage;
mod enumeration;
mod hostile;
mod known;
mod published;
