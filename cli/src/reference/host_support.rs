//! Writes the page of extra specs and image properties: what a host does with each.

use std::fmt::Write as _;

use berth_model::{
    HostSupport, extra_spec_names, image_property_names, known_extra_spec, known_image_property,
};

/// The page `docs/guide/reference/flavors-and-images.md`.
#[must_use]
pub fn flavors_and_images_page() -> String {
    let mut page = String::from(
        "# Extra specs and image properties\n\nThis page is generated from the code.\n\n\
         What Berth does with the extra specs of a flavor and the properties of an image. The compute API, the agent of each host\n\
         and `berth scheduler lint` use the same table. A server whose flavor or image no host can build is refused with 400 when\n\
         it is created or rebuilt.\n\n\
         | word | meaning |\n| --- | --- |\n\
         | honoured | The host builds the guest accordingly |\n\
         | scheduler | The scheduler or the accelerator service reads it |\n\
         | no effect | No service and no host reads it, and the guest loses no protection |\n\
         | refused | A server with it is refused, unless the value requests nothing: empty, or one of those shown |\n\n\
         An unknown extra spec in `berth:`, `hw:`, `hw_rng:`, `hw_video:`, `os:` or `quota:` is refused; a plugin of the scheduler\n\
         may define others. Other scopes are free. `resources…`, `trait…`, `capabilities:` and `aggregate_instance_extra_specs:` are for the\n\
         scheduler.\n\n## Extra specs\n\n| extra spec | support | note |\n| --- | --- | --- |\n\
         | `hw:numa_cpus.N`, `hw:numa_mem.N` | honoured | |\n",
    );
    for name in extra_spec_names() {
        row(
            &mut page,
            name,
            known_extra_spec(name).map(|(_, support)| support),
        );
    }
    page.push_str(
        "\n## Image properties\n\nWhere flavor and image differ, Nova's rule says which one counts. Names without a prefix below are the\n\
         user's own and are not checked. Unknown names that begin with `berth_`, `hw_` or `os_glance_` are refused, and so are\n\
         `cinder_encryption_key_id`, `os_encrypt_…`, `os_decrypt_…` and `img_signature…`: an image that is encrypted or signed is never\n\
         treated as a plain one.\n\n| property | support | note |\n| --- | --- | --- |\n\
         | `hw_numa_cpus.N`, `hw_numa_mem.N` | honoured | |\n",
    );
    for name in image_property_names() {
        row(&mut page, name, known_image_property(name));
    }
    page
}

fn row(page: &mut String, name: &str, support: Option<HostSupport>) {
    let Some(support) = support else {
        return;
    };
    let (word, note) = match support {
        HostSupport::Honoured | HostSupport::Placed => ("honoured", String::new()),
        HostSupport::Scheduled => ("scheduler", String::new()),
        HostSupport::Harmless(reason) => ("no effect", reason.to_owned()),
        HostSupport::Refused { reason, unless } => {
            let words: Vec<String> = unless.iter().map(|word| format!("`{word}`")).collect();
            match words.is_empty() {
                true => ("refused", reason.to_owned()),
                false => (
                    "refused",
                    format!("{reason}; accepted: {}", words.join(", ")),
                ),
            }
        }
    };
    let _ = match note.is_empty() {
        true => writeln!(page, "| `{name}` | {word} | |"),
        false => writeln!(page, "| `{name}` | {word} | {note} |"),
    };
}
