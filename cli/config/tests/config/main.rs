//! Tests of the configuration: wrong files, and the values of right ones.

mod errors;
mod values;
