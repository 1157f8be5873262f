//! What the figures were measured on.

use std::fs;
use std::path::Path;

use crate::engine::Result;

#[derive(Clone, Debug)]
pub struct Machine {
    pub cpu_model: String,
    pub core_count: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub filesystem: String,
    pub checksum_path: String,
}

impl Machine {
    /// `dir` is where the files are.
    pub fn inspect(dir: &Path) -> Result<Self> {
        let uname = rustix::system::uname();
        Ok(Machine {
            cpu_model: field_of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
            core_count: std::thread::available_parallelism()?.get(),
            memory_gib: memory_gib().unwrap_or(0.0),
            kernel: format!(
                "{} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy()
            ),
            filesystem: filesystem_of(dir)?,
            checksum_path: crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc64Nvme),
        })
    }

    /// Pairs of a name and what to print after it.
    pub fn facts(&self) -> [(&'static str, String); 6] {
        [
            ("cpu", self.cpu_model.clone()),
            ("cores", self.core_count.to_string()),
            ("memory", format!("{:.0} GiB", self.memory_gib)),
            ("kernel", self.kernel.clone()),
            ("filesystem", self.filesystem.clone()),
            ("checksum", format!("CRC-64/NVME, {}", self.checksum_path)),
        ]
    }
}

fn field_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory_gib() -> Option<f64> {
    let total = field_of("/proc/meminfo", "MemTotal")?;
    let kib: f64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib / (1024.0 * 1024.0))
}

/// The type and mount options of the filesystem that holds `dir`: the longest
/// mount point that is a prefix of its path.
pub fn filesystem_of(dir: &Path) -> Result<String> {
    let dir = fs::canonicalize(dir)?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            Some((fields.next()?, fields.next()?, fields.next()?))
        })
        .filter(|(point, _, _)| dir.starts_with(point))
        // Of two mounts at one point, the later one is on top.
        .max_by_key(|(point, _, _)| point.len());
    let (_, kind, options) = mount.ok_or("no filesystem holds the directory")?;
    Ok(format!("{kind} ({options})"))
}
