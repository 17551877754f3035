//! What each request of another open breaks of each kind of lease. MS-FSA 2.1.4.12.

use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};

use super::*;

/// A request of another open.
#[derive(Clone, Copy, Debug)]
enum Other {
    Reads,
    Looks,
    Overwrites,
    Excluded,
    Writes,
    Locks,
    Cuts,
    Zeroes,
    Renames,
    Removes,
}

/// Each request, with what it leaves of R, RH, RW and RWH. Those that need the file open before
/// break W with their open.
const TABLE: [(Other, [LeaseState; 4]); 10] = [
    (Other::Reads, [R, RH, R, RH]),
    (Other::Looks, [R, RH, RW, ALL]),
    (Other::Overwrites, [NONE, NONE, NONE, NONE]),
    (Other::Excluded, [R, R, RW, RW]),
    (Other::Writes, [NONE, NONE, NONE, NONE]),
    (Other::Locks, [NONE, NONE, NONE, NONE]),
    (Other::Cuts, [NONE, NONE, NONE, NONE]),
    (Other::Zeroes, [NONE, NONE, NONE, NONE]),
    (Other::Renames, [R, R, R, R]),
    (Other::Removes, [R, R, R, R]),
];

/// Does it; the results of those that are refused are not regarded.
async fn run(two: &Client, other: Other) {
    let opening = |access, disposition| request("file", access, disposition);
    let excluded =
        CreateRequest { share_access: ShareAccess(0), ..opening(READ, CreateDisposition::OPEN) };
    let create = match other {
        Other::Reads => opening(READ, CreateDisposition::OPEN),
        Other::Looks => opening(ATTRIBUTES, CreateDisposition::OPEN),
        Other::Overwrites => opening(WRITE, CreateDisposition::OVERWRITE),
        Other::Excluded => excluded,
        _ => opening(BOTH | DELETE, CreateDisposition::OPEN),
    };
    let Ok(reply) = finish(super::super::super::create::create(&two.context(), create).await).await
    else {
        return;
    };
    let id = body::<CreateResponse>(&reply).file_id;
    match other {
        Other::Writes => super::super::data::write(two, id, 0, b"x").await.map(drop).unwrap(),
        Other::Zeroes => super::super::data::zero(two, id, 0, 5).await.unwrap(),
        Other::Locks => {
            let locks = vec![LockElement { offset: 0, length: 1, flags: LockFlags(0x12) }];
            let request = LockRequest { sequence: 0, file_id: id, locks };
            let locked = super::super::super::lock::lock(&two.context(), request).await.unwrap();
            finish(locked).await.unwrap();
        }
        Other::Cuts => drop(finish(two.set(id, SetInformation::EndOfFile(3)).await).await.unwrap()),
        Other::Renames => {
            let flags = RenameFlags::default();
            let target = RenameTarget { flags, root_directory: 0, name: "renamed".to_owned() };
            finish(two.set(id, SetInformation::Rename(target)).await).await.unwrap();
        }
        Other::Removes => {
            let removal = SetInformation::Disposition(Disposition::DELETE);
            finish(two.set(id, removal).await).await.unwrap();
        }
        _ => {}
    }
}

/// The result, also of a request that waits.
async fn finish(outcome: Outcome) -> OpResult {
    match outcome {
        Outcome::Done(result) => result,
        Outcome::Waits(_) => Waiting::begin(outcome).end().await,
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_leaves_of_each_lease_what_the_standard_says() {
    for (other, left) in TABLE {
        for (state, wanted) in [R, RH, RW, ALL].into_iter().zip(left) {
            let server = server().await;
            let (one, mut notices) = session_of(&server, (1, 1)).await;
            let (two, _) = session_of(&server, (1, 2)).await;
            let (_, granted) = one.lease(BOTH, KEY, state).await;
            assert_eq!(granted, state);
            let mut kept = state;
            let acknowledging = async {
                loop {
                    let (_, before, after, must) = notices.lease().await;
                    assert_eq!(before, kept, "{other:?} {state:?}");
                    kept = after;
                    if must {
                        one.keep(after);
                    }
                }
            };
            tokio::select! {
                biased;
                () = acknowledging => unreachable!(),
                () = async {
                    run(&two, other).await;
                    // What is sent without waiting has come as well.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                } => {}
            }
            assert_eq!(kept, wanted, "{other:?} {state:?}");
        }
    }
}
