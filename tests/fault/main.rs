//! Faults, tier T0: every journey of a node, failed once at each of its crossings in each way that makes sense there.
//!
//! A clean run of a [`journeys::Situation`] records the crossings; [`sweep`] runs it again for each point of that trace,
//! lets the unit come to rest, and compares what it left with what [`rows`] says (written first, in `rows.toml`), with the
//! world before and the world after a clean run, and with the audit ([`judge`], on [`evidence`]). [`canaries`] plant
//! bugs that must be caught; [`regressions`] are failures of the past, replayed first. [`visibility`] runs the agent's own
//! service under faults that last, and [`watched`] looks at it; [`swarm`] runs several nodes at once by a seed; [`twice`] sees that a
//! case can be repeated. [`report`] writes `docs/faults.md`. [`guests`] is the same for guests' journeys.

#![cfg(test)]

mod canaries;
mod case;
mod evidence;
mod guests;
mod journeys;
mod judge;
mod log;
mod regressions;
mod report;
mod rows;
mod swarm;
mod sweep;
mod twice;
mod visibility;
mod watched;
