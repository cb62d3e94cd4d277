//! A device that becomes unfit and fit again.

use super::*;

/// A machine with one card, observed repeatedly.
struct Ward {
    tree: TestTree,
    list: AllowList,
    last: LastObservation,
    kept: BTreeMap<PciAddress, Baseline>,
}

impl Ward {
    fn of(card: CardFixture) -> Self {
        let tree = TestTree::new();
        plant(&tree, card);
        Self {
            tree,
            list: list(&json!([{"address": "81:00.0"}])),
            last: LastObservation::default(),
            kept: BTreeMap::new(),
        }
    }

    fn write(&self, file: &str, text: &str) {
        self.tree
            .write(&format!("devices/pci0000:80/0000:81:00.0/{file}"), text);
    }

    fn observe(&mut self) -> (Option<UnfitReason>, bool) {
        let lists = DeviceLists {
            compute: &AllowList::default(),
            pci: PciInPlacement::Reported,
            accelerator: &self.list,
        };
        let (seen, news) = self
            .tree
            .sysfs()
            .observe_devices(lists, &mut self.last, |_| false)
            .unwrap();
        (seen[0].condition.reason(), !news.is_empty())
    }
}

#[test]
fn a_virtual_function_is_fit_only_with_its_vgpu_type_which_gives_class_and_trait() {
    let mut ward = Ward::of(CardFixture::gpu("0000:81:00.0", 12));
    ward.list = list(&json!([{"address": "81:00.0", "vgpu_type": 558}]));
    for (found, reason) in [
        (None, Some(UnfitReason::Driver)),
        (Some("0\n"), Some(UnfitReason::Driver)),
        (Some("557\n"), Some(UnfitReason::Driver)),
        (Some("558\n"), None),
    ] {
        if let Some(found) = found {
            ward.write("nvidia/current_vgpu_type", found);
        }
        assert_eq!(ward.observe().0, reason, "{found:?}");
    }
    let entries = json!([{"address": "81:00.0", "vgpu_type": 558}]);
    for (compute, accelerator) in [(&entries, &json!([])), (&json!([]), &entries)] {
        let offered = offered(&ward.tree, compute, accelerator);
        let device = &offered.devices[0];
        let name = "CUSTOM_VGPU_TYPE_558";
        assert_eq!(device.class.as_str(), name, "{offered:?}");
        assert!(names(&device.traits).contains(&name), "{device:?}");
    }
}

#[test]
fn a_device_that_falls_ill_says_why_once_and_a_reset_is_the_way_back() {
    let errors = |count: u32| format!("RxErr {count}\nTOTAL_ERR_NONFATAL {count}\n");
    let mut ward = Ward::of(ssd());
    ward.write("aer_dev_nonfatal", &errors(3));
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.observe(), (None, false));
    ward.write("current_link_width", "8\n");
    assert_eq!(ward.observe(), (Some(UnfitReason::Link), true));
    assert_eq!(ward.observe(), (Some(UnfitReason::Link), false));
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.observe(), (None, true));
    ward.write("aer_dev_nonfatal", &errors(4));
    assert_eq!(ward.observe(), (Some(UnfitReason::Aer), true));
    ward.last.forget(address("81:00.0"));
    assert_eq!(ward.observe(), (None, true));
    ward.write("config", &"\u{7f}".repeat(3));
    assert_eq!(ward.observe().0, Some(UnfitReason::ConfigSpace));
}

/// Continues in a new process.
fn restarted(mut ward: Ward) -> Ward {
    let mut now = None;
    let write = |baselines: &BTreeMap<_, _>| {
        now = Some(baselines.clone());
        Ok::<(), ()>(())
    };
    ward.last.enable_baselines();
    ward.last.store_baselines(write).unwrap();
    // What did not change is still stored.
    ward.kept = now.unwrap_or(ward.kept);
    ward.last = LastObservation::default();
    let kept = ward.kept.clone();
    ward.last.recall(|| Ok::<_, ()>(kept)).unwrap();
    ward
}

fn ssd() -> CardFixture {
    CardFixture {
        class: 0x01_0802,
        ..CardFixture::gpu("0000:81:00.0", 1)
    }
}

#[test]
fn a_restart_forgives_nothing_and_a_reset_does() {
    let errors = |count: u32| format!("TOTAL_ERR_FATAL {count}\n");
    for (file, well, ill, reason) in [
        (
            "current_link_width",
            "16\n".to_owned(),
            "8\n".to_owned(),
            UnfitReason::Link,
        ),
        ("aer_dev_fatal", errors(3), errors(4), UnfitReason::Aer),
    ] {
        let mut ward = Ward::of(ssd());
        ward.write("current_link_speed", "16.0 GT/s PCIe\n");
        ward.write("current_link_width", "16\n");
        ward.write(file, &well);
        assert_eq!(ward.observe().0, None);
        ward.write(file, &ill);
        let mut ward = restarted(ward);
        assert_eq!(ward.observe(), (Some(reason), true));
        let mut ward = restarted(ward);
        assert_eq!(ward.observe().0, Some(reason));
        ward.last.forget(address("81:00.0"));
        assert_eq!(ward.observe().0, None);
        assert_eq!(restarted(ward).observe().0, None);
    }
}

#[test]
fn errors_after_a_counter_reset_are_not_taken_for_the_old_ones() {
    let errors = |count: u32| format!("TOTAL_ERR_FATAL {count}\n");
    let mut ward = Ward::of(ssd());
    ward.write("aer_dev_fatal", &errors(3));
    assert_eq!(ward.observe().0, None);
    // The host was rebooted.
    ward.write("aer_dev_fatal", &errors(0));
    let mut ward = restarted(ward);
    assert_eq!(ward.observe().0, None);
    ward.write("aer_dev_fatal", &errors(3));
    assert_eq!(ward.observe().0, Some(UnfitReason::Aer));
}

#[test]
fn another_card_in_the_slot_is_not_compared_with_the_one_that_was_there() {
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.observe().0, None);
    let mut ward = restarted(ward);
    ward.write("current_link_width", "4\n");
    ward.write("device", "0x1eb9\n");
    let mut header = [0_u8; 64];
    header[..4].copy_from_slice(&[0xde, 0x10, 0xb9, 0x1e]);
    let config = "devices/pci0000:80/0000:81:00.0/config";
    ward.tree.write(config, header);
    assert_eq!(ward.observe().0, None);
}

#[test]
fn a_card_that_came_up_narrower_than_it_and_its_port_can_is_unfit_until_a_reset_says_that_it_is_all_there_is()
 {
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "1\n");
    ward.write("max_link_width", "16\n");
    // An unknown port is not a reason for a report.
    assert_eq!(ward.observe().0, None);
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "2.5 GT/s PCIe\n");
    ward.write("current_link_width", "1\n");
    ward.write("max_link_width", "16\n");
    ward.write("max_link_speed", "16.0 GT/s PCIe\n");
    ward.tree.write("devices/pci0000:80/max_link_width", "8\n");
    assert_eq!(ward.observe(), (Some(UnfitReason::Link), true));
    // A slow link may be idle.
    ward.write("current_link_width", "8\n");
    assert_eq!(ward.observe(), (None, true));
    let mut ward = Ward::of(ssd());
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "1\n");
    ward.write("max_link_width", "16\n");
    ward.tree.write("devices/pci0000:80/max_link_width", "8\n");
    assert_eq!(ward.observe().0, Some(UnfitReason::Link));
    let mut ward = restarted(ward);
    assert_eq!(ward.observe().0, Some(UnfitReason::Link));
    ward.last.forget(address("81:00.0"));
    assert_eq!(ward.observe().0, None);
    let mut ward = restarted(ward);
    assert_eq!(ward.observe().0, None);
    ward.write("current_link_speed", "8.0 GT/s PCIe\n");
    assert_eq!(ward.observe().0, Some(UnfitReason::Link));
}

#[test]
fn a_graphics_card_that_idles_on_a_slow_link_is_well() {
    let mut ward = Ward::of(CardFixture::gpu("0000:81:00.0", 1));
    ward.write("current_link_speed", "16.0 GT/s PCIe\n");
    ward.write("current_link_width", "16\n");
    assert_eq!(ward.observe().0, None);
    ward.write("current_link_speed", "2.5 GT/s PCIe\n");
    assert_eq!(ward.observe().0, None);
    ward.write("current_link_width", "4\n");
    assert_eq!(ward.observe().0, Some(UnfitReason::Link));
}

#[test]
fn a_driver_that_hands_it_to_guests_is_no_other_driver() {
    let mut ward = Ward::of(CardFixture {
        driver: Some("nvme"),
        ..CardFixture::gpu("0000:81:00.0", 1)
    });
    let bind = |ward: &Ward, driver: Option<&str>| {
        let link = "devices/pci0000:80/0000:81:00.0/driver";
        if ward.tree.path(link).is_symlink() {
            ward.tree.remove(link);
        }
        if let Some(driver) = driver {
            let of = format!("bus/pci/drivers/{driver}");
            ward.tree.write(&format!("{of}/bind"), "");
            ward.tree.link(link, &ward.tree.path(&of));
        }
    };
    for (driver, unfit) in [
        (Some("nvme"), None),
        (None, None),
        (Some("vfio-pci"), None),
        (Some("nvme"), None),
        (Some("other"), Some(UnfitReason::Driver)),
        (Some("nvme"), None),
    ] {
        bind(&ward, driver);
        assert_eq!(ward.observe().0, unfit, "{driver:?}");
    }
}
