//! The options of `[oslo_messaging_rabbit]`: their names and defaults are those of oslo.messaging 18.3.1, the release of Nova 34.
//!
//! A broker refuses to declare a queue with other arguments than it has. So an agent and the services of its cell need the same values,
//! and `nova.conf` is where they stand.

use std::path::PathBuf;
use std::time::Duration;

use berth_options::{options, seconds};

options! {
    /// How queues in RabbitMQ are made, and how a connection to a broker is kept. The values have to be those of the cell's `nova.conf`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct MessagingOptions in "oslo_messaging_rabbit" {
        /// Whether queues and exchanges of topics survive a restart of the broker. Quorum queues always do.
        pub amqp_durable_queues: bool = false;
        /// Whether the broker deletes queues and exchanges of topics when their last user is gone.
        pub amqp_auto_delete: bool = false;
        /// Whether queues are declared with `x-ha-policy`. Conflicts with `rabbit_quorum_queue`.
        pub rabbit_ha_queues: bool = false;
        /// Whether queues of topics are quorum queues.
        pub rabbit_quorum_queue: bool = false;
        /// Whether reply queues and fanout queues are quorum queues.
        pub rabbit_transient_quorum_queue: bool = false;
        /// How often a quorum queue delivers a message before the broker drops it. 0 means no limit.
        pub rabbit_quorum_delivery_limit: u32 = 0;
        /// How many messages a quorum queue keeps in memory. 0 means no limit.
        pub rabbit_quorum_max_memory_length: u32 = 0;
        /// How many bytes of messages a quorum queue keeps in memory. 0 means no limit.
        pub rabbit_quorum_max_memory_bytes: u32 = 0;
        /// Whether all processes of a topic share one stream for fanouts. Needs `rabbit_transient_quorum_queue` and
        /// `rabbit_qos_prefetch_count`.
        pub rabbit_stream_fanout: bool = false;
        /// Seconds after which the broker deletes an unused reply or fanout queue, or drops the old messages of a stream. 0 means never.
        pub rabbit_transient_queues_ttl: Duration = seconds(1800);
        /// How many messages the broker sends ahead of their acknowledgement. 0 means 64 here, because memory is bounded.
        pub rabbit_qos_prefetch_count: u16 = 0;
        /// Whether reply queues are named after the host and the process.
        pub use_queue_manager: bool = false;
        /// The host in the names of reply queues. Without it, the host's own name.
        pub hostname: Option<String> = None, example: "\"cmp1\"";
        /// The process in the names of reply queues.
        pub processname: String = "berth".to_owned();
        /// Seconds without a sign of life after which a broker counts as gone. 0 turns the check off.
        pub heartbeat_timeout_threshold: u16 = 60;
        /// How often the connection is checked in that time, in oslo.messaging. Here, a heartbeat is always sent twice in that time.
        pub heartbeat_rate: u16 = 3;
        /// Seconds before a consumer that the broker cancelled is started again.
        pub kombu_reconnect_delay: Duration = seconds(1), kind: Seconds(0.0, 4.5);
        /// Seconds before the first repetition of a failed attempt to connect.
        pub rabbit_retry_interval: Duration = seconds(1), kind: Integer(1, 3600);
        /// Seconds that are added to this interval after each further failure.
        pub rabbit_retry_backoff: Duration = seconds(2), kind: Integer(0, 3600);
        /// The longest of these intervals, in seconds.
        pub rabbit_interval_max: Duration = seconds(30), kind: Integer(1, 3600);
        /// Whether a broker returns replies that have no queue. oslo.messaging keeps the option and no longer lets it be false.
        pub direct_mandatory_flag: bool = true;
        /// Whether connections use TLS.
        pub ssl: bool = false;
        /// The certificates of the authorities that brokers' certificates are checked against. Without it, those of the system.
        pub ssl_ca_file: Option<PathBuf> = None, example: "\"/etc/ssl/certs/rabbit-ca.pem\"";
        /// The certificate that this side shows to brokers.
        pub ssl_cert_file: Option<PathBuf> = None, example: "\"/etc/nova/rabbit.pem\"";
        /// The private key of that certificate. Without it, the key is read from `ssl_cert_file`.
        pub ssl_key_file: Option<PathBuf> = None, example: "\"/etc/nova/rabbit.key\"";
    }
    extra {
        /// How long a call waits for its reply. It is an option of `[DEFAULT]`.
        pub rpc_response_timeout: Duration = seconds(60);
    }
}

/// What `rabbit_qos_prefetch_count = 0` stands for. A limit of consumers is not a property of a queue, so it need not be the cell's.
const DEFAULT_PREFETCH: u16 = 64;

/// Options that exclude each other. oslo.messaging refuses the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessagingOptionsError {
    #[error(
        "[oslo_messaging_rabbit] rabbit_ha_queues and rabbit_quorum_queue are both true; a queue is mirrored or a quorum queue, \
         so set one of them to false"
    )]
    MirroredQuorumQueues,
    #[error(
        "[oslo_messaging_rabbit] rabbit_ha_queues and rabbit_transient_quorum_queue are both true; a queue is mirrored or a quorum \
         queue, so set one of them to false"
    )]
    MirroredTransientQuorumQueues,
    #[error(
        "[oslo_messaging_rabbit] rabbit_stream_fanout is true, so rabbit_qos_prefetch_count has to be above 0"
    )]
    StreamWithoutPrefetch,
    #[error(
        "[oslo_messaging_rabbit] rabbit_stream_fanout is true, so rabbit_transient_quorum_queue has to be true as well"
    )]
    StreamWithoutTransientQuorum,
    #[error(
        "[oslo_messaging_rabbit] ssl_key_file is set without ssl_cert_file; a key belongs to a certificate"
    )]
    KeyWithoutCertificate,
}

impl MessagingOptions {
    /// Checks combinations; the range of each value was checked when it was read.
    pub fn check(&self) -> Result<(), MessagingOptionsError> {
        use MessagingOptionsError as Wrong;
        if self.rabbit_ha_queues && self.rabbit_quorum_queue {
            return Err(Wrong::MirroredQuorumQueues);
        }
        if self.rabbit_ha_queues && self.rabbit_transient_quorum_queue {
            return Err(Wrong::MirroredTransientQuorumQueues);
        }
        if self.rabbit_stream_fanout && self.rabbit_qos_prefetch_count == 0 {
            return Err(Wrong::StreamWithoutPrefetch);
        }
        if self.rabbit_stream_fanout && !self.rabbit_transient_quorum_queue {
            return Err(Wrong::StreamWithoutTransientQuorum);
        }
        if self.ssl_key_file.is_some() && self.ssl_cert_file.is_none() {
            return Err(Wrong::KeyWithoutCertificate);
        }
        Ok(())
    }

    /// How many unacknowledged messages a consumer has at most.
    #[must_use]
    pub fn prefetch(&self) -> u16 {
        match self.rabbit_qos_prefetch_count {
            0 => DEFAULT_PREFETCH,
            count => count,
        }
    }

    /// The pause before the next attempt to connect, after this number of failures in a row (from 1). It grows by
    /// `rabbit_retry_backoff` up to `rabbit_interval_max`. A fraction (0 to 1) takes at most half of it away, so that the hosts of a cell
    /// do not come back in step.
    #[must_use]
    pub fn retry_pause(&self, failures: u32, fraction: f64) -> Duration {
        let steps = failures.saturating_sub(1);
        let pause = self
            .rabbit_retry_interval
            .saturating_add(self.rabbit_retry_backoff.saturating_mul(steps))
            .min(self.rabbit_interval_max);
        pause.mul_f64(0.5 + fraction.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_options_are_consistent_and_bound_what_is_sent_ahead() {
        let options = MessagingOptions::default();
        assert_eq!(options.check(), Ok(()));
        assert_eq!(options.prefetch(), 64);
        assert_eq!(options.rpc_response_timeout, seconds(60));
    }

    #[test]
    fn combinations_that_oslo_refuses_are_refused_with_the_option_to_change() {
        let base = MessagingOptions::default;
        let wrong = [
            MessagingOptions {
                rabbit_ha_queues: true,
                rabbit_quorum_queue: true,
                ..base()
            },
            MessagingOptions {
                rabbit_ha_queues: true,
                rabbit_transient_quorum_queue: true,
                ..base()
            },
            MessagingOptions {
                rabbit_stream_fanout: true,
                rabbit_transient_quorum_queue: true,
                ..base()
            },
            MessagingOptions {
                rabbit_stream_fanout: true,
                rabbit_qos_prefetch_count: 10,
                ..base()
            },
            MessagingOptions {
                ssl_key_file: Some("key.pem".into()),
                ..base()
            },
        ];
        for (options, named) in wrong.iter().zip([
            "rabbit_quorum_queue",
            "rabbit_transient_quorum_queue",
            "rabbit_qos_prefetch_count",
            "rabbit_transient_quorum_queue",
            "ssl_cert_file",
        ]) {
            let error = options.check().unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn pauses_between_attempts_grow_by_the_backoff_up_to_the_maximum() {
        let options = MessagingOptions::default();
        let pauses = [1, 2, 3, 15, 16, 1000, u32::MAX].map(|it| options.retry_pause(it, 1.0));
        assert_eq!(pauses.map(|it| it.as_secs()), [1, 3, 5, 29, 30, 30, 30]);
        assert_eq!(options.retry_pause(15, 0.0), Duration::from_millis(14_500));
    }
}
