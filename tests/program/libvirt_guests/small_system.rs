//! The smallest bootable system: a boot sector that prints on the console what it is and what it finds on its disk, and
//! writes its name there. So the console shows what a guest booted from, and whether its disk kept what was written.

use std::path::Path;
use std::process::Command;

const SECTOR: usize = 512;

/// `system: NAME FOUND`, found in the disk's second sector: `blank`, or the name of the system that wrote there. The texts and
/// the address packet lie behind it.
#[rustfmt::skip]
const CODE: &[u8] = &[
    // Segments and stack.
    0x31, 0xc0,                     // xor ax, ax
    0x8e, 0xd8,                     // mov ds, ax
    0x8e, 0xd0,                     // mov ss, ax
    0xbc, 0x00, 0x7c,               // mov sp, 0x7c00
    0xfc,                           // cld
    0xbe, 0x40, 0x7d,               // mov si, "system: "
    0xe8, 0x36, 0x00,               // call say
    0xbe, 0x80, 0x7d,               // mov si, its name
    0xe8, 0x30, 0x00,               // call say
    0xbd, 0x80, 0x00,               // mov bp, 0x80
    0xe8, 0x14, 0x00,               // call look
    // Its own sector, the name in it, becomes the second of the disk.
    0xb4, 0x43,                     // mov ah, 0x43 (write)
    0xbb, 0x00, 0x7c,               // mov bx, 0x7c00
    0xbd, 0x80, 0x00,               // mov bp, 0x80
    0xe8, 0x37, 0x00,               // call disk
    0xbe, 0x60, 0x7d,               // mov si, end of line
    0xe8, 0x19, 0x00,               // call say
    0xf4,                           // rest: hlt
    0xeb, 0xfd,                     // jmp rest
    // look: says what the disk has.
    0xbe, 0x50, 0x7d,               // mov si, " "
    0xe8, 0x10, 0x00,               // call say
    0xb4, 0x42,                     // mov ah, 0x42 (read)
    0xbb, 0x00, 0x80,               // mov bx, 0x8000
    0xe8, 0x20, 0x00,               // call disk
    0xbe, 0x80, 0x81,               // mov si, the name in what was read
    0x73, 0x03,                     // jnc say
    0xbe, 0x70, 0x7d,               // mov si, "none"
    // say: to the serial port, up to a zero.
    0xac,                           // lodsb
    0x84, 0xc0,                     // test al, al
    0x74, 0x12,                     // jz done
    0x88, 0xc1,                     // mov cl, al
    0xba, 0xfd, 0x03,               // mov dx, 0x3fd
    0xec,                           // wait: in al, dx
    0xa8, 0x20,                     // test al, 0x20
    0x74, 0xfb,                     // jz wait
    0xba, 0xf8, 0x03,               // mov dx, 0x3f8
    0x88, 0xc8,                     // mov al, cl
    0xee,                           // out dx, al
    0xeb, 0xe9,                     // jmp say
    0xc3,                           // done: ret
    // disk: reads or writes the second sector.
    0x89, 0xea,                     // mov dx, bp
    0x89, 0x1e, 0x14, 0x7d,         // mov [packet + 4], bx
    0xbe, 0x10, 0x7d,               // mov si, packet
    0xb0, 0x00,                     // mov al, 0
    0xcd, 0x13,                     // int 0x13
    0xc3,                           // ret
];

/// The offset of the name, in the boot sector and in the sector that it writes.
const NAME: usize = 0x180;

/// A raw image of 1 MiB with such a system.
pub(super) fn raw(path: &Path, name: &str) {
    let mut disk = vec![0; 1 << 20];
    disk[..CODE.len()].copy_from_slice(CODE);
    // One sector, to an address that the code fills in, from the second on.
    disk[0x110..0x120].copy_from_slice(&[16, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    for (at, text) in [
        (0x140, "system: "),
        (0x150, " "),
        (0x160, "\r\n"),
        (0x170, "none"),
        (NAME, name),
        (SECTOR + NAME, "blank"),
    ] {
        disk[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    disk[SECTOR - 2..SECTOR].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(path, disk).expect("an image");
}

/// The same as a qcow2 file.
pub(super) fn qcow2(path: &Path, name: &str) {
    let plain = path.with_extension("plain");
    raw(&plain, name);
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-f", "raw", "-O", "qcow2"]);
    let converted = convert.args([&plain, path]).status();
    assert!(converted.expect("qemu-img runs").success());
}
