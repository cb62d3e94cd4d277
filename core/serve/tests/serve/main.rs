//! Tests of the server: its limits and its TLS listener.

mod limits;
mod tls;
