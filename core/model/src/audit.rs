//! The audit: one pure checker over what is true in several places. It owns its `Worlds`; callers convert.
