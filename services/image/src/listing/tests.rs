use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::*;
use crate::image::{DataChecksum, DiskFormat, ImageDataLocation};

fn moment(day: u8) -> SystemTime {
    humantime::parse_rfc3339_weak(&format!("2026-11-{day:02} 10:00:00")).unwrap()
}

/// Four images, a to d, each larger and younger than the previous one; d is hidden, and c has no size.
fn images() -> Vec<CatalogImage> {
    let image = |name: &str, day: u8, format, size| CatalogImage {
        id: Uuid::from_u128(u128::from(day)),
        name: name.to_owned(),
        place: ImageDataLocation::Hosts(format!("/{name}")),
        disk_format: format,
        checksum: DataChecksum::parse(&format!("sha256:{}", "a".repeat(64))).unwrap(),
        md5: None,
        size,
        min_ram: 64,
        min_disk: 0,
        tags: BTreeSet::new(),
        properties: BTreeMap::new(),
        os_hidden: false,
        created_at: moment(day),
    };
    let mut all = vec![
        image("a", 1, DiskFormat::Raw, Some(10)),
        image("b", 2, DiskFormat::Qcow2, Some(20)),
        image("c, d", 3, DiskFormat::Raw, None),
        image("d", 4, DiskFormat::Raw, Some(40)),
    ];
    all[0].tags = ["x", "y"].map(str::to_owned).into();
    all[1].tags = ["y".to_owned()].into();
    all[1].properties = [("os_distro".to_owned(), "debian".to_owned())].into();
    all[3].os_hidden = true;
    all
}

fn names(query: &str) -> Result<Vec<String>, String> {
    let query = QueryString::parse(query).unwrap();
    let message_of = |fault: Fault| fault.message().to_owned();
    let all = images();
    let page = ImageQuery::of(&query).map_err(message_of)?;
    let page = page.page(all.iter()).map_err(message_of)?;
    Ok(page.images.iter().map(|image| image.name.clone()).collect())
}

#[test]
fn a_list_is_filtered_by_the_properties_of_images() {
    for (query, kept) in [
        ("", vec!["c, d", "b", "a"]),
        ("os_hidden=true", vec!["d"]),
        ("os_hidden=False", vec!["c, d", "b", "a"]),
        ("name=b", vec!["b"]),
        ("name=B", vec![]),
        ("name=in:a,b", vec!["b", "a"]),
        ("name=in:%22c%2C%20d%22,a", vec!["c, d", "a"]),
        ("id=in:00000000-0000-0000-0000-000000000001", vec!["a"]),
        ("status=active", vec!["c, d", "b", "a"]),
        ("status=queued", vec![]),
        ("status=in:queued,active&name=a", vec!["a"]),
        ("disk_format=qcow2", vec!["b"]),
        ("container_format=bare&disk_format=raw", vec!["c, d", "a"]),
        ("container_format=ovf", vec![]),
        ("visibility=public", vec!["c, d", "b", "a"]),
        ("visibility=all", vec!["c, d", "b", "a"]),
        ("visibility=private", vec![]),
        ("member_status=all", vec!["c, d", "b", "a"]),
        ("protected=true", vec!["c, d", "b", "a"]),
        ("protected=false", vec![]),
        ("owner=me", vec![]),
        ("tag=y", vec!["b", "a"]),
        ("tag=y&tag=x", vec!["a"]),
        ("size_min=20", vec!["b"]),
        ("size_max=10", vec!["a"]),
        ("size_min=-1&size_max=99", vec!["b", "a"]),
        ("min_ram=64&min_disk=0", vec!["c, d", "b", "a"]),
        ("os_distro=debian", vec!["b"]),
        ("os_distro=fedora", vec![]),
        ("created_at=gt:2026-11-02T10:00:00Z", vec!["c, d"]),
        ("created_at=gt:1959-06-30T00:00:00Z", vec!["c, d", "b", "a"]),
        ("updated_at=lte:2026-11-02T10:00:00Z", vec!["b", "a"]),
        ("updated_at=2026-11-02T10:00:00", vec!["b"]),
    ] {
        assert_eq!(names(query).unwrap(), kept, "{query}");
    }
}

#[test]
fn a_list_is_sorted_by_keys_and_directions() {
    for (query, order) in [
        ("sort_dir=asc", vec!["a", "b", "c, d"]),
        ("sort_key=name", vec!["c, d", "b", "a"]),
        ("sort_key=size&sort_dir=asc", vec!["c, d", "a", "b"]),
        ("sort=disk_format:asc,name:asc", vec!["b", "a", "c, d"]),
        ("sort=disk_format,name", vec!["c, d", "a", "b"]),
        (
            "sort_key=disk_format&sort_key=name&sort_dir=desc&sort_dir=asc",
            vec!["a", "c, d", "b"],
        ),
        ("sort=status:asc", vec!["a", "b", "c, d"]),
    ] {
        assert_eq!(names(query).unwrap(), order, "{query}");
    }
}

#[test]
fn pages_follow_each_other_to_the_end_with_what_was_asked_for() {
    let all = images();
    let mut link = Some("/v2/images?limit=1&os_hidden=false&sort=name%3Aasc".to_owned());
    let mut seen = Vec::new();
    let first = link.clone();
    while let Some(path) = link {
        let query = QueryString::parse(path.split_once('?').unwrap().1).unwrap();
        let page = ImageQuery::of(&query).unwrap().page(all.iter()).unwrap();
        assert_eq!(Some(&page.first), first.as_ref());
        seen.extend(page.images.iter().map(|image| image.name.clone()));
        link = page.next;
    }
    assert_eq!(seen, ["a", "b", "c, d"]);
    assert_eq!(names("limit=0").unwrap(), [""; 0]);
    assert_eq!(names("limit=99999999999999999999").unwrap().len(), 3);
}

#[test]
fn what_is_wrong_with_a_query_is_named() {
    for (query, named) in [
        ("limit=many", "limit param must be an integer"),
        ("limit=-1", "limit param must be positive"),
        ("marker=none", "No image found with ID none"),
        (
            "marker=00000000-0000-0000-0000-000000000009",
            "No image found",
        ),
        ("sort_key=colour", "Invalid sort key: colour"),
        ("sort_dir=up", "Invalid sort direction: up"),
        ("sort=name:up", "Invalid sort direction: up"),
        ("sort=name&sort_key=name", "cannot be combined"),
        (
            "sort_key=name&sort_dir=asc&sort_dir=asc",
            "Number of sort dirs",
        ),
        ("visibility=mine", "Invalid visibility value: mine"),
        ("member_status=mine", "Invalid status: mine"),
        ("os_hidden=perhaps", "'os_hidden' filter"),
        ("protected=perhaps", "'protected' filter"),
        ("size_min=much", "size_min has to be a number"),
        ("created_at=gt:yesterday", "created_at: gt:yesterday"),
        ("name=in:%22a", "The quote is not closed"),
        ("changes-since=2026", "updated_at=gte:"),
    ] {
        let wrong = names(query).unwrap_err();
        assert!(wrong.contains(named), "{query}: {wrong}");
    }
}
