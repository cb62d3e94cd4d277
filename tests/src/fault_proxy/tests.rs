//! Tests of the fault proxy. The upstream is a second proxy that answers every request itself and counts them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::exchange::HttpCall;
use crate::wait::wait_until;

const PATH: &str = "/resource_providers/u";
const TEMPLATE: &str = "/resource_providers/{uuid}";

fn service() -> FaultProxy {
    let unused = crate::port::free_port().expect("a port");
    let service = FaultProxy::start(&format!("http://127.0.0.1:{unused}")).expect("listens");
    service.add_rule(ProxyRule::new(ProxyFault::Answer(ErrorAnswer::REFUSED)));
    service
}

fn pair() -> (FaultProxy, FaultProxy) {
    let service = service();
    let proxy = FaultProxy::start(&service.url()).expect("listens");
    (proxy, service)
}

fn ask(proxy: &FaultProxy) -> Result<crate::exchange::HttpAnswer, ExchangeError> {
    HttpCall::put(format!("{}{PATH}?x=1", proxy.url()))
        .json(&serde_json::json!({"a": 1}))
        .send()
}

#[test]
fn without_a_rule_a_request_is_forwarded_and_recorded() {
    let (proxy, service) = pair();
    let answer = ask(&proxy).expect("an answer");
    assert_eq!(
        answer.json()["errors"][0]["code"],
        "placement.undefined_code"
    );
    let expected = ProxiedRequest {
        number: 1,
        method: "PUT".to_owned(),
        path: format!("{PATH}?x=1"),
        status: Some(409),
        fault: None,
    };
    assert_eq!(proxy.trace(), [expected]);
    assert_eq!(
        (proxy.count("PUT", TEMPLATE), proxy.count("GET", TEMPLATE)),
        (1, 0)
    );
    assert_eq!(service.count("*", "*"), 1);
    proxy.forget();
    assert_eq!(proxy.trace(), []);
}

/// Fault, how many requests the service sees, the status of a whole answer.
#[test]
fn each_fault_has_its_documented_effect() {
    let pause = Duration::from_millis(1);
    let cases = [
        (ProxyFault::Answer(ErrorAnswer::UNAVAILABLE), 0, Some(503)),
        (ProxyFault::Answer(ErrorAnswer::UNAUTHORIZED), 0, Some(401)),
        (ProxyFault::DropBefore, 0, None),
        (ProxyFault::DropAfter, 1, None),
        (ProxyFault::Twice, 2, Some(409)),
        (ProxyFault::DelayBefore(pause), 1, Some(409)),
        (ProxyFault::DelayAfter(pause), 1, Some(409)),
        (ProxyFault::Truncate, 1, None),
        (ProxyFault::Garbage, 1, Some(409)),
    ];
    for (fault, seen, status) in cases {
        let name = fault.name();
        let (proxy, service) = pair();
        proxy.add_rule(ProxyRule::new(fault).on("PUT", TEMPLATE).nth(1));
        let answer = ask(&proxy).ok();
        assert_eq!(
            answer.as_ref().map(|answer| answer.status.as_u16()),
            status,
            "{name}"
        );
        assert_eq!(service.count("*", "*"), seen, "{name}");
        assert_eq!(proxy.trace()[0].fault, Some(name));
        if name == "garbage" {
            assert!(answer.expect("an answer").json().is_null());
        }
        assert_eq!(
            ask(&proxy).expect("healthy again").status.as_u16(),
            409,
            "{name}"
        );
    }
}

#[test]
fn closures_run_before_and_after_the_service_has_seen_the_request() {
    for after in [0, 1] {
        let (proxy, service) = pair();
        let service = Arc::new(service);
        let seen = Arc::new(Mutex::new(None));
        let act = {
            let (service, seen) = (Arc::clone(&service), Arc::clone(&seen));
            move || *seen.lock().expect("no panic") = Some(service.count("*", "*"))
        };
        let fault = if after == 1 {
            ProxyFault::after(act)
        } else {
            ProxyFault::before(act)
        };
        proxy.add_rule(ProxyRule::new(fault));
        ask(&proxy).expect("an answer");
        assert_eq!(*seen.lock().expect("no panic"), Some(after));
    }
}

#[test]
fn a_closure_may_run_instead_of_the_request() {
    let (proxy, service) = pair();
    let runs = Arc::new(AtomicUsize::new(0));
    let act = {
        let runs = Arc::clone(&runs);
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    proxy.add_rule(ProxyRule::new(ProxyFault::instead(act)));
    ask(&proxy).expect_err("no answer");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(service.count("*", "*"), 0);
}

#[test]
fn an_endless_body_lasts_as_long_as_it_is_read() {
    let (proxy, _service) = pair();
    proxy.add_rule(ProxyRule::new(ProxyFault::Endless));
    let mut stream = TcpStream::connect(proxy.address).expect("connects");
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("written");
    let mut buffer = vec![0; 16 * 1024 * 1024];
    stream
        .read_exact(&mut buffer)
        .expect("sixteen megabytes and no end");
}

#[test]
fn the_service_finishes_a_request_after_the_client_gave_up() {
    let (proxy, service) = pair();
    proxy.add_rule(ProxyRule::new(ProxyFault::DelayBefore(
        Duration::from_millis(50),
    )));
    let mut stream = TcpStream::connect(proxy.address).expect("connects");
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .expect("written");
    let counts_one = |proxy: &FaultProxy| match proxy.count("*", "*") {
        0 => Err("no request"),
        _ => Ok(()),
    };
    wait_until("the request is at the proxy", || counts_one(&proxy));
    drop(stream);
    wait_until("the request is at the service", || counts_one(&service));
}

#[test]
fn the_first_matching_rule_acts_and_healing_removes_all_rules() {
    let (proxy, _service) = pair();
    proxy.add_rule(ProxyRule::new(ProxyFault::Answer(ErrorAnswer::INTERNAL)).nth(2));
    proxy.add_rule(ProxyRule::new(ProxyFault::Answer(ErrorAnswer::CONFLICT)));
    let statuses = || ask(&proxy).expect("an answer").json()["errors"][0]["code"].clone();
    assert_eq!(statuses(), "placement.concurrent_update");
    assert_eq!(ask(&proxy).expect("an answer").status.as_u16(), 500);
    proxy.heal();
    assert_eq!(statuses(), "placement.undefined_code");
}

#[test]
fn a_stopped_service_is_unreachable_behind_the_proxy_too() {
    let unused = crate::port::free_port().expect("a port");
    let proxy = FaultProxy::start(&format!("http://127.0.0.1:{unused}")).expect("listens");
    ask(&proxy).expect_err("no answer");
    assert_eq!(proxy.trace()[0].status, None);
}
