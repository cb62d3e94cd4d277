//! Fault injection for a node: every scenario of a node, with one fault at each of its effects, in each
//! applicable way.
//!
//! A clean run of a [`scenarios::Situation`] records its effects. [`sweep`] repeats it for each point of that trace and
//! waits until the unit is idle. It compares the result with [`rows`] (written first, in `rows.toml`), with the world
//! before and after a clean run, and with the audit ([`judge`], on [`evidence`]). [`canaries`] plant bugs that must be
//! caught; [`regressions`] are past failures, replayed first. [`visibility`] runs the agent's own service under
//! persistent faults, and [`watched`] observes it. [`swarm`] runs several nodes at once by a seed, and [`twice`] checks
//! that a case is reproducible. [`report`] writes `docs/faults.md`. [`guests`] is the same for guests.

#![cfg(test)]

mod canaries;
mod case;
mod evidence;
mod guests;
mod judge;
mod log;
mod regressions;
mod report;
mod rows;
mod scenarios;
mod swarm;
mod sweep;
mod twice;
mod visibility;
mod watched;
