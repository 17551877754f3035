use super::*;

fn key(secret: u8, file_system: u8) -> HandleKey {
    HandleKey::new(&[secret; 32], FileSystemId([file_system; 16]))
}

const TARGETS: [HandleTarget; 3] = [
    HandleTarget::Pseudo { node: 77 },
    HandleTarget::File { export: 5, file: FileIndex(1) },
    HandleTarget::File { export: u32::MAX, file: FileIndex(u64::MAX) },
];

#[test]
fn handles_of_all_gateways_with_one_key_are_equal() {
    for target in TARGETS {
        let handle = key(1, 1).encode(target);
        assert_eq!(handle, key(1, 1).encode(target));
        assert_eq!(key(1, 1).decode(&handle), Ok(target));
    }
}

#[test]
fn each_changed_bit_of_a_handle_is_noticed() {
    let handle = key(1, 1).encode(TARGETS[1]);
    for bit in 0..8 * handle.0.len() {
        let mut bytes = handle.0.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let forged = FileHandle(bytes.into());
        assert_eq!(key(1, 1).decode(&forged), Err(NfsStatus::BadHandle), "bit {bit}");
    }
}

#[test]
fn handles_of_another_length_are_refused() {
    let handle = key(1, 1).encode(TARGETS[1]);
    for length in 0..handle.0.len() {
        let short = FileHandle(handle.0.slice(..length));
        assert_eq!(key(1, 1).decode(&short), Err(NfsStatus::BadHandle));
    }
    let long = FileHandle([&handle.0[..], b"x"].concat().into());
    assert_eq!(key(1, 1).decode(&long), Err(NfsStatus::BadHandle));
}

#[test]
fn handles_of_other_keys_and_file_systems_are_refused() {
    let handle = key(1, 1).encode(TARGETS[0]);
    assert_eq!(key(2, 1).decode(&handle), Err(NfsStatus::BadHandle));
    assert_eq!(key(1, 2).decode(&handle), Err(NfsStatus::Stale));
}
