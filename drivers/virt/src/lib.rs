//! The virt driver contract: what a driver sees, what it wants the provider tree to be, and the suite every driver passes.
