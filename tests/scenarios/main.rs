//! Scenarios: the agent's journeys over all services in one process, each named by the sentence it shows.

#![cfg(test)]

mod reshape;
