//! Consoles of guests on the real libvirtd and QEMU, from OpenStack's client to the guest: through the compute API, the proxies
//! and the agent.

use std::fs;
use std::future::Future;
use std::process::Command;
use std::time::Duration;

use berth_tests::berth::BerthHome;
use berth_tests::peer::{Libvirtd, checkout};
use berth_tests::port::free_port;
use futures_util::{SinkExt as _, StreamExt as _};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::program::cloud::operator;
use crate::program::compute::Operator;
use crate::program::hypervisor::PATIENCE;

/// The seconds for which a token is valid in the test of expiry.
const SHORT: u64 = 1;

/// A boot sector that answers each byte of the serial port with the byte after it.
#[rustfmt::skip]
const CODE: &[u8] = &[
    0x31, 0xc0,                     // xor ax, ax
    0x8e, 0xd8,                     // mov ds, ax
    0x8e, 0xd0,                     // mov ss, ax
    0xbc, 0x00, 0x7c,               // mov sp, 0x7c00
    0xba, 0xfd, 0x03,               // next: mov dx, 0x3fd
    0xec,                           // in al, dx
    0xa8, 0x01,                     // test al, 1
    0x74, 0xf8,                     // jz next
    0xba, 0xf8, 0x03,               // mov dx, 0x3f8
    0xec,                           // in al, dx
    0xfe, 0xc0,                     // inc al
    0x88, 0xc1,                     // mov cl, al
    0xba, 0xfd, 0x03,               // send: mov dx, 0x3fd
    0xec,                           // in al, dx
    0xa8, 0x20,                     // test al, 0x20
    0x74, 0xf8,                     // jz send
    0xba, 0xf8, 0x03,               // mov dx, 0x3f8
    0x88, 0xc8,                     // mov al, cl
    0xee,                           // out dx, al
    0xeb, 0xe0,                     // jmp next
];

/// Writes the image and the file of images.
fn images(home: &BerthHome) -> String {
    let mut disk = vec![0; 1 << 20];
    disk[..CODE.len()].copy_from_slice(CODE);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    let folder = home.path("images");
    fs::create_dir(&folder).expect("a folder");
    let image = folder.join("echo.raw");
    fs::write(&image, &disk).expect("an image");
    let checksum: String = Sha256::digest(&disk)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let text = format!(
        "[[image]]\nname = \"echo\"\npath = \"{}\"\nformat = \"raw\"\nchecksum = \"sha256:{checksum}\"\n",
        image.display()
    );
    let file = home.write("images.toml", &text).expect("a file");
    file.display().to_string()
}

/// The URL of the websocket that noVNC's page opens.
fn websocket(url: &str) -> String {
    let (page, path) = url
        .split_once("/vnc_lite.html?path=")
        .expect("noVNC's page");
    let path = path.replace("%3F", "?").replace("%3D", "=");
    format!("{}/{path}", page.replacen("http", "ws", 1))
}

type Client = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(url: &str) -> Result<Client, u16> {
    match connect_async(url).await {
        Ok((client, _)) => Ok(client),
        Err(Error::Http(refused)) => Err(refused.status().as_u16()),
        Err(error) => panic!("{url}: {error}"),
    }
}

/// Reads until this was read.
async fn read_until(client: &mut Client, wanted: &[u8]) {
    let mut read = Vec::new();
    while !read.windows(wanted.len()).any(|part| part == wanted) {
        match client.next().await {
            Some(Ok(Message::Binary(bytes))) => read.extend_from_slice(&bytes),
            Some(Ok(Message::Ping(_))) => {}
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&read)),
        }
    }
}

fn within<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let bounded = async { tokio::time::timeout(PATIENCE, work).await };
    runtime.block_on(bounded).expect("it ends in time")
}

fn url(operator: &mut Operator, kind: &str, server: &str) -> String {
    let shown = operator.json(&format!("console url show --{kind} {server}"));
    shown["url"].as_str().expect("a URL").to_owned()
}

/// Opens the page in Chromium, if `BERTH_BROWSER_PYTHON` names a Python with selenium. `BERTH_SCREENSHOT` names the picture's
/// file. The packages are not among the peers, because they are as large as all of these.
fn browse(page: &str) {
    let Some(python) = std::env::var_os("BERTH_BROWSER_PYTHON") else {
        return;
    };
    let screenshot = std::env::var_os("BERTH_SCREENSHOT").unwrap_or_else(|| "/dev/null".into());
    let mut command = Command::new(python);
    command
        .arg(checkout().join("tests/program/console_page.py"))
        .arg(page)
        .arg(screenshot)
        .env_remove("PYTHONPATH");
    let ended = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    let status = String::from_utf8_lossy(&ended.stdout);
    assert!(status.starts_with("Connected to QEMU"), "{status}");
}

#[test]
fn openstacks_client_gets_urls_that_open_the_screen_and_the_serial_port_of_one_guest() {
    let libvirtd = Libvirtd::start().expect("libvirtd starts");
    let mut home = BerthHome::new().expect("a home");
    let (images, folder) = (images(&home), home.path("images"));
    let (uri, folder) = (libvirtd.uri(), folder.display());
    let listen = format!("127.0.0.1:{}", free_port().expect("a port"));
    let configure = |ttl: u64| {
        format!(
            "host = \"console-host\"\nstate_path = \"@HOME@/state\"\ninstances_path = \"@HOME@/instances\"\n\
             periodic_fuzzy_delay = 0\n[libvirt]\nconnection_uri = \"{uri}\"\nvirt_type = \"qemu\"\n\
             disk_cachemodes = [\"file=writeback\"]\n[consoleauth]\ntoken_ttl = {ttl}\n\
             [image_cache]\nimage_directories = [\"{folder}\"]\n[agent]\nadmin_socket = \"@HOME@/agent.sock\"\n\
             [compute_service]\nimages_file = \"{images}\"\n"
        )
    };
    home.configure(&configure(600)).expect("a configuration");
    home.set_env("BERTH__API__LISTEN", &listen);
    let config = home.config_file().display().to_string();
    let start = |home: &mut BerthHome| {
        let mut up = home.start(["--config", &config, "up"]).expect("it starts");
        up.wait_for_line(PATIENCE, "next:").expect("it is ready");
        up
    };
    let up = start(&mut home);
    let mut operator = operator(&home.state_dir());
    operator.done("flavor create tiny --ram 64 --vcpus 1 --disk 0");
    for name in ["one", "other"] {
        let create = format!("server create {name} --flavor tiny --image echo --no-network --wait");
        let made = operator.json(&create);
        assert_eq!(made["status"], "ACTIVE", "{made}\n{}", up.stderr());
    }
    let page = url(&mut operator, "novnc", "one");
    browse(&page);
    let screen = websocket(&page);
    let serial = url(&mut operator, "serial", "one");
    let of_other = url(&mut operator, "serial", "other");
    within(async {
        let mut client = connect(&screen).await.expect("the screen");
        read_until(&mut client, b"RFB 003.008\n").await;
        // The system may still be starting, and a key then gets lost.
        let mut client = connect(&serial).await.expect("the serial port");
        let mut answer = Vec::new();
        while !answer.ends_with(b"IBM") {
            client.send(Message::text("HAL")).await.expect("it is sent");
            let more = tokio::time::timeout(Duration::from_secs(1), client.next()).await;
            if let Ok(Some(Ok(Message::Binary(bytes)))) = more {
                answer.extend_from_slice(&bytes);
            }
        }
        assert_eq!(connect(&serial).await.err(), Some(409), "it has one reader");
        // Each token opens its own guest alone: this one's port is free.
        let mut others = connect(&of_other).await.expect("the other one");
        others.send(Message::text("a")).await.expect("it is sent");
        drop(client);
        let base = serial.split('?').next().expect("a URL");
        let token = screen.split('=').next_back().expect("a token");
        for wrong in [
            format!("{base}?token={token}"),
            format!("{serial}x"),
            base.to_owned(),
        ] {
            assert_eq!(connect(&wrong).await.err(), Some(403), "{wrong}");
        }
    });
    let log = up.stderr();
    let token = serial.split('=').next_back().expect("a token");
    assert!(!log.contains(token), "a token is in the log");
    // A connection ends with its guest, and its token with the server.
    within(async {
        let mut client = connect(&screen).await.expect("the screen");
        operator.done("server delete --wait one");
        loop {
            match client.next().await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    assert_eq!(frame.reason.as_str(), "the guest closed it");
                    break;
                }
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(connect(&screen).await.err(), Some(403));
    });
    assert_eq!(up.stop(PATIENCE).expect("it ends").code, 0);
    home.configure(&configure(SHORT)).expect("a configuration");
    let up = start(&mut home);
    let serial = url(&mut operator, "serial", "other");
    within(async {
        loop {
            match connect(&serial).await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                Err(status) => {
                    assert!(status == 403 || status == 409, "{status}");
                    if status == 403 {
                        break;
                    }
                }
            }
        }
    });
    operator.done("server delete --wait other");
    assert_eq!(up.stop(PATIENCE).expect("it ends").code, 0);
}
