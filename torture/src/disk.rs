//! A small disk of the torture's own, so that it can be filled: an image with a file system, mounted through a loop device. Only root may
//! mount; without that there is no such disk, and the report says so.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

const SIZE_MB: u64 = 2048;

pub struct Disk {
    image: PathBuf,
    pub folder: PathBuf,
}

fn run(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    let out = Command::new(program).args(arguments).output()?;
    match out.status.success() {
        true => Ok(()),
        false => Err(format!("{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr).trim()).into()),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path that is text")
}

impl Disk {
    /// Makes one in this folder, for this user.
    pub fn mount(within: &Path, user: &str) -> Result<Disk, Failure> {
        let name = format!("disk-{}", std::process::id());
        let disk = Disk { image: within.join(format!("{name}.image")), folder: within.join(name) };
        std::fs::create_dir_all(&disk.folder)?;
        // Sparse: it takes the space that is used.
        std::fs::File::create(&disk.image)?.set_len(SIZE_MB << 20)?;
        run("mkfs.ext4", &["-q", "-m", "0", "-O", "^has_journal", text(&disk.image)])?;
        run("mount", &["-o", "loop", text(&disk.image), text(&disk.folder)])?;
        if !user.is_empty() {
            run("chown", &[user, text(&disk.folder)])?;
        }
        Ok(disk)
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Takes all the space that is left.
    pub fn fill(&self) -> Result<(), Failure> {
        let free = self.free()?;
        // The last blocks are taken one by one: an estimate may be too large.
        for part in [free, free / 2, 1 << 20, 1 << 16, 1 << 12] {
            while run("fallocate", &["-l", &format!("{}", self.ballast_size() + part.max(4096)), text(&self.ballast())])
                .is_ok()
            {
                if part == free {
                    break;
                }
            }
        }
        Ok(())
    }

    fn ballast_size(&self) -> u64 {
        std::fs::metadata(self.ballast()).map_or(0, |meta| meta.len())
    }

    fn free(&self) -> Result<u64, Failure> {
        let out = Command::new("df").args(["--output=avail", "-B1", text(&self.folder)]).output()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        Ok(text.lines().last().unwrap_or_default().trim().parse()?)
    }

    /// Gives it back.
    pub fn empty(&self) -> Result<(), Failure> {
        Ok(std::fs::remove_file(self.ballast())?)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A process that was told to leave may take a moment.
        for _ in 0..50 {
            if run("umount", &[text(&self.folder)]).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        std::fs::remove_dir(&self.folder).ok();
        std::fs::remove_file(&self.image).ok();
    }
}

/// Unmounts the disks of runs that were killed.
pub fn remove_leftovers(within: &Path) {
    for entry in std::fs::read_dir(within).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix("disk-") else { continue };
        let pid = rest.trim_end_matches(".image");
        if Path::new("/proc").join(pid).exists() {
            continue;
        }
        if path.is_dir() {
            run("umount", &[text(&path)]).ok();
            std::fs::remove_dir(&path).ok();
        } else {
            std::fs::remove_file(&path).ok();
        }
    }
}
