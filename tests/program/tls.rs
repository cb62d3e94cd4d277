//! Placement behind TLS: the authority's file lets the node connect, and the error names the file if not.

use std::net::TcpStream;

use berth_tests::exchange::address_of;
use berth_tests::peer::{checkout, installed};
use berth_tests::port::free_port;
use berth_tests::process::{Process, Program};

use crate::program::hypervisor::{Hypervisor, PATIENCE};
use crate::program::placement_api::{Api, way};

/// Takes TLS connections on one port and passes what is said to another.
const TERMINATOR: &str = "\
import socket, ssl, sys, threading
listen, port, certificate, key = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
def serve(plain):
    try:
        with context.wrap_socket(plain, server_side=True) as one, socket.create_connection(('127.0.0.1', port)) as two:
            def back():
                while data := two.recv(65536):
                    one.sendall(data)
                one.shutdown(socket.SHUT_RDWR)
            threading.Thread(target=back, daemon=True).start()
            while data := one.recv(65536):
                two.sendall(data)
    except OSError:
        pass
server = socket.create_server(('127.0.0.1', listen))
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
";

/// In front of this Placement, on this port.
fn terminator(node: &Hypervisor, placement: &str, listen: u16) -> Process {
    let to = address_of(placement).expect("an address").port();
    let files = checkout().join("core/client/tests/client/tls");
    let python = installed().expect("the peers").join("venv/bin/python");
    let mut process = Program::new(python)
        .args(["-I", "-S", "-c", TERMINATOR])
        .args([listen.to_string(), to.to_string()])
        .args([files.join("server.pem"), files.join("server.key")])
        .start(&node.home.path("terminator.log"))
        .expect("it starts");
    let answers = || TcpStream::connect(("127.0.0.1", listen)).is_ok();
    process.wait_until(PATIENCE, answers).expect("it listens");
    process
}

#[test]
fn the_authoritys_file_admits_the_node_and_another_one_gives_a_clear_error() {
    let api = Api::lease();
    let port = free_port().expect("a port");
    let url = format!("https://127.0.0.1:{port}");
    let authority = checkout().join("core/client/tests/client/tls/authority.pem");
    let mut node = Hypervisor::new("pcpu", "tls-1", &way(&url));
    let _terminator = terminator(&node, &api.placement.url(), port);

    let untrusted = node.run(&["agent", "--once", "--deadline", "2s"]);
    assert!([69, 78].contains(&untrusted.code), "{}", untrusted.stderr);
    assert!(untrusted.stderr.contains("cafile"), "{}", untrusted.stderr);

    let cafile = |path: &str| format!("{}\ncafile = \"{path}\"", way(&url));
    node.configure(&cafile("/nowhere/ca.pem"), "");
    let missing = node.run(&["agent", "--once"]);
    assert_eq!(missing.code, 78, "{}", missing.stderr);
    assert!(
        missing.stderr.contains("/nowhere/ca.pem"),
        "{}",
        missing.stderr
    );

    node.configure(&cafile(&authority.display().to_string()), "");
    let once = node.once();
    assert_eq!(once.code, 0, "{}", once.stderr);
    assert_eq!(api.names(&node.root()), ["tls-1"]);
}
