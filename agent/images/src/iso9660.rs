//! Writes a small ISO 9660 file system (ECMA-119) with Joliet and Rock Ridge names, which every cloud-init finds by its
//! volume label ([`iso9660`]). Rock Ridge (IEEE P1282) gives the names to systems that do not read Joliet.
//!
//! Written here instead of by a program, because a config drive contains secrets, and a program would need them in a temporary
//! folder.

use std::collections::BTreeMap;

const SECTOR: usize = 2048;
/// Sectors after the system area: two descriptors and a terminator, then four path tables of one sector each.
const PRIMARY: usize = 16;
const JOLIET: usize = 17;
const TERMINATOR: usize = 18;
const TABLES: usize = 19;
const FIRST: usize = 23;
/// 1 January 1980, so that equal content gives equal files.
const DATE: [u8; 7] = [80, 1, 1, 0, 0, 0, 0];

/// Why the files do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IsoError {
    #[error("the config drive would be too large: {what}")]
    TooLarge { what: &'static str },
}

const fn too_large(what: &'static str) -> IsoError {
    IsoError::TooLarge { what }
}

#[derive(Default)]
struct Folder {
    folders: BTreeMap<String, usize>,
    files: BTreeMap<String, usize>,
    parent: usize,
}

/// The folder tree of a set of paths. Each folder comes after its parent; the first is the root.
struct FolderTree {
    folders: Vec<Folder>,
}

impl FolderTree {
    fn of(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut folders = vec![Folder::default()];
        for (number, path) in files.keys().enumerate() {
            let mut at = 0;
            let mut parts = path.split('/').peekable();
            while let Some(part) = parts.next() {
                if parts.peek().is_none() {
                    folders[at].files.insert(part.to_owned(), number);
                    break;
                }
                at = match folders[at].folders.get(part) {
                    Some(found) => *found,
                    None => {
                        let new = folders.len();
                        folders.push(Folder {
                            parent: at,
                            ..Folder::default()
                        });
                        folders[at].folders.insert(part.to_owned(), new);
                        new
                    }
                };
            }
        }
        Self { folders }
    }

    /// The folders with their names in path table order: by depth, parent and name.
    fn in_order(&self) -> Vec<(usize, String)> {
        let mut order = vec![(0, String::new())];
        let mut next = 0;
        while next < order.len() {
            let folder = &self.folders[order[next].0];
            order.extend(folder.folders.iter().map(|(name, n)| (*n, name.clone())));
            next += 1;
        }
        order
    }
}

/// The encoding of names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameEncoding {
    /// Upper-case letters, digits and `_`, and Rock Ridge names in addition.
    Plain,
    /// UCS-2, with all characters unchanged.
    Joliet,
}

impl NameEncoding {
    fn folder(self, name: &str) -> Vec<u8> {
        match self {
            Self::Plain => plain(name).into_bytes(),
            Self::Joliet => ucs2(name),
        }
    }

    fn file(self, name: &str) -> Vec<u8> {
        match self {
            Self::Plain => {
                let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
                format!("{}.{};1", plain(stem), plain(ending)).into_bytes()
            }
            Self::Joliet => ucs2(&format!("{name};1")),
        }
    }
}

fn plain(name: &str) -> String {
    let letter = |c: char| match c.to_ascii_uppercase() {
        c @ ('A'..='Z' | '0'..='9') => c,
        _ => '_',
    };
    name.chars().map(letter).collect()
}

fn ucs2(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn both16(n: u16) -> [u8; 4] {
    let (le, be) = (n.to_le_bytes(), n.to_be_bytes());
    [le[0], le[1], be[0], be[1]]
}

fn both32(n: u32) -> [u8; 8] {
    let (le, be) = (n.to_le_bytes(), n.to_be_bytes());
    [le[0], le[1], le[2], le[3], be[0], be[1], be[2], be[3]]
}

/// The kind of a directory record, which decides its Rock Ridge fields.
enum RockRidge<'a> {
    /// None: a record of Joliet's tree, or of a descriptor.
    None,
    /// The root's entry of itself, which announces the extension.
    Root,
    /// A folder's entry of itself or of its parent.
    Folder,
    Named(&'a str),
}

/// The fields of Rock Ridge: mode, number of links and owner (`PX`), and the name (`NM`).
fn rock_ridge(entry: &RockRidge<'_>, is_folder: bool) -> Result<Vec<u8>, IsoError> {
    let mut fields = Vec::new();
    match entry {
        RockRidge::None => return Ok(fields),
        RockRidge::Root => fields.extend(b"SP\x07\x01\xbe\xef\x00"),
        RockRidge::Folder | RockRidge::Named(_) => {}
    }
    // Readable for everybody, as mkisofs -r writes it.
    let (mode, links) = match is_folder {
        true => (0o040_555, 2),
        false => (0o100_444, 1),
    };
    fields.extend(b"PX\x24\x01");
    for number in [mode, links, 0, 0] {
        fields.extend(both32(number));
    }
    match entry {
        RockRidge::Root => fields.extend(b"ER\x12\x01\x0a\x00\x00\x01RRIP_1991A"),
        RockRidge::Named(name) => {
            let length = u8::try_from(5 + name.len()).map_err(|_| too_large("a name"))?;
            fields.extend([b'N', b'M', length, 1, 0]);
            fields.extend(name.as_bytes());
        }
        RockRidge::None | RockRidge::Folder => {}
    }
    Ok(fields)
}

fn record(
    name: &[u8],
    (sector, length): (u32, u32),
    is_folder: bool,
    entry: &RockRidge<'_>,
) -> Result<Vec<u8>, IsoError> {
    let extension = rock_ridge(entry, is_folder)?;
    let own = (33 + name.len()).next_multiple_of(2);
    let size = (own + extension.len()).next_multiple_of(2);
    let mut record = Vec::with_capacity(size);
    record.push(u8::try_from(size).map_err(|_| too_large("a name"))?);
    record.push(0);
    record.extend(both32(sector));
    record.extend(both32(length));
    record.extend(DATE);
    record.extend([if is_folder { 2 } else { 0 }, 0, 0]);
    record.extend(both16(1));
    record.push(u8::try_from(name.len()).map_err(|_| too_large("a name"))?);
    record.extend(name);
    record.resize(own, 0);
    record.extend(extension);
    record.resize(size, 0);
    Ok(record)
}

/// The first sector and length in bytes of each folder and file.
struct SectorMap {
    folders: Vec<(u32, u32)>,
    files: Vec<(u32, u32)>,
}

/// The records of a folder. No record crosses a sector boundary.
fn folder(
    tree: &FolderTree,
    number: usize,
    names: NameEncoding,
    places: &SectorMap,
) -> Result<Vec<u8>, IsoError> {
    let this = &tree.folders[number];
    let of = |n: usize| places.folders.get(n).copied().unwrap_or_default();
    let (own, parent) = (of(number), of(this.parent));
    let entry = |entry| match names {
        NameEncoding::Plain => entry,
        NameEncoding::Joliet => RockRidge::None,
    };
    let itself = match number {
        0 => entry(RockRidge::Root),
        _ => entry(RockRidge::Folder),
    };
    let mut records = vec![
        record(&[0], own, true, &itself)?,
        record(&[1], parent, true, &entry(RockRidge::Folder))?,
    ];
    let mut named = BTreeMap::new();
    for (name, n) in &this.folders {
        named.insert(names.folder(name), (of(*n), true, name));
    }
    for (name, n) in &this.files {
        let place = places.files.get(*n).copied().unwrap_or_default();
        named.insert(names.file(name), (place, false, name));
    }
    for (identifier, (place, is_folder, name)) in named {
        let entry = entry(RockRidge::Named(name));
        records.push(record(&identifier, place, is_folder, &entry)?);
    }
    let mut bytes = Vec::new();
    for record in records {
        if bytes.len() % SECTOR + record.len() > SECTOR {
            bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
        }
        bytes.extend(record);
    }
    bytes.resize(bytes.len().next_multiple_of(SECTOR), 0);
    Ok(bytes)
}

/// A path table in one byte order.
fn path_table(tree: &FolderTree, names: NameEncoding, places: &SectorMap, is_big: bool) -> Vec<u8> {
    let order = tree.in_order();
    let mut table = Vec::new();
    for (folder, name) in &order {
        let name = match name.as_str() {
            "" => vec![0],
            name => names.folder(name),
        };
        let parent = tree.folders[*folder].parent;
        let parent = order.iter().position(|(n, _)| *n == parent).unwrap_or(0) + 1;
        let (sector, parent) = (places.folders[*folder].0, parent as u16);
        table.extend([name.len() as u8, 0]);
        if is_big {
            table.extend(sector.to_be_bytes());
            table.extend(parent.to_be_bytes());
        } else {
            table.extend(sector.to_le_bytes());
            table.extend(parent.to_le_bytes());
        }
        table.extend(&name);
        if name.len() % 2 == 1 {
            table.push(0);
        }
    }
    table
}

fn padded(sector: &mut [u8], at: usize, length: usize, text: &[u8], names: NameEncoding) {
    for (n, byte) in sector[at..at + length].iter_mut().enumerate() {
        *byte = match names {
            NameEncoding::Plain => b' ',
            NameEncoding::Joliet if n % 2 == 0 => 0,
            NameEncoding::Joliet => b' ',
        };
    }
    let length = text.len().min(length);
    sector[at..at + length].copy_from_slice(&text[..length]);
}

struct Volume<'a> {
    label: &'a str,
    sectors: u32,
    table_bytes: u32,
    table: u32,
    root: Vec<u8>,
}

fn descriptor(volume: &Volume<'_>, names: NameEncoding) -> Vec<u8> {
    let mut sector = vec![0; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[if names == NameEncoding::Plain { 1 } else { 2 }]);
    put(1, b"CD001\x01");
    put(80, &both32(volume.sectors));
    if names == NameEncoding::Joliet {
        put(88, b"%/E");
    }
    put(120, &both16(1));
    put(124, &both16(1));
    put(128, &both16(SECTOR as u16));
    put(132, &both32(volume.table_bytes));
    put(140, &volume.table.to_le_bytes());
    put(148, &(volume.table + 1).to_be_bytes());
    put(156, &volume.root);
    for at in [813, 830, 847, 864] {
        put(at, &[b'0'; 16]);
    }
    put(881, &[1]);
    let label = match names {
        NameEncoding::Plain => volume.label.as_bytes().to_vec(),
        NameEncoding::Joliet => ucs2(volume.label),
    };
    for (at, length, text) in [
        (8, 32, &b""[..]),
        (40, 32, &label),
        (190, 128, b""),
        (318, 128, b""),
        (446, 128, b""),
        (574, 128, b""),
        (702, 36, b""),
        (739, 36, b""),
        (776, 36, b""),
    ] {
        padded(&mut sector, at, length, text, names);
    }
    sector
}

/// A file system with these files by path. The label has at most 16 characters.
pub(super) fn iso9660(label: &str, files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, IsoError> {
    let tree = FolderTree::of(files);
    let mut next = FIRST;
    let mut take = |length: usize| -> Result<(u32, u32), IsoError> {
        let sector = u32::try_from(next).map_err(|_| too_large("its files"))?;
        next += length.div_ceil(SECTOR);
        let length = u32::try_from(length).map_err(|_| too_large("a file"))?;
        Ok((sector, length))
    };
    // A folder's length depends only on its names, not on positions.
    let nowhere = SectorMap {
        folders: Vec::new(),
        files: Vec::new(),
    };
    let mut layouts = Vec::new();
    for names in [NameEncoding::Plain, NameEncoding::Joliet] {
        let places = (0..tree.folders.len())
            .map(|n| take(folder(&tree, n, names, &nowhere)?.len()))
            .collect::<Result<Vec<_>, _>>()?;
        layouts.push((names, places));
    }
    let mut contents: BTreeMap<&[u8], (u32, u32)> = BTreeMap::new();
    let mut placed = Vec::new();
    for content in files.values() {
        let place = match contents.get(content.as_slice()) {
            Some(place) => *place,
            None => take(content.len())?,
        };
        contents.insert(content, place);
        placed.push(place);
    }
    let sectors = u32::try_from(next).map_err(|_| too_large("its files"))?;
    let mut image = vec![0; next * SECTOR];
    let mut put = |sector: usize, bytes: &[u8]| {
        image[sector * SECTOR..sector * SECTOR + bytes.len()].copy_from_slice(bytes);
    };
    for (n, (names, folders)) in layouts.into_iter().enumerate() {
        let places = SectorMap {
            folders,
            files: placed.clone(),
        };
        let table = TABLES + 2 * n;
        let (little, big) = (
            path_table(&tree, names, &places, false),
            path_table(&tree, names, &places, true),
        );
        if little.len() > SECTOR {
            return Err(too_large("its folders"));
        }
        let volume = Volume {
            label,
            sectors,
            table_bytes: little.len() as u32,
            table: table as u32,
            root: record(&[0], places.folders[0], true, &RockRidge::None)?,
        };
        let at = if names == NameEncoding::Plain {
            PRIMARY
        } else {
            JOLIET
        };
        put(at, &descriptor(&volume, names));
        put(table, &little);
        put(table + 1, &big);
        for number in 0..tree.folders.len() {
            let sector = places.folders[number].0 as usize;
            put(sector, &folder(&tree, number, names, &places)?);
        }
    }
    put(TERMINATOR, b"\xffCD001\x01");
    for (content, (sector, _)) in files.values().zip(&placed) {
        put(*sector as usize, content);
    }
    Ok(image)
}
