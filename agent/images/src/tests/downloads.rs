//! Tests of image downloads.

use std::fs;
use std::os::unix::fs::symlink;

use berth_virt::guest_spec::DiskFormat::{Qcow2, Raw};
use berth_virt::guest_spec::{HostPath, ProjectId};
use uuid::Uuid;

use crate::tests::bench::*;
use crate::*;

/// Why a guest with this image is refused. Checks that nothing is left behind.
async fn refused(bench: &Bench, plan: DiskPlan) -> String {
    refused_by(bench, &bench.disks(), plan).await
}

async fn refused_by(bench: &Bench, disks: &Disks, plan: DiskPlan) -> String {
    let guest = Guest::new(1, disks, plan);
    let error = disks.prepare(&guest.provision()).await.unwrap_err();
    assert_eq!(bench.found("instances/_base"), [""; 0], "{error}");
    assert_eq!(bench.found(&guest.folder()), [""; 0], "{error}");
    error.to_string()
}

#[tokio::test]
async fn an_image_from_a_file_a_url_and_the_image_service_gives_the_same_disk() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (_, whole) = bench.image("one", Raw);
    for format in [Raw, Qcow2] {
        let (path, bytes) = bench.image("one", format);
        let url = bench.page("one", Page::Whole(bytes.clone()));
        let redirect = bench.page("away", Page::Redirect("/one".to_owned()));
        let id = Uuid::new_v4();
        let word = if format == Raw { "raw" } else { "qcow2" };
        let record = serde_json::json!({
            "id": id, "status": "active", "disk_format": word, "container_format": "bare", "size": bytes.len(),
            "os_hash_algo": "sha256", "os_hash_value": sha256(&bytes).hex(), "checksum": null,
        });
        bench.page(&format!("v2/images/{id}"), Page::Json(record.to_string()));
        bench.page(
            &format!("v2/images/{id}/file"),
            Page::Guarded(bytes.clone()),
        );
        let glance = ImageSource::new(ImageLocation::Glance(id), None, format).unwrap();
        for image in [
            of_path(&path, &bytes, format),
            of_url(&url, &bytes, format),
            of_url(&redirect, &bytes, format),
            glance,
        ] {
            let guest = Guest::new(1, &disks, plan(image.clone(), 1));
            disks.check(&guest.provision()).unwrap();
            disks.prepare(&guest.provision()).await.unwrap();
            let base = bench.path("instances/_base").join(image.key().as_str());
            assert_eq!(fs::read(&base).unwrap(), whole, "{}", image.location());
            let root = bench.path(&guest.folder()).join("disk");
            let output = qemu_img(&["info", "--output=json"], &[&root]);
            let output: serde_json::Value = serde_json::from_str(&output).unwrap();
            assert_eq!(output["virtual-size"], 1_u64 << 30);
            assert_eq!(output["backing-filename"], base.to_str().unwrap());
            assert_eq!(output["backing-filename-format"], "raw");
            disks.release(&guest.provision()).await.unwrap();
            fs::remove_file(&base).unwrap();
        }
    }
}

#[tokio::test]
async fn each_bad_download_is_refused_and_leaves_nothing() {
    let bench = Bench::new().await;
    let bytes = vec![3; 3 * MIB];
    for (name, page, sentence) in [
        (
            "truncated",
            Page::Truncated(bytes.clone()),
            "the connection ended before the answer was complete",
        ),
        ("stalls", Page::Stalls(bytes.clone()), "no answer within"),
        ("drips", Page::Drips, "the body arrives too slowly"),
        ("endless", Page::Endless, "(largest_image_gb)"),
        (
            "other",
            Page::Whole(vec![4; 3 * MIB]),
            "it is another image",
        ),
        ("large", Page::Whole(vec![3; 9 * MIB]), "(largest_image_gb)"),
        ("missing", Page::Status(404), "the answer is 404"),
        ("failing", Page::Status(503), "the answer is 503"),
        ("part", Page::Status(206), "the answer is 206"),
        (
            "to a file",
            Page::Redirect("file:///etc/passwd".to_owned()),
            "only http and https are followed",
        ),
        (
            "to ftp",
            Page::Redirect("ftp://127.0.0.1/x".to_owned()),
            "only http and https are followed",
        ),
        (
            "round",
            Page::Redirect("/round".to_owned()),
            "too many redirects",
        ),
    ] {
        let url = bench.page(&name.replace(' ', "-"), page);
        let options = DiskOptions {
            largest_image: 8 * MIB as u64,
            ..bench.options()
        };
        let disks = bench.impatient_disks(options);
        let message = refused_by(&bench, &disks, plan(of_url(&url, &bytes, Raw), 1)).await;
        assert!(message.contains(sentence), "{name}: {message}");
    }
}

#[tokio::test]
async fn a_cancelled_download_leaves_nothing_and_is_tracked_only_while_it_runs() {
    let bench = Bench::new().await;
    let (_, bytes) = bench.image("one", Raw);
    let half = bytes[..MIB].to_vec();
    let url = bench.page("one", Page::Stalls(half));
    let disks = bench.disks();
    let plan = plan(of_url(&url, &bytes, Raw), 1);
    assert_eq!(disks.download_progress(&plan), None);
    {
        let fetch = disks.fetch(&plan, None);
        tokio::pin!(fetch);
        while disks
            .download_progress(&plan)
            .is_none_or(|progress| progress.done < MIB as u64)
        {
            tokio::select! {
                ended = &mut fetch => panic!("it stalls: {ended:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        let coming = disks.download_progress(&plan).unwrap();
        assert_eq!((coming.stage, coming.of), (ImageStage::Fetch, None));
    }
    assert_eq!(bench.found("instances/_base"), [""; 0]);
    assert_eq!(disks.download_progress(&plan), None);
    // The next request succeeds.
    bench.page("one", Page::Whole(bytes));
    disks.fetch(&plan, None).await.unwrap();
    assert_eq!(bench.found("instances/_base").len(), 1);
    assert_eq!(disks.download_progress(&plan), None, "it is cached");
}

#[tokio::test]
async fn a_stalled_source_does_not_delay_requests_from_another_source() {
    let bench = Bench::new().await;
    let (_, bytes) = bench.image("one", Raw);
    let slow = bench.page("slow", Page::Stalls(bytes[..MIB].to_vec()));
    let good = bench.page("good", Page::Whole(bytes.clone()));
    let disks = bench.disks();
    let (slow, good) = (
        plan(of_url(&slow, &bytes, Raw), 1),
        plan(of_url(&good, &bytes, Raw), 1),
    );
    let held = disks.fetch(&slow, None);
    tokio::pin!(held);
    while disks
        .download_progress(&slow)
        .is_none_or(|progress| progress.done < MIB as u64)
    {
        tokio::select! {
            ended = &mut held => panic!("it stalls: {ended:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    // The other download is not polled meanwhile and must hold no lock.
    disks.fetch(&good, None).await.unwrap();
    assert_eq!(
        bench.found("instances/_base").len(),
        2,
        "the image, and the part of the slow one"
    );
}

#[tokio::test]
async fn a_copy_that_is_cut_off_ends_before_its_file_does() {
    let bench = Bench::new().await;
    let path = bench.path("images").join("large.raw");
    let length = 1_u64 << 30;
    fs::File::create(&path).unwrap().set_len(length).unwrap();
    let disks = bench.disks();
    let plan = plan(of_path(&path, b"another", Raw), 8);
    let is_read = || {
        let open = fs::read_dir("/proc/self/fd").unwrap();
        let mut open = open.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        open.any(|file| file == path)
    };
    {
        let fetch = disks.fetch(&plan, None);
        tokio::pin!(fetch);
        while disks
            .download_progress(&plan)
            .is_none_or(|progress| progress.done == 0)
        {
            tokio::select! {
                ended = &mut fetch => panic!("it is long: {ended:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(disks.download_progress(&plan).unwrap().of, Some(length));
    }
    while is_read() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.found("instances/_base"), [""; 0]);
    assert_eq!(
        disks.download_progress(&plan),
        None,
        "it was not read completely"
    );
}

#[tokio::test]
async fn a_url_with_another_scheme_or_with_a_password_is_refused() {
    for (url, sentence) in [
        ("file:///etc/shadow", "expected an http or https URL"),
        ("ftp://host/image", "expected an http or https URL"),
        ("http://name:word@host/image", "contains credentials"),
        ("image", "expected an http or https URL"),
    ] {
        let message = ImageUrl::new(url).unwrap_err().to_string();
        assert!(message.contains(sentence), "{url}: {message}");
    }
    let url = ImageUrl::new("https://host/image?signature=secret").unwrap();
    assert_eq!(
        format!("{url} {url:?}"),
        "https://host/image https://host/image"
    );
}

#[tokio::test]
async fn a_file_of_the_host_outside_the_folders_for_images_is_no_image() {
    let bench = Bench::new().await;
    let (inside, bytes) = bench.image("one", Raw);
    let outside = bench.path("shadow");
    fs::write(&outside, &bytes).unwrap();
    let link = bench.path("images/link.raw");
    symlink(&outside, &link).unwrap();
    let folder = bench.path("images/up");
    symlink(bench.scratch.path(), &folder).unwrap();
    for path in [
        &outside,
        &link,
        &folder.join("shadow"),
        &bench.path("images"),
        &bench.path("images/none"),
    ] {
        let message = refused(&bench, plan(of_path(path, &bytes, Raw), 1)).await;
        assert!(message.starts_with("file "), "{message}");
    }
    let message = refused(
        &bench,
        plan(of_path(&folder.join("shadow"), &bytes, Raw), 1),
    )
    .await;
    assert!(message.contains("image_directories"), "{message}");
    // A file outside the folders is neither opened nor described: opening a device may have side effects.
    for elsewhere in ["/dev/zero", "/no/such/file"] {
        let message = refused(&bench, plan(of_path(elsewhere.as_ref(), &bytes, Raw), 1)).await;
        assert!(
            message.contains("image_directories"),
            "{elsewhere}: {message}"
        );
    }
    // A link within the folders is an operator's choice.
    let harmless = bench.path("images/same.raw");
    symlink(&inside, &harmless).unwrap();
    let disks = bench.disks();
    let guest = Guest::new(2, &disks, plan(of_path(&harmless, &bytes, Raw), 1));
    disks.prepare(&guest.provision()).await.unwrap();
    let guest = Guest::new(1, &disks, plan(of_path(&inside, &bytes, Raw), 1));
    disks.prepare(&guest.provision()).await.unwrap();
}

#[tokio::test]
async fn an_image_larger_than_the_file_system_is_no_root_disk_of_its_own_size() {
    let bench = Bench::new().await;
    let path = bench.path("images/large.qcow2");
    qemu_img(
        &["create", "-q", "-f", "qcow2", "-o", "cluster_size=2M"],
        &[&path, "512T".as_ref()],
    );
    let bytes = fs::read(&path).unwrap();
    let message = refused(&bench, plan(of_path(&path, &bytes, Qcow2), 0)).await;
    let size = 512_u64 << 40;
    assert!(
        message.contains(&format!("virtual size is {size} bytes; the maximum is")),
        "{message}"
    );
}

#[tokio::test]
async fn a_bad_image_goes_no_further_than_our_own_eyes() {
    let bench = Bench::new().await;
    let (_, good) = bench.image("one", Qcow2);
    let secret = bench.path("secret");
    fs::write(&secret, vec![b'x'; MIB]).unwrap();
    let leaning = bench.path("images/leaning");
    let secret_text = secret.to_str().unwrap();
    qemu_img(
        &["create", "-f", "qcow2", "-F", "raw", "-b", secret_text],
        &[&leaning],
    );
    let vmdk = bench.path("images/vmdk");
    qemu_img(&["create", "-f", "vmdk"], &[&vmdk, "4M".as_ref()]);
    let luks = bench.path("images/luks");
    let words = [
        "create",
        "-f",
        "qcow2",
        "--object",
        "secret,id=s,data=abc",
        "-o",
        "encrypt.format=luks,encrypt.key-secret=s",
    ];
    qemu_img(&words, &[&luks, "4M".as_ref()]);
    let outer = bench.path("images/outer");
    let data = format!("data_file={}", bench.path("images/data").display());
    qemu_img(
        &["create", "-f", "qcow2", "-o", &data],
        &[&outer, "4M".as_ref()],
    );
    let large = bench.path("images/large");
    qemu_img(&["create", "-f", "qcow2"], &[&large, "3G".as_ref()]);
    let read = |path: &std::path::Path| fs::read(path).unwrap();
    for (name, bytes, format, sentence) in [
        ("backing", read(&leaning), Qcow2, "has a backing file"),
        ("encrypted", read(&luks), Qcow2, "it is encrypted"),
        ("data file", read(&outer), Qcow2, "external data file"),
        (
            "too large",
            read(&large),
            Qcow2,
            "the maximum is 1073741824",
        ),
        ("qcow2 as raw", good.clone(), Raw, "it is qcow2, not raw"),
        ("vmdk as raw", read(&vmdk), Raw, "it is VMDK, not raw"),
        ("raw as qcow2", vec![1; MIB], Qcow2, "not qcow2"),
        (
            "truncated",
            good[..good.len() / 2].to_vec(),
            Qcow2,
            "it is truncated",
        ),
        ("empty", vec![], Raw, "it is empty"),
    ] {
        let path = bench.path("images/bad");
        fs::write(&path, &bytes).unwrap();
        let message = refused(&bench, plan(of_path(&path, &bytes, format), 1)).await;
        assert!(message.contains(sentence), "{name}: {message}");
    }
}

#[tokio::test]
async fn two_guests_of_one_image_fetch_it_once() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (_, bytes) = bench.image("one", Qcow2);
    let url = bench.page("one", Page::Whole(bytes.clone()));
    let guests: Vec<_> = (1..5)
        .map(|n| Guest::new(n, &disks, plan(of_url(&url, &bytes, Qcow2), 1)))
        .collect();
    let made = guests.iter().map(|guest| async {
        let provision = guest.provision();
        disks.prepare(&provision).await
    });
    for made in futures_util::future::join_all(made).await {
        made.unwrap();
    }
    assert_eq!(bench.asked(), 1);
    assert_eq!(bench.found("instances/_base").len(), 1);
}

#[tokio::test]
async fn the_image_services_record_must_match_the_request() {
    let bench = Bench::new().await;
    let (_, bytes) = bench.image("one", Raw);
    let id = Uuid::new_v4();
    let hash = sha256(&bytes).hex().to_owned();
    for (change, sentence) in [
        (
            serde_json::json!({"status": "queued"}),
            "its status is queued",
        ),
        (
            serde_json::json!({"disk_format": "qcow2"}),
            "in the image service is qcow2",
        ),
        (
            serde_json::json!({"container_format": "ova"}),
            "container_format is ova",
        ),
        (
            serde_json::json!({"cinder_encryption_key_id": "8f2b"}),
            "Direct booting of an image uploaded from an encrypted volume is unsupported.",
        ),
        (
            serde_json::json!({"img_signature": "x"}),
            "img_signature is not supported: hosts do not verify signatures",
        ),
        (
            serde_json::json!({"os_hash_value": null}),
            "has no checksum",
        ),
        (
            serde_json::json!({"os_hash_value": "00".repeat(32)}),
            "it is another image",
        ),
        (
            serde_json::json!({"size": 17}),
            "the image service reports 17",
        ),
        (
            serde_json::json!({"id": Uuid::new_v4()}),
            "it is another image's",
        ),
    ] {
        let mut record = serde_json::json!({
            "id": id, "status": "active", "disk_format": "raw", "container_format": "bare",
            "os_hash_algo": "sha256", "os_hash_value": hash,
        });
        for (key, value) in change.as_object().unwrap() {
            record[key] = value.clone();
        }
        bench.page(&format!("v2/images/{id}"), Page::Json(record.to_string()));
        // Without a length of its own.
        bench.page(
            &format!("v2/images/{id}/file"),
            Page::Guarded(bytes.clone()),
        );
        let image = ImageSource::new(ImageLocation::Glance(id), None, Raw).unwrap();
        let message = refused(&bench, plan(image, 1)).await;
        assert!(message.contains(sentence), "{change}: {message}");
    }
    let image = ImageSource::new(ImageLocation::Glance(Uuid::new_v4()), None, Raw).unwrap();
    let message = refused(&bench, plan(image, 1)).await;
    assert!(message.contains("has no such image"), "{message}");
}

#[tokio::test]
async fn a_cached_image_is_refused_to_projects_without_access() {
    let bench = Bench::new().await;
    let disks = bench.disks();
    let (_, bytes) = bench.image("one", Raw);
    let id = Uuid::new_v4();
    let [own, other] = [7, 8].map(|n| ProjectId::new(&Uuid::from_u128(n).simple().to_string()));
    let [own, other] = [own.unwrap(), other.unwrap()];
    let page = |change: serde_json::Value| {
        let mut record = serde_json::json!({
            "id": id, "status": "active", "disk_format": "raw", "container_format": "bare",
            "os_hash_algo": "sha256", "os_hash_value": sha256(&bytes).hex(), "owner": own.as_str(),
        });
        for (key, value) in change.as_object().unwrap() {
            record[key] = value.clone();
        }
        bench.page(&format!("v2/images/{id}"), Page::Json(record.to_string()));
    };
    page(serde_json::json!({"visibility": "public"}));
    let file = format!("v2/images/{id}/file");
    bench.page(&file, Page::Guarded(bytes.clone()));
    let image = ImageSource::new(ImageLocation::Glance(id), None, Raw).unwrap();
    let plan = plan(image, 1);
    disks.fetch(&plan, Some(&other)).await.unwrap();
    // From now on it is cached and not fetched again.
    bench.page(&file, Page::Status(500));
    let member = format!("v2/images/{id}/members/{}", other.as_str());
    bench.page(&member, Page::Status(404));
    let other_project = ProjectId::new("project").unwrap();
    for (visibility, shared, may) in [
        ("public", false, true),
        ("community", false, true),
        ("private", false, false),
        ("shared", false, false),
        ("shared", true, true),
        ("hidden", true, false),
    ] {
        page(serde_json::json!({"visibility": visibility}));
        if shared {
            bench.page(&member, Page::Json("{}".to_owned()));
        }
        for (project, may) in [(&own, true), (&other, may), (&other_project, true)] {
            let fetched = disks.fetch(&plan, Some(project)).await;
            assert_eq!(fetched.is_ok(), may, "{visibility}: {fetched:?}");
        }
    }
    page(serde_json::json!({"status": "deactivated"}));
    let message = disks
        .fetch(&plan, Some(&own))
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("deactivated"), "{message}");
    bench.page(&format!("v2/images/{id}"), Page::Status(404));
    let message = disks
        .fetch(&plan, Some(&own))
        .await
        .unwrap_err()
        .to_string();
    assert!(message.contains("has no such image"), "{message}");
    // A guest with a disk needs no image any longer.
    disks.fetch(&plan, None).await.unwrap();
}

#[test]
fn only_the_image_service_vouches_for_an_image_without_a_checksum() {
    let path = ImageLocation::Path(HostPath::new("/images/one").unwrap());
    let message = ImageSource::new(path, None, Raw).unwrap_err().to_string();
    assert!(message.contains("needs one"), "{message}");
    for bad in ["sha256:00", "sha1:00", "00", "md5:zz", ""] {
        let message = bad.parse::<Checksum>().unwrap_err().to_string();
        assert!(message.contains("ALGORITHM:HEX"), "{message}");
    }
}

#[test]
fn images_of_one_md5_at_two_places_are_two() {
    let md5: Checksum = format!("md5:{}", "0".repeat(32)).parse().unwrap();
    let of = |path: &str| {
        let path = ImageLocation::Path(HostPath::new(path).unwrap());
        ImageSource::new(path, Some(md5.clone()), Raw)
            .unwrap()
            .key()
    };
    assert_ne!(of("/images/one"), of("/images/two"));
    assert_eq!(of("/images/one"), of("/images/one"));
}

#[tokio::test]
async fn a_flaw_that_only_qemu_img_finds_is_the_images_fault_and_names_no_path() {
    let bench = Bench::new().await;
    let (path, mut bytes) = bench.image("one", Qcow2);
    // The tables are intact, the compressed clusters behind them are not.
    bytes[5 << 16..].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let disks = bench.disks();
    let guest = Guest::new(1, &disks, plan(of_path(&path, &bytes, Qcow2), 1));
    let error = disks.prepare(&guest.provision()).await.unwrap_err();
    let DiskError::Image { reason, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(reason.starts_with("qemu-img cannot convert it"), "{reason}");
    let folder = bench.path("").display().to_string();
    assert!(!reason.contains(folder.trim_end_matches('/')), "{reason}");
    assert_eq!(bench.found("instances/_base"), [""; 0]);
}
