//! Claims of the last units of one provider by 16 and by 64 concurrent writers over HTTP, from one Placement process
//! and from four. No unit may be allocated twice, and no acknowledged write may be lost. Every history is checked
//! twice: by the generations that the database recorded, and by a search for a valid order.
//!
//!   BERTH_CLAIMS_TRIALS=1000   the number of contests of each kind (3)
//!   BERTH_CLAIMS_FROM=1        the number of the first one
//!   BERTH_CLAIMS_REPORT=FILE   a file to which a line is added for each kind, for `make soak`

mod linear;
mod outage;
mod peer;
mod refused;
mod report;
mod trials;
