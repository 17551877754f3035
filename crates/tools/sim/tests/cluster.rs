//! A cluster without faults.

use braid_client::OpenOptions;
use braid_sim::cluster::{Cluster, ClusterSize};

#[test]
fn what_one_client_wrote_another_reads() {
    let cluster = Cluster::start(1, ClusterSize::default(), true);
    let data: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
    let wrote = data.clone();
    cluster.client(0, |client| async move {
        client.mkdir("/d", 0o755).await.unwrap();
        let options = OpenOptions::new().write(true).create(true).stripe_size(4096);
        let file = client.open("/d/f", &options).await.unwrap();
        assert_eq!(file.write_at(&wrote, 5).await.unwrap(), wrote.len());
        file.sync().await.unwrap();
        file.close().await.unwrap();
    });
    let read = cluster.client(1, |client| async move {
        assert_eq!(client.stat("/d/f").await.unwrap().bytes.0, 100_005);
        let file = client.open("/d/f", &OpenOptions::new().read(true)).await.unwrap();
        let mut buffer = vec![1; 200_000];
        let got = file.read_at(&mut buffer, 0).await.unwrap();
        buffer.truncate(got);
        buffer
    });
    assert_eq!((&read[..5], &read[5..]), (&[0; 5][..], &data[..]));
}
