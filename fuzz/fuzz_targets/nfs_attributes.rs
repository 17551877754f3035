//! Any bytes as attributes: no panic, and attributes that are decoded are the same after encoding
//! and decoding. A list of thresholds likewise.
#![no_main]

use braid_nfs_wire::nfs4::{Attributes, EncodedAttributes, ThresholdItem};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(encoded) = EncodedAttributes::decode(&mut Decoder::new(Bytes::copy_from_slice(data)))
    else {
        return;
    };
    let Ok(attributes) = Attributes::from_encoded(&encoded) else { return };
    assert_eq!(attributes.mask(), encoded.mask);
    for number in encoded.mask.iter() {
        assert!(attributes.mask().has(number));
    }

    let again = attributes.to_encoded(&encoded.mask);
    let decoded = Attributes::from_encoded(&again).expect("own encoding");
    assert_eq!(decoded.to_encoded(&encoded.mask), again);
    let mut to = Encoder::new();
    attributes.encode_requested(&encoded.mask, &mut to);
    assert_eq!(to.to_vec(), again.to_bytes());

    for item in attributes.mdsthreshold.iter().flat_map(|value| &value.hints) {
        if let Ok(thresholds) = item.thresholds() {
            assert_eq!(&ThresholdItem::new(item.layout_type, &thresholds), item);
        }
    }
});
