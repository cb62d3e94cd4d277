//! [`Topology`]: the exchanges, queues and bindings of a service, computed from the options alone.
//!
//! They are what oslo.messaging declares with the same options. An agent that takes over a host finds most of them there already, and
//! one that goes leaves them as nova-compute expects them.

use std::collections::BTreeMap;

use crate::options::MessagingOptions;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmqpExchangeKind {
    Topic,
    Fanout,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpExchange {
    pub name: String,
    pub kind: AmqpExchangeKind,
    pub durable: bool,
    pub auto_delete: bool,
}

/// The value of an argument of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueArgument {
    Text(String),
    Number(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpQueue {
    pub name: String,
    pub durable: bool,
    pub auto_delete: bool,
    pub arguments: BTreeMap<&'static str, QueueArgument>,
}

/// What sends the messages of an exchange that have this key to a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueBinding {
    pub exchange: String,
    pub queue: String,
    pub routing_key: String,
}

/// What has to be at the broker before something is consumed. The three lists are in the order of declaration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    pub exchanges: Vec<AmqpExchange>,
    pub queues: Vec<AmqpQueue>,
    pub bindings: Vec<QueueBinding>,
}

/// The exchange that all messages to one server, or to any server of a topic, pass.
pub(crate) fn topic_exchange(options: &MessagingOptions, name: &str) -> AmqpExchange {
    AmqpExchange {
        name: name.to_owned(),
        kind: AmqpExchangeKind::Topic,
        durable: topics_are_durable(options),
        auto_delete: options.amqp_auto_delete,
    }
}

/// The name of the exchange that passes a message to all servers of a topic.
pub(crate) fn fanout_exchange(topic: &str) -> String {
    format!("{topic}_fanout")
}

impl Topology {
    /// The queues `TOPIC` and `TOPIC.HOST` of a server, where its calls and casts arrive.
    #[must_use]
    pub fn of_topic(options: &MessagingOptions, exchange: &str, topic: &str, host: &str) -> Self {
        let names = [topic.to_owned(), format!("{topic}.{host}")];
        let durable = topics_are_durable(options);
        let queue = |name: &String| AmqpQueue {
            name: name.clone(),
            durable,
            auto_delete: options.amqp_auto_delete,
            arguments: mirrored_or_quorum(options, options.rabbit_quorum_queue),
        };
        let binding = |name: &String| QueueBinding {
            exchange: exchange.to_owned(),
            queue: name.clone(),
            routing_key: name.clone(),
        };
        Self {
            exchanges: vec![topic_exchange(options, exchange)],
            queues: names.iter().map(queue).collect(),
            bindings: names.iter().map(binding).collect(),
        }
    }

    /// The queue where the fanouts of a topic arrive. `unique` is a part of its name, unless all servers share one stream.
    #[must_use]
    pub fn of_fanout(options: &MessagingOptions, topic: &str, unique: &str) -> Self {
        let exchange = fanout_exchange(topic);
        let durable = options.rabbit_transient_quorum_queue || options.rabbit_stream_fanout;
        let ttl = options.rabbit_transient_queues_ttl.as_secs();
        let (name, arguments) = if options.rabbit_stream_fanout {
            let mut arguments = BTreeMap::from([("x-queue-type", text("stream"))]);
            if ttl > 0 {
                arguments.insert("x-max-age", text(&format!("{ttl}s")));
            }
            (exchange.clone(), arguments)
        } else {
            (format!("{exchange}_{unique}"), transient(options))
        };
        Self {
            exchanges: vec![AmqpExchange {
                name: exchange.clone(),
                kind: AmqpExchangeKind::Fanout,
                durable,
                auto_delete: true,
            }],
            queues: vec![AmqpQueue {
                name: name.clone(),
                durable,
                auto_delete: false,
                arguments,
            }],
            bindings: vec![QueueBinding {
                exchange,
                queue: name,
                routing_key: topic.to_owned(),
            }],
        }
    }

    /// The queue where a process receives the replies to its calls. The default exchange reaches each queue by its name.
    #[must_use]
    pub fn of_replies(options: &MessagingOptions, name: &str) -> Self {
        Self {
            queues: vec![AmqpQueue {
                name: name.to_owned(),
                durable: options.rabbit_transient_quorum_queue,
                auto_delete: false,
                arguments: transient(options),
            }],
            ..Self::default()
        }
    }
}

/// Quorum queues are durable always, and their exchange with them.
fn topics_are_durable(options: &MessagingOptions) -> bool {
    options.amqp_durable_queues || options.rabbit_quorum_queue
}

/// Arguments of reply queues, and of fanout queues that are not streams.
fn transient(options: &MessagingOptions) -> BTreeMap<&'static str, QueueArgument> {
    let mut arguments = mirrored_or_quorum(options, options.rabbit_transient_quorum_queue);
    let milliseconds = options.rabbit_transient_queues_ttl.as_millis();
    if milliseconds > 0 {
        let milliseconds = i64::try_from(milliseconds).unwrap_or(i64::MAX);
        arguments.insert("x-expires", QueueArgument::Number(milliseconds));
    }
    arguments
}

fn mirrored_or_quorum(
    options: &MessagingOptions,
    quorum: bool,
) -> BTreeMap<&'static str, QueueArgument> {
    let mut arguments = BTreeMap::new();
    if options.rabbit_ha_queues {
        arguments.insert("x-ha-policy", text("all"));
    }
    if !quorum {
        return arguments;
    }
    arguments.insert("x-queue-type", text("quorum"));
    for (name, limit) in [
        ("x-delivery-limit", options.rabbit_quorum_delivery_limit),
        (
            "x-max-in-memory-length",
            options.rabbit_quorum_max_memory_length,
        ),
        (
            "x-max-in-memory-bytes",
            options.rabbit_quorum_max_memory_bytes,
        ),
    ] {
        if limit > 0 {
            arguments.insert(name, QueueArgument::Number(limit.into()));
        }
    }
    arguments
}

fn text(text: &str) -> QueueArgument {
    QueueArgument::Text(text.to_owned())
}

#[cfg(test)]
mod tests;
