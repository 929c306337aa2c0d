//! Pure numbers: estimates, comparisons, intervals.
