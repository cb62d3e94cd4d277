//! Tests with the messages of a real cell. `messages.jsonl` has one message of each kind between nova-compute 34 and its control plane,
//! recorded on RabbitMQ, without envelopes, contexts and passwords. `fields-34.json` is derived by `packaging/scripts/nova_release.py`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod compute;
mod golden;
mod hostile;
mod messages;
mod objects;
mod release;
mod sendable;
