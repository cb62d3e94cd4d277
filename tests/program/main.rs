//! The `berth` program as it is shipped: started, told, starved, refused, ended. One room a noun, each test a sentence.

#![cfg(test)]

mod accelerator_life;
mod accelerator_service;
mod agent_over_tls;
mod agents_elsewhere;
mod allocations;
#[path = "../../core/serve/tests/tls/authority.rs"]
mod authority;
mod bad_input;
mod cloud;
mod commands;
mod compute;
mod compute_proxy;
mod devices;
mod exec_driver;
mod exit_codes;
mod explain;
mod external_events;
mod guests;
mod guide;
mod hypervisor;
mod identity;
mod image_service;
mod keystone;
mod libvirt;
mod libvirt_guests;
mod made_up_requests;
mod notify;
mod offline_upgrade;
mod one_listener;
mod openstack_client;
mod openstack_placement;
mod placement_api;
mod placement_database;
mod placement_service;
mod policy;
mod scheduler_metrics;
mod scheduler_options;
mod service_manager;
mod starts;
mod tls;
