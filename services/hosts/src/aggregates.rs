//! Host aggregates: keys and values that operators of the cloud give to groups of hosts, availability zones among them.

mod of_hosts;

pub(crate) use of_hosts::HostAggregates;
