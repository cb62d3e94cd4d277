//! The `berth` program as it is shipped: started, told, starved, refused, ended. One room a noun, each test a sentence.

#![cfg(test)]

mod hypervisor;
mod keystone;
mod service_manager;
mod starts;
