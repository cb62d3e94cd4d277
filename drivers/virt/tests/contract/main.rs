//! The contract's pure half: provider trees and homes, on views built by hand and at random.

mod homes;
mod properties;
mod provider_tree;
mod view;
