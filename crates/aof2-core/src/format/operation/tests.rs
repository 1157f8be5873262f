//! Round trips, hostile bytes, and what a newer version would write.

#![allow(clippy::unwrap_used, clippy::panic)]

use fastrand::Rng;
use proptest::prelude::*;

use super::arbitrary::{batch, operation};
use super::*;
use crate::format::{FormatError, crc64};

fn bytes_of(operation: &Operation) -> Vec<u8> {
    let mut bytes = Vec::new();
    operation.encode(&mut bytes);
    bytes
}

/// The bytes with a checksum that matches, whatever they say.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut rest = bytes[..80].to_vec();
    rest.extend_from_slice(&bytes[88..]);
    bytes[80..88].copy_from_slice(&crc64(&rest).to_le_bytes());
    bytes
}

#[test]
fn every_type_of_operation_comes_back_as_it_was() {
    let mut rng = Rng::with_seed(1);
    for (number, name) in OPERATION_TYPES {
        for _ in 0..50 {
            let operation = operation(*number, &mut rng);
            assert_eq!((operation.body.number(), operation.body.name()), (*number, *name));
            let mut bytes = bytes_of(&operation);
            let len = bytes.len();
            bytes.extend_from_slice(b"what follows");
            assert_eq!(Operation::decode(&bytes).unwrap(), (operation, len));
        }
    }
}

#[test]
fn every_flipped_bit_and_every_cut_of_an_operation_is_refused() {
    let mut rng = Rng::with_seed(2);
    for (number, _) in OPERATION_TYPES {
        let bytes = bytes_of(&operation(*number, &mut rng));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Operation::decode(&flipped).is_err(), "type {number}, bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Operation::decode(&bytes[..len]).is_err(), "type {number}, cut at {len}");
        }
    }
}

#[test]
fn an_unknown_type_is_a_clear_error_and_no_damage() {
    let mut bytes = bytes_of(&operation(6, &mut Rng::with_seed(3)));
    bytes[6..8].copy_from_slice(&999u16.to_le_bytes());
    let refused = Operation::decode(&resealed(bytes));
    assert_eq!(refused, Err(FormatError::UnknownOperation { found: 999 }));
}

#[test]
fn a_newer_version_of_an_operation_or_batch_is_told_from_damage() {
    let mut rng = Rng::with_seed(4);
    let mut bytes = bytes_of(&operation(6, &mut rng));
    bytes[4] = 2;
    let refused = Operation::decode(&bytes);
    assert_eq!(refused, Err(FormatError::UnsupportedVersion { found: 2 }));
    let (mut bytes, _) = batch(&mut rng).encode();
    bytes[8] = 2;
    assert_eq!(
        OperationBatch::decode(&bytes).map(drop),
        Err(FormatError::UnsupportedVersion { found: 2 })
    );
}

#[test]
fn an_operation_of_another_place_does_not_belong_to_a_batch() {
    let mut batch = batch(&mut Rng::with_seed(5));
    batch.operations[0].id.index += 1;
    let (bytes, _) = batch.encode();
    assert!(OperationBatch::decode(&bytes).is_err());
    batch.operations[0].id.index -= 1;
    batch.operations[0].id.generation ^= 1;
    assert!(OperationBatch::decode(&batch.encode().0).is_err());
}

#[test]
fn an_actor_that_is_too_long_is_cut_between_characters() {
    let mut long = operation(6, &mut Rng::with_seed(6));
    long.actor = "語".repeat(100);
    let (read, _) = Operation::decode(&bytes_of(&long)).unwrap();
    assert_eq!(read.actor, "語".repeat(85));
}

#[test]
fn ids_of_operations_read_as_they_are_shown() {
    let id = OperationId { generation: 12, index: 3 };
    assert_eq!(id.to_string(), "12.3");
    assert_eq!("12.3".parse(), Ok(id));
    assert!("12".parse::<OperationId>().is_err() && "1.x".parse::<OperationId>().is_err());
}

#[test]
fn objects_have_the_keys_of_the_specification() {
    let name = |variant| ObjectName { origin_db: 1, chunk_id: 0xAB, variant, generation: 2 };
    assert_eq!(name(Variant::BASE).to_string(), "00000001/000000ab/base:00000002");
    assert_eq!(name(Variant::WAL).to_string(), "00000001/000000ab/wal:00000002");
    assert_eq!(name(Variant::delta(7)).to_string(), "00000001/000000ab/delta-0007:00000002");
}

proptest! {
    #[test]
    fn a_batch_comes_back_as_it_was(seed in any::<u64>()) {
        let batch = batch(&mut Rng::with_seed(seed));
        let (bytes, crc) = batch.encode();
        prop_assert_eq!(OperationBatch::decode(&bytes), Ok((batch, crc)));
    }

    #[test]
    fn a_flipped_bit_or_a_cut_of_a_batch_is_refused(seed in any::<u64>(), at in any::<u32>()) {
        let (bytes, _) = batch(&mut Rng::with_seed(seed)).encode();
        let bit = at as usize % (bytes.len() * 8);
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(OperationBatch::decode(&flipped).is_err());
        prop_assert!(OperationBatch::decode(&bytes[..at as usize % bytes.len()]).is_err());
    }

    #[test]
    fn any_bytes_with_a_valid_checksum_are_refused_or_are_what_would_be_written(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6),
    ) {
        let mut rng = Rng::with_seed(seed);
        let number = OPERATION_TYPES[rng.usize(..OPERATION_TYPES.len())].0;
        let mut bytes = bytes_of(&operation(number, &mut rng));
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let bytes = resealed(bytes);
        if let Ok((read, len)) = Operation::decode(&bytes) {
            prop_assert_eq!(bytes_of(&read), bytes[..len].to_vec());
        }
    }

    #[test]
    fn any_bytes_at_all_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Operation::decode(&bytes);
        let _ = OperationBatch::decode(&bytes);
    }
}
