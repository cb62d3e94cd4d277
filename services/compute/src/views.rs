//! What is told of each noun, by the version of the request.

pub(crate) mod flavor;
pub(crate) mod key_pair;
pub(crate) mod server;
