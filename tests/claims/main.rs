//! Claims of the last units of one provider by 16 and by 64 writers at once, over HTTP, from one Placement and from four beside
//! each other, each a process: never a unit too many, never a write that was acknowledged and is not there. Every history is
//! judged twice, by the generations that the database itself wrote down and by a search for an order of its own.
//!
//!   BERTH_CLAIMS_TRIALS=1000   so many contests of each kind (3)
//!   BERTH_CLAIMS_FROM=1        the first one's number
//!   BERTH_CLAIMS_REPORT=FILE   to which a line is added for each kind, for `make soak`

mod linear;
mod outage;
mod peer;
mod refused;
mod report;
mod trials;
