//! Shares of an SMB gateway, from options and from braid.toml.

use braid_client::settings::SmbShare;
use braid_smb::ShareConfig;

use crate::output::Fault;

/// What to type for a share.
const EXAMPLE: &str = "--share projects=/projects";

/// The whole file system under one name.
pub fn everything(name: &str) -> SmbShare {
    SmbShare { name: name.to_owned(), path: "/".to_owned(), ..SmbShare::default() }
}

/// A share for the server.
pub fn config(from: &SmbShare) -> ShareConfig {
    ShareConfig {
        name: from.name.clone(),
        path: from.path.clone(),
        comment: from.comment.clone(),
        users: from.users.clone(),
        read_only: from.read_only,
        guests: from.guest,
        hidden: from.hidden,
        encrypt: from.encrypt,
    }
}

/// Reads several `--share`.
pub fn parse_all(texts: &[String]) -> Result<Vec<SmbShare>, Fault> {
    texts.iter().map(|text| parse(text)).collect()
}

/// Reads `--share NAME=PATH[,OPTION...]`.
fn parse(text: &str) -> Result<SmbShare, Fault> {
    let wrong = |why: String| Fault::usage(format!("reading --share {text}"), why).hint(EXAMPLE);
    let (name, rest) =
        text.split_once('=').ok_or_else(|| wrong("it is not NAME=PATH".to_owned()))?;
    let mut options = rest.split(',');
    let path = options.next().unwrap_or_default();
    let mut share = SmbShare { path: path.to_owned(), ..everything(name) };
    for option in options {
        match option.split_once('=').unwrap_or((option, "")) {
            ("ro", "") => share.read_only = true,
            ("guest", "") => share.guest = true,
            ("hidden", "") => share.hidden = true,
            ("encrypt", "") => share.encrypt = true,
            ("comment", text) => share.comment = text.to_owned(),
            ("users", names) => {
                share.users = names.split(':').map(str::to_owned).collect();
                if share.users.iter().any(|name| matches!(name.as_str(), "" | "@")) {
                    return Err(wrong(format!("{option:?} has an empty name")));
                }
            }
            _ => return Err(wrong(format!("unknown option {option:?}"))),
        }
    }
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_with_its_options() {
        let read = parse("lab=/a/b,ro,hidden,encrypt,users=alice:@staff,comment=The lab").unwrap();
        let expected = ShareConfig {
            comment: "The lab".to_owned(),
            users: vec!["alice".to_owned(), "@staff".to_owned()],
            read_only: true,
            hidden: true,
            encrypt: true,
            ..ShareConfig::new("lab", "/a/b")
        };
        assert_eq!(config(&read), expected);
        let guest = config(&parse("pub=/,guest").unwrap());
        assert_eq!(guest, ShareConfig { guests: true, ..ShareConfig::new("pub", "/") });
    }

    #[test]
    fn a_wrong_share_is_refused_with_what_is_wrong() {
        for (text, why) in [
            ("/a", "it is not NAME=PATH"),
            ("a=/,rw", "unknown option \"rw\""),
            ("a=/,ro=yes", "unknown option \"ro=yes\""),
            ("a=/,users=", "has an empty name"),
            ("a=/,users=alice:@", "has an empty name"),
        ] {
            let fault = parse(text).unwrap_err().to_string();
            assert!(fault.contains(why) && fault.ends_with(EXAMPLE), "{text}: {fault}");
        }
    }
}
