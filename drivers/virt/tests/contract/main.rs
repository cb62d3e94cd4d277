//! The pure half of the contract: provider trees and moves, on hand-made and random views.

#[cfg(test)]
mod adopted;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod fabric;
#[cfg(test)]
mod homes;
#[cfg(test)]
mod link_groups;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod provider_tree;
#[cfg(test)]
mod view;
