use std::sync::Mutex;

use berth_agent_journal::samples::spec;
use berth_virt::guest_spec::{
    GuestInterface, GuestInterfaces, GuestPort, InterfaceSource, Label, LinkName, PlugSignal,
    PortConnection,
};
use uuid::Uuid;

use super::*;

/// Each of its ports works after this time.
struct SlowSwitch {
    delay: Duration,
    /// The limits of the waits.
    limits: Mutex<Vec<u64>>,
}

impl SlowSwitch {
    fn new(delay: u64) -> Self {
        Self {
            delay: Duration::from_secs(delay),
            limits: Mutex::default(),
        }
    }

    /// In seconds.
    fn limits(&self) -> Vec<u64> {
        self.limits.lock().unwrap().clone()
    }
}

impl PortWait for SlowSwitch {
    async fn wait_plugged(&self, port: &PortSpec, limit: Duration) -> Result<(), PortError> {
        self.limits.lock().unwrap().push(limit.as_secs());
        tokio::time::sleep(self.delay.min(limit)).await;
        match self.delay <= limit {
            true => Ok(()),
            false => Err(PortError::NotPlugged {
                port: port.port.id(),
                guest: port.guest,
                waited: limit,
                signal: "ovn-controller",
            }),
        }
    }
}

/// A switch that does not have the ports' bridge.
struct SwitchWithoutBridge;

impl PortWait for SwitchWithoutBridge {
    async fn wait_plugged(&self, port: &PortSpec, _: Duration) -> Result<(), PortError> {
        Err(PortError::NoBridge {
            port: port.port.id(),
            bridge: "br-int".to_owned(),
        })
    }
}

fn port_id(number: u128) -> Uuid {
    Uuid::from_u128(number << 96)
}

/// A guest with this number of ports.
fn guest_with_ports(count: u128) -> GuestSpec {
    let interface = |number| {
        let connection = PortConnection::OpenVswitch {
            bridge: LinkName::new("br-int").unwrap(),
            signal: PlugSignal::OvnInstalled,
        };
        let network = Label::new("private").unwrap();
        let port = GuestPort::new(port_id(number), network, Vec::new(), None, connection);
        GuestInterface {
            mac: format!("fa:16:3e:00:00:{number:02x}").parse().unwrap(),
            source: InterfaceSource::Port(Box::new(port.unwrap())),
        }
    };
    let interfaces = (1..=count).map(interface).collect();
    GuestSpec {
        interfaces: GuestInterfaces::new(interfaces).unwrap(),
        ..spec(1)
    }
}

const FATAL: VifPlugging = VifPlugging {
    timeout: Duration::from_secs(10),
    is_fatal: true,
};

const NOT_FATAL: VifPlugging = VifPlugging {
    is_fatal: false,
    ..FATAL
};

#[tokio::test(start_paused = true)]
async fn a_guest_starts_without_its_late_ports_if_the_timeout_is_not_fatal() {
    let (guest, begun) = (guest_with_ports(2), Instant::now());
    let late = SlowSwitch::new(11);
    NOT_FATAL.wait(&late, &guest).await.unwrap();
    assert_eq!(late.limits(), [10, 0]);
    assert_eq!(begun.elapsed(), NOT_FATAL.timeout);
    let late = SlowSwitch::new(11);
    let error = FATAL.wait(&late, &guest).await.unwrap_err().to_string();
    assert!(error.contains(&port_id(1).to_string()), "{error}");
    assert!(error.contains("10 s (vif_plugging_timeout)"), "{error}");
    assert_eq!(late.limits(), [10]);
}

#[tokio::test]
async fn an_error_that_is_no_timeout_is_always_fatal() {
    let guest = guest_with_ports(1);
    let refused = NOT_FATAL.wait(&SwitchWithoutBridge, &guest).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, PortError::NoBridge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_guest_does_not_wait_for_its_ports_if_the_timeout_is_zero() {
    for plugging in [FATAL, NOT_FATAL] {
        let (never, begun) = (SlowSwitch::new(u64::MAX), Instant::now());
        let none = VifPlugging {
            timeout: Duration::ZERO,
            ..plugging
        };
        none.wait(&never, &guest_with_ports(1)).await.unwrap();
        assert_eq!(never.limits(), [] as [u64; 0]);
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn the_ports_of_a_guest_share_one_timeout() {
    let (slow, begun) = (SlowSwitch::new(4), Instant::now());
    let waited = FATAL.wait(&slow, &guest_with_ports(3)).await;
    let error = waited.unwrap_err().to_string();
    assert!(error.contains(&port_id(3).to_string()), "{error}");
    assert!(error.contains("10 s (vif_plugging_timeout)"), "{error}");
    assert_eq!(slow.limits(), [10, 6, 2]);
    assert_eq!(begun.elapsed(), FATAL.timeout);
    FATAL.wait(&slow, &guest_with_ports(2)).await.unwrap();
}
