//! SIGKILLs of the shipped binary at every request of its startup, against the real Placement. Being written.
