//! QUERY_INFO. MS-SMB2 3.3.5.20, MS-FSA 2.1.5.12.

use std::sync::atomic::Ordering;

use braid_share::{Attributes, Identity, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::{
    FileAttributes, FileFacts, FileMode, FsAttributes, InformationClass, VolumeClass,
    decode_ea_names, encode_eas,
};
use braid_smb_wire::smb2::query_info::{
    InfoType, QueryInfoFlags, QueryInfoRequest, QueryInfoResponse, SecurityInformation,
};
use braid_smb_wire::smb2::{Body, ErrorBody};

use crate::attributes;
use crate::context::{Context, OpResult, Reply, malformed};
use crate::extended_attributes as eas;
use crate::open::{FileOpen, Open};
use crate::security;
use crate::status::failed;
use crate::streams::list as streams;
use crate::tree::Target;

/// Answers what a file, its volume or its security descriptor is like.
pub async fn query_info<S: Share>(context: &Context<S>, request: QueryInfoRequest) -> OpResult {
    let input_bytes =
        u32::try_from(request.input.len()).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    context.paid_for(request.output_buffer_length.max(input_bytes))?;
    let open = context.open(request.file_id)?;
    let (bytes, status) = match &*open {
        Open::File(file) => {
            let (client, who) = (context.client()?, context.who()?);
            let query = Query { context, request: &request, open: file, client, who };
            match query.run().await? {
                Answer::Information(bytes, status) => (bytes, status),
                Answer::TooSmall(needed) => return Ok(too_small(needed).with_file(open.id())),
            }
        }
        Open::Pipe(_) => of_pipe(&request)?,
    };
    let body = QueryInfoResponse { output: bytes.into() };
    Ok(Reply::new(&body).with_status(status).with_file(open.id()))
}

/// The response to a buffer that is too small: the bytes that are needed. MS-SMB2 2.2.2,
/// 3.3.5.20.3.
fn too_small(needed: u32) -> Reply {
    let body = ErrorBody { contexts: 0, data: needed.to_le_bytes().to_vec() };
    Reply { status: NtStatus::BUFFER_TOO_SMALL, body: body.to_bytes(), ..Reply::default() }
}

/// Information about a pipe, as Windows and Samba have it.
fn of_pipe(request: &QueryInfoRequest) -> Result<(Vec<u8>, NtStatus), NtStatus> {
    let class = InformationClass(request.info_class);
    let is_known = matches!(
        class,
        InformationClass::BASIC | InformationClass::STANDARD | InformationClass::EA
    );
    if request.info_type != InfoType::FILE || !is_known {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let facts = FileFacts {
        attributes: FileAttributes::NORMAL,
        allocation_bytes: 4096,
        links: 1,
        delete_pending: true,
        ..FileFacts::default()
    };
    let encoded = facts.encode(class, request.output_buffer_length as usize)?;
    let status = encoded.status();
    Ok((encoded.bytes, status))
}

/// What a query finds.
enum Answer {
    /// The bytes, and `SUCCESS` or a warning.
    Information(Vec<u8>, NtStatus),
    /// The buffer must have this many bytes.
    TooSmall(u32),
}

/// A query of a file.
struct Query<'a, S: Share> {
    context: &'a Context<S>,
    request: &'a QueryInfoRequest,
    open: &'a FileOpen<S>,
    client: &'a S::Client,
    who: &'a Identity,
}

impl<S: Share> Query<'_, S> {
    async fn run(&self) -> Result<Answer, NtStatus> {
        match self.request.info_type {
            InfoType::FILE => match InformationClass(self.request.info_class) {
                InformationClass::FULL_EA => self.extended_attributes().await,
                class => self.file(class).await,
            },
            InfoType::FILESYSTEM => self.volume(VolumeClass(self.request.info_class)).await,
            InfoType::SECURITY => self.security().await,
            InfoType::QUOTA => Err(NtStatus::NOT_SUPPORTED),
            _ => Err(NtStatus::INVALID_PARAMETER),
        }
    }

    fn max_bytes(&self) -> usize {
        self.request.output_buffer_length as usize
    }

    async fn file(&self, class: InformationClass) -> Result<Answer, NtStatus> {
        // 3.3.5.20.1.
        if matches!(
            class,
            InformationClass::BASIC
                | InformationClass::ALL
                | InformationClass::NETWORK_OPEN
                | InformationClass::ATTRIBUTE_TAG
        ) {
            self.open.needs(AccessMask::READ_ATTRIBUTES.0)?;
        }
        let mut facts = FileFacts::default();
        if is_of_file(class) {
            let known = self.attributes().await?;
            facts = self.open.facts(&known);
            if matches!(class, InformationClass::ALL | InformationClass::EA) {
                let all = eas::list(self.client, self.who, &known).await.unwrap_or_default();
                facts.ea_bytes = eas::bytes_of(&all);
            }
        }
        self.add_open(&mut facts);
        if class == InformationClass::STREAM {
            self.add_streams(&mut facts).await?;
        }
        let encoded = facts.encode(class, self.max_bytes())?;
        let status = encoded.status();
        Ok(Answer::Information(encoded.bytes, status))
    }

    /// Adds what the server itself knows.
    fn add_open(&self, facts: &mut FileFacts) {
        let open = self.open;
        let server = &self.context.server;
        facts.file_id = open.file.0;
        facts.directory = open.is_directory;
        facts.volume_serial = attributes::volume_serial(server.share.file_system());
        facts.access = AccessMask(open.granted);
        facts.position = open.position.load(Ordering::Relaxed);
        // The options of CREATE have the same bits.
        let bits = FileMode::SETTABLE.with(FileMode::DELETE_ON_CLOSE);
        facts.mode = FileMode(open.options & bits.0);
        facts.name = format!("\\{}", open.place().path);
        if let Some(stream) = &open.stream {
            facts.name.push(':');
            facts.name.push_str(stream.shared.name().text());
        }
        if server.files.is_delete_pending(open.key()) {
            facts.delete_pending = true;
            // MS-FSA 2.1.5.12.27: without the name that is going.
            facts.links = facts.links.saturating_sub(1);
        }
    }

    /// Adds the streams of the file, also for an open of one of them. MS-FSA 2.1.5.12.29.
    async fn add_streams(&self, facts: &mut FileFacts) -> Result<(), NtStatus> {
        let known = match self.open.stream {
            Some(_) => self.client.attributes(self.who, self.open.file).await.map_err(failed)?,
            None => self.attributes().await?,
        };
        let of_file = attributes::facts(&known, &self.open.place().name);
        facts.directory = of_file.directory;
        facts.end_of_file = of_file.end_of_file;
        facts.allocation_bytes = of_file.allocation_bytes;
        facts.streams = streams::sizes(self.client, self.who, &known).await?;
        Ok(())
    }

    async fn attributes(&self) -> Result<Attributes, NtStatus> {
        let known = match &self.open.data {
            // With the true size.
            Some(data) => data.attributes().await,
            None => self.client.attributes(self.who, self.open.file).await,
        };
        known.map_err(failed)
    }

    async fn extended_attributes(&self) -> Result<Answer, NtStatus> {
        self.open.needs(AccessMask::READ_EA.0)?;
        let known = self.attributes().await?;
        let mut all = eas::list(self.client, self.who, &known).await?;
        if !self.request.input.is_empty() {
            let names = decode_ea_names(self.request.input.clone()).map_err(malformed)?;
            all = eas::with_names(&all, &names);
        } else if self.request.flags.has(QueryInfoFlags::INDEX_SPECIFIED) {
            // The first one has the index 1 (MS-FSA 2.1.5.12.10).
            let before = (self.request.additional_information as usize).saturating_sub(1);
            if before >= all.len() && !all.is_empty() {
                return Err(NtStatus::NONEXISTENT_EA_ENTRY);
            }
            all.drain(..before.min(all.len()));
        }
        if all.is_empty() {
            return Err(NtStatus::NO_EAS_ON_FILE);
        }
        if self.request.flags.has(QueryInfoFlags::RETURN_SINGLE_ENTRY) {
            all.truncate(1);
        }
        let (bytes, fitted) = encode_eas(&all, self.max_bytes());
        match fitted {
            0 => Err(NtStatus::BUFFER_TOO_SMALL),
            fitted if fitted < all.len() => {
                Ok(Answer::Information(bytes, NtStatus::BUFFER_OVERFLOW))
            }
            _ => Ok(Answer::Information(bytes, NtStatus::SUCCESS)),
        }
    }

    async fn volume(&self, class: VolumeClass) -> Result<Answer, NtStatus> {
        let Target::Files { share, root } = &self.open.tree.target else {
            return Err(NtStatus::INVALID_DEVICE_REQUEST);
        };
        let space = self.client.statfs(self.who, self.open.file).await.map_err(failed)?;
        let file_system = self.context.server.share.file_system();
        let mut volume = attributes::volume(&share.name, file_system, &space, share.read_only);
        if class == VolumeClass::ATTRIBUTE
            && streams::are_supported(self.client, self.who, *root).await
        {
            volume.attributes = volume.attributes.with(FsAttributes::NAMED_STREAMS);
        }
        if class == VolumeClass::VOLUME
            && let Ok(root) = self.client.attributes(self.who, *root).await
        {
            volume.creation = attributes::file_time(root.btime);
        }
        let encoded = volume.encode(class, self.max_bytes())?;
        let status = encoded.status();
        Ok(Answer::Information(encoded.bytes, status))
    }

    /// 3.3.5.20.3.
    async fn security(&self) -> Result<Answer, NtStatus> {
        let wanted = SecurityInformation(self.request.additional_information);
        if wanted.has(SecurityInformation::SACL) {
            self.open.needs(AccessMask::ACCESS_SYSTEM_SECURITY.0)?;
        }
        // A descriptor without parts needs no right.
        if wanted != SecurityInformation::default() {
            self.open.needs(AccessMask::READ_CONTROL.0)?;
        }
        let known = self.attributes().await?;
        let list = match wanted.has(SecurityInformation::DACL) {
            true => self.client.nfs4_acl(self.who, &known).await,
            false => Ok(braid_share::acl_of_mode(&known)),
        };
        let list = match list.map_err(failed) {
            // A symbolic link has no list, nor have the files of a union.
            Err(NtStatus::NOT_SUPPORTED) => braid_share::acl_of_mode(&known),
            list => list?,
        };
        let bytes = security::descriptor(&known, &list, wanted).to_bytes();
        if bytes.len() > self.max_bytes() {
            return Ok(Answer::TooSmall(bytes.len() as u32));
        }
        Ok(Answer::Information(bytes, NtStatus::SUCCESS))
    }
}

/// Whether a class needs the attributes of the file. The others are known without a call.
fn is_of_file(class: InformationClass) -> bool {
    !matches!(
        class,
        InformationClass::INTERNAL
            | InformationClass::ID
            | InformationClass::ACCESS
            | InformationClass::POSITION
            | InformationClass::MODE
            | InformationClass::ALIGNMENT
            | InformationClass::NAME
            | InformationClass::NORMALIZED_NAME
            | InformationClass::ALTERNATE_NAME
            | InformationClass::STREAM
    )
}
