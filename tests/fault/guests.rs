//! Faults on guests' journeys, tiers T0 and T1: a whole cloud of one or two hosts in this process, failed once at each crossing of
//! its agents and of its conductor, and then many journeys at once by a seed.
//!
//! A clean run of a [`journeys::Journey`] records what crosses; [`sweep`] repeats it for each side of each of these crossings
//! and each fault that makes sense there, and asks the audit what is left. [`rows`] has the outcomes, which were written first.
//! [`canaries`] plants bugs that the same audit must catch; [`swarm`] runs several journeys at once; [`report`] writes the part
//! of `docs/faults.md` on guests.

mod canaries;
mod journeys;
mod report;
mod rows;
mod servers;
mod swarm;
mod sweep;
