//! Typed calls over any HTTP service: a pool of connections, a unix socket or a router in this process.
