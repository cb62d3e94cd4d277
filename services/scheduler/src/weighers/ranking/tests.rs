//! Weights, by tables and by what must hold for all of them.
