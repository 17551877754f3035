//! CB_LAYOUTRECALL: when the data servers of a layout are gone or have moved.

use braid_nfs::ops::layout_recall::CHECK_INTERVAL;
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::callback::*;
use braid_nfs_wire::nfs4::*;

use crate::client::Callback;
use crate::last;
use crate::layouts::*;
use crate::leases::pass;
use crate::mount::*;
use crate::server::TestServer;

/// A client with a layout of two parts, whose data servers are there.
async fn with_layout() -> (TestServer, Mount, OpenFile, StateId) {
    let (server, mut a, file) = start().await;
    server.share.set_data_servers(two_parts().servers);
    let id = new_layout(&server, &mut a, &file).await;
    (server, a, file, id)
}

async fn new_layout(server: &TestServer, a: &mut Mount, file: &OpenFile) -> StateId {
    set_access(server, a, file).await;
    let get = ArgOp::LayoutGet(layout_get(file.id, LayoutIoMode::ReadWrite));
    last!(LayoutGet, a.run(file.op(get)).await).state_id
}

fn answer(status: NfsStatus) -> CallbackResOp {
    CallbackResOp::LayoutRecall(if status == NfsStatus::Ok { Ok(()) } else { Err(status) })
}

/// The next callback, which recalls the whole layout of the file.
async fn recalled(a: &mut Mount, file: &OpenFile) -> (Callback, StateId) {
    let callback = a.connection.callback().await;
    let CallbackArgOp::LayoutRecall(args) = &callback.op else { panic!("{callback:?}") };
    assert_eq!((args.layout_type, args.io_mode), (LayoutType::FILES, LayoutIoMode::Any));
    let LayoutRecallWhat::File(what) = &args.what else { panic!("{args:?}") };
    assert_eq!((&what.handle, what.offset, what.length), (&file.handle, 0, LENGTH_TO_END));
    let id = what.state_id;
    (callback, id)
}

/// Whether the server has the layout.
async fn is_known(a: &mut Mount, state_id: StateId) -> bool {
    let test = ArgOp::TestStateId(TestStateIdArgs { state_ids: vec![state_id] });
    last!(TestStateId, a.run([test]).await).statuses == [NfsStatus::Ok]
}

/// Whether the client is called when the data servers are checked again.
async fn is_called(a: &mut Mount) -> bool {
    pass(CHECK_INTERVAL).await;
    // The check runs before the next request, or during one of these.
    for _ in 0..20 {
        assert_eq!(a.status([]).await, NfsStatus::Ok);
    }
    a.connection.has_callback()
}

#[tokio::test]
async fn layout_of_a_server_that_is_gone_is_recalled_once() {
    let (server, mut a, file, id) = with_layout().await;
    assert!(!is_called(&mut a).await, "all are there");
    server.share.set_data_servers(two_parts().servers[..1].to_vec());
    pass(CHECK_INTERVAL).await;
    let (callback, recall) = recalled(&mut a, &file).await;
    assert_eq!(recall, StateId { seqid: id.seqid + 1, ..id });
    a.connection.answer(&callback, NfsStatus::Ok, &answer(NfsStatus::Ok)).await;
    assert!(!is_called(&mut a).await, "it was recalled");
    assert_eq!(a.status(file.op(give_back(recall))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(give_back(recall))).await, NfsStatus::BadStateId);
}

#[tokio::test]
async fn layout_of_a_server_with_another_address_is_recalled() {
    let (server, mut a, file, id) = with_layout().await;
    let mut servers = two_parts().servers;
    servers[1].addresses = vec!["127.0.0.9:2050".into()];
    server.share.set_data_servers(servers);
    pass(CHECK_INTERVAL).await;
    let (callback, recall) = recalled(&mut a, &file).await;
    assert_eq!(recall.seqid, id.seqid + 1);
    // RFC 8881 20.3.3: the client has returned it, or never got it.
    let none = answer(NfsStatus::NoMatchingLayout);
    a.connection.answer(&callback, NfsStatus::Ok, &none).await;
    while is_known(&mut a, recall).await {}
}

#[tokio::test]
async fn recall_is_repeated_with_its_number_while_the_client_is_busy() {
    let (server, mut a, file, _) = with_layout().await;
    server.share.set_data_servers(Vec::new());
    pass(CHECK_INTERVAL).await;
    let (callback, first) = recalled(&mut a, &file).await;
    a.connection.answer(&callback, NfsStatus::Ok, &answer(NfsStatus::Delay)).await;
    let (callback, second) = recalled(&mut a, &file).await;
    assert_eq!(first, second);
    a.connection.answer(&callback, NfsStatus::Ok, &answer(NfsStatus::Ok)).await;
    // A layout that it gets now is another one, and recalled again when its servers go.
    let third = new_layout(&server, &mut a, &file).await;
    assert_eq!(third, StateId { seqid: second.seqid + 1, ..second });
    pass(CHECK_INTERVAL).await;
    assert_eq!(recalled(&mut a, &file).await.1.seqid, third.seqid + 1);
}
