use serde_json::{Value, json};

use super::*;

/// What the broker of a Nova 34 cell held, recorded from its management interface.
const RECORDED: &str = include_str!("../../tests/captures/topology.json");
const UNIQUE: &str = "{hex32}";

fn arguments(queue: &AmqpQueue) -> Value {
    let list = queue.arguments.iter().map(|(name, value)| match value {
        QueueArgument::Text(text) => json!([name, "longstr", text]),
        QueueArgument::Number(number) => json!([name, "signedint", number]),
    });
    list.collect()
}

/// The recorded object of this kind and name.
fn recorded(kind: &str, name: &str) -> Value {
    let all: Value = serde_json::from_str(RECORDED).unwrap();
    let list = all[kind].as_array().unwrap();
    let found = list.iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("{kind} {name}")).clone()
}

fn has_what_was_recorded(topology: &Topology) {
    for exchange in &topology.exchanges {
        let recorded = recorded("exchanges", &exchange.name);
        let kind = match exchange.kind {
            AmqpExchangeKind::Topic => "topic",
            AmqpExchangeKind::Fanout => "fanout",
        };
        assert_eq!(recorded["type"], kind);
        assert_eq!(recorded["durable"], exchange.durable);
        assert_eq!(recorded["auto_delete"], exchange.auto_delete);
    }
    for queue in &topology.queues {
        let recorded = recorded("queues", &queue.name);
        assert_eq!(recorded["durable"], queue.durable, "{}", queue.name);
        assert_eq!(recorded["auto_delete"], queue.auto_delete);
        assert_eq!(recorded["arguments"], arguments(queue), "{}", queue.name);
    }
    let all: Value = serde_json::from_str(RECORDED).unwrap();
    for binding in &topology.bindings {
        let same = |it: &&Value| {
            it["source_name"] == *binding.exchange
                && it["destination_name"] == *binding.queue
                && it["routing_key"] == *binding.routing_key
        };
        let found = all["bindings"].as_array().unwrap().iter().find(same);
        assert!(found.is_some(), "{binding:?}");
    }
}

#[test]
fn the_default_options_give_the_classic_queues_that_nova_compute_had() {
    let options = MessagingOptions::default();
    for topic in ["compute", "compute-alt"] {
        has_what_was_recorded(&Topology::of_topic(&options, "nova", topic, "cmp1"));
        has_what_was_recorded(&Topology::of_fanout(&options, topic, UNIQUE));
    }
    has_what_was_recorded(&Topology::of_replies(&options, "reply_{hex32}"));
}

/// As kolla-ansible and OpenStack-Ansible set them.
fn quorum_and_streams() -> MessagingOptions {
    MessagingOptions {
        rabbit_quorum_queue: true,
        rabbit_transient_quorum_queue: true,
        rabbit_stream_fanout: true,
        use_queue_manager: true,
        rabbit_qos_prefetch_count: 10,
        ..MessagingOptions::default()
    }
}

#[test]
fn quorum_queues_and_streams_are_those_that_oslo_messaging_declared() {
    let options = quorum_and_streams();
    let topics = Topology::of_topic(&options, "nova", "compute", "gpu-01");
    assert!(topics.exchanges[0].durable && !topics.exchanges[0].auto_delete);
    let names: Vec<_> = topics.queues.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["compute", "compute.gpu-01"]);
    for queue in &topics.queues {
        assert!(queue.durable);
        assert_eq!(
            arguments(queue),
            json!([["x-queue-type", "longstr", "quorum"]])
        );
    }

    let fanout = Topology::of_fanout(&options, "compute-alt", UNIQUE);
    assert!(fanout.exchanges[0].durable && fanout.exchanges[0].auto_delete);
    assert_eq!(fanout.queues[0].name, "compute-alt_fanout");
    assert_eq!(
        arguments(&fanout.queues[0]),
        json!([
            ["x-max-age", "longstr", "1800s"],
            ["x-queue-type", "longstr", "stream"]
        ])
    );

    let replies = Topology::of_replies(&options, "reply_gpu-01:berth:1");
    assert!(replies.queues[0].durable && replies.exchanges.is_empty());
    assert_eq!(
        arguments(&replies.queues[0]),
        json!([
            ["x-expires", "signedint", 1_800_000],
            ["x-queue-type", "longstr", "quorum"]
        ])
    );
}

#[test]
fn limits_of_quorum_queues_are_arguments_only_when_set() {
    let options = MessagingOptions {
        rabbit_quorum_delivery_limit: 3,
        rabbit_quorum_max_memory_length: 1000,
        rabbit_quorum_max_memory_bytes: 4096,
        rabbit_quorum_queue: true,
        ..MessagingOptions::default()
    };
    let queue = &Topology::of_topic(&options, "nova", "compute", "h").queues[0];
    assert_eq!(
        arguments(queue),
        json!([
            ["x-delivery-limit", "signedint", 3],
            ["x-max-in-memory-bytes", "signedint", 4096],
            ["x-max-in-memory-length", "signedint", 1000],
            ["x-queue-type", "longstr", "quorum"]
        ])
    );
    let classic = MessagingOptions {
        rabbit_quorum_queue: false,
        ..options
    };
    assert!(
        Topology::of_topic(&classic, "nova", "compute", "h").queues[0]
            .arguments
            .is_empty()
    );
}

#[test]
fn mirrored_durable_and_deleted_queues_follow_their_options() {
    let options = MessagingOptions {
        rabbit_ha_queues: true,
        amqp_durable_queues: true,
        amqp_auto_delete: true,
        rabbit_transient_queues_ttl: std::time::Duration::ZERO,
        ..MessagingOptions::default()
    };
    let topics = Topology::of_topic(&options, "nova", "compute", "h");
    assert!(topics.exchanges[0].durable && topics.exchanges[0].auto_delete);
    assert!(topics.queues[1].durable && topics.queues[1].auto_delete);
    let mirrored = json!([["x-ha-policy", "longstr", "all"]]);
    assert_eq!(arguments(&topics.queues[1]), mirrored);
    let replies = &Topology::of_replies(&options, "reply").queues[0];
    assert!(!replies.durable && !replies.auto_delete);
    assert_eq!(arguments(replies), mirrored);
    assert_eq!(
        arguments(&Topology::of_fanout(&options, "t", "u").queues[0]),
        mirrored
    );
}
