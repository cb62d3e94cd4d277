//! Tests of the invariants: snapshots with a planted bug, which its invariant must report, and unusual snapshots that are right.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod invariants {
    mod canaries;
    mod healthy;
    mod odd_but_right;
}
