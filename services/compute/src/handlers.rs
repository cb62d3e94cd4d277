//! What each route does, noun by noun.

pub(crate) mod extensions;
pub(crate) mod flavor_access;
pub(crate) mod flavor_extra_specs;
pub(crate) mod flavor_manage;
pub(crate) mod flavors;
pub(crate) mod key_pairs;
pub(crate) mod versions;
