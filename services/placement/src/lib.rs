//! OpenStack's Placement API over OpenStack's own schema, as one router.
