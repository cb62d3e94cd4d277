//! The one place where concrete types meet: the berth program.
