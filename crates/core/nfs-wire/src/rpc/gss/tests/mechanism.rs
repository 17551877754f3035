//! A mechanism without cryptography: a user's key is the user's name.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;

use super::super::*;

/// Accepts any token as a user's name. Of "two-step NAME" it accepts NAME after a second token
/// "confirm", and of "bad" nothing.
#[derive(Debug)]
pub struct TestMechanism;

/// How long contexts of [`TestMechanism`] are valid.
pub const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestContext {
    user: String,
}

impl TestContext {
    pub fn of(user: &str) -> Self {
        Self { user: user.to_owned() }
    }

    fn hash(&self, message: &[u8]) -> Bytes {
        let mut hasher = DefaultHasher::new();
        (&self.user, message).hash(&mut hasher);
        Bytes::copy_from_slice(&hasher.finish().to_be_bytes())
    }

    fn cipher(&self, message: &[u8]) -> Vec<u8> {
        let key = self.user.bytes().cycle();
        message.iter().zip(key).map(|(byte, key)| byte ^ key ^ 0x5a).collect()
    }
}

impl GssMechanism for TestMechanism {
    type Pending = String;
    type Context = TestContext;

    fn accept(&self, pending: Option<String>, token: &[u8]) -> AcceptStep<String, TestContext> {
        let failed = |major| AcceptStep::Failed {
            failure: GssFailure { major, minor: 7 },
            token: Bytes::from_static(b"error token"),
        };
        let Ok(token) = std::str::from_utf8(token) else { return failed(GSS_S_DEFECTIVE_TOKEN) };
        let user = match (pending, token) {
            (Some(user), "confirm") => user,
            (Some(_), _) | (None, "bad") => return failed(GSS_S_FAILURE),
            (None, first) => match first.strip_prefix("two-step ") {
                Some(user) => {
                    let token = Bytes::from_static(b"please confirm");
                    return AcceptStep::Continue { pending: user.to_owned(), token };
                }
                None => first.to_owned(),
            },
        };
        let token = Bytes::from_static(b"welcome");
        AcceptStep::Established { context: TestContext { user }, token, lifetime: LIFETIME }
    }
}

impl GssContext for TestContext {
    fn principal(&self) -> &str {
        &self.user
    }

    fn get_mic(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        Ok(self.hash(message))
    }

    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssFailure> {
        let failure = GssFailure { major: GSS_S_BAD_SIG, minor: 0 };
        if self.hash(message) == mic { Ok(()) } else { Err(failure) }
    }

    fn wrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        let mut wrapped = self.cipher(message);
        wrapped.extend_from_slice(&self.hash(message));
        Ok(wrapped.into())
    }

    fn unwrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        let failure = GssFailure { major: GSS_S_BAD_SIG, minor: 0 };
        let (encrypted, hash) = message.split_last_chunk::<8>().ok_or(failure)?;
        let plain = self.cipher(encrypted);
        self.verify_mic(&plain, hash)?;
        Ok(plain.into())
    }
}
