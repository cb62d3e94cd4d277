//! The test harness: peers, machines, faults. Nothing imports this crate.
