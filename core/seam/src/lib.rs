//! The contract of a crossing: what every effect announces before it happens and after it happened, and the gate that may hold or fail it.
