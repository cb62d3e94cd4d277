//! Companions of a card are prepared and returned with it.

use super::*;

/// A second function of the card, in its group and on a driver of the host's.
const SOUND: &str = "0000:81:00.1";
const SOUNDS: &str = "snd_hda_intel";

fn with_sound(list: &[serde_json::Value]) -> DeviceTestHost {
    let host = DeviceTestHost::new().with_list(list);
    host.card(SOUND, "12");
    host.kernel.drives(SOUND, SOUNDS);
    host.kernel.put_on(SOUND, Some(SOUNDS));
    host.kernel.put_on(OTHER, Some("vfio-pci"));
    host
}

fn both() -> DeviceTestHost {
    with_sound(&[json!({"vendor_id": "10de"})])
}

fn companions_held(address: &str) -> BTreeSet<PciAddress> {
    BTreeSet::from([address.parse().unwrap()])
}

fn of_sound(host: &DeviceTestHost, file: &str) -> usize {
    let log = host.kernel.log();
    let write = format!("bus/pci/devices/{SOUND}/{file}=");
    log.iter().filter(|line| line.starts_with(&write)).count()
}

#[tokio::test]
async fn what_shares_a_cards_group_goes_to_vfio_with_it_and_is_cleaned_and_returned_with_it() {
    let host = both();
    let companions = host.devices().check(&managed(CARD)).unwrap();
    assert_eq!(companions, companions_held(SOUND));
    assert!(host.kernel.log().is_empty());
    for _ in 0..2 {
        host.devices().prepare(&managed(CARD)).await.unwrap();
        assert_eq!(host.kernel.driver(SOUND).as_deref(), Some("vfio-pci"));
        assert_eq!(host.kernel.driver(CARD).as_deref(), Some("igb"));
    }
    host.libvirt_takes(CARD);
    for _ in 0..2 {
        let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
        assert_eq!(reset.unwrap(), of_igb());
        assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
        assert_eq!(of_sound(&host, "reset"), 1);
    }
    let reserved = host.path(&format!("devices/pci0000:80/{SOUND}/driver_override"));
    assert_eq!(fs::read_to_string(reserved).unwrap().trim(), "");
}

#[tokio::test]
async fn a_kill_at_any_write_leaves_no_companion_behind() {
    for before in [true, false] {
        for number in 1.. {
            let host = both();
            host.kernel.kills_at(number, before);
            let killed = host.devices().prepare(&managed(CARD)).await;
            host.kernel.lets_live();
            let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
            assert_eq!(reset.unwrap(), of_igb(), "write {number}");
            assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
            if killed.is_ok() {
                assert!(number > 3, "only {number} writes");
                break;
            }
        }
        for number in 1.. {
            let host = both();
            host.devices().prepare(&managed(CARD)).await.unwrap();
            host.libvirt_takes(CARD);
            host.kernel.kills_at(number, before);
            let killed = host.devices().reset(&managed(CARD), &no_functions()).await;
            host.kernel.lets_live();
            let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
            assert_eq!(reset.unwrap(), of_igb(), "write {number}");
            assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
            if killed.is_ok() {
                assert!(number > 6, "only {number} writes");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_guest_that_has_a_whole_group_gives_each_function_back_to_its_own_driver() {
    let host = both();
    for card in [CARD, SOUND] {
        host.devices().prepare(&managed(card)).await.unwrap();
    }
    for card in [CARD, SOUND] {
        assert_eq!(host.kernel.driver(card).as_deref(), Some("vfio-pci"));
    }
    let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
    assert_eq!(reset.unwrap(), of_igb());
    let reset = host.devices().reset(&managed(SOUND), &no_functions()).await;
    let driver = Some(SOUNDS.to_owned());
    assert_eq!(reset.unwrap(), DeviceReset::Reset { driver });
    assert_eq!(host.kernel.driver(CARD).as_deref(), Some("igb"));
}

#[tokio::test]
async fn a_group_of_which_another_guest_has_a_function_stays_as_that_guest_needs_it() {
    let host = both();
    for card in [CARD, SOUND] {
        host.devices().prepare(&managed(card)).await.unwrap();
    }
    let reset = host
        .devices()
        .reset(&managed(CARD), &companions_held(SOUND))
        .await;
    let driver = Some("vfio-pci".to_owned());
    assert_eq!(reset.unwrap(), DeviceReset::Reset { driver });
    assert_eq!(host.kernel.driver(SOUND).as_deref(), Some("vfio-pci"));
    assert_eq!(of_sound(&host, "reset"), 0);
    // The end of that guest returns its own companions.
    let reset = host.devices().reset(&managed(SOUND), &no_functions()).await;
    let driver = Some(SOUNDS.to_owned());
    assert_eq!(reset.unwrap(), DeviceReset::Reset { driver });
    assert_eq!(host.kernel.driver(CARD).as_deref(), Some("igb"));
}

#[tokio::test]
async fn a_card_that_stays_on_vfio_has_its_companions_brought_along_as_well() {
    let host = with_sound(&[
        json!({"address": CARD, "managed": "no"}),
        json!({"address": SOUND}),
    ]);
    host.kernel.put_on(CARD, Some("vfio-pci"));
    host.devices().prepare(&managed(CARD)).await.unwrap();
    assert_eq!(host.kernel.driver(SOUND).as_deref(), Some("vfio-pci"));
    let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
    let driver = Some("vfio-pci".to_owned());
    assert_eq!(reset.unwrap(), DeviceReset::Reset { driver });
    assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
}

#[tokio::test]
async fn a_bridge_a_function_without_a_driver_and_one_on_vfio_are_left_where_they_are() {
    let host = both();
    let bridge = "0000:80:01.0";
    host.card(bridge, "12");
    host.write(&format!("devices/pci0000:80/{bridge}/class"), "0x060400\n");
    host.kernel.put_on(bridge, Some("pcieport"));
    for driver in [None, Some("vfio-pci")] {
        host.kernel.put_on(SOUND, driver);
        host.devices().prepare(&managed(CARD)).await.unwrap();
        let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
        assert_eq!(reset.unwrap(), of_igb());
        assert_eq!(host.kernel.driver(SOUND).as_deref(), driver);
        assert_eq!(host.kernel.driver(bridge).as_deref(), Some("pcieport"));
    }
    assert_eq!(of_sound(&host, "reset"), 0);
}

#[tokio::test]
async fn a_companion_that_cannot_leave_its_driver_keeps_the_card_from_guests() {
    let to_stay = with_sound(&[
        json!({"address": SOUND, "managed": "no"}),
        json!({"vendor_id": "10de"}),
    ]);
    let with_functions = both();
    with_functions.write(&format!("devices/pci0000:80/{SOUND}/sriov_numvfs"), "2\n");
    let parted = both();
    let mut of_sound = mdev(1);
    of_sound.mdev.as_mut().unwrap().parent = SOUND.parse().unwrap();
    parted.devices().prepare(&of_sound).await.unwrap();
    for (host, words) in [
        (to_stay, "managed = no"),
        (with_functions, "2 virtual functions"),
        (parted, "mediated device"),
    ] {
        let error = host.refused(&managed(CARD));
        assert!(
            matches!(error, DeviceError::GroupNotViable { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains(words) && text.contains("81:00.1"), "{text}");
        let prepared = host.devices().prepare(&managed(CARD)).await;
        assert!(prepared.is_err());
        assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
    }
}

#[tokio::test]
async fn without_the_vfio_driver_a_companion_stays_where_it_is_and_the_error_says_what_to_load() {
    let host = both();
    fs::remove_dir_all(host.path("bus/pci/drivers/vfio-pci")).unwrap();
    let error = host.devices().prepare(&managed(CARD)).await.unwrap_err();
    assert!(error.to_string().contains("modprobe vfio-pci"), "{error}");
    assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
    let reset = host.devices().reset(&managed(CARD), &no_functions()).await;
    assert_eq!(reset.unwrap(), of_igb());
    assert_eq!(host.kernel.driver(SOUND).as_deref(), Some(SOUNDS));
}

#[test]
fn all_of_a_group_have_one_turn() {
    let host = both();
    let turn = |address: &str| {
        host.devices()
            .lock_key(address.parse().unwrap())
            .to_string()
    };
    assert_eq!([turn(CARD), turn(SOUND)], [CARD, CARD]);
    assert_eq!(turn(OTHER), OTHER);
}
