//! Tests of the server: the `Host` header, its limits and its TLS listener.

mod host_header;
mod limits;
mod tls;
mod upgrade;
