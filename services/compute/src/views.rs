//! Response documents, one file per resource, by microversion.

pub(crate) mod flavor;
pub(crate) mod key_pair;
pub(crate) mod security_group;
pub(crate) mod server;
