//! Fault injection for guests: a whole cloud of one or two hosts in this process, with one fault at
//! each effect of its agents and of its conductor, and then many scenarios at once by a seed.
//!
//! A clean run of a [`scenarios::GuestScenario`] records its effects. [`sweep`] repeats it for each side of each effect
//! and each applicable fault, and audits the result. [`rows`] has the expected outcomes, which were written before the
//! first run. [`canaries`] plants bugs that the same audit must catch, [`swarm`] runs several scenarios at once, and
//! [`report`] writes the part of `docs/faults.md` on guests.

mod canaries;
mod report;
mod rows;
mod scenarios;
mod servers;
mod swarm;
mod sweep;
