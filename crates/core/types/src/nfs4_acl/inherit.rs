//! What a new file or directory inherits: RFC 8881 6.2.1.4.1 and 6.4.3.

use super::{Ace, AclError, Nfs4Acl, PosixView, ace_flag};

impl Nfs4Acl {
    /// The list of a file or directory created in the directory that has this list; `None` if it
    /// inherits nothing. `mode` are the permission bits that its creator asks for, and `umask` the
    /// bits that are removed from them if no entry applies to the new file itself.
    ///
    /// # Errors
    /// [`AclError::TooLong`].
    pub fn inherited(
        &self,
        mode: u16,
        umask: u16,
        is_directory: bool,
    ) -> Result<Option<Self>, AclError> {
        let inherit = |ace: &Ace| if is_directory { for_directory(ace) } else { for_file(ace) };
        let aces: Vec<Ace> = self.aces.iter().filter_map(inherit).collect();
        if aces.is_empty() {
            return Ok(None);
        }
        let list = Self::bounded(aces)?;
        if list.effective().next().is_some() {
            return list.restricted(mode, is_directory).map(Some);
        }
        // Only handed on to what is created below: the mode decides for the directory itself.
        let view = PosixView::of_mode(mode & !umask);
        let (_, handed_on) = list.split();
        Self::joined(Self::from_posix(&view, is_directory, 0), handed_on).map(Some)
    }
}

fn for_file(ace: &Ace) -> Option<Ace> {
    (ace.flags & ace_flag::FILE_INHERIT != 0).then_some(Ace { flags: 0, ..*ace })
}

fn for_directory(ace: &Ace) -> Option<Ace> {
    let applies = ace.flags & ace_flag::DIRECTORY_INHERIT != 0;
    let stops = ace.flags & ace_flag::NO_PROPAGATE != 0;
    let kept = ace.flags & ace_flag::INHERITS;
    match (applies, stops) {
        (true, true) => Some(Ace { flags: 0, ..*ace }),
        (true, false) => Some(Ace { flags: kept, ..*ace }),
        // Only files inherit it: a directory hands it on without obeying it.
        (false, false) if kept != 0 => Some(Ace { flags: kept | ace_flag::INHERIT_ONLY, ..*ace }),
        (false, _) => None,
    }
}
