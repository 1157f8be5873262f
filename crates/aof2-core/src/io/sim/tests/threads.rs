use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Threads store, sync and take images at once. What a sync covered is on disk in
/// every image taken after it.
#[test]
fn syncs_and_images_race_with_stores() {
    const LEN: usize = 256 << 10;
    let (sim, file) = machine_with("/f", LEN as u64);
    let mut writer = writer_of(&file, LEN);
    let map = Arc::clone(writer.map());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for offset in (0..LEN).step_by(8) {
                writer.store_word(offset, offset as u64 + 1).unwrap();
                writer.publish(offset + 8).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let mut rounds = 0;
        while !done.load(Ordering::Acquire) || rounds == 0 {
            let published = map.published();
            map.sync(0, published).unwrap();
            let disk = after(&sim.image(), rounds % 7).read_file("/f").unwrap();
            for (index, word) in disk.chunks_exact(8).enumerate() {
                let value = u64::from_le_bytes(word.try_into().unwrap());
                let offset = index * 8;
                assert!(value == offset as u64 + 1 || (offset >= published && value == 0));
            }
            rounds += 1;
        }
    });
}
