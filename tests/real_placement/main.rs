//! The startup against the real Placement: greenfield, restart and the reshapes, every unit checked through its API. Being
//! written.
