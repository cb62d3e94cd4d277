//! The bytes of images.

use std::fs;

use super::service::{BYTES, HERE, HIDDEN, HOSTS, Service};

fn file(image: &str) -> String {
    format!("/v2/images/{image}/file")
}

#[tokio::test]
async fn data_that_are_here_are_given_whole_with_their_md5() {
    let service = Service::start();
    let reply = service.get(&file(HERE)).await;
    assert_eq!((reply.status.as_u16(), &reply.bytes[..]), (200, BYTES));
    assert_eq!(reply.header("content-type"), "application/octet-stream");
    assert_eq!(reply.header("content-length"), "10");
    assert_eq!(
        reply.header("content-md5"),
        "781e5e245d69b566979b86e28d23f2c7"
    );
    let admin = ("x-auth-token", "admin");
    let head = service.ask("HEAD", &file(HERE), &[admin]).await;
    assert_eq!((head.header("content-length"), head.bytes.len()), ("10", 0));
    for elsewhere in [HOSTS, HIDDEN] {
        let reply = service.get(&file(elsewhere)).await;
        assert_eq!((reply.status.as_u16(), reply.bytes.len()), (204, 0));
    }
    assert_eq!(service.get(&file("nowhere")).await.status, 404);
}

#[tokio::test]
async fn a_range_is_given_and_one_outside_refused() {
    let service = Service::start();
    for (range, status, bytes, reported) in [
        ("bytes=0-3", 206, &b"0123"[..], "bytes 0-3/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=-1", 206, b"9", "bytes 9-9/10"),
        ("bytes=0-0,2-2", 200, BYTES, ""),
    ] {
        let headers = [("x-auth-token", "admin"), ("range", range)];
        let reply = service.ask("GET", &file(HERE), &headers).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.bytes[..]),
            (status, bytes),
            "{range}"
        );
        assert_eq!(reply.header("content-range"), reported, "{range}");
    }
    let headers = [("x-auth-token", "admin"), ("range", "bytes=10-")];
    let outside = service.ask("GET", &file(HERE), &headers).await;
    assert_eq!(outside.status, 416);
}

#[tokio::test]
async fn data_of_many_pieces_are_given_byte_by_byte_the_same() {
    let service = Service::start();
    let bytes: Vec<u8> = (0..3_000_001_u32)
        .map(|it| it.to_le_bytes()[it as usize % 3])
        .collect();
    fs::write(service.path("big.raw"), &bytes).unwrap();
    let list = service.path("big.toml");
    let text = format!(
        "[[image]]\nname = \"big\"\nid = \"{HERE}\"\nfile = \"{}\"\ndisk_format = \"raw\"\n",
        service.path("big.raw").display()
    );
    fs::write(&list, text).unwrap();
    let service = service.over(&list);
    let reply = service.get(&file(HERE)).await;
    assert!(reply.bytes == bytes, "{} bytes came", reply.bytes.len());
}

#[tokio::test]
async fn data_that_changed_since_the_start_are_not_given() {
    let service = Service::start();
    fs::write(service.path("here.raw"), b"other").unwrap();
    let changed = service.get(&file(HERE)).await;
    assert_eq!(changed.status, 503);
    assert!(
        changed.body["message"]
            .as_str()
            .unwrap()
            .contains("changed since the service started")
    );
    fs::remove_file(service.path("here.raw")).unwrap();
    let gone = service.get(&file(HERE)).await;
    assert_eq!(gone.status, 503);
    assert!(gone.body["message"].as_str().unwrap().contains(HERE));
}

#[tokio::test]
async fn what_cannot_be_read_at_the_start_is_named() {
    let service = Service::start();
    let list = service.path("wrong.toml");
    let data = service.path("here.raw").display().to_string();
    for (file, more, named) in [
        (
            "/nowhere/a.raw",
            "",
            "the data /nowhere/a.raw cannot be read",
        ),
        ("/dev/zero", "", "the data /dev/zero cannot be read"),
        (&data, "size = 11", "size says 11 bytes"),
        (&data, "size = \"x\"", "wrong.toml"),
    ] {
        let text =
            format!("[[image]]\nname = \"a\"\nfile = \"{file}\"\ndisk_format = \"raw\"\n{more}\n");
        fs::write(&list, text).unwrap();
        let wrong = berth_image::ImageList::read(&list).unwrap_err().to_string();
        assert!(wrong.contains(named), "{wrong}");
    }
    let nowhere = berth_image::ImageList::read(&service.path("nowhere.toml"));
    assert!(
        nowhere
            .unwrap_err()
            .to_string()
            .contains("nowhere.toml cannot be read")
    );
}

#[tokio::test]
async fn data_with_a_given_checksum_are_not_read_at_the_start() {
    let service = Service::start();
    let list = service.path("said.toml");
    let sum = "AB".repeat(32);
    let data = service.path("here.raw").display().to_string();
    let text = format!(
        "[[image]]\nname = \"a\"\nid = \"{HERE}\"\nfile = \"{data}\"\ndisk_format = \"raw\"\nchecksum = \"sha256:{sum}\"\n"
    );
    fs::write(&list, text).unwrap();
    let service = service.over(&list);
    let image = service.get(&format!("/v2/images/{HERE}")).await.body;
    assert_eq!(image["os_hash_value"], sum.to_lowercase());
    assert_eq!(
        (&image["checksum"], &image["size"]),
        (&serde_json::Value::Null, &10.into())
    );
}
