//! Tests only: every lock on every platform, busted locks that must be caught, litmus tests.
