//! The node agent: proposes, reshapes at start, ticks, reports, and says how it is.
