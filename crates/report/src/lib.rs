//! Pure functions of records: tables, plots, JSON, CSV.
