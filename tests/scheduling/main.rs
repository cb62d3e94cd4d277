//! The conductor and the filter scheduler place guests on many hosts: with the built-in Placement, and with
//! OpenStack's.

mod cells;
mod crowd;
mod fairness;
mod groups;
mod headroom;
mod owners;
mod pci;
mod plugins;
mod records;
mod targets;
mod trust;
