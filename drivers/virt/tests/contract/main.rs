//! The contract's pure half: provider trees and homes, on views built by hand and at random.

#[cfg(test)]
mod adopted;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod homes;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod provider_tree;
#[cfg(test)]
mod view;
